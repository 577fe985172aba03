"""Test the files for DeepSpeed: every decision is in ds_config.json, once and under a known name."""

from __future__ import annotations

import json

import msgspec
import pytest

from probes.base.errors import UsageError
from recipes.launch.known_names import require_known
from recipes.launch.launch_files import program_files
from recipes.launch.program_files import FolderFile
from recipes.launch.program_limits import require_runnable
from recipes.launch.recipe import Command, Convergence, Job
from recipes.launch.settings_tree import dotted_names

SCRIPT = Command(kind="script", target="train.py", arguments=("--data", "/d"))
COSINE = {
    "type": "WarmupCosineLR",
    "params": {"total_num_steps": 20, "warmup_num_steps": 2, "cos_min_ratio": 0.1, "warmup_type": "linear"},
}


@pytest.fixture
def files_of(make_recipe):
    """Return a function that returns the files of a DeepSpeed recipe and the parsed configuration."""

    def make(**fields):
        recipe = make_recipe(**{"program": "deepspeed", "command": SCRIPT, **fields})
        require_runnable(recipe)
        files = program_files(recipe)
        return files, json.loads(files.files[0].text)

    return make


def convergence(**changes):
    return msgspec.structs.replace(Convergence(learning_rate=3e-3, warmup_steps=2, steps=20), **changes)


def test_the_script_gets_the_file_as_deepspeed_defines(files_of):
    files, config = files_of(parallelism={"strategy": "zero2", "precision": "bf16"})
    assert files.words == (
        *("train.py", "--data", "/d"),
        *("--deepspeed", "--deepspeed_config", FolderFile(name="ds_config.json")),
    )
    assert files.agent.words == ("-m", "torch.distributed.run")
    assert config == {
        "zero_optimization": {"stage": 2, "reduce_bucket_size": 500000000},
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": 2,
        "bf16": {"enabled": True},
        "data_types": {"grad_accum_dtype": "fp32"},
        "optimizer": {
            "type": "AdamW",
            "params": {
                "lr": 0.003,
                "betas": [0.9, 0.95],
                "weight_decay": 0.1,
                "torch_adam": True,
                "fused": True,
            },
        },
        "scheduler": COSINE,
        "gradient_clipping": 0,
        "steps_per_print": 10,
        "log_level": "info",
    }


@pytest.mark.parametrize(
    ("changes", "name", "value"),
    [
        ({"parallelism": {"strategy": "ddp"}}, "zero_optimization", {"stage": 0}),
        ({"parallelism": {"strategy": "zero1"}}, "zero_optimization.stage", 1),
        ({"parallelism": {"strategy": "fsdp"}}, "zero_optimization.stage", 3),
        (
            {"parallelism": {"strategy": "fsdp"}},
            "zero_optimization.stage3_gather_16bit_weights_on_model_save",
            True,
        ),
        ({"parallelism": {"strategy": "fsdp"}}, "zero_optimization.stage3_prefetch_bucket_size", 50000000),
        ({"parallelism": {"precision": "fp16"}}, "fp16.enabled", True),
        ({"parallelism": {"precision": "fp16"}}, "data_types.grad_accum_dtype", "fp16"),
        ({"parallelism": {"precision": "bf16"}}, "data_types.grad_accum_dtype", "bf16"),
        ({"parallelism": {"micro_batch": 4, "grad_accum": 1}}, "train_micro_batch_size_per_gpu", 4),
        ({"parallelism": {"micro_batch": 1, "grad_accum": 4}}, "gradient_accumulation_steps", 4),
        (
            {"ranks_per_node": 4, "parallelism": {"dp": 2, "cp": 2, "global_batch": 8}},
            "sequence_parallel_size",
            2,
        ),
        ({"convergence": convergence(learning_rate=3e-5)}, "optimizer.params.lr", 3e-5),
        ({"convergence": convergence(gradient_clipping=0.5)}, "gradient_clipping", 0.5),
        ({"convergence": convergence(weight_decay=0.2)}, "optimizer.params.weight_decay", 0.2),
        ({"convergence": convergence(beta2=0.999)}, "optimizer.params.betas", [0.9, 0.999]),
        ({"convergence": convergence(steps=40)}, "scheduler.params.total_num_steps", 40),
        ({"convergence": convergence(warmup_steps=0)}, "scheduler.params.warmup_num_steps", 1),
        ({"convergence": convergence(warmup_steps=4)}, "scheduler.params.warmup_num_steps", 4),
        ({"convergence": convergence(final_share=0.2)}, "scheduler.params.cos_min_ratio", 0.2),
        (
            {"convergence": convergence(schedule="constant")},
            "scheduler",
            {
                "type": "WarmupLR",
                "params": {
                    "warmup_num_steps": 2,
                    "warmup_type": "linear",
                    "warmup_max_lr": 3e-3,
                    "warmup_min_lr": 0.0,
                },
            },
        ),
        (
            {"convergence": convergence(schedule="linear", final_share=0.5)},
            "scheduler",
            {
                "type": "WarmupDecayLR",
                "params": {
                    "total_num_steps": 20,
                    "warmup_num_steps": 2,
                    "warmup_type": "linear",
                    "warmup_max_lr": 3e-3,
                    "warmup_min_lr": 1.5e-3,
                },
            },
        ),
        (
            {"job": Job(optimizer="sgd"), "convergence": convergence(beta2=0.0)},
            "optimizer.params.momentum",
            0.9,
        ),
        ({"job": Job(optimizer="sgd")}, "zero_allow_untested_optimizer", True),
        ({"job": Job(optimizer="lion")}, "optimizer.type", "Lion"),
    ],
)
def test_every_decision_reaches_the_configuration(files_of, changes, name, value):
    _, config = files_of(**changes)
    for part in name.split("."):
        config = config[part]
    assert config == value


def test_the_batch_is_stated_once(files_of):
    _, config = files_of()
    assert "train_batch_size" not in config


@pytest.mark.parametrize(
    ("arguments", "kept", "replaced"),
    [
        (("--deepspeed", "--x", "1"), ("--x", "1"), ["--deepspeed"]),
        (("--deepspeed", "old.json", "--x", "1"), ("--x", "1"), ["--deepspeed old.json"]),
        (("a", "--deepspeed-config=old.json", "b"), ("a", "b"), ["--deepspeed-config=old.json"]),
        (("--deepspeed_config", "old.json", "b"), ("b",), ["--deepspeed_config old.json"]),
        (("--deepspeed", "-x"), ("-x",), ["--deepspeed"]),
    ],
)
def test_arguments_that_name_another_configuration_are_replaced(files_of, arguments, kept, replaced):
    files, _ = files_of(command=Command(kind="script", target="train.py", arguments=arguments))
    assert files.words[: 1 + len(kept)] == ("train.py", *kept)
    assert files.words[1 + len(kept) :][:2] == ("--deepspeed", "--deepspeed_config")
    notes = [note for note in files.notes if "your argument" in note]
    assert notes == [f"The plan replaces your argument {argument}" for argument in replaced]


@pytest.mark.parametrize(
    ("changes", "remark"),
    [
        ({"parallelism": {"activation_checkpointing": "full"}}, "must recompute activations"),
        ({"ranks_per_node": 4, "parallelism": {"dp": 2, "cp": 2, "global_batch": 8}}, "over 2 ranks"),
        ({"job": Job(tuning="lora", adapter_rank=8)}, "adapters of rank 8"),
        ({"convergence": convergence(schedule="linear")}, "starts at the final learning rate"),
        ({"convergence": convergence(ramp_from=4, ramp_samples=100)}, "grows from 4 to 8 samples"),
        ({"convergence": convergence(embedding_learning_rate=0.01)}, "a learning rate of 0.01"),
        ({"parallelism": {"precision": "bf16"}}, "strategy zero1 keeps"),
        ({}, "the names of DeepSpeed 0.19.8"),
    ],
)
def test_remarks_name_what_the_script_must_do_itself(files_of, changes, remark):
    files, _ = files_of(**changes)
    assert remark in " ".join(files.notes)
    plain, _ = files_of()
    assert changes == {} or remark not in " ".join(plain.notes)


@pytest.mark.parametrize(
    ("changes", "message", "hint"),
    [
        ({"command": Command(kind="program")}, "starts your training script", "-- train.py"),
        ({"job": Job(optimizer="muon")}, "optimizer muon", "adamw, lamb, lion, sgd"),
        ({"convergence": convergence(schedule="wsd")}, "schedule wsd", "cosine, linear, constant"),
        ({"ranks_per_node": 4, "parallelism": {"dp": 2, "tp": 2, "global_batch": 8}}, "tp 2", ""),
        ({"ranks_per_node": 4, "parallelism": {"strategy": "hsdp", "dp": 2, "fsdp": 2}}, "hsdp", "zero2"),
    ],
)
def test_a_plan_that_deepspeed_cannot_run_is_refused(files_of, changes, message, hint):
    with pytest.raises(UsageError, match=message) as error:
        files_of(**changes)
    assert hint in error.value.hint


def test_a_misspelt_name_is_an_error():
    require_known("deepspeed", dotted_names({"zero_optimization": {"stage": 1}, "bf16": {"enabled": True}}))
    for tree in ({"zero_optimisation": {"stage": 1}}, {"zero_optimization": {"stge": 1}}):
        with pytest.raises(LookupError, match=r"no setting 'zero_optimi"):
            require_known("deepspeed", dotted_names(tree))


def test_on_a_cpu_deepspeed_looks_for_no_gpu(files_of):
    on_cpu, _ = files_of()
    on_gpu, _ = files_of(resources={"device": "cuda", "backend": "nccl"})
    assert [(variable.name, variable.value) for variable in on_cpu.environment] == [("DS_ACCELERATOR", "cpu")]
    assert on_gpu.environment == ()
