"""Test that an import loses no word, line or file of a launch, and no setting that rigtune exported."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipes.launch.imports.training_files import read_launch_file
from recipes.launch.imports.unwrapping import unwrap
from recipes.launch.launch_files import launch_files
from recipes.launch.recipe_file import load_recipe
from tests.support.imported_launch import imported, kept, stated

GOLDEN = Path(__file__).parents[3] / "golden" / "launch"

WORD = st.from_regex(r"[a-z][a-z0-9]{1,8}", fullmatch=True)
VALUE = st.one_of(st.integers(1, 99).map(str), WORD)
LAUNCHER_OPTIONS = st.lists(st.tuples(WORD, VALUE), max_size=6)
OPTIONS = st.lists(st.tuples(WORD, st.one_of(st.none(), VALUE)), max_size=6)
LAUNCHER = st.sampled_from(
    ("torchrun", "accelerate launch", "deepspeed", "srun", "mpirun", "python -m torch.distributed.run")
)


def text_of(options: list[tuple[str, str | None]]) -> list[str]:
    return [f"--{name}" if value is None else f"--{name}={value}" for name, value in options]


@given(LAUNCHER, LAUNCHER_OPTIONS, OPTIONS, st.lists(WORD, max_size=3))
def test_every_word_of_a_command_line_becomes_a_field_or_is_kept(launcher, options, arguments, positional):
    own = [*text_of(arguments), *positional]
    line = shlex.join([*launcher.split(), *text_of(options), "train.py", *own])
    answer = imported(("a.sh", line))
    shown = "\n".join((kept(answer), *(each.written for each in answer.settings)))
    assert answer.command is not None
    assert answer.command.target == "train.py"
    assert [each.replace("{{", "{") for each in answer.command.arguments] == own
    for word in text_of(options):
        if word not in ("--module", "--m"):
            assert word in shown, (word, line)


@given(LAUNCHER, LAUNCHER_OPTIONS, OPTIONS)
def test_unwrapping_keeps_the_program_and_names_every_option(launcher, options, arguments):
    given_words = text_of(
        [(name, value or "1") for name, value in options if name not in ("m", "module", "x")]
    )
    words = [*launcher.split(), *given_words, "train.py", *text_of(arguments)]
    unwrapped = unwrap(words)
    assert unwrapped.words == ("train.py", *text_of(arguments))
    assert all(any(word in sentence for sentence in unwrapped.dropped) for word in given_words)


LINES = (
    "export A{n}=v{n}",
    "module load m{n}",
    "mkdir -p /d{n} && cd /d{n}",
    "if [ -f f{n} ]; then",
    "fi",
    "V{n}=$(date)",
    'echo "x{n} $HOME" > o{n}',
    "for i in 1 2; do",
    "done",
    "# comment",
    "source e{n}; set -e",
    "W{n}='a b{n}'",
)


@given(st.lists(st.sampled_from(LINES), max_size=12))
def test_every_line_of_a_script_becomes_a_field_or_is_kept(lines):
    text = "\n".join(line.replace("{n}", str(number)) for number, line in enumerate(lines))
    answer = imported(("a.sh", f"#!/bin/bash\n{text}\ntorchrun --nproc-per-node 2 train.py\n"))
    shown = kept(answer) + "".join(f" {each.name} {each.value}" for each in answer.environment)
    shown += "".join(f" {each.written}" for each in answer.settings)
    wanted = re.findall(r"\b[a-zA-Z]+\d+\b", text)
    assert [word for word in wanted if word not in shown] == []


SCRIPTS = sorted(
    path for path in GOLDEN.glob("*/*") if path.name in ("train.sbatch", "launch.sh", "launch-mpi.sh")
)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.parent.name)
def test_import_of_an_export_loses_no_setting(path):
    recipe = load_recipe((path.parent / "recipe.toml").read_text(), "recipe.toml")
    answer = imported((path.name, path.read_text()))
    variables = {each.name: each.value for each in answer.environment}
    assert variables | {each.name: each.value for each in recipe.environment} == variables
    assert answer.command is not None
    if recipe.command.kind == "script":
        expected = imported(("recipe.toml", (path.parent / "recipe.toml").read_text())).recipe
        assert expected == recipe
        assert answer.command.target == recipe.command.target
    whole_node = recipe.command.kind == "nccl-tests" and recipe.parallelism.nodes == 1
    if recipe.program == "tensorflow" or whole_node:  # one process for all GPUs: no option states the sizes
        return
    states = stated(answer)
    if path.name != "launch-mpi.sh":
        assert int(states.get("nodes", "1")) == recipe.parallelism.nodes
    assert int(states.get("ranks_per_node", "1")) == recipe.parallelism.ranks_per_node


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.parent.name)
def test_import_of_an_export_with_its_recipe_changes_nothing(path):
    text = (path.parent / "recipe.toml").read_text()
    recipe = load_recipe(text, "recipe.toml")
    answer = imported((path.name, path.read_text()), ("recipe.toml", text))
    assert answer.recipe is not None
    assert msgspec.structs.replace(answer.recipe, kept=()) == recipe


def test_a_changed_variable_of_an_exported_script_reaches_the_recipe():
    folder = GOLDEN / "slurm-gpu"
    script = (folder / "train.sbatch").read_text().replace("=mlx5_0,mlx5_3", "=mlx5_1")
    answer = imported(("train.sbatch", script), ("recipe.toml", (folder / "recipe.toml").read_text()))
    assert answer.recipe is not None
    assert {each.name: each.value for each in answer.recipe.environment}["NCCL_IB_HCA"] == "=mlx5_1"


def test_files_that_a_launch_names_and_that_were_not_given_are_mentioned():
    answer = imported(("a.sh", "accelerate launch --config_file conf/a.yaml t.py --deepspeed ds.json"))
    assert any("conf/a.yaml is named in a.sh:1" in note for note in answer.notes)
    assert any("ds.json is named in a.sh:1" in note for note in answer.notes)


def test_a_file_inside_a_script_is_part_of_the_launch():
    script = 'cat > ds_config.json <<EOF\n{"zero_optimization": {"stage": 3},\n"steps_per_print": 7}\nEOF\n'
    answer = imported(("a.sh", script + "deepspeed t.py --deepspeed ds_config.json"))
    assert stated(answer)["sharding"] == "zero3"
    assert "steps_per_print: 7" in kept(answer)


def test_a_script_that_starts_another_given_script_adds_its_requests():
    answer = imported(
        ("job.sbatch", "#!/bin/bash\n#SBATCH --nodes=2\nexport A=1\nsrun --label bash node.sh\n"),
        ("node.sh", "torchrun --nproc-per-node 4 t.py"),
    )
    assert stated(answer) | {"nodes": "2", "ranks_per_node": "4"} == stated(answer)
    assert [each.name for each in answer.environment] == ["A"]
    assert "--label" in kept(answer)


@pytest.mark.parametrize(
    ("name", "text"),
    [("notes.md", "# nothing"), ("a.py", "print(1)"), ("Dockerfile", "FROM a"), ("x.toml", "a = 1")],
)
def test_other_files_are_no_launch_files(name, text):
    assert read_launch_file(name, text) is None


SIZES = {"model": "llama-3.2-1b", "sequence_length": 2048, "steps": 100, "learning_rate": 1e-4}
ZERO3 = (
    '{{"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 2, {more}'
    '"zero_optimization": {zero}}}'
)
ON_HOST = '"offload_{}": {{"device": "{}"}}'


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        ((), "none"),
        ((("optimizer", "cpu"),), "states"),
        ((("param", "cpu"), ("optimizer", "cpu")), "weights"),
        ((("optimizer", "none"),), "none"),
        ((("optimizer", "nvme"),), "none"),
    ],
)
def test_state_in_the_memory_of_the_host_reaches_the_recipe(blocks, expected):
    zero = "{" + ", ".join(['"stage": 3', *(ON_HOST.format(*block) for block in blocks)]) + "}"
    files = (("a.sh", "deepspeed --num_gpus 8 t.py"), ("ds_config.json", ZERO3.format(zero=zero, more="")))
    answer = imported(*files, **SIZES)
    assert answer.recipe is not None
    assert answer.recipe.parallelism.offload == expected
    assert ("nvme" in kept(answer)) is ("nvme" in zero)  # a disk is not the memory of the host


def test_schedules_and_formats_under_the_names_of_programs_reach_the_recipe():
    more = (
        '"data_types": {"grad_accum_dtype": "bf16"}, "scheduler": {"type": "WarmupCosineLR", '
        '"params": {"cos_min_ratio": 0.05}}, '
    )
    files = (
        ("a.sh", "deepspeed --num_gpus 8 t.py"),
        ("ds_config.json", ZERO3.format(zero='{"stage": 3}', more=more)),
    )
    recipe = imported(*files, **SIZES).recipe
    assert recipe is not None
    assert (recipe.convergence.accumulation_dtype, recipe.convergence.final_share) == ("bf16", 0.05)
    text = "torchrun --nproc-per-node 8 pretrain_gpt.py --lr-wsd-decay-iters 20 --rampup-batch-size 8 8 100 "
    recipe = imported(("a.sh", text + "--micro-batch-size 1 --global-batch-size 64"), **SIZES).recipe
    assert recipe is not None
    assert recipe.convergence.decay_share == 0.2
    assert recipe.command.arguments[2:6] == ("--rampup-batch-size", "8", "8", "100")


def test_a_setting_of_a_file_without_a_field_in_recipes_is_kept():
    text = (
        '[model]\nname = "llama3"\nflavor = "8B"\n[training]\nlocal_batch_size = 2\nseq_len = 8192\n'
        "disable_cuda_graphs = true\n"
    )
    answer = imported(("t.toml", text))
    assert "training.disable_cuda_graphs: true" in kept(answer)
    assert "launched_singly" not in stated(answer)


def test_gpus_of_the_whole_job_are_shared_by_its_nodes():
    answer = imported(("a.sbatch", "#SBATCH --nodes=2 --gpus=16\nsrun torchrun t.py"), **SIZES)
    assert {each.setting: each.value for each in answer.assumed}["ranks_per_node"] == "8"


TRAINER = (
    "torchrun --nproc_per_node 8 t.py --model_name_or_path meta-llama/Llama-2-7b-hf --learning_rate 1e-4 "
    "--per_device_train_batch_size 1 --model_max_length 2048 --max_steps 10 --lr_scheduler_type cosine "
)


@pytest.mark.parametrize(
    ("fsdp", "strategy", "offload"),
    [
        ("full_shard auto_wrap", "fsdp", "none"),
        ("full_shard auto_wrap offload", "fsdp", "weights"),
        ("shard_grad_op offload", "zero2", "weights"),
    ],
)
def test_words_of_fsdp_state_sharding_and_offload(fsdp, strategy, offload):
    recipe = imported(("a.sh", f"{TRAINER} --fsdp '{fsdp}'")).recipe
    assert recipe is not None
    assert (recipe.parallelism.strategy, recipe.parallelism.offload) == (strategy, offload)


def test_a_sharding_in_unknown_words_is_missing_and_not_assumed():
    answer = imported(("a.sh", f"{TRAINER} --fsdp 'strange words'"))
    assert [each.setting for each in answer.missing] == ["strategy"]
    assert "--fsdp strange words" in kept(answer)
    assert "strategy" not in {each.setting for each in answer.assumed}


@pytest.mark.parametrize("script", ["GA=$((64 / BS / 8))\n{} $GA", "{} $((64 / ${{BS}} / 8))"])
def test_a_number_that_the_script_computes_becomes_a_placeholder(script):
    text = "BS=4\n" + script.format(f"{TRAINER} --gradient_accumulation_steps")
    answer = imported(("a.sh", text.replace("batch_size 1", "batch_size $BS")))
    assert answer.recipe is not None
    assert answer.recipe.parallelism.grad_accum == 2
    assert answer.recipe.command.arguments[-1] == "{grad_accum}"
    assert answer.recipe.notes == ()
    assert [each.why for each in answer.kept if "$((" in each.text] == [
        "filled in with the value that the script gives it"
    ]


@pytest.mark.parametrize(
    ("before", "argument", "value"),
    [
        ("", '${C:-"conf/a.toml"}', "conf/a.toml"),
        ("C=${C:-conf/a.toml}", "$C", "conf/a.toml"),
        ("C=${D:-x}", "--config=$C-y", "--config=x-y"),
        ("C=${D:-x.py}", "${C%.py}", None),
        ("C=${D:-x}", "${C:+y}", None),
        ("C=$1", "$C", None),
        ("if true; then C=a; fi", "$C", None),
        ("C=$(date)", "$C", None),
        ("C=${D:-a\\ b}", "$C", None),
        ("", "$HOME", None),
    ],
)
def test_an_argument_is_filled_in_only_with_a_value_that_the_script_determines(before, argument, value):
    answer = imported(("a.sh", f"{before}\ntorchrun --nproc_per_node 2 t.py --x {argument}"))
    assert answer.command is not None
    last = answer.command.arguments[-1]
    assert "$" in last if value is None else last == value
    reason = "filled in" if value is not None else "only when the job runs"
    assert any(reason in each.why for each in answer.kept if "$" in each.text)


@pytest.mark.parametrize(
    "text",
    [
        f"deepspeed --num_gpus 8 {TRAINER.partition(' 8 ')[2]}",
        f"{TRAINER} --deepspeed ds.json",
        f"{TRAINER} --deepspeed --zero_stage $1",
        f"accelerate launch --config_file a.yaml {TRAINER.partition(' 8 ')[2]}",
    ],
)
def test_no_strategy_is_assumed_if_a_file_that_may_state_one_was_not_given(text):
    answer = imported(("a.sh", text), ranks_per_node=8)
    assert "strategy" in {each.setting for each in answer.missing}
    assert "strategy" not in {each.setting for each in answer.assumed}


def test_nothing_is_assumed_from_a_number_of_ranks_that_no_file_states():
    answer = imported(("a.sh", "deepspeed t.py --lr 1e-4"))
    assert {"strategy", "ranks_per_node"} <= {each.setting for each in answer.missing}


def test_the_words_of_tune_run_are_settings_and_its_own_launcher_is_replaced():
    text = (
        "tune run --nproc_per_node 4 full_finetune_distributed --config llama3/8B_full batch_size=2 "
        "gradient_accumulation_steps=4 optimizer.lr=2e-5 tokenizer.max_seq_len=4096 seed=3 "
        "max_steps_per_epoch=9"
    )
    answer = imported(("a.sh", text), model="llama-3-8b", strategy="fsdp")
    recipe = answer.recipe
    assert recipe is not None
    assert (recipe.program, recipe.parallelism.ranks_per_node) == ("torchtune", 4)
    assert (recipe.parallelism.micro_batch, recipe.parallelism.grad_accum) == (2, 4)
    assert (recipe.convergence.learning_rate, recipe.model.sequence_length) == (2e-5, 4096)
    files = {each.path: each.text for each in launch_files(recipe, "torchrun")}
    assert "--nproc-per-node 4" in files["launch.sh"]
    assert files["launch.sh"].count("nproc") == 1
    assert "batch_size: 2\n" in files["torchtune.yaml"]
    assert "seed=3" in files["launch.sh"]
