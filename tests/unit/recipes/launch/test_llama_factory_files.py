"""Test the files for LLaMA-Factory: settings, overrides of a user's file, places, shards and refusals."""

from __future__ import annotations

import msgspec
import pytest
import yaml

from probes.base.errors import UsageError
from recipes.launch.hf_arguments import require_known_arguments
from recipes.launch.launch_files import program_files
from recipes.launch.program_files import FolderFile
from recipes.launch.program_limits import require_runnable
from recipes.launch.recipe import CheckpointSettings, Command, Convergence, Job

GPU = {"device": "cuda", "backend": "nccl"}
PLACES = {"model": "org/model", "data": "identity", "output": "/out"}
LORA = Job(tuning="lora", adapter_rank=16)
PLAIN = {
    "stage": "pt",
    "do_train": True,
    "logging_steps": 10,
    "model_name_or_path": "org/model",
    "output_dir": "/out",
    "dataset": "identity",
    "finetuning_type": "full",
    "per_device_train_batch_size": 2,
    "gradient_accumulation_steps": 2,
    "disable_gradient_checkpointing": True,
    "bf16": True,
    "learning_rate": 0.003,
    "warmup_steps": 2,
    "max_steps": 20,
    "cutoff_len": 32,
    "lr_scheduler_type": "cosine_with_min_lr",
    "lr_scheduler_kwargs": {"min_lr_rate": 0.1},
    "adam_beta1": 0.9,
    "adam_beta2": 0.95,
    "weight_decay": 0.1,
    "max_grad_norm": 0,
    "optim": "adamw_torch_fused",
}
LAUNCHER = ("-m", "llamafactory.launcher")


@pytest.fixture
def files_of(make_recipe):
    """Return a function that writes the files of a recipe for GPUs in bf16."""

    def make(**fields):
        fields["parallelism"] = {"precision": "bf16", **fields.get("parallelism", {})}
        fields = {"command": Command(kind="program"), "resources": GPU, "slots": PLACES, **fields}
        recipe = make_recipe(program="llama-factory", **fields)
        recipe = msgspec.structs.replace(recipe, model=msgspec.structs.replace(recipe.model, id="llama-3-8b"))
        require_runnable(recipe)
        return program_files(recipe)

    return make


def cli(*arguments):
    return Command(kind="script", target="/venv/bin/llamafactory-cli", arguments=("train", *arguments))


def settings_of(files):
    (file,) = files.files
    return yaml.safe_load(file.text)


def test_a_plan_without_a_command_is_a_file_for_every_rank(files_of):
    files = files_of()
    assert files.words == (*LAUNCHER, FolderFile(name="llama_factory.yaml"))
    assert files.agent.words == ("-m", "torch.distributed.run")
    assert settings_of(files) == PLAIN
    assert "LLaMA-Factory 0.9.5" in files.files[0].text.splitlines()[0]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"job": LORA}, {"stage": "sft", "finetuning_type": "lora", "lora_rank": 16, "lora_target": "all"}),
        ({"job": Job(tuning="qlora", adapter_rank=16)}, {"finetuning_type": "lora", "quantization_bit": 4}),
        ({"job": Job(fine_tuning=True)}, {"stage": "sft", "finetuning_type": "full"}),
        (
            {"parallelism": {"activation_checkpointing": "full"}},
            {"disable_gradient_checkpointing": False},
        ),
        ({"parallelism": {"precision": "fp16"}}, {"fp16": True}),
        ({"parallelism": {"precision": "fp32"}}, {"bf16": False}),
        ({"resources": {}}, {"use_cpu": True}),
        ({"checkpoints": CheckpointSettings(every_steps=7)}, {"save_steps": 7}),
        ({"slots": {**PLACES, "data": "/data/chats"}}, {"dataset": "/data/chats", "dataset_dir": "ONLINE"}),
        ({"slots": {**PLACES, "data": "org/chats"}}, {"dataset": "org/chats", "dataset_dir": "ONLINE"}),
        (
            {"parallelism": {"strategy": "zero2"}},
            {
                "deepspeed": {
                    "zero_optimization": {"stage": 2, "reduce_bucket_size": 500000000},
                    "bf16": {"enabled": "auto"},
                    "fp16": {"enabled": "auto"},
                    "data_types": {"grad_accum_dtype": "fp32"},
                    "train_micro_batch_size_per_gpu": "auto",
                    "gradient_accumulation_steps": "auto",
                    "gradient_clipping": "auto",
                }
            },
        ),
    ],
)
def test_every_decision_reaches_the_file(files_of, changes, expected):
    settings = settings_of(files_of(**changes))
    assert {name: settings[name] for name in expected} == expected


def test_floats_have_a_dot(files_of):
    small = Convergence(learning_rate=3e-5, warmup_steps=2, steps=20)
    assert "learning_rate: 3.0e-05\n" in files_of(convergence=small).files[0].text


def test_shards_are_variables_of_accelerate(files_of):
    files = files_of(parallelism={"strategy": "fsdp", "activation_checkpointing": "full"})
    assert {variable.name: variable.value for variable in files.environment} == {
        "ACCELERATE_USE_FSDP": "true",
        "FSDP_VERSION": "2",
        "FSDP_RESHARD_AFTER_FORWARD": "true",
        "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP",
        "FSDP_TRANSFORMER_CLS_TO_WRAP": "LlamaDecoderLayer",
        "FSDP_STATE_DICT_TYPE": "FULL_STATE_DICT",
        "FSDP_CPU_RAM_EFFICIENT_LOADING": "true",
    }
    assert not {"fsdp", "fsdp_config"} & settings_of(files).keys()
    assert files_of().environment == ()


def test_copies_of_shards_are_variables_too(files_of):
    files = files_of(ranks_per_node=8, parallelism={"strategy": "hsdp", "dp": 2, "fsdp": 4})
    variables = {variable.name: variable.value for variable in files.environment}
    assert variables["PARALLELISM_CONFIG_DP_REPLICATE_SIZE"] == "2"
    assert variables["PARALLELISM_CONFIG_DP_SHARD_SIZE"] == "4"
    assert variables["ACCELERATE_USE_FSDP"] == "true"


def test_a_file_of_the_user_stays_and_the_plan_follows(files_of):
    files = files_of(command=cli("mine.yaml", "seed=3", "learning_rate=1"), slots={})
    assert files.words[:4] == (*LAUNCHER, "mine.yaml", "seed=3")
    overrides = dict(word.split("=", 1) for word in files.words[4:])
    assert overrides["learning_rate"] == "0.003"
    assert overrides["lr_scheduler_kwargs.min_lr_rate"] == "0.1"
    off = ("deepspeed", "fsdp", "quantization_bit", "bf16", "fp16", "pure_bf16", "fp8")
    assert {name: overrides[name] for name in off} == {
        **dict.fromkeys(off[:3], "null"),
        **dict.fromkeys(off[4:], "false"),
        "bf16": "true",
    }
    assert not {"stage", "do_train", "logging_steps", "dataset"} & overrides.keys()
    assert files.files == ()
    assert "The plan replaces your argument --learning_rate=1" in files.notes


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        (("--template", "llama3", "--seed=3"), ("template=llama3", "seed=3")),
        (("--packing", "--template", "llama3"), ("packing=true", "template=llama3")),
        (("template=llama3", "--packing"), ("template=llama3", "packing=true")),
        (("output_dir=/mine",), ("output_dir=/mine",)),
        (("--bf16", "--fp16", "false", "quantization_bit=8"), ()),
    ],
)
def test_arguments_of_the_user_follow_the_file(files_of, arguments, kept):
    files = files_of(command=cli(*arguments))
    assert files.words == (*LAUNCHER, FolderFile(name="llama_factory.yaml"), *kept)
    assert ("output_dir" in settings_of(files)) == ("output_dir=/mine" not in arguments)


def test_a_script_of_the_user_gets_the_file(files_of):
    files = files_of(command=Command(kind="script", target="src/train.py"))
    assert files.words == ("src/train.py", FolderFile(name="llama_factory.yaml"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"slots": {"data": "identity"}}, "needs model_name_or_path"),
        ({"slots": {"model": "org/model"}}, "needs dataset"),
        ({"slots": {**PLACES, "data": "/data/a.json"}}, "no single file"),
        ({"resources": {}, "parallelism": {"strategy": "fsdp"}}, "on a CPU"),
        ({"ranks_per_node": 4, "parallelism": {"dp": 2, "tp": 2, "global_batch": 8}}, "tp 2"),
        ({"ranks_per_node": 4, "parallelism": {"dp": 2, "pp": 2, "global_batch": 8}}, "pp 2"),
    ],
)
def test_a_plan_that_llama_factory_cannot_run_is_refused(files_of, changes, message):
    with pytest.raises(UsageError, match=message):
        files_of(**changes)


@pytest.mark.parametrize("tree", [{"cutof_len": 3}, {"lr_scheduler_kwargs": {"min_lr_rat": 0.1}}])
def test_a_misspelt_name_is_an_error(tree):
    with pytest.raises(LookupError, match="has no setting"):
        require_known_arguments("llama-factory", tree)


@pytest.mark.parametrize(
    ("changes", "remark"),
    [
        ({"job": LORA}, "chat template"),
        ({"slots": {**PLACES, "tokenizer": "/tok"}}, "takes the tokenizer from the model"),
        ({"parallelism": {"strategy": "fsdp"}}, "in bf16, not in fp32"),
    ],
)
def test_remarks_name_what_is_different(files_of, changes, remark):
    assert remark in " ".join(files_of(**changes).notes)
    assert remark not in " ".join(files_of().notes)
