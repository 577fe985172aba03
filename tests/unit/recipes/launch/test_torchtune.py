"""Test torchtune's file for a recipe, and what it refuses."""

from __future__ import annotations

import pytest
import yaml

from probes.base.errors import UsageError
from recipes.job.models.counts import preset
from recipes.launch.known_names import known_names
from recipes.launch.program_files import FolderFile
from recipes.launch.program_limits import require_runnable
from recipes.launch.programs.torchtune import load_tuned_models, write
from recipes.launch.recipe import Command, Job
from recipes.planning.programs import program_named
from tests.support.program_recipes import program_recipe


def _config(**fields):
    (file,) = write(program_recipe("torchtune", **{"layout": {"fsdp": 8}, **fields})).files
    return yaml.safe_load(file.text)


def test_the_file_has_the_settings_of_the_plan():
    layout = {"fsdp": 8, "micro_batch": 2, "grad_accum": 4, "activation_checkpointing": "full"}
    config = _config(layout=layout, rates={"learning_rate": 3e-5})
    expected = {
        "batch_size": 2,
        "gradient_accumulation_steps": 4,
        "enable_activation_checkpointing": True,
        "dtype": "bf16",
        "max_steps_per_epoch": 2000,
        "epochs": 1,
        "clip_grad_norm": 1,
        "log_every_n_steps": 1,
    }
    assert expected.items() <= config.items()
    assert config["optimizer"]["lr"] == 3e-5
    assert config["optimizer"]["betas"] == [0.9, 0.95]
    assert config["optimizer"]["weight_decay"] == 0.1
    assert config["lr_scheduler"]["num_warmup_steps"] == 100
    assert config["lr_scheduler"]["num_cycles"] == 0.5
    assert config["tokenizer"]["max_seq_len"] == 8192
    assert config["model"] == {"_component_": "torchtune.models.llama3.llama3_8b"}
    assert "tensor_parallel_plan" not in config


def test_tensor_parallelism_brings_its_plan_and_an_unfused_optimizer():
    config = _config(layout={"fsdp": 4, "tp": 2})
    assert config["tensor_parallel_dim"] == 2
    assert config["tensor_parallel_plan"]["_component_"].endswith("base_llama_tp_plan")
    assert config["optimizer"]["fused"] is False
    assert _config()["optimizer"]["fused"] is True


@pytest.mark.parametrize("tuning", ["lora", "qlora"])
def test_adapters_have_their_recipe_and_their_rank(tuning):
    recipe = program_recipe("torchtune", layout={"fsdp": 8}, job=Job(tuning=tuning, adapter_rank=16))
    files = write(recipe)
    model = yaml.safe_load(files.files[0].text)["model"]
    assert files.words[:4] == ("-m", "torchtune._cli.tune", "run", "lora_finetune_distributed")
    assert files.words[4:] == ("--config", FolderFile(name="torchtune.yaml"))
    assert model["_component_"] == f"torchtune.models.llama3.{tuning}_llama3_8b"
    assert (model["lora_rank"], model["lora_alpha"]) == (16, 32)


def test_a_constant_rate_and_gradients_that_are_not_clipped():
    config = _config(rates={"schedule": "constant", "gradient_clipping": 0.0})
    assert config["lr_scheduler"]["num_cycles"] == 0.0
    assert config["clip_grad_norm"] is None


def test_slots_become_paths_and_empty_slots_are_named():
    slots = {"data": "/d.json", "model": "/m", "tokenizer": "/t.model", "output": "/o", "checkpoints": "/c"}
    recipe = program_recipe("torchtune", "llama-3.1-70b", layout={"fsdp": 8}, slots=slots)
    files = write(recipe)
    config = yaml.safe_load(files.files[0].text)
    assert config["dataset"]["data_files"] == "/d.json"
    assert config["tokenizer"]["path"] == "/t.model"
    checkpointer = config["checkpointer"]
    assert (checkpointer["checkpoint_dir"], checkpointer["output_dir"]) == ("/m", "/c")
    assert checkpointer["checkpoint_files"] == {
        "filename_format": "model-{}-of-{}.safetensors",
        "max_filename": "00030",
    }
    assert not [note for note in files.notes if "slot" in note]
    empty = write(program_recipe("torchtune", layout={"fsdp": 8}))
    assert [note for note in empty.notes if note.startswith("Warning") and "Alpaca" in note]
    assert [note for note in empty.notes if "tune download meta-llama/Meta-Llama-3-8B" in note]
    assert [note for note in empty.notes if "end of an epoch" in note]


def test_settings_of_tune_run_stay_unless_the_plan_decides_them():
    arguments = (
        "run",
        "--nproc_per_node",
        "4",
        "full",
        "--config",
        "x",
        "batch_size=9",
        "seed=7",
        "epochs=3",
    )
    command = Command(kind="script", target="/venv/bin/tune", arguments=arguments)
    files = write(program_recipe("torchtune", layout={"fsdp": 8}, command=command))
    assert files.words[-2:] == (FolderFile(name="torchtune.yaml"), "seed=7")
    assert [note for note in files.notes if note.startswith("Your")] == [
        "Your `batch_size=9` is replaced by the plan's value",
        "Your `epochs=3` is replaced by the plan's value",
        "Your file x is replaced by torchtune.yaml; KEY=VALUE adds settings of yours",
    ]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"model": "qwen3-8b"}, "no torchtune file for qwen3-8b"),
        ({"command": Command(kind="script", target="mine.py")}, "not a command of yours"),
        ({"rates": {"schedule": "linear"}}, "no learning-rate schedule linear"),
        ({"job": Job(optimizer="adafactor")}, "not adafactor"),
    ],
)
def test_a_recipe_that_torchtune_cannot_run(fields, words):
    with pytest.raises(UsageError, match=words):
        write(program_recipe("torchtune", **{"layout": {"fsdp": 8}, **fields}))


@pytest.mark.parametrize(
    ("layout", "words"),
    [({"strategy": "ddp", "dp": 8}, "no strategy ddp"), ({"strategy": "hsdp", "dp": 2, "fsdp": 4}, "hsdp")],
)
def test_ranks_cannot_hold_copies(layout, words):
    with pytest.raises(UsageError, match=words):
        require_runnable(program_recipe("torchtune", layout=layout))


def test_every_setting_and_model_of_the_tables_is_known():
    assert set(program_named("torchtune").settings.values()) <= known_names("torchtune").names
    models = [name for row in load_tuned_models() for name in row.models]
    assert [name for name in models if preset(name) is None] == []
