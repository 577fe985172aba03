"""Test the files for axolotl: settings, options after a user's file, places and refusals."""

from __future__ import annotations

import json

import msgspec
import pytest
import yaml

from probes.base.errors import UsageError
from recipes.launch.hf_arguments import require_known_arguments
from recipes.launch.launch_files import program_files
from recipes.launch.program_files import FolderFile
from recipes.launch.program_limits import require_runnable
from recipes.launch.recipe import CheckpointSettings, Command, Job

GPU = {"device": "cuda", "backend": "nccl"}
PLACES = {"model": "org/model", "data": "/data/texts.jsonl", "output": "/out"}
TRAIN = ("-m", "axolotl.cli.train")
PLAIN = {
    "logging_steps": 10,
    "auto_resume_from_checkpoints": True,
    "output_dir": "/out",
    "base_model": "org/model",
    "datasets": [{"path": "/data/texts.jsonl", "type": "completion"}],
    "micro_batch_size": 2,
    "gradient_accumulation_steps": 2,
    "gradient_checkpointing": False,
    "bf16": True,
    "learning_rate": 0.003,
    "warmup_steps": 2,
    "max_steps": 20,
    "sequence_len": 32,
    "lr_scheduler": "cosine_with_min_lr",
    "lr_scheduler_kwargs": {"min_lr_rate": 0.1},
    "adam_beta1": 0.9,
    "adam_beta2": 0.95,
    "weight_decay": 0.1,
    "max_grad_norm": 0,
    "optimizer": "adamw_torch_fused",
}
SHARDS = {
    "activation_checkpointing": True,
    "reshard_after_forward": True,
    "state_dict_type": "SHARDED_STATE_DICT",
    "cpu_ram_efficient_loading": True,
    "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
    "transformer_layer_cls_to_wrap": "LlamaDecoderLayer",
    "final_state_dict_type": "FULL_STATE_DICT",
}
FSDP = {"strategy": "fsdp", "activation_checkpointing": "full"}


@pytest.fixture
def files_of(make_recipe):
    """Return a function that writes the files of a recipe for GPUs in bf16."""

    def make(**fields):
        fields["parallelism"] = {"precision": "bf16", **fields.get("parallelism", {})}
        fields = {"command": Command(kind="program"), "resources": GPU, "slots": PLACES, **fields}
        recipe = make_recipe(program="axolotl", **fields)
        recipe = msgspec.structs.replace(recipe, model=msgspec.structs.replace(recipe.model, id="llama-3-8b"))
        require_runnable(recipe)
        return program_files(recipe)

    return make


def cli(*arguments):
    return Command(kind="script", target="/venv/bin/axolotl", arguments=("train", *arguments))


def settings_of(files):
    (file,) = files.files
    return yaml.safe_load(file.text)


def test_a_plan_without_a_command_is_a_file_for_every_rank(files_of):
    files = files_of()
    assert files.words == (*TRAIN, FolderFile(name="axolotl.yaml"))
    assert settings_of(files) == PLAIN
    assert "axolotl 0.19.0" in files.files[0].text.splitlines()[0]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"job": Job(tuning="lora", adapter_rank=16)},
            {"adapter": "lora", "lora_r": 16, "lora_alpha": 32, "lora_target_linear": True},
        ),
        ({"job": Job(tuning="qlora", adapter_rank=16)}, {"adapter": "qlora", "load_in_4bit": True}),
        (
            {"job": Job(fine_tuning=True)},
            {"datasets": [{"path": "/data/texts.jsonl", "type": "chat_template"}]},
        ),
        ({"parallelism": {"activation_checkpointing": "full"}}, {"gradient_checkpointing": True}),
        ({"parallelism": {"precision": "fp16"}}, {"fp16": True, "bf16": False}),
        ({"parallelism": {"precision": "fp32"}}, {"bf16": False}),
        ({"parallelism": FSDP}, {"fsdp_version": 2, "fsdp_config": SHARDS}),
        (
            {"ranks_per_node": 8, "parallelism": {"strategy": "hsdp", "dp": 2, "fsdp": 4}},
            {"dp_replicate_size": 2, "dp_shard_size": 4},
        ),
        ({"checkpoints": CheckpointSettings(every_steps=7)}, {"save_steps": 7}),
        ({"slots": {**PLACES, "tokenizer": "/tok"}}, {"tokenizer_config": "/tok"}),
    ],
)
def test_every_decision_reaches_the_file(files_of, changes, expected):
    settings = settings_of(files_of(**changes))
    assert {name: settings[name] for name in expected} == expected


def test_recomputation_is_stated_once(files_of):
    assert "gradient_checkpointing" not in settings_of(files_of(parallelism=FSDP))


def test_a_file_of_the_user_stays_and_the_plan_follows(files_of):
    command = cli("mine.yaml", "--seed", "3", "--learning-rate", "1")
    files = files_of(command=command, slots={}, parallelism={"strategy": "zero2"})
    assert files.words[:5] == (*TRAIN, "mine.yaml", "--seed", "3")
    place = files.words.index("--deepspeed")
    assert files.words[place + 1] == FolderFile(name="ds_config.json")
    options = {"--learning_rate=0.003", "--lr_scheduler_kwargs__min_lr_rate=0.1", "--bf16=True"}
    assert (options | {"--fsdp=None", "--adapter=None", "--fp16=False"}) <= set(files.words)
    (file,) = files.files
    assert json.loads(file.text)["zero_optimization"]["stage"] == 2
    assert "The plan replaces your argument --learning-rate 1" in files.notes


def test_the_module_of_axolotl_takes_options_of_the_user(files_of):
    command = Command(kind="module", target="axolotl.cli.train", arguments=("--output_dir=/mine",))
    files = files_of(command=command)
    assert files.words == (*TRAIN, FolderFile(name="axolotl.yaml"), "--output_dir=/mine")
    assert "output_dir" not in settings_of(files)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"slots": {"data": "x"}}, "needs base_model"),
        ({"slots": {"model": "x"}}, "needs datasets"),
        ({"resources": {}}, "only on GPUs"),
        ({"command": Command(kind="script", target="train.py")}, "not 'train.py'"),
        ({"ranks_per_node": 4, "parallelism": {"dp": 2, "tp": 2, "global_batch": 8}}, "tp 2"),
        ({"ranks_per_node": 4, "parallelism": {"dp": 2, "pp": 2, "global_batch": 8}}, "pp 2"),
    ],
)
def test_a_plan_that_axolotl_cannot_run_is_refused(files_of, changes, message):
    with pytest.raises(UsageError, match=message):
        files_of(**changes)


@pytest.mark.parametrize(
    "tree", [{"microbatch_size": 2}, {"pipeline_parallel_size": 2}, {"fsdp_config": {"bogus": 1}}]
)
def test_a_misspelt_name_is_an_error(tree):
    with pytest.raises(LookupError, match="has no setting"):
        require_known_arguments("axolotl", tree)
