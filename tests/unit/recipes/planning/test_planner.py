"""Promises of a plan: it fits, keeps the global batch and the pins, and gives a reason for every choice."""

from __future__ import annotations

import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.base.errors import ExitCode, NoFeasiblePlanError, UsageError
from probes.base.record import Unknown
from probes.base.units import GIB, gib
from probes.facts import MachineFacts
from probes.facts.measurements import Measurement
from recipes.job.models.counts import load_models
from recipes.job.models.names import find_model
from recipes.job.pins import Pins
from recipes.machine.cluster_records import Cluster, StepAnchor
from recipes.machine.measured_rates import measured_noise_scale, measured_workers
from recipes.planning.plan import Plan
from recipes.planning.planner import default_workload, make_plan
from recipes.planning.programs import load_programs, program_named
from recipes.predict.candidate_prediction import predict_memory
from tests.support.clusters import case, cpu_cluster, figure, h100_cluster

FACTS = MachineFacts()


def plan(model_id: str, cluster=None, pins: Pins | None = None, headroom=None, **choices) -> Plan:
    cluster = cluster or h100_cluster()
    workload = default_workload(find_model(model_id), cluster, **choices)
    return make_plan(workload, cluster, FACTS, pins or Pins(), headroom=headroom)


def free_of(made: Plan) -> float:
    """Return the part of the memory that the plan leaves free, as its decision states it."""
    shown = [decision.value for decision in made.decisions if decision.name == "memory_headroom"]
    return float(shown[0].removesuffix(" %")) / 100 if shown else 0.0


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([model.id for model in load_models()]),
    st.integers(1, 40),
    st.integers(1, 8),
    st.integers(1, 200),
    st.floats(1, 200),
    st.booleans(),
    st.booleans(),
)
def test_every_plan_fits_and_keeps_the_batch(  # noqa: PLR0917
    model_id, nodes, ranks, share, memory_gib, timed, gpu
):
    make = (
        h100_cluster
        if gpu
        else lambda nodes, ranks, **changes: cpu_cluster(ranks=ranks, nodes=nodes, **changes)
    )
    changes = {"memory_bytes_per_rank": figure(memory_gib * GIB)} | (
        {} if timed else {"flops_per_s": {}, "peak_flops_per_s": {}}
    )
    cluster = make(nodes=nodes, ranks=ranks, **changes)
    if not gpu and nodes > 1:
        cluster = msgspec.structs.replace(
            cluster, inter_bus_bandwidth_bytes_per_s=figure(1e9), inter_latency_s=figure(1e-4)
        )
    workload = default_workload(find_model(model_id), cluster, global_batch=share * cluster.world_size)
    try:
        made = make_plan(workload, cluster, FACTS, Pins())
    except NoFeasiblePlanError:
        return  # its words have tests of their own
    for choice in (made.chosen, *made.alternatives):
        assert choice.predicted.memory_bytes_per_gpu.needed <= memory_gib * GIB * (1 - free_of(made))
        ranks_of_data = choice.degrees.dp * choice.degrees.fsdp
        assert ranks_of_data == cluster.world_size
        assert (
            choice.micro_batch * choice.grad_accum * ranks_of_data
            == choice.global_batch
            == workload.global_batch
        )
        assert isinstance(choice.predicted.step_time_s.total, Unknown) is not timed
    assert all(decision.because and decision.basis for decision in made.decisions)
    assert msgspec.json.decode(msgspec.json.encode(made), type=Plan) == made


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


RATES = {name: figure(794e12) for name in ("bf16", "fp16", "fp32", "tf32", "fp8")}


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


def test_a_small_model_stays_with_ddp():
    made = plan("gpt2")
    assert made.chosen.strategy == "ddp"
    assert made.chosen.activation_checkpointing == "none"
    assert {choice.strategy for choice in made.alternatives} == {"fsdp"}


def test_a_model_too_large_for_one_gpu_is_sharded_and_the_bill_says_why():
    made = plan("llama-3-8b")
    assert made.chosen.strategy == "fsdp"
    reasons = [rejection.reason for rejection in made.rejected if rejection.candidate.strategy == "ddp"]
    assert reasons
    assert all("GiB of 79.1 GiB: " in reason for reason in reasons)


def test_nothing_fits_names_the_constraint_and_the_smallest_changes_that_help():
    with pytest.raises(NoFeasiblePlanError) as error:
        plan("llama-3-70b")
    assert "llama-3-70b does not fit" in error.value.message
    assert "of 79.1 GiB" in error.value.message
    (nodes,) = re.findall(r"(\d+) nodes, which share the states", error.value.hint)
    assert plan("llama-3-70b", h100_cluster(nodes=int(nodes)), pins=Pins(micro_batch=1)).chosen
    assert "--tuning lora" in error.value.hint
    assert plan("llama-3-70b", tuning="lora").chosen
    assert error.value.exit_code == ExitCode.NO_PLAN


def test_pinned_ddp_that_cannot_fit_points_to_fsdp():
    with pytest.raises(NoFeasiblePlanError) as error:
        plan("llama-3-8b", pins=Pins(strategy="ddp"))
    assert "FSDP" in error.value.hint


def test_an_indivisible_batch_gets_the_two_nearest_valid_ones():
    with pytest.raises(UsageError) as error:
        plan("gpt2", global_batch=100)
    assert "96 or 104" in error.value.hint
    with pytest.raises(UsageError) as error:
        plan("gpt2", global_batch=3)
    assert "8" in error.value.hint


def test_the_default_batch_is_the_recipes_rounded_to_the_ranks():
    assert default_workload(find_model("rigtune-mini"), cpu_cluster()).global_batch == 16
    assert default_workload(find_model("gpt2"), h100_cluster()).global_batch == 512
    assert default_workload(find_model("llama-3-8b"), h100_cluster(nodes=128)).global_batch == 1024
    assert default_workload(find_model("gpt2"), h100_cluster(ranks=7)).global_batch % 7 == 0


def test_a_measured_noise_scale_stands_beside_the_batch_and_changes_nothing():
    measured = Measurement(
        bench_id="noise-scale",
        subject="1 rank",
        metric="noise_scale_sequences",
        unit="1",
        samples=(64.0,),
        parameters={},
    )
    cluster = h100_cluster()
    own = msgspec.structs.replace(measured, parameters={"step": "train.py:make"})
    noisy = msgspec.structs.replace(cluster, noise_scale_sequences=measured_noise_scale((own, measured)))
    plain, noisy_plan = plan("gpt2", cluster), plan("gpt2", noisy)
    assert noisy_plan.chosen.global_batch == plain.chosen.global_batch == 512
    (before,), (after,) = (
        [decision for decision in made.decisions if decision.name == "global_batch"]
        for made in (plain, noisy_plan)
    )
    assert after.because.startswith(before.because)
    assert "8 times the gradient noise scale" in after.because
    assert "train.py:make" in after.because
    assert measured_noise_scale((measured,)) is None


def test_measured_loaders_advise_how_many_workers_to_start():
    def measured(workers, **parameters):
        return Measurement(
            bench_id="data-loader",
            subject="8 ranks",
            metric="recommended_workers",
            unit="1",
            samples=(workers,),
            parameters={"world_size": 8, **parameters},
        )

    here = measured_workers((measured(4.0, data_path="/mnt/photos"), measured(1.0, world_size=2)), 8)
    made = plan("gpt2", msgspec.structs.replace(h100_cluster(), data_loader_workers=here))
    (decision,) = [decision for decision in made.decisions if decision.name == "num_workers"]
    assert (decision.value, decision.basis) == ("4", "measured")
    assert "/mnt/photos" in decision.because
    assert not [
        decision for decision in plan("gpt2", h100_cluster()).decisions if decision.name == "num_workers"
    ]
    assert measured_workers((measured(1.0, world_size=2),), 8) is None


def test_a_run_of_no_given_length_is_short_on_a_cpu():
    lengths = [plan("rigtune-mini", cluster).workload.steps for cluster in (cpu_cluster(), h100_cluster())]
    assert lengths == [100, 1000]
    short = plan("rigtune-mini", cpu_cluster())
    assert short.chosen.warmup_steps == 10
    assert plan("rigtune-mini", cpu_cluster(), steps=7).workload.steps == 7


@pytest.mark.parametrize(
    ("cluster", "precision"),
    [(h100_cluster(), "bf16"), (h100_cluster(has_bf16=False), "fp32"), (cpu_cluster(), "fp32")],
)
def test_precision_follows_the_device(cluster, precision):
    assert default_workload(find_model("gpt2"), cluster).precision == precision


def test_an_unknown_gpu_gets_memory_and_no_time():
    made = plan("gpt2", h100_cluster(flops_per_s={}, peak_flops_per_s={}, memory_bandwidth_bytes_per_s=None))
    assert made.chosen.strategy == "ddp"
    assert isinstance(made.chosen.predicted.step_time_s.total, Unknown)
    assert isinstance(made.chosen.predicted.mfu, Unknown)
    assert made.chosen.predicted.memory_bytes_per_gpu.total > 0
    assert any("no step time" in warning for warning in made.warnings)


def roomy_by(margins: float) -> Cluster:
    """Return a GPU with room for llama-3.2-1b in micro-batches of 4 and for this part of the margin."""
    cluster = h100_cluster()
    workload, candidate = case(find_model("llama-3.2-1b"), micro_batch=4, grad_accum=2, sequence_length=1024)
    memory = predict_memory(workload, candidate, cluster)
    return h100_cluster(memory_bytes_per_rank=figure(memory.needed + margins * memory.margin))


PINNED = Pins(strategy="ddp", activation_checkpointing="none")


def test_a_plan_leaves_memory_free_and_states_the_worst_case():
    choices = {"global_batch": 64, "sequence_length": 1024, "pins": PINNED}
    ample, short = (plan("llama-3.2-1b", roomy_by(margins), **choices) for margins in (0.5, -0.05))
    assert (ample.chosen.micro_batch, short.chosen.micro_batch) == (4, 2)
    memory, limit = (ample.chosen.predicted.memory_bytes_per_gpu, ample.cluster.memory_bytes_per_rank)
    assert memory.upper >= memory.needed + memory.margin > memory.needed
    assert memory.needed <= 0.95 * limit.value
    shown = {decision.name: decision for decision in ample.decisions}
    assert shown["memory_headroom"].value == "5 %"
    margin = shown["memory_margin"]
    assert "9 of 10 published runs needed less than 1.2" in margin.because
    needed = f"{gib(memory.needed)} needed when memory is short"
    summed = f"{gib(memory.upper)} ({needed} + {gib(memory.margin)} for the models' error)"
    assert f"the worst case is {summed}" in margin.because
    assert margin.because.endswith("does not fit in the worst case")
    (warning,) = ample.warnings
    assert "may run out of memory: " in warning
    (wider,) = re.findall(r"--headroom ([0-9.]+)", warning)
    assert not plan("llama-3.2-1b", roomy_by(0.5), headroom=float(wider), **choices).warnings


@settings(max_examples=30, deadline=None)
@given(st.floats(0, 0.9), st.floats(4, 80))
def test_the_headroom_of_the_user_is_never_used(headroom, memory_gib):
    cluster = h100_cluster(memory_bytes_per_rank=figure(memory_gib * GIB))
    try:
        made = plan("llama-3.2-1b", cluster, global_batch=64, headroom=headroom)
    except NoFeasiblePlanError as error:
        needed = re.search(r"needs ([0-9.]+) GiB of", error.message)
        if needed and float(needed[1]) < memory_gib:
            assert "--headroom" in error.hint  # noqa: PT017
            assert "stay free" in error.message  # noqa: PT017
        return
    for choice in (made.chosen, *made.alternatives):
        assert choice.predicted.memory_bytes_per_gpu.needed <= memory_gib * GIB * (1 - headroom)
    (decision,) = [row for row in made.decisions if row.name == "memory_headroom"]
    assert decision.basis == "user"


def test_a_plan_that_fits_only_without_headroom_says_so():
    """The largest layout that fits is planned, with a warning, and never one that does not fit."""
    pins = msgspec.structs.replace(PINNED, micro_batch=4)
    choices = {"global_batch": 64, "sequence_length": 1024, "pins": pins}
    made = plan("llama-3.2-1b", roomy_by(0.1), **choices)
    assert free_of(made) == 0.0
    assert "may run out of memory" in made.warnings[0]
    with pytest.raises(NoFeasiblePlanError):
        plan("llama-3.2-1b", roomy_by(-0.1), **choices)


def test_a_cpu_has_a_bound_of_its_own_and_no_margin():
    made = plan("rigtune-mini", cpu_cluster())
    assert made.chosen.predicted.memory_bytes_per_gpu.margin == 0
    assert not [decision for decision in made.decisions if decision.name == "memory_margin"]


def test_unknown_memory_is_refused():
    with pytest.raises(NoFeasiblePlanError, match="unknown"):
        plan("gpt2", h100_cluster(memory_bytes_per_rank=None))


def test_a_thousand_gpus_are_planned_for():
    made = plan("llama-3-70b", h100_cluster(nodes=128))
    degrees = made.chosen.degrees
    assert degrees.dp * degrees.fsdp == 1024
    assert any(choice.strategy == "fsdp" for choice in (made.chosen, *made.alternatives))


@pytest.mark.parametrize("program", load_programs().values(), ids=lambda program: program.id)
@pytest.mark.parametrize("nodes", [1, 3, 128, 512])
def test_the_batch_that_rigtune_chooses_can_be_shared(program, nodes):
    cluster = h100_cluster(nodes=nodes, flops_per_s=RATES, peak_flops_per_s=RATES)
    made = make_plan(
        default_workload(find_model("llama-3.2-1b"), cluster, program=program),
        cluster,
        FACTS,
        Pins(),
        program=program,
    )
    degrees = made.chosen.degrees
    assert made.chosen.global_batch % (degrees.dp * degrees.fsdp) == 0


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


def test_more_positions_than_the_model_learned_are_warned_of():
    made = plan("gpt2", sequence_length=2048)
    assert made.workload.model.learned_positions == 2048
    assert any("gpt2 learned 1024 positions" in warning for warning in made.warnings)


def test_a_measured_step_makes_the_decision_measured():
    anchor = StepAnchor(
        model="rigtune-mini",
        strategy="ddp",
        micro_batch=8,
        grad_accum=1,
        sequence_length=256,
        precision="fp32",
        world_size=2,
        activation_checkpointing="none",
        step_time_s=0.7,
        low_s=0.68,
        high_s=0.74,
        source="test",
    )
    made = plan("rigtune-mini", cpu_cluster(anchors=(anchor,)), Pins(micro_batch=8, strategy="ddp"))
    time = made.chosen.predicted.step_time_s
    assert time.total == pytest.approx(0.7)
    assert time.low <= 0.68
    assert time.high >= 0.74
    other = plan("rigtune-mini", cpu_cluster(anchors=(anchor,)), Pins(micro_batch=4))
    assert other.chosen.predicted.step_time_s.total == pytest.approx(0.7, rel=0.1)
    width = other.chosen.predicted.step_time_s
    assert width.high / width.low > time.high / time.low
