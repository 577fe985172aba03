"""Pins and programs: a plan keeps what the user fixed, and offers only what the program can do."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.base.errors import NoFeasiblePlanError, UsageError
from recipes.job.models.names import find_model
from recipes.job.pins import Pins
from recipes.planning.planner import default_workload, make_plan
from recipes.planning.programs import load_programs, program_named
from tests.support.clusters import h100_cluster
from tests.support.plans import FACTS, RATES, plan


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["gpt2", "llama-3.2-1b", "llama-3-8b"]),
    st.sampled_from([None, "ddp", "fsdp", "hsdp"]),
    st.sampled_from([None, 1, 2, 3, 8]),
    st.sampled_from([None, "none", "full"]),
    st.sampled_from([None, 1e-5, 3e-3]),
    st.sampled_from([None, 0, 17]),
)
def test_pins_are_obeyed_or_refused(model_id, strategy, micro_batch, mode, rate, warmup):  # noqa: PLR0917
    pins = Pins(
        strategy=strategy,
        micro_batch=micro_batch,
        activation_checkpointing=mode,
        learning_rate=rate,
        warmup_steps=warmup,
    )
    try:
        made = plan(model_id, pins=pins, global_batch=384)
    except NoFeasiblePlanError:
        return  # refused is an answer too
    except UsageError as error:
        assert strategy == "hsdp"
        assert "strategy hsdp" in error.message  # noqa: PT017
        return
    for choice in (made.chosen, *made.alternatives):
        assert strategy in (None, choice.strategy)
        assert micro_batch in (None, choice.micro_batch)
        assert mode in (None, choice.activation_checkpointing)
        assert rate in (None, choice.learning_rate)
        assert warmup in (None, choice.warmup_steps)
    pinned = {
        name
        for name in ("strategy", "micro_batch", "activation_checkpointing", "learning_rate", "warmup_steps")
        if getattr(pins, name) is not None
    }
    assert {decision.name for decision in made.decisions if decision.basis == "user"} == pinned


@pytest.mark.parametrize("program", load_programs().values(), ids=lambda program: program.id)
def test_only_what_the_program_can_do_is_offered(program):
    cluster = h100_cluster(nodes=4, flops_per_s=RATES, peak_flops_per_s=RATES)
    workload = default_workload(find_model("llama-3.2-1b"), cluster, program=program, global_batch=512)
    made = make_plan(workload, cluster, FACTS, Pins(), program=program)
    for layout in (made.chosen, *made.alternatives, *(row.candidate for row in made.rejected)):
        degrees = layout.degrees
        assert layout.activation_checkpointing in program.checkpointing
        assert layout.precision in program.precisions
        assert layout.sharding in (program.shardings if degrees.pp == 1 else program.pipeline_shardings)
        assert program.tensor or degrees.tp == 1
        assert program.schedules or degrees.pp == 1
        assert degrees.pp == 1 or layout.schedule in program.schedules
        assert program.context or degrees.cp == 1
        assert program.experts or degrees.ep == 1
        assert program.hybrid or degrees.dp == 1 or degrees.fsdp == 1
        replicas = degrees.dp * degrees.fsdp
        assert replicas * degrees.tp * degrees.pp * degrees.cp == cluster.world_size
        assert layout.micro_batch * layout.grad_accum * replicas == layout.global_batch == 512
    assert {choice.program for choice in (made.chosen, *made.alternatives)} == {program.id}


@settings(max_examples=60, deadline=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "tp": st.sampled_from([1, 2, 8, 16]),
            "pp": st.sampled_from([1, 2, 4, 5]),
            "cp": st.sampled_from([1, 2, 3]),
            "vp": st.sampled_from([1, 2, 4]),
            "ep": st.sampled_from([1, 4]),
            "fsdp": st.sampled_from([1, 8]),
            "grad_accum": st.sampled_from([1, 4, 16]),
            "micro_batch": st.sampled_from([1, 2]),
            "schedule": st.sampled_from(["1f1b", "interleaved", "zero-bubble"]),
            "sharding": st.sampled_from(["none", "zero1", "zero3"]),
            "recomputed_share": st.sampled_from([0.25, 1.0]),
        },
    ),
    st.sampled_from(["megatron", "torchtitan", "deepspeed"]),
)
def test_pinned_degrees_are_obeyed_or_refused(pinned, program_id):
    program, cluster = program_named(program_id), h100_cluster(nodes=2)
    workload = default_workload(find_model("llama-3-8b"), cluster, global_batch=256, program=program)
    try:
        made = make_plan(workload, cluster, FACTS, Pins(**pinned), program=program)
    except (NoFeasiblePlanError, UsageError) as error:
        assert error.message  # noqa: PT017 - a refusal is an answer too
        assert error.hint  # noqa: PT017
        return
    for choice in (made.chosen, *made.alternatives):
        for name, value in pinned.items():
            owner = choice if hasattr(choice, name) else choice.degrees
            assert getattr(owner, name) == value, name
    decided = {decision.name for decision in made.decisions if decision.basis == "user"}
    assert decided == set(pinned)


@pytest.mark.parametrize("program_id", ["megatron", "torchtitan"])
def test_no_member_of_a_rejected_set_of_degrees_fits(program_id):
    program, cluster = program_named(program_id), h100_cluster(nodes=4)
    workload = default_workload(find_model("llama-3-70b"), cluster, program=program)
    made = make_plan(workload, cluster, FACTS, Pins(), program=program)
    assert made.rejected
    for rejected in made.rejected[::4]:
        degrees = rejected.candidate.degrees
        sizes = {name: getattr(degrees, name) for name in ("fsdp", "tp", "pp", "vp", "cp", "ep")}
        pins = Pins(**sizes, sharding=rejected.candidate.sharding)
        with pytest.raises(NoFeasiblePlanError):
            make_plan(workload, cluster, FACTS, pins, program=program, headroom=0.05)


def test_pinned_ddp_that_cannot_fit_points_to_fsdp():
    with pytest.raises(NoFeasiblePlanError) as error:
        plan("llama-3-8b", pins=Pins(strategy="ddp"))
    assert "FSDP" in error.value.hint


@pytest.mark.parametrize(
    ("pins", "words"),
    [
        (Pins(strategy="magic"), "magic"),
        (Pins(micro_batch=0), "micro-batch 0"),
        (Pins(learning_rate=-1.0), "learning rate"),
        (Pins(learning_rate=float("nan")), "learning rate"),
        (Pins(warmup_steps=5000), "5000"),
        (Pins(ranks_per_node=3), "3 ranks"),
        (Pins(micro_batch=7), "micro-batch 7"),
        (Pins(activation_checkpointing="selective"), "activation-checkpointing selective"),
        (Pins(recomputed_share=float("nan")), "recomputed share"),
        (Pins(recomputed_share=0.25), "recomputed-share 0.25"),
        (Pins(tp=2), "tp 2"),
        (Pins(sharding="zero1"), "sharding zero1"),
    ],
)
def test_impossible_pins_are_named(pins, words):
    with pytest.raises(UsageError) as error:
        plan("gpt2", pins=pins)
    assert words in error.value.message


@pytest.mark.parametrize(
    "choices",
    [
        {"sequence_length": 0},
        {"global_batch": -8},
        {"global_batch": 0},
        {"steps": 0},
        {"precision": "fp8"},
    ],
)
def test_impossible_sizes_are_named(choices):
    with pytest.raises(UsageError):
        plan("gpt2", **choices)


@pytest.mark.parametrize(
    ("model", "pins", "words"),
    [
        ("llama-3-8b", Pins(tp=3), "with other programs, tp can be 1, 2, 4, 8: it must divide 32 heads"),
        ("gpt2", Pins(tp=8), "with other programs, tp can be 1, 2, 4: it must divide 12 heads and 8 ranks"),
        ("mixtral-8x7b", Pins(ep=3), "it must divide 8 experts and 8 ranks"),
        ("llama-3-8b", Pins(ep=2), "llama-3-8b has no experts"),
    ],
)
def test_an_impossible_degree_is_explained_for_all_programs(model: str, pins: Pins, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        plan(model, pins=pins)
    assert words in refused.value.hint
    assert "your own torch program (DDP, FSDP2) has only" in refused.value.hint


def test_a_degree_of_other_programs_names_them() -> None:
    with pytest.raises(UsageError) as refused:
        plan("llama-3-8b", pins=Pins(tp=2))
    assert "name a program that has tp 2: --program torchtitan, megatron" in refused.value.hint
