"""Promises of a plan: it fits, keeps the global batch, and gives a reason for every choice."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.base.errors import NoFeasiblePlanError, UsageError
from probes.base.record import Unknown
from probes.base.units import GIB
from probes.facts.measurements import Measurement
from recipes.job.models.counts import load_models
from recipes.job.models.names import find_model
from recipes.job.pins import Pins
from recipes.machine.cluster_records import StepAnchor
from recipes.machine.measured_rates import measured_noise_scale, measured_workers
from recipes.planning.plan import Plan
from recipes.planning.planner import default_workload, make_plan
from recipes.planning.programs import load_programs
from tests.support.clusters import cpu_cluster, figure, h100_cluster
from tests.support.plans import FACTS, RATES, free_of, plan


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
        return  # other tests cover the text of this error
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


def test_a_measured_noise_scale_is_shown_with_the_batch_and_changes_no_decision():
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
    (usual,) = [each for each in plan("gpt2", h100_cluster()).decisions if each.name == "num_workers"]
    assert (usual.value, usual.basis) == ("2", "rule")
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


def _why_precision(made: Plan) -> str:
    return next(row.because for row in made.decisions if row.name == "precision")


def test_the_reason_of_a_precision_names_the_format_or_the_program():
    assert _why_precision(plan("gpt2", precision="fp16")) == "fp16, as asked for"
    horovod = load_programs()["horovod"]
    workload = default_workload(find_model("gpt2"), h100_cluster(), program=horovod)
    made = make_plan(workload, h100_cluster(), FACTS, Pins(), program=horovod)
    assert made.workload.precision == "fp32"
    assert _why_precision(made) == "Horovod does not train in bf16"
