"""Promises of a plan: it fits, keeps the global batch and the pins, and gives a reason for every choice."""

from __future__ import annotations

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
from recipes.job.workload import PLANNED_PRECISIONS, Pins
from recipes.machine.cluster_records import Cluster, StepAnchor
from recipes.machine.measured_rates import measured_noise_scale, measured_workers
from recipes.planning.plan import Plan
from recipes.planning.planner import default_workload, make_plan
from recipes.predict.candidate_prediction import predict_memory
from tests.support.clusters import case, cpu_cluster, figure, h100_cluster

FACTS = MachineFacts()


def plan(model_id: str, cluster=None, pins: Pins | None = None, **choices) -> Plan:
    cluster = cluster or h100_cluster()
    return make_plan(
        default_workload(find_model(model_id), cluster, **choices), cluster, FACTS, pins or Pins()
    )


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
        assert choice.predicted.memory_bytes_per_gpu.upper <= memory_gib * GIB
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
    st.sampled_from([None, "ddp", "fsdp"]),
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


def test_only_what_the_reference_workload_can_do_is_offered():
    made = plan("llama-3.2-3b")
    offered = [made.chosen, *made.alternatives, *(rejection.candidate for rejection in made.rejected)]
    assert {candidate.activation_checkpointing for candidate in offered} == {"none", "full"}
    assert {candidate.precision for candidate in offered} <= set(PLANNED_PRECISIONS)


def test_a_small_model_stays_with_ddp():
    made = plan("gpt2")
    assert made.chosen.strategy == "ddp"
    assert made.chosen.activation_checkpointing == "none"
    assert {choice.strategy for choice in made.alternatives} == {"ddp", "fsdp"}


def test_a_model_too_large_for_one_gpu_is_sharded_and_the_bill_says_why():
    made = plan("llama-3-8b")
    assert made.chosen.strategy == "fsdp"
    reasons = [rejection.reason for rejection in made.rejected if rejection.candidate.strategy == "ddp"]
    assert len(reasons) == 2
    assert all("GiB of 79.1 GiB: " in reason for reason in reasons)


def test_nothing_fits_names_the_constraint_and_a_way_out():
    with pytest.raises(NoFeasiblePlanError) as error:
        plan("llama-3-70b")
    assert "llama-3-70b does not fit" in error.value.message
    assert "of 79.1 GiB" in error.value.message
    assert "more nodes" in error.value.hint
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


def test_a_plan_keeps_a_margin_for_the_models_own_error():
    choices = {"global_batch": 64, "sequence_length": 1024, "pins": PINNED}
    ample, short = (plan("llama-3.2-1b", roomy_by(margins), **choices) for margins in (1.01, 0.5))
    assert (ample.chosen.micro_batch, short.chosen.micro_batch) == (4, 2)
    memory = short.chosen.predicted.memory_bytes_per_gpu
    assert memory.upper >= memory.needed + memory.margin > memory.needed
    (shown,) = [decision for decision in short.decisions if decision.name == "memory_margin"]
    assert "9 of 10 published runs needed less than 1.2" in shown.because
    needed = f"{gib(memory.needed)} needed when memory is short"
    summed = f"{gib(memory.upper)} ({needed} + {gib(memory.margin)} for the models' error)"
    assert shown.because.endswith(f"the worst case is {summed}")
    (reason,) = [rejection.reason for rejection in short.rejected if rejection.candidate.micro_batch == 4]
    assert reason.startswith("fits, but not in the worst case of ")
    assert "the models' error" in reason


def test_a_fixed_micro_batch_needs_no_margin_and_is_warned_of():
    choices = {
        "global_batch": 64,
        "sequence_length": 1024,
        "pins": msgspec.structs.replace(PINNED, micro_batch=4),
    }
    (warning,) = plan("llama-3.2-1b", roomy_by(0.5), **choices).warnings
    assert "the fixed micro-batch may run out of memory" in warning
    assert not plan("llama-3.2-1b", roomy_by(1.01), **choices).warnings
    with pytest.raises(NoFeasiblePlanError):
        plan("llama-3.2-1b", roomy_by(-0.1), **choices)


def test_where_the_margin_alone_is_too_much_the_way_out_is_to_fix_the_micro_batch():
    cluster = h100_cluster()
    memory = predict_memory(*case(find_model("llama-3.2-1b"), grad_accum=8), cluster)
    short = h100_cluster(memory_bytes_per_rank=figure(memory.needed + memory.margin / 2))
    with pytest.raises(NoFeasiblePlanError) as error:
        plan("llama-3.2-1b", short, pins=PINNED, global_batch=64)
    assert "pin micro-batch 1" in error.value.hint


def test_a_cpu_has_a_bound_of_its_own_and_no_margin():
    made = plan("rigtune-mini", cpu_cluster())
    assert made.chosen.predicted.memory_bytes_per_gpu.margin == 0
    assert not [decision for decision in made.decisions if decision.name == "memory_margin"]


def test_unknown_memory_is_refused():
    with pytest.raises(NoFeasiblePlanError, match="unknown"):
        plan("gpt2", h100_cluster(memory_bytes_per_rank=None))


def test_a_thousand_gpus_are_planned_for():
    made = plan("llama-3-70b", h100_cluster(nodes=128))
    assert made.chosen.degrees.fsdp == 1024


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
        {"sequence_length": 2048},
        {"global_batch": -8},
        {"steps": 0},
        {"precision": "fp8"},
    ],
)
def test_impossible_sizes_are_named(choices):
    with pytest.raises(UsageError):
        plan("gpt2", **choices)


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
