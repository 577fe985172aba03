"""Test that Hugging Face's Trainer and TRL train as the exported files state: ranks, shards, batch, rate."""

from __future__ import annotations

import json

import msgspec
import pytest

from recipes.launch.known_names import known_names
from recipes.launch.recipe import Command, Convergence, Job
from tests.support.hf_programs import GPU_STANDIN, SCRIPTS, hf_python, reports, run_script

pytestmark = pytest.mark.slow

GPU = {"device": "cuda", "backend": "nccl"}
ON_CPU = ("--", "--use_cpu", "true")
"""Arguments of the start script, with which the Trainer computes in bf16 without a GPU."""
CONVERGENCE = Convergence(
    learning_rate=3e-3, warmup_steps=2, steps=12, gradient_clipping=0.5, beta2=0.98, weight_decay=0.2
)
NAMES = """
import dataclasses, inspect, json, re
import transformers.training_args as training_args
from transformers import TrainingArguments, optimization
from trl import ModelConfig, ScriptArguments, SFTConfig

source = inspect.getsource(training_args)
keys = re.findall(r'fsdp_config(?:[.]get[(]|[[]|[.]setdefault[(])"(\\w+)"', source)
keys += re.findall(r'"(\\w+)" in self[.]fsdp_config', source)
schedules = (
    optimization.get_cosine_with_min_lr_schedule_with_warmup,
    optimization.get_wsd_schedule,
    optimization.get_polynomial_decay_schedule_with_warmup,
)
names = {f"fsdp_config.{key}" for key in keys}
names |= {f"lr_scheduler_kwargs.{name}" for one in schedules for name in inspect.signature(one).parameters}
fields = lambda *kinds: {field.name for kind in kinds for field in dataclasses.fields(kind)}
print(json.dumps({
    "hf-trainer": sorted(names | fields(TrainingArguments) | {"model_name_or_path", "dataset_name"}),
    "trl": sorted(names | fields(SFTConfig, ModelConfig, ScriptArguments)),
}))
"""


@pytest.fixture
def recipe_of(make_recipe):
    """Return a function that makes a recipe whose model has the id of a Llama, whose layers rigtune knows."""

    def make(program, command, **fields):
        fields = {"convergence": CONVERGENCE, **fields}
        fields["resources"] = {**fields.get("resources", GPU), "python": hf_python()}
        fields["parallelism"] = {"precision": "bf16", **fields.get("parallelism", {})}
        recipe = make_recipe(program=program, command=command, **fields)
        return msgspec.structs.replace(recipe, model=msgspec.structs.replace(recipe.model, id="llama-3-8b"))

    return make


def user_script(*arguments):
    return Command(kind="script", target=str(SCRIPTS / "trainer_train.py"), arguments=arguments)


def options(folder):
    return ("--output_dir", str(folder / "out"), "--save_strategy", "no", "--logging_steps", "1")


def assert_trained(ranks, world):
    assert [(rank["rank"], rank["world"]) for rank in ranks] == [(each, world) for each in range(world)]
    for rank in ranks:
        assert (rank["steps"], rank["batch"], rank["grad_accum"]) == (12, 2, 2)
        assert rank["arguments"] == {
            "learning_rate": 3e-3,
            "warmup_steps": 2,
            "adam_beta2": 0.98,
            "weight_decay": 0.2,
            "max_grad_norm": 0.5,
            "bf16": True,
        }
        # the cosine ends at a tenth of the peak; the last log shows the rate one step earlier
        assert rank["last_rate"] == pytest.approx(3.66e-4, rel=0.05)
        assert rank["losses"][-1] < rank["losses"][0] - 0.5


@pytest.mark.parametrize("launcher", ["torchrun", "mpi"])
def test_the_trainer_shards_and_recomputes_every_layer(recipe_of, export, tmp_path, launcher):
    recipe = recipe_of(
        "hf-trainer",
        user_script(*options(tmp_path), "--learning_rate", "1"),
        parallelism={"strategy": "fsdp", "activation_checkpointing": "full"},
    )
    ranks = reports(run_script(export(launcher, recipe, tmp_path), *ON_CPU, **GPU_STANDIN))
    assert_trained(ranks, 2)
    for rank in ranks:
        assert (rank["wrapper"], rank["recomputed"]) == ("FSDPLlamaForCausalLM", 4)
        assert rank["placements"] == "(Shard(dim=0),)"


def test_the_trainer_makes_copies_of_shards(recipe_of, export, tmp_path):
    recipe = recipe_of(
        "hf-trainer",
        user_script(*options(tmp_path)),
        ranks_per_node=4,
        parallelism={"strategy": "hsdp", "dp": 2, "fsdp": 2},
    )
    ranks = reports(run_script(export("torchrun", recipe, tmp_path), *ON_CPU, **GPU_STANDIN))
    assert_trained(ranks, 4)
    assert {rank["placements"] for rank in ranks} == {"(Replicate(), Shard(dim=0))"}


def test_a_script_that_reads_a_file_trains_on_a_cpu(recipe_of, export, tmp_path):
    recipe = recipe_of(
        "hf-trainer",
        user_script("training_arguments.json"),
        resources={"device": "cpu"},
        slots={"output": str(tmp_path / "out")},
    )
    script = export("torchrun", recipe, tmp_path)
    file = tmp_path / "training_arguments.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "logging_steps": 1, "save_strategy": "no"}))
    ranks = reports(run_script(script))
    assert_trained(ranks, 2)
    assert {rank["wrapper"] for rank in ranks} == {"DistributedDataParallel"}


def test_the_trainer_uses_the_zero_stage_and_one_statement_of_the_batch(recipe_of, export, tmp_path):
    recipe = recipe_of(
        "hf-trainer",
        user_script(*options(tmp_path)),
        resources={"device": "cpu"},
        parallelism={"strategy": "zero2"},
    )
    ranks = reports(run_script(export("torchrun", recipe, tmp_path)))
    assert_trained(ranks, 2)
    assert {(rank["stage"], rank["ds_batch"]) for rank in ranks} == {(2, 8)}


@pytest.mark.parametrize("tuning", ["full", "lora"])
def test_trl_trains_without_a_script_of_the_user(recipe_of, export, tmp_path, tuning):
    python = hf_python()
    run_script(python, SCRIPTS / "tiny_llama.py", tmp_path)
    recipe = recipe_of(
        "trl",
        Command(kind="program", arguments=()),
        job=Job(tuning=tuning, adapter_rank=8),
        parallelism={"strategy": "fsdp" if tuning == "full" else "ddp"},
        resources=GPU if tuning == "full" else {"device": "cpu"},
        slots={
            "model": str(tmp_path / "model"),
            "data": str(tmp_path / "data"),
            "output": str(tmp_path / "out"),
        },
    )
    script = export("torchrun", recipe, tmp_path / "export")
    options = ("--save_steps", "6", "--logging_steps", "1", "--report_to", "none")
    run_script(script, *ON_CPU, *options, **(GPU_STANDIN if tuning == "full" else {}))
    state = json.loads((tmp_path / "out" / "checkpoint-12" / "trainer_state.json").read_text())
    logs = [entry for entry in state["log_history"] if "loss" in entry]
    assert (state["global_step"], state["train_batch_size"], len(logs)) == (12, 2, 12)
    assert logs[-1]["learning_rate"] == pytest.approx(3.66e-4, rel=0.05)
    assert logs[-1]["loss"] < logs[0]["loss"] - (0.5 if tuning == "full" else 0.0)
    shards = list((tmp_path / "out" / "checkpoint-12").glob("pytorch_model_fsdp_0/*.distcp"))
    assert len(shards) == (2 if tuning == "full" else 0)
    if tuning == "lora":
        adapter = json.loads((tmp_path / "out" / "adapter_config.json").read_text())
        assert adapter["r"] == 8
        return
    # from the first checkpoint, the same steps give the same losses
    first = str(tmp_path / "out" / "checkpoint-6")
    again = (*options, "--resume_from_checkpoint", first, "--output_dir", str(tmp_path / "again"))
    output = run_script(script, *ON_CPU, *again, **GPU_STANDIN)
    assert output.count("'loss': ") == 6
    state = json.loads((tmp_path / "again" / "checkpoint-12" / "trainer_state.json").read_text())
    resumed = [entry["loss"] for entry in state["log_history"] if "loss" in entry]
    assert resumed == pytest.approx([entry["loss"] for entry in logs], abs=0.02)


def test_the_installed_versions_read_every_known_name():
    output = run_script(hf_python(), "-c", NAMES)
    installed = next(json.loads(line) for line in output.splitlines() if line.startswith('{"hf'))
    for program, names in installed.items():
        assert known_names(program).names - set(names) == set(), program
