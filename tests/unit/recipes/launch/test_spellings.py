"""Test the table of names under which launchers and programs state settings."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.errors import RigtuneError
from recipes.job.models.names import model_named
from recipes.launch.imports.assembling import UNCARRIED
from recipes.launch.imports.importing import import_launch
from recipes.launch.imports.spelled_settings import (
    load_spellings,
    meaning,
    module_of,
    names_of,
    option_for,
    spelled_as,
)
from recipes.launch.imports.training_files import read_launch_file
from recipes.launch.slots import load_slots
from recipes.planning.programs import load_programs

LAUNCHERS = (
    *("slurm", "torchrun", "accelerate", "deepspeed-launcher", "mpirun", "horovodrun", "kubernetes"),
    *("hostfile", "recipe", "axolotl"),
)
SETTINGS = {
    *("nodes", "ranks_per_node", "world_size", "tasks", "tasks_per_node", "gpus", "gpus_per_node", "hosts"),
    "cpus_per_task",
    *("workers", "masters", "name", "time_limit", "partition", "account", "working_directory", "python"),
    *("dp", "fsdp", "tp", "pp", "vp", "cp", "ep", "sharding", "framework", "schedule", "layers_per_part"),
    *("micro_batch", "grad_accum", "global_batch", "local_batch", "pipeline_micro_batch", "samples", "steps"),
    *("activation_checkpointing", "precision", "narrow", "sequence_length", "model", "model_family"),
    *("model_flavor", "tokenizer", "layers", "hidden", "heads", "kv_heads", "ffn_hidden", "vocab", "experts"),
    *("learning_rate", "warmup_steps", "warmup_share", "lr_schedule", "final_share", "final_rate", "betas"),
    *("decay_share", "beta1", "beta2", "weight_decay", "gradient_clipping", "optimizer", "tuning"),
    *("quantised", "adapter_rank", "fine_tuning", "checkpoint_steps", "offload", "offload_weights"),
    *("decay_steps", "accumulation_dtype", "warmup_samples"),
}
"""Settings that the reader of a launch uses."""


@pytest.mark.parametrize("row", load_spellings().values(), ids=lambda row: row.owner)
def test_every_row_states_settings_that_are_read(row):
    assert row.owner in (*load_programs(), *LAUNCHERS)
    assert set(row.like) <= load_spellings().keys()
    for setting in filter(None, (value.partition("=")[0] for value in row.names.values())):
        slot = setting.removeprefix("slot.")
        assert setting in SETTINGS or (slot != setting and slot in load_slots()), setting
    assert set(row.also.values()) <= SETTINGS & row.values.keys()
    assert set(row.values) <= {*SETTINGS, *names_of(row.owner), *(plain for plain in row.names)}


@pytest.mark.parametrize("program", load_programs().values(), ids=lambda row: row.id)
def test_a_schedule_written_for_a_program_is_read_back(program):
    if "lr_schedule" not in program.settings or not program.settings["lr_schedule"]:
        return
    spelling_of = program.values.get("lr_schedule", {})
    for spelling in filter(None, ("cosine" if "cosine" not in spelling_of else "", *spelling_of.values())):
        first = (
            "cosine"
            if spelling == "cosine"
            else next(each for each in spelling_of if spelling_of[each] == spelling)
        )
        assert meaning(program.id, program.settings["lr_schedule"], spelling).value == first


@pytest.mark.parametrize("owner", sorted({*load_spellings(), *load_programs()}))
def test_every_setting_of_a_program_is_read_or_known_to_have_no_field(owner):
    stated = {value.partition("=")[0] for value in names_of(owner).values()}
    assert {each for each in stated if not each.startswith("slot.")} <= SETTINGS | UNCARRIED | {""}


@pytest.mark.parametrize(
    ("owner", "name", "value", "expected"),
    [
        ("megatron", "--tensor-model-parallel-size", "4", ("tp", "4")),
        ("megatron", "use_distributed_optimizer", "true", ("sharding", "zero1")),
        ("megatron", "fp8-format", "hybrid", ("narrow", "fp8")),
        ("megatron", "lr-decay-style", "WSD", ("lr_schedule", "wsd")),
        ("accelerate", "fsdp_sharding_strategy", "1", ("sharding", "zero3")),
        ("accelerate", "zero_stage", "1", ("sharding", "zero1")),
        ("accelerate", "mixed_precision", "no", ("precision", "fp32")),
        ("accelerate", "distributed_type", "DEEPSPEED", None),
        ("deepspeed", "zero_optimization.stage", "0", ("sharding", "none")),
        ("deepspeed", "train_batch_size", "auto", None),
        ("deepspeed", "fp16.enabled", "false", None),
        ("hf-trainer", "gradient_checkpointing", "True", ("activation_checkpointing", "full")),
        ("hf-trainer", "optim", "adamw_bnb_8bit", ("optimizer", "adamw-8bit")),
        ("torchtitan", "parallelism.pipeline_parallel_schedule", "1F1B", ("schedule", "1f1b")),
        ("kubernetes", "[1].spec.nprocPerNode", "auto", None),
        ("slurm", "qos", "long", ("slot.qos", "long")),
        ("own", "--accumulate", "2", ("grad_accum", "2")),
        ("own", "--seq", "2048", ("sequence_length", "2048")),
        ("torchrun", "unheard-of", "1", None),
    ],
)
def test_meaning_of_a_name_and_its_value(owner, name, value, expected):
    stated = meaning(owner, name, value)
    assert (None if stated is None else tuple(stated)) == expected


CHECKPOINTING = "activation_checkpointing"


@pytest.mark.parametrize(
    ("stated", "value", "before", "expected"),
    [
        (("megatron", "tensor_model_parallel_size", "tp"), "2", "8", "2"),
        (("megatron", "use_distributed_optimizer", "sharding"), "none", "true", None),
        (("megatron", "recompute_granularity", CHECKPOINTING), "none", "full", None),
        (("accelerate", "fsdp_config.fsdp_activation_checkpointing", CHECKPOINTING), "none", "true", "false"),
        (("hf-trainer", "gradient_checkpointing", CHECKPOINTING), "none", "True", "False"),
        (("hf-trainer", "gradient_checkpointing", CHECKPOINTING), "selective", "True", None),
        (("deepspeed", "zero_optimization.stage", "sharding"), "zero3", "2", "3"),
        (("accelerate", "fsdp_sharding_strategy", "sharding"), "zero3", "SHARD_GRAD_OP", "FULL_SHARD"),
        (("accelerate", "fsdp_sharding_strategy", "sharding"), "zero3", "2", "1"),
        (("torchtitan", "activation_checkpoint.mode", CHECKPOINTING), "full", "selective", "full"),
    ],
)
def test_a_value_in_the_words_of_a_file(stated, value, before, expected):
    assert spelled_as(*stated, value, before) == expected


def test_options_that_a_diff_adds():
    assert option_for("megatron", "pp", "4") == "--pipeline-model-parallel-size 4"
    assert option_for("megatron", "sharding", "zero1") == "--use-distributed-optimizer"
    assert option_for("megatron", "sequence_parallel", "true") == "--sequence-parallel"
    assert option_for("hf-trainer", "activation_checkpointing", "full") == "--gradient_checkpointing true"
    assert option_for("own", "tp", "2") is None
    for program in ("own", "ray-train", "torch"):  # an invented option would stop the user's program
        assert option_for(program, "micro_batch", "2") is None
    assert option_for("deepspeed", "sharding", "zero3") is None


def test_modules_behind_console_commands():
    assert module_of(("axolotl", "train", "a.yml")) == "axolotl.cli.train"
    assert not module_of(("axolotl", "preprocess"))


PIECES = st.sampled_from(
    (
        *("torchrun ", "srun ", "train.py ", "--nnodes ", "$N", "$(", "${A:-1}", '"', "'", "\\\n", "\n", "("),
        *(")", "#SBATCH --nodes=2", "export A=1", "<<EOF\n", "EOF\n", "--lr 1e400 ", "A=", "-", "1e3", "\0"),
        *("é", "| ", "{", "}", "mpirun -np ", "99999999999999999999 ", "[1]", "if ", "fi", "bash -c "),
        *('"$@" ', "\u2028"),
    )
)
HEADS = {
    "a.sh": "",
    "a.sbatch": "",
    "a.yaml": "distributed_type: FSDP\n",
    "ds_config.json": '{"zero_optimization": ',
    "a.toml": "[training]\n",
    "hostfile": "",
}


@given(st.lists(PIECES, max_size=25), st.sampled_from(sorted(HEADS)))
def test_no_text_causes_another_error_than_a_clear_one(pieces, name):
    with contextlib.suppress(RigtuneError):
        file = read_launch_file(name, HEADS[name] + "".join(pieces))
        if file is not None:
            import_launch([file], {"model": "llama-3-8b", "nodes": "2"}, model_named)
