"""Test the files for Lightning: the arguments of its Trainer, and warnings about what no file can state."""

from __future__ import annotations

import json

import msgspec
import pytest

from probes.base.errors import UsageError
from recipes.launch.known_names import require_known
from recipes.launch.launch_files import program_files
from recipes.launch.program_files import FolderFile
from recipes.launch.program_limits import require_runnable
from recipes.launch.recipe import CheckpointSettings, Command, Convergence, Job

GPU = {"device": "cuda", "backend": "nccl"}
ARGUMENTS = ("--trainer", "lightning.json", "--bs", "{micro_batch}", "--lr", "{learning_rate}")
CLIPPED = Convergence(learning_rate=3e-3, warmup_steps=2, steps=20, gradient_clipping=0.5)
PLAIN = {
    "accelerator": "gpu",
    "num_nodes": 1,
    "devices": 2,
    "strategy": "ddp",
    "accumulate_grad_batches": 2,
    "precision": "bf16-mixed",
    "max_steps": 20,
    "log_every_n_steps": 10,
}


@pytest.fixture
def files_of(make_recipe):
    """Return a function that writes the files of a recipe for GPUs in bf16."""

    def make(arguments=ARGUMENTS, **fields):
        fields["parallelism"] = {"precision": "bf16", **fields.get("parallelism", {})}
        script = Command(kind="script", target="train.py", arguments=arguments)
        fields = {"command": script, "resources": GPU, **fields}
        recipe = make_recipe(program="lightning", **fields)
        recipe = msgspec.structs.replace(recipe, model=msgspec.structs.replace(recipe.model, id="llama-3-8b"))
        require_runnable(recipe)
        return program_files(recipe)

    return make


def settings_of(files):
    (file,) = files.files
    assert file.path == "lightning.json"
    return json.loads(file.text)


def test_an_argument_becomes_the_path_of_the_file(files_of):
    files = files_of()
    assert files.words == (
        *("train.py", "--trainer", FolderFile(name="lightning.json")),
        *("--bs", "2", "--lr", "0.003"),
    )
    assert settings_of(files) == PLAIN
    assert "Warning" not in " ".join(files.notes)
    assert [variable.name for variable in files.rank_environment] == ["TORCHELASTIC_RUN_ID"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"nodes": 2, "ranks_per_node": 4, "parallelism": {"global_batch": 32}},
            {"num_nodes": 2, "devices": 4},
        ),
        ({"resources": {}}, {"accelerator": "cpu"}),
        ({"parallelism": {"precision": "fp16"}}, {"precision": "16-mixed"}),
        ({"parallelism": {"precision": "fp32"}}, {"precision": "32-true"}),
        ({"parallelism": {"strategy": "fsdp"}}, {"strategy": "fsdp"}),
        ({"parallelism": {"strategy": "zero2"}}, {"strategy": "deepspeed_stage_2"}),
        ({"parallelism": {"micro_batch": 1, "grad_accum": 4}}, {"accumulate_grad_batches": 4}),
        ({"convergence": CLIPPED}, {"gradient_clip_val": 0.5}),
        ({"slots": {"output": "/out"}}, {"default_root_dir": "/out"}),
        ({"slots": {"checkpoints": "/ckpt"}}, {"default_root_dir": "/ckpt"}),
    ],
)
def test_every_decision_reaches_the_file(files_of, changes, expected):
    settings = settings_of(files_of(**changes))
    assert {name: settings[name] for name in expected} == expected


def test_clipping_under_fsdp_is_left_to_the_script(files_of):
    files = files_of(convergence=CLIPPED, parallelism={"strategy": "fsdp"})
    assert "gradient_clip_val" not in settings_of(files)
    assert "clip_grad_norm_(0.5)" in " ".join(files.notes)


@pytest.mark.parametrize(
    ("changes", "remark"),
    [
        ({"arguments": ("{micro_batch}", "{learning_rate}")}, "no argument of your script is lightning.json"),
        ({"arguments": ("--config=lightning.json",)}, "no argument of your script is lightning.json"),
        ({"arguments": ("lightning.json",)}, "it must use 0.003 itself"),
        ({"job": Job(tuning="lora", adapter_rank=8)}, "adapters of rank 8"),
        ({"parallelism": {"strategy": "fsdp"}}, "auto_wrap_policy={LlamaDecoderLayer})"),
        (
            {"parallelism": {"strategy": "fsdp", "activation_checkpointing": "full"}},
            "activation_checkpointing_policy={LlamaDecoderLayer}",
        ),
        ({"parallelism": {"activation_checkpointing": "full"}}, "gradient_checkpointing_enable()"),
        ({"checkpoints": CheckpointSettings(every_steps=7)}, "every_n_train_steps=7"),
    ],
)
def test_warnings_name_what_the_script_must_do(files_of, changes, remark):
    assert remark in " ".join(note for note in files_of(**changes).notes if note.startswith("Warning"))
    assert remark not in " ".join(files_of().notes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"command": Command(kind="program")}, "starts your training script"),
        ({"resources": {}, "parallelism": {"strategy": "fsdp"}}, "refuse a CPU"),
        ({"ranks_per_node": 4, "parallelism": {"strategy": "hsdp", "dp": 2, "fsdp": 2}}, "strategy hsdp"),
        ({"ranks_per_node": 4, "parallelism": {"dp": 2, "pp": 2, "global_batch": 8}}, "pp 2"),
    ],
)
def test_a_plan_that_lightning_cannot_run_is_refused(files_of, changes, message):
    with pytest.raises(UsageError, match=message):
        files_of(**changes)


def test_a_misspelt_name_is_an_error():
    with pytest.raises(LookupError, match="has no setting"):
        require_known("lightning", ["accumulate_grad_batch"])
