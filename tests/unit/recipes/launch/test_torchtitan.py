"""Test torchtitan's options for a recipe, and what it refuses."""

from __future__ import annotations

import ast

import msgspec
import pytest

from probes.base.errors import UsageError
from recipes.job.models.counts import preset
from recipes.launch import known_names
from recipes.launch.launch_files import launch_files, program_files
from recipes.launch.program_files import FolderFile
from recipes.launch.program_limits import require_runnable
from recipes.launch.programs.torchtitan import load_presets, write
from recipes.launch.recipe import Command, Job
from recipes.planning import programs
from tests.support.program_recipes import options_in, program_recipe

PARALLELISM = "--parallelism."
TRAINING = "--training."
RATE = "--lr-scheduler."
ADAM = "--optimizer.param-groups.0.optimizer-kwargs."
DEGREES = ("data-parallel-replicate", "data-parallel-shard", "tensor", "pipeline", "context", "expert")


def _options(layout=None, **fields):
    return options_in(write(program_recipe("torchtitan", layout=layout, **fields)))


def _degrees(options):
    names = [f"{name}{'-parallel' if 'parallel' not in name else ''}-degree" for name in DEGREES]
    return tuple(int(options[PARALLELISM + name][0]) for name in names)


@pytest.mark.parametrize(
    ("layout", "degrees", "expected"),
    [
        pytest.param(
            {"fsdp": 4, "tp": 4, "pp": 4, "grad_accum": 8},
            (1, 4, 4, 4, 1, 1),
            {
                "--training.local-batch-size": ("8",),
                "--training.global-batch-size": ("32",),
                "--parallelism.pipeline-parallel-microbatch-size": ("1",),
                "--parallelism.pipeline-parallel-schedule": ("1F1B",),
                "--parallelism.pipeline-parallel-first-stage-less-layers": ("0",),
                "--parallelism.pipeline-parallel-last-stage-less-layers": ("0",),
                "--training.disable-cuda-graphs": (),
            },
            id="three kinds",
        ),
        pytest.param(
            {"fsdp": 8, "micro_batch": 2, "grad_accum": 4},
            (1, 8, 1, 1, 1, 1),
            {"--training.local-batch-size": ("2",), "--training.global-batch-size": ("64",)},
            id="fsdp",
        ),
        pytest.param({"strategy": "hsdp", "dp": 2, "fsdp": 8}, (2, 8, 1, 1, 1, 1), {}, id="hsdp"),
        pytest.param({"strategy": "ddp", "dp": 8}, (8, 1, 1, 1, 1, 1), {}, id="ddp"),
        pytest.param(
            {"fsdp": 4, "cp": 2},
            (1, 4, 1, 1, 2, 1),
            {"--parallelism.context-parallel-load-balancer": ("ptrr",)},
            id="context",
        ),
        pytest.param(
            {"fsdp": 2, "pp": 4, "vp": 2, "pipeline_schedule": "interleaved", "grad_accum": 8},
            (1, 2, 1, 4, 1, 1),
            {
                "--parallelism.pipeline-parallel-schedule": ("Interleaved1F1B",),
                "--parallelism.pipeline-parallel-layers-per-stage": ("4",),
            },
            id="interleaved",
        ),
    ],
)
def test_options_state_the_layout(layout, degrees, expected):
    options = _options(layout)
    assert _degrees(options) == degrees
    assert expected.items() <= options.items()
    if degrees[3] == 1 and degrees[5] == 1:
        assert "--training.disable-cuda-graphs" not in options


def test_experts_are_divided_without_cuda_graphs():
    files = write(program_recipe("torchtitan", "qwen3-30b-a3b", layout={"fsdp": 8, "ep": 4}))
    options = options_in(files)
    assert _degrees(options) == (1, 8, 1, 1, 1, 4)
    assert "--training.disable-cuda-graphs" in options
    assert options["--config"] == ("qwen3_30b_a3b",)


def test_layers_that_do_not_divide_are_missing_in_the_first_and_the_last_part():
    # 126 layers in 32 parts of 4: two are missing, one in the first and one in the last part.
    layout = {"pp": 8, "vp": 4, "fsdp": 2, "pipeline_schedule": "interleaved", "grad_accum": 8}
    options = options_in(write(program_recipe("torchtitan", "llama-3.1-405b", layout=layout)))
    assert options["--parallelism.pipeline-parallel-first-stage-less-layers"] == ("1",)
    assert options["--parallelism.pipeline-parallel-last-stage-less-layers"] == ("1",)
    assert options["--parallelism.pipeline-parallel-layers-per-stage"] == ("4",)


@pytest.mark.parametrize("kind", ["none", "selective", "full"])
def test_the_recomputation_is_the_last_argument(kind):
    files = write(program_recipe("torchtitan", layout={"fsdp": 8, "activation_checkpointing": kind}))
    assert files.words[-1] == f"activation-checkpoint:{kind}"


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ({}, {"decay-type": ("cosine",), "min-lr-factor": ("0.1",), "decay-ratio": ("None",)}),
        ({"schedule": "linear"}, {"decay-type": ("linear",), "decay-ratio": ("None",)}),
        ({"schedule": "constant"}, {"decay-ratio": ("0",), "decay-type": None, "min-lr-factor": None}),
        ({"schedule": "wsd", "decay_share": 0.2}, {"decay-type": ("cosine",), "decay-ratio": ("0.2",)}),
    ],
)
def test_the_course_of_the_learning_rate(rates, expected):
    options = _options({"fsdp": 8}, rates=rates)
    assert {name: options.get(RATE + name) for name in expected} == expected
    assert options[RATE + "warmup-steps"] == ("100",)
    assert options[ADAM + "lr"] == ("0.0003",)
    assert options[ADAM + "betas"] == ("0.9", "0.95")
    assert options[ADAM + "weight-decay"] == ("0.1",)
    assert options[TRAINING + "steps"] == ("2000",)
    assert options[TRAINING + "seq-len"] == ("8192",)


@pytest.mark.parametrize(("norm", "word"), [(1.0, "1"), (0.0, "inf")])
def test_gradients_that_are_not_clipped_keep_their_size(norm, word):
    assert _options({"fsdp": 8}, rates={"gradient_clipping": norm})["--training.max-norm"] == (word,)


def test_checkpoints_continue_and_every_step_is_logged():
    options = _options({"fsdp": 8})
    assert options["--checkpoint.interval"] == ("250",)
    assert "--checkpoint.enable" in options
    assert "--checkpoint.no-last-save-model-only" in options
    assert options["--metrics.log-freq"] == ("1",)
    assert "--profiler.no-enable-profiling" in options


def test_slots_become_paths_and_empty_slots_are_named():
    slots = {"data": "/d a", "tokenizer": "/t", "output": "/o", "checkpoints": "/c", "model": "/m"}
    filled = write(program_recipe("torchtitan", layout={"fsdp": 8}, slots=slots))
    options = options_in(filled)
    assert options["--dataloader.dataset-path"] == ("/d a",)
    assert options["--hf-assets-path"] == ("/t",)
    assert options["--dump-folder"] == ("/o",)
    assert options["--checkpoint.folder"] == ("/c",)
    assert options["--checkpoint.initial-load-path"] == ("/m",)
    assert "--checkpoint.initial-load-in-hf" in options
    assert not filled.notes
    empty = write(program_recipe("torchtitan", layout={"fsdp": 8}, job=Job(fine_tuning=True)))
    assert "--hf-assets-path" not in options_in(empty)
    assert [note for note in empty.notes if "`data`" in note and "C4" in note]
    assert [note for note in empty.notes if "meta-llama/Llama-3.1-8B" in note]
    assert [note for note in empty.notes if note.startswith("Warning") and "random weights" in note]


def test_options_of_the_user_fill_places_that_slots_leave_empty():
    given = ("--dataloader.dataset-path", "/d", "--hf-assets-path=/t", "--checkpoint.initial-load-path", "/m")
    command = Command(kind="module", target="torchtitan.train", arguments=given)
    files = write(
        program_recipe("torchtitan", layout={"fsdp": 8}, job=Job(fine_tuning=True), command=command)
    )
    assert not files.notes


def test_decisions_in_the_users_command_give_way_and_other_arguments_stay():
    arguments = (
        *("--module", "mine", "--config=big", "--training.steps", "5", ADAM + "lr", "0.0003"),
        *("--parallelism.tensor_parallel_degree=8", "--metrics.log-freq", "9", "--comm.mode", "torchcomms"),
        *("activation-checkpoint:none", "--activation-checkpoint.debug"),
    )
    command = Command(kind="module", target="torchtitan.train", arguments=arguments)
    files = write(program_recipe("torchtitan", layout={"fsdp": 8}, command=command))
    options = options_in(files)
    assert files.words[:6] == ("-m", "torchtitan.train", "--module", "mine", "--config", "big")
    assert options["--training.steps"] == ("2000",)
    assert options["--metrics.log-freq"] == ("9",)
    assert options["--comm.mode"] == ("torchcomms",)
    assert files.words[-1] == "activation-checkpoint:none"
    assert "--activation-checkpoint.debug" not in options
    replaced = [note for note in files.notes if "Your" in note]
    assert len(replaced) == 3
    assert "`--training.steps 5` is replaced by the plan's `--training.steps 2000`" in replaced[0]
    assert "tensor-parallel-degree 8" in replaced[1]
    assert "activation-checkpoint:none --activation-checkpoint.debug" in replaced[2]


def test_an_option_of_another_version_is_warned_of():
    words = ("--job.config_file", "a.toml", "--training.seed=1", "--comm.mode", "torchcomms")
    for more, count in (((), 1), (("--module", "mine", "--config", "big"), 0)):
        command = Command(kind="module", target="torchtitan.train", arguments=(*words, *more))
        notes = write(program_recipe("torchtitan", layout={"fsdp": 8}, command=command)).notes
        unknown = [note for note in notes if "has no option" in note]
        assert len(unknown) >= count
        assert any("no option --job.config-file" in note for note in unknown) is bool(count)
        assert not any("--comm.mode" in note for note in unknown)


@pytest.mark.parametrize(
    ("program", "layout"), [("torchtitan", {"fsdp": 8}), ("megatron", {"strategy": "zero1", "dp": 8})]
)
def test_a_value_that_begins_with_a_dash_keeps_its_equals_sign(program, layout):
    arguments = ("--mine=-x", "--mine.b=--y", "--switch", "--number=-1", "--plain=z=-z")
    command = Command(kind="module", target="pkg.train", arguments=(*arguments, "activation-checkpoint:none"))
    words = program_files(program_recipe(program, layout=layout, command=command)).words
    assert {"--mine=-x", "--mine.b=--y"} <= set(words)
    assert words[words.index("--number") + 1] == "-1"
    assert words[words.index("--plain") + 1] == "z=-z"


@pytest.mark.parametrize(
    ("precision", "model", "expected"),
    [
        ("fp8", "llama-3-8b", 'Float8LinearConverter.Config(filter_fqns=["lm_head", "router.gate"], '),
        ("mxfp8", "qwen3-30b-a3b", "MXFP8GroupedExpertsConverter.Config(pad_multiple=128, "),
        ("nvfp4", "llama-3-8b", 'NVFP4LinearConverter.Config(fqns=["layers"], '),
    ],
)
def test_number_formats_come_from_a_config_module(precision, model, expected):
    files = write(program_recipe("torchtitan", model, layout={"fsdp": 8, "precision": precision}))
    (job,) = files.files
    ast.parse(job.text)
    assert expected in job.text
    assert "CompileConfig(enable=True" in job.text
    assert files.words[0] == FolderFile(name=job.path)
    options = options_in(files)
    assert (options["--module"], options["--config"]) == (("torchtitan_job",), ("job",))
    assert options["--training.mixed-precision-param"] == ("bfloat16",)
    assert "torchao" in files.modules


def test_sizes_without_a_config_function_come_from_a_config_module():
    files = write(program_recipe("torchtitan", "llama-3.2-1b", layout={"fsdp": 8}))
    assert '"1B"' in files.files[0].text
    assert "converters" not in files.files[0].text
    assert files.modules == ("torch", "torchtitan")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"model": "llama-2-7b", "layout": {"fsdp": 8}}, "no preset for llama-2-7b"),
        ({"layout": {"fsdp": 8}, "rates": {"schedule": "step"}}, "no learning-rate schedule step"),
        ({"layout": {"fsdp": 8}, "job": Job(optimizer="adafactor")}, "not adafactor"),
        ({"model": "llama-3.2-1b", "layout": {"pp": 12}}, "would leave the last part empty"),
        ({"model": "gpt-oss-20b", "layout": {"fsdp": 4, "cp": 2}}, "cannot divide a sequence"),
        ({"model": "qwen3-30b-a3b", "layout": {"fsdp": 8, "ep": 16}}, "which ep 16 does not divide"),
        ({"layout": {"cp": 96}}, "cannot divide 8192 tokens"),
        ({"model": "qwen3-30b-a3b", "layout": {"fsdp": 8, "precision": "nvfp4"}}, "no nvfp4 for experts"),
    ],
)
def test_a_recipe_that_torchtitan_would_refuse_at_its_start(fields, words):
    with pytest.raises(UsageError, match=words):
        write(program_recipe("torchtitan", **fields))


def test_a_proposed_sequence_length_suits_tensor_and_context_parallelism():
    with pytest.raises(UsageError) as caught:
        write(program_recipe("torchtitan", layout={"tp": 3, "cp": 2}))
    assert "multiple of 768" in caught.value.hint


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        ({"strategy": "zero1", "dp": 8}, "no strategy zero1"),
        ({"fsdp": 8, "recomputed_share": 0.5, "activation_checkpointing": "full"}, "every layer or none"),
        ({"fsdp": 2, "pp": 4, "pipeline_schedule": "gpipe"}, "no pipeline schedule gpipe"),
        ({"fsdp": 2, "pp": 4, "pipeline_schedule": "interleaved"}, "not a schedule with vp 1"),
        ({"fsdp": 8, "precision": "fp16"}, "does not train in fp16"),
    ],
)
def test_a_recipe_beyond_torchtitan(layout, words):
    with pytest.raises(UsageError, match=words):
        require_runnable(program_recipe("torchtitan", layout=layout))


def test_a_misspelled_setting_cannot_be_exported(monkeypatch):
    rows = dict(programs.load_programs())
    titan = rows["torchtitan"]
    settings = {**titan.settings, "tp": "--parallelism.tensor-paralel-degree"}
    rows["torchtitan"] = msgspec.structs.replace(titan, settings=settings)
    monkeypatch.setattr(programs, "load_programs", lambda: rows)
    with pytest.raises(LookupError, match="no setting '--parallelism"):
        program_files(program_recipe("torchtitan", layout={"fsdp": 8}))


def test_every_setting_of_the_table_is_known():
    titan = programs.program_named("torchtitan")
    names = {name for name in titan.settings.values() if name.startswith("--")}
    known_names.require_known("torchtitan", names)
    assert names


def test_presets_name_models_of_the_catalogue():
    models = [name for row in load_presets() for name in row.models]
    assert len(models) == len(set(models))
    assert [name for name in models if preset(name) is None] == []


@pytest.mark.parametrize("launcher", ["torchrun", "slurm"])
def test_the_config_module_stands_beside_the_script(launcher):
    recipe = program_recipe("torchtitan", layout={"fsdp": 8, "precision": "fp8"})
    files = {each.path: each.text for each in launch_files(recipe, launcher)}
    script = next(iter(files.values()))
    assert '"$folder"/torchtitan_job.py --module torchtitan_job --config job' in script
    assert "torchtitan_job.py" in files
