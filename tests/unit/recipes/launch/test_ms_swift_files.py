"""Test the files for ms-swift: options, shards, places and refusals."""

from __future__ import annotations

import json

import msgspec
import pytest

from probes.base.errors import UsageError
from recipes.launch.hf_arguments import require_known_arguments
from recipes.launch.launch_files import program_files
from recipes.launch.program_files import FolderFile
from recipes.launch.program_limits import require_runnable
from recipes.launch.recipe import CheckpointSettings, Command, Job

GPU = {"device": "cuda", "backend": "nccl"}
PLACES = {"model": "org/model", "data": "/data/chats.jsonl", "output": "/out"}
PLAIN = {
    "model": "org/model",
    "dataset": "/data/chats.jsonl",
    "use_hf": "true",
    "add_version": "false",
    "output_dir": "/out",
    "logging_steps": "10",
    "tuner_type": "full",
    "per_device_train_batch_size": "2",
    "gradient_accumulation_steps": "2",
    "gradient_checkpointing": "false",
    "bf16": "true",
    "torch_dtype": "bfloat16",
    "learning_rate": "0.003",
    "warmup_steps": "2",
    "max_steps": "20",
    "max_length": "32",
    "lr_scheduler_type": "cosine_with_min_lr",
    "lr_scheduler_kwargs": '{"min_lr_rate": 0.1}',
    "adam_beta1": "0.9",
    "adam_beta2": "0.95",
    "weight_decay": "0.1",
    "max_grad_norm": "0",
    "optim": "adamw_torch_fused",
}


@pytest.fixture
def files_of(make_recipe):
    """Return a function that writes the files of a recipe for GPUs in bf16."""

    def make(**fields):
        fields["parallelism"] = {"precision": "bf16", **fields.get("parallelism", {})}
        fields = {"command": Command(kind="program"), "resources": GPU, "slots": PLACES, **fields}
        recipe = make_recipe(program="ms-swift", **fields)
        recipe = msgspec.structs.replace(recipe, model=msgspec.structs.replace(recipe.model, id="llama-3-8b"))
        require_runnable(recipe)
        return program_files(recipe)

    return make


def options_of(files):
    words = files.words[2:]
    return {name.removeprefix("--"): value for name, value in zip(words[::2], words[1::2], strict=True)}


def test_a_plan_without_a_command_is_pretraining_with_options(files_of):
    files = files_of()
    assert files.words[:2] == ("-m", "swift.cli.pt")
    assert options_of(files) == PLAIN
    assert files.files == files.environment == ()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"job": Job(tuning="lora", adapter_rank=16)},
            {"tuner_type": "lora", "lora_rank": "16", "target_modules": "all-linear"},
        ),
        (
            {"job": Job(tuning="qlora", adapter_rank=16), "parallelism": {"strategy": "fsdp"}},
            {"quant_method": "bnb", "quant_bits": "4", "bnb_4bit_quant_storage": "bfloat16"},
        ),
        ({"parallelism": {"activation_checkpointing": "full"}}, {"gradient_checkpointing": "true"}),
        ({"parallelism": {"precision": "fp16"}}, {"fp16": "true", "torch_dtype": "float16"}),
        ({"parallelism": {"precision": "fp32"}}, {"bf16": "false", "torch_dtype": "float32"}),
        ({"resources": {}}, {"use_cpu": "true"}),
        ({"checkpoints": CheckpointSettings(every_steps=7)}, {"save_steps": "7"}),
        ({"parallelism": {"strategy": "zero1"}}, {"deepspeed": FolderFile(name="ds_config.json")}),
    ],
)
def test_every_decision_reaches_the_options(files_of, changes, expected):
    options = options_of(files_of(**changes))
    assert {name: options[name] for name in expected} == expected


def test_shards_are_a_file_that_states_recomputation_once(files_of):
    files = files_of(parallelism={"strategy": "fsdp", "activation_checkpointing": "full"})
    options = options_of(files)
    assert options["fsdp"] == FolderFile(name="fsdp.json")
    assert options["gradient_checkpointing"] == "false"
    (file,) = files.files
    assert json.loads(file.text) == {
        "fsdp": "full_shard auto_wrap",
        "fsdp_config": {
            "fsdp_version": 2,
            "activation_checkpointing": True,
            "reshard_after_forward": True,
            "transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"],
            "state_dict_type": "SHARDED_STATE_DICT",
            "cpu_ram_efficient_loading": True,
        },
    }


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (
            Command(kind="script", target="/venv/bin/swift", arguments=("sft", "--packing", "true")),
            ("-m", "swift.cli.sft", "--packing", "true"),
        ),
        (
            Command(kind="module", target="swift.cli.pt", arguments=("--learning_rate", "1", "--seed", "3")),
            ("-m", "swift.cli.pt", "--seed", "3"),
        ),
        (
            Command(kind="module", target="swift.cli.sft", arguments=("--use_hf", "false")),
            ("-m", "swift.cli.sft", "--use_hf", "false"),
        ),
    ],
)
def test_the_command_of_the_user_keeps_its_arguments(files_of, command, words):
    files = files_of(command=command)
    assert files.words[: len(words)] == words
    assert files.words.count("--use_hf") == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"slots": {"data": "x"}}, "needs --model"),
        ({"slots": {"model": "x"}}, "needs --dataset"),
        ({"command": Command(kind="script", target="train.py")}, "swift pt"),
        ({"command": Command(kind="script", target="swift", arguments=("rlhf",))}, "swift pt"),
        ({"command": Command(kind="script", target="swift", arguments=("sft", "a.yaml"))}, "with options"),
        ({"resources": {}, "parallelism": {"strategy": "fsdp"}}, "on a CPU"),
        ({"ranks_per_node": 4, "parallelism": {"dp": 2, "pp": 2, "global_batch": 8}}, "pp 2"),
    ],
)
def test_a_plan_that_ms_swift_cannot_run_is_refused(files_of, changes, message):
    with pytest.raises(UsageError, match=message):
        files_of(**changes)


@pytest.mark.parametrize("tree", [{"max_lenght": 3}, {"fsdp_config": {"reshrd_after_forward": True}}])
def test_a_misspelt_name_is_an_error(tree):
    with pytest.raises(LookupError, match="has no setting"):
        require_known_arguments("ms-swift", tree)


def test_a_list_that_the_plan_decides_is_replaced_as_a_whole(files_of):
    arguments = ("sft", "--target_modules", "q_proj", "v_proj", "--seed", "3")
    job = Job(tuning="lora", adapter_rank=16)
    files = files_of(command=Command(kind="script", target="swift", arguments=arguments), job=job)
    assert files.words[2:4] == ("--seed", "3")
    assert "v_proj" not in files.words
    assert "The plan replaces your argument --target_modules q_proj v_proj" in files.notes
