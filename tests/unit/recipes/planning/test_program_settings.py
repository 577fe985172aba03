"""Test the settings of a layout as options of each program, and the refusal of impossible settings."""

from __future__ import annotations

import msgspec
import pytest

from probes.base.errors import UsageError
from probes.facts import MachineFacts
from recipes.job.candidate import Degrees
from recipes.job.models.names import find_model
from recipes.job.pins import Pins
from recipes.launch.program_limits import recipe_settings, require_files, require_runnable
from recipes.launch.program_table import WRITTEN
from recipes.launch.recipe import Command
from recipes.launch.resolve import recipe_of
from recipes.planning.planner import default_workload, make_plan
from recipes.planning.program_settings import Layout, layout_of, program_settings
from recipes.planning.programs import Program, load_programs, program_named
from recipes.settings.setting import Optimization
from tests.support.clusters import h100_cluster

EVERYTHING = Layout(
    degrees=Degrees(dp=2, fsdp=2, tp=4, pp=8, cp=2, ep=2, vp=4),
    sharding="zero1",
    schedule="interleaved",
    micro_batch=1,
    grad_accum=16,
    global_batch=64,
    sequence_length=8192,
    activation_checkpointing="full",
    recomputed_share=0.5,
    precision="bf16",
    learning_rate=3e-4,
    warmup_steps=100,
    steps=1000,
    tuning="lora",
    adapter_rank=8,
    layers=126,
    optimization=Optimization(ramp_from=16, ramp_samples=4096, gradient_clipping=1.0),
)
SHARDED = Degrees(dp=2, fsdp=4, tp=4, cp=2, ep=2)
WSD = EVERYTHING._replace(optimization=Optimization(schedule="wsd", decay_share=0.2))


def _plan(model: str, program: Program, nodes: int, pins: Pins):
    cluster = h100_cluster(nodes=nodes)
    workload = default_workload(find_model(model), cluster, program=program)
    return make_plan(workload, cluster, MachineFacts(), pins, program=program)


@pytest.mark.parametrize("program", load_programs().values(), ids=lambda program: program.id)
def test_every_setting_of_a_row_gets_a_value_and_every_word_belongs_to_a_setting(program):
    for key, name in program.settings.items():
        alone = Program(**{**_fields(program), "settings": {key: name}, "values": {}})
        shardings = [
            *(EVERYTHING, WSD, EVERYTHING._replace(activation_checkpointing="selective")),
            EVERYTHING._replace(sharding="zero3"),
            EVERYTHING._replace(degrees=SHARDED),
            EVERYTHING._replace(degrees=SHARDED, ranks_per_node=1),
        ]
        assert any(program_settings(alone, layout) or name == "" for layout in shardings), key
    assert set(program.values) <= set(program.settings)
    blank = {key for key, name in program.settings.items() if not name}
    assert blank <= set(program.values)


def _fields(program: Program):
    return {name: getattr(program, name) for name in Program.__struct_fields__}


def test_megatron_counts_layers_per_virtual_stage_and_recomputed_layers():
    megatron = program_named("megatron")
    rows = dict(program_settings(megatron, EVERYTHING._replace(layers=128)))
    assert rows["--num-layers-per-virtual-pipeline-stage"] == "4"
    assert rows["--recompute-granularity"] == "full"
    assert rows["--recompute-method"] == "block"
    assert rows["--recompute-num-layers"] == "2"
    assert rows["--use-distributed-optimizer"] == ""
    assert rows["--sequence-parallel"] == ""
    assert rows["--bf16"] == ""
    whole = dict(program_settings(megatron, EVERYTHING._replace(recomputed_share=1.0)))
    assert (whole["--recompute-method"], whole["--recompute-num-layers"]) == ("uniform", "1")
    # 126 layers, embedding and head are 128 in 32 equal parts.
    uneven = "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split"
    assert uneven in whole
    assert uneven not in rows
    selective = EVERYTHING._replace(activation_checkpointing="selective", recomputed_share=1.0)
    rows = dict(program_settings(megatron, selective))
    assert rows["--recompute-granularity"] == "selective"
    assert "--recompute-method" not in rows
    none = dict(program_settings(megatron, EVERYTHING._replace(activation_checkpointing="none")))
    assert not [name for name in none if "recompute" in name]


@pytest.mark.parametrize(
    ("program", "layout", "expected"),
    [
        ("torchtitan", {}, {"--training.local-batch-size": "16", "activation-checkpoint:full": ""}),
        ("torchtitan", {"degrees": Degrees(fsdp=4)}, {"--training.local-batch-size": "1"}),
        ("deepspeed", {"sharding": "zero3"}, {"zero_optimization.stage": "3", "bf16.enabled: true": ""}),
        ("lightning", {"sharding": "zero3"}, {"strategy": "fsdp", "precision": "bf16-mixed"}),
        ("olmo-core", {}, {"rank_microbatch_size": "8192", "global_batch_size": "524288"}),
        ("hf-trainer", {"tuning": "lora"}, {"adapters of PEFT": "LoraConfig", "LoraConfig(r=)": "8"}),
        (
            "hf-trainer",
            {},
            {
                "lr_scheduler_type": "cosine_with_min_lr",
                "lr_scheduler_kwargs.min_lr_rate": "0.1",
                "adam_beta2": "0.95",
                "max_grad_norm": "1",
            },
        ),
        (
            "megatron",
            {},
            {
                "--lr-decay-style": "cosine",
                "--min-lr": "3e-05",
                "--clip-grad": "1",
                "--rampup-batch-size": "16 16 4096",
            },
        ),
        (
            "megatron",
            {"optimization": WSD.optimization},
            {"--lr-decay-style": "WSD", "--lr-wsd-decay-iters": "200", "--clip-grad": "0"},
        ),
        ("torchtitan", {"optimization": WSD.optimization}, {"--lr-scheduler.decay-ratio": "0.2"}),
        ("deepspeed", {}, {"scheduler.type": "WarmupCosineLR", "optimizer.params.betas": "[0.9, 0.95]"}),
    ],
)
def test_other_programs_have_their_own_words(program, layout, expected):
    rows = dict(program_settings(program_named(program), EVERYTHING._replace(**layout)))
    assert expected.items() <= rows.items()


@pytest.mark.parametrize("program", ["megatron", "torchtitan", "nanotron", "olmo-core"])
def test_a_recipe_and_its_plan_have_the_same_settings(program):
    plan = _plan("llama-3-8b", program_named(program), 4, Pins())
    recipe = recipe_of(plan, name="job", command=Command(kind="program"), python="")
    rows = recipe_settings(recipe)
    assert rows == program_settings(program_named(program), layout_of(plan))
    if program in WRITTEN:
        return
    with pytest.raises(UsageError) as error:
        require_runnable(recipe)
    assert program_named(program).title in error.value.message
    assert all(name in error.value.message for name, _ in rows)
    assert "not written yet" in error.value.message
    with pytest.raises(UsageError, match="not written yet"):
        require_files(program)


def test_the_reference_workload_refuses_what_only_a_program_of_the_user_can_do():
    plan = _plan("llama-3-8b", program_named("own"), 4, Pins(strategy="hsdp"))
    own = recipe_of(plan, name="job", command=Command(kind="script", target="train.py"), python="")
    reference = recipe_of(plan, name="job", command=Command(kind="reference"), python="")
    for recipe in (own, reference):
        require_runnable(recipe)
    half = msgspec.structs.replace(own.parallelism, precision="fp16")
    require_runnable(msgspec.structs.replace(own, parallelism=half))
    with pytest.raises(UsageError, match="does not train in fp16") as error:
        require_runnable(msgspec.structs.replace(reference, parallelism=half))
    assert error.value.hint == "precisions: bf16, fp32"
    zero = msgspec.structs.replace(own.parallelism, strategy="zero1")
    with pytest.raises(UsageError, match="no strategy zero1") as error:
        require_runnable(msgspec.structs.replace(reference, parallelism=zero))
    assert error.value.hint == "strategies: ddp, fsdp, hsdp"


def test_files_are_written_for_programs_of_the_table():
    assert set(WRITTEN) <= set(load_programs())


def test_a_test_of_nccl_is_no_program_of_a_recipe():
    plan = _plan("llama-3-8b", program_named("own"), 1, Pins())
    own = recipe_of(plan, name="job", command=Command(kind="script", target="train.py"), python="")
    with pytest.raises(UsageError, match="there is no program 'nccl-tests'"):
        require_runnable(msgspec.structs.replace(own, program="nccl-tests"))
