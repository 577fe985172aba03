"""Test the files for Hugging Face's Trainer and for TRL: options, files, places and refusals."""

from __future__ import annotations

import json

import msgspec
import pytest
import yaml

from probes.base.errors import UsageError
from recipes.launch.known_names import require_known
from recipes.launch.launch_files import program_files
from recipes.launch.program_files import FolderFile
from recipes.launch.program_limits import require_runnable
from recipes.launch.recipe import CheckpointSettings, Chosen, Command, Convergence, Job
from recipes.launch.settings_tree import dotted_names

GPU = {"device": "cuda", "backend": "nccl"}
PLACES = {"model": "org/model", "data": "/data/texts", "output": "/out"}
PLAIN = {
    "per_device_train_batch_size": 2,
    "gradient_accumulation_steps": 2,
    "gradient_checkpointing": False,
    "bf16": True,
    "learning_rate": 0.003,
    "warmup_steps": 2,
    "max_steps": 20,
    "lr_scheduler_type": "cosine_with_min_lr",
    "lr_scheduler_kwargs": {"min_lr_rate": 0.1},
    "adam_beta1": 0.9,
    "adam_beta2": 0.95,
    "weight_decay": 0.1,
    "max_grad_norm": 0,
    "optim": "adamw_torch_fused",
    "do_train": True,
    "logging_steps": 10,
}
SHARDS = {
    "version": 2,
    "activation_checkpointing": True,
    "reshard_after_forward": True,
    "transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"],
    "state_dict_type": "SHARDED_STATE_DICT",
    "cpu_ram_efficient_loading": True,
}
FSDP = {"strategy": "fsdp", "activation_checkpointing": "full"}


@pytest.fixture
def files_of(make_recipe):
    """Return a function that writes the files of a recipe for GPUs in bf16."""

    def make(program="hf-trainer", model="llama-3-8b", **fields):
        fields["parallelism"] = {"precision": "bf16", **fields.get("parallelism", {})}
        fields = {"command": script(), "resources": GPU, **fields}
        recipe = make_recipe(program=program, **fields)
        recipe = msgspec.structs.replace(recipe, model=msgspec.structs.replace(recipe.model, id=model))
        require_runnable(recipe)
        return program_files(recipe)

    return make


@pytest.fixture
def arguments_of(files_of):
    """Return a function that makes a recipe and returns the content of its training_arguments.json."""

    def make(**fields):
        (file,) = files_of(command=script("training_arguments.json"), **fields).files
        return json.loads(file.text)

    return make


def script(*arguments):
    return Command(kind="script", target="train.py", arguments=arguments)


def convergence(**changes):
    return msgspec.structs.replace(Convergence(learning_rate=3e-3, warmup_steps=2, steps=20), **changes)


def test_a_script_that_reads_a_file_gets_every_argument(files_of):
    files = files_of(command=script("training_arguments.json"))
    assert files.words == ("train.py", FolderFile(name="training_arguments.json"))
    assert json.loads(files.files[0].text) == PLAIN
    assert files.agent.words == ("-m", "torch.distributed.run")


def test_a_script_with_options_gets_the_same_arguments_as_options(files_of):
    files = files_of(command=script("--data", "/d"))
    assert files.words[:3] == ("train.py", "--data", "/d")
    words = files.words[3:]
    options = dict(zip(words[::2], words[1::2], strict=True))
    assert options.pop("--lr_scheduler_kwargs") == '{"min_lr_rate": 0.1}'
    expected = {name: value for name, value in PLAIN.items() if name != "lr_scheduler_kwargs"}
    assert options == {
        f"--{name}": str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in expected.items()
    }
    assert files.files == ()


def test_shards_are_a_switch_and_a_file(files_of):
    files = files_of(parallelism=FSDP)
    place = files.words.index("--fsdp")
    assert files.words[place + 1 : place + 3] == ("--fsdp_config", FolderFile(name="fsdp_config.json"))
    (file,) = files.files
    assert (file.path, json.loads(file.text)) == ("fsdp_config.json", SHARDS)
    assert "--gradient_checkpointing" not in files.words


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"parallelism": FSDP}, {"fsdp": True, "fsdp_config": SHARDS}),
        (
            {"parallelism": {"strategy": "fsdp"}},
            {"fsdp_config": {**SHARDS, "activation_checkpointing": False}},
        ),
        ({"parallelism": {"activation_checkpointing": "full"}}, {"gradient_checkpointing": True}),
        ({"parallelism": {"precision": "fp16"}}, {"fp16": True}),
        ({"parallelism": {"precision": "fp32"}}, {"bf16": False}),
        (
            {"parallelism": {"micro_batch": 1, "grad_accum": 4}},
            {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 4},
        ),
        ({"resources": {}}, {"use_cpu": True}),
        ({"job": Job(optimizer="adamw-8bit")}, {"optim": "adamw_8bit"}),
        ({"convergence": convergence(learning_rate=3e-5)}, {"learning_rate": 3e-5}),
        ({"convergence": convergence(warmup_steps=4)}, {"warmup_steps": 4}),
        ({"convergence": convergence(steps=40)}, {"max_steps": 40}),
        ({"convergence": convergence(beta1=0.8, beta2=0.99)}, {"adam_beta1": 0.8, "adam_beta2": 0.99}),
        ({"convergence": convergence(weight_decay=0.2)}, {"weight_decay": 0.2}),
        ({"convergence": convergence(gradient_clipping=0.5)}, {"max_grad_norm": 0.5}),
        ({"convergence": convergence(final_share=0.2)}, {"lr_scheduler_kwargs": {"min_lr_rate": 0.2}}),
        ({"convergence": convergence(schedule="constant")}, {"lr_scheduler_type": "constant_with_warmup"}),
        ({"convergence": convergence(schedule="linear")}, {"lr_scheduler_type": "linear"}),
        (
            {"convergence": convergence(schedule="wsd", decay_share=0.2)},
            {
                "lr_scheduler_type": "warmup_stable_decay",
                "lr_scheduler_kwargs": {"num_decay_steps": 4, "min_lr_ratio": 0.1},
            },
        ),
        ({"slots": PLACES}, {"model_name_or_path": "org/model", "dataset_name": "/data/texts"}),
        ({"slots": PLACES}, {"output_dir": "/out"}),
        ({"slots": {"checkpoints": "/ckpt"}}, {"output_dir": "/ckpt"}),
        ({"slots": {"tokenizer": "/tok"}}, {"tokenizer_name": "/tok"}),
        ({"checkpoints": CheckpointSettings(every_steps=7)}, {"save_steps": 7}),
        (
            {
                "decisions": (
                    Chosen(name="num_workers", value="3", basis="rule"),
                    Chosen(name="process_group_timeout", value="900 s", basis="rule"),
                )
            },
            {"dataloader_num_workers": 3, "ddp_timeout": 900},
        ),
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
def test_every_decision_reaches_the_arguments(arguments_of, changes, expected):
    arguments = arguments_of(**changes)
    assert {name: arguments[name] for name in expected} == expected


def test_copies_of_shards_are_variables_of_accelerate(files_of):
    hybrid = {"strategy": "hsdp", "dp": 2, "fsdp": 4}
    variables = files_of(ranks_per_node=8, parallelism=hybrid).environment
    assert {variable.name: variable.value for variable in variables} == {
        "ACCELERATE_USE_PARALLELISM_CONFIG": "true",
        "PARALLELISM_CONFIG_DP_REPLICATE_SIZE": "2",
        "PARALLELISM_CONFIG_DP_SHARD_SIZE": "4",
    }
    assert files_of(ranks_per_node=8, parallelism=FSDP).environment == ()


def test_deepspeed_gets_a_file_with_values_from_the_arguments(files_of):
    files = files_of(parallelism={"strategy": "zero1"})
    place = files.words.index("--deepspeed")
    assert files.words[place + 1] == FolderFile(name="ds_config.json")
    (file,) = files.files
    assert file.path == "ds_config.json"
    assert json.loads(file.text)["zero_optimization"]["stage"] == 1


@pytest.mark.parametrize(
    ("arguments", "gone"),
    [
        (("--learning_rate", "1"), "--learning_rate 1"),
        (("--learning-rate=1",), "--learning-rate=1"),
        (("--bf16",), "--bf16"),
        (("--fp16", "true"), "--fp16 true"),
        (("--deepspeed", "zero3.json"), "--deepspeed zero3.json"),
        (("--activation_checkpointing", "true"), "--activation_checkpointing true"),
        (("--warmup_ratio", "0.1"), "--warmup_ratio 0.1"),
        (("--max_steps", "-1"), "--max_steps -1"),
    ],
)
def test_arguments_that_contradict_the_plan_are_replaced(files_of, arguments, gone):
    files = files_of(command=script("--data", "/d", *arguments, "--seed", "3"))
    assert files.words[:5] == ("train.py", "--data", "/d", "--seed", "3")
    assert f"The plan replaces your argument {gone}" in files.notes


def test_places_logs_and_checkpoints_of_the_user_stay(files_of):
    files = files_of(
        command=script("--output_dir", "/mine", "--logging_steps=1"),
        slots=PLACES,
        checkpoints=CheckpointSettings(every_steps=7),
    )
    assert files.words[:4] == ("train.py", "--output_dir", "/mine", "--logging_steps=1")
    assert files.words.count("--output_dir") == 1
    assert "--logging_steps" not in files.words
    assert "--save_steps" in files.words


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"command": Command(kind="program")}, "starts your training script, and there is none"),
        ({"command": script("mine.json")}, "would not see the plan"),
        ({"resources": {}, "parallelism": FSDP}, "on a CPU it silently runs DDP"),
        ({"job": Job(optimizer="lars")}, "optimizer lars"),
        ({"convergence": convergence(schedule="step")}, "schedule step"),
        ({"ranks_per_node": 4, "parallelism": {"dp": 2, "tp": 2, "global_batch": 8}}, "tp 2"),
        ({"ranks_per_node": 4, "parallelism": {"dp": 2, "pp": 2, "global_batch": 8}}, "pp 2"),
    ],
)
def test_a_plan_that_the_trainer_cannot_run_is_refused(files_of, changes, message):
    with pytest.raises(UsageError, match=message):
        files_of(**changes)


def test_trl_needs_no_script(files_of):
    files = files_of("trl", command=Command(kind="program"), slots=PLACES, parallelism=FSDP)
    assert files.words == ("-m", "trl.scripts.sft", "--config", FolderFile(name="sft.yaml"))
    (file,) = files.files
    shared = {name: value for name, value in PLAIN.items() if name != "gradient_checkpointing"}
    assert yaml.safe_load(file.text) == {
        **shared,
        "fsdp": True,
        "fsdp_config": SHARDS,
        "max_length": 32,
        "model_name_or_path": "org/model",
        "dataset_name": "/data/texts",
        "output_dir": "/out",
    }
    assert "learning_rate: 0.003\n" in file.text
    assert "TRL 1.16.0" in file.text.splitlines()[0]


def test_yaml_has_a_dot_in_every_float(files_of):
    small = convergence(learning_rate=3e-5)
    files = files_of("trl", command=Command(kind="program"), slots=PLACES, convergence=small)
    assert "learning_rate: 3.0e-05\n" in files.files[0].text


@pytest.mark.parametrize(
    "command",
    [
        Command(kind="module", target="trl.scripts.sft", arguments=("--use_liger_kernel", "true")),
        Command(kind="script", target="/venv/bin/trl", arguments=("sft", "--use_liger_kernel", "true")),
    ],
)
def test_the_command_of_trl_is_recognised(files_of, command):
    files = files_of("trl", command=command, slots=PLACES)
    assert files.words == (
        *("-m", "trl.scripts.sft", "--config", FolderFile(name="sft.yaml")),
        *("--use_liger_kernel", "true"),
    )


def test_another_configuration_of_the_user_is_overruled_by_options(files_of):
    command = Command(kind="module", target="trl.scripts.sft", arguments=("--config", "mine.yaml"))
    files = files_of("trl", command=command, slots=PLACES)
    assert files.words[:4] == ("-m", "trl.scripts.sft", "--config", "mine.yaml")
    assert files.words[files.words.index("--max_length") + 1] == "32"
    assert files.files == ()


def test_a_script_for_trl_gets_options(files_of):
    files = files_of("trl", command=script("--data", "/d"))
    assert files.words[:3] == ("train.py", "--data", "/d")
    assert files.words[files.words.index("--max_length") + 1] == "32"


@pytest.mark.parametrize(
    ("tuning", "strategy", "expected"),
    [
        ("lora", "ddp", {"use_peft": True, "lora_r": 8}),
        ("qlora", "ddp", {"use_peft": True, "load_in_4bit": True, "lora_r": 8}),
        ("qlora", "fsdp", {"load_in_4bit": True, "bnb_4bit_quant_storage": "bfloat16"}),
        ("full", "fsdp", {}),
    ],
)
def test_trl_trains_adapters(files_of, tuning, strategy, expected):
    files = files_of(
        "trl",
        command=Command(kind="program"),
        slots=PLACES,
        job=Job(tuning=tuning, adapter_rank=8),
        parallelism={"strategy": strategy},
    )
    arguments = yaml.safe_load(files.files[0].text)
    assert {name: arguments[name] for name in expected} == expected
    storage = "bnb_4bit_quant_storage" in arguments
    assert storage == (tuning == "qlora" and strategy == "fsdp")
    assert ("peft" in files.modules) == (tuning != "full") == ("use_peft" in arguments)


@pytest.mark.parametrize(("given", "missing"), [("model", "dataset_name"), ("data", "model_name_or_path")])
def test_trl_without_model_or_data_is_refused(files_of, given, missing):
    with pytest.raises(UsageError, match=f"--{missing}") as error:
        files_of("trl", command=Command(kind="program"), slots={given: PLACES[given]})
    assert "--slot" in error.value.hint


@pytest.mark.parametrize(
    ("program", "tree"),
    [
        ("hf-trainer", {"fsdp_config": {"reshrd_after_forward": True}}),
        ("hf-trainer", {"warmup_ratio": 0.1}),
        ("trl", {"max_lenght": 3}),
        ("trl", {"lr_scheduler_kwargs": {"min_lr_rat": 0.1}}),
    ],
)
def test_a_misspelt_name_is_an_error(program, tree):
    with pytest.raises(LookupError, match="has no setting"):
        require_known(program, dotted_names(tree))


@pytest.mark.parametrize(
    ("changes", "remark"),
    [
        ({"job": Job(tuning="lora", adapter_rank=8)}, "adapters of rank 8"),
        ({"convergence": convergence(schedule="linear")}, "ends at 0, not at 0.1"),
        ({"parallelism": FSDP}, "in bf16, not in fp32"),
    ],
)
def test_remarks_name_what_is_different(files_of, changes, remark):
    assert remark in " ".join(files_of(**changes).notes)
    assert remark not in " ".join(files_of().notes)
