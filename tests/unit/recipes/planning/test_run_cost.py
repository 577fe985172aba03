"""A run's hours, GPU hours, price, and what failures are expected to lose."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from probes.base.errors import UsageError
from probes.base.record import Reason, Unknown
from recipes.job.models.names import find_model
from recipes.planning.planner import default_workload
from recipes.planning.run_cost import failures_and_loss, run_cost
from recipes.settings.checkpointing import Checkpoints
from tests.support.clusters import cpu_cluster, h100_cluster

MODEL = find_model("llama-3-8b")
_UNKNOWN = Unknown(Reason.NOT_RECORDED, "not measured")


def test_hours_gpu_hours_and_price_follow_from_the_step() -> None:
    cluster = h100_cluster(nodes=2)
    workload = default_workload(MODEL, cluster, steps=3600)
    cost = run_cost(workload, cluster, 2.0, price=3.0)
    assert (cost.steps, cost.samples) == (3600, 3600 * workload.global_batch)
    assert cost.tokens == cost.samples * workload.sequence_length
    assert (cost.hours, cost.gpu_hours) == (2.0, 32.0)
    assert cost.cost == pytest.approx(32.0 * 3.0, rel=1e-3)
    assert cost.cost > 32.0 * 3.0


@pytest.mark.parametrize(
    ("length", "steps"), [({"tokens": 4096 * 10 + 1}, 11), ({"samples": 21}, 11), ({"steps": 7}, 7)]
)
def test_tokens_and_samples_become_whole_steps(length: dict[str, int], steps: int) -> None:
    cluster = h100_cluster(ranks=2)
    workload = default_workload(MODEL, cluster, global_batch=2, sequence_length=2048, **length)
    assert workload.steps == steps


def test_two_lengths_are_refused() -> None:
    with pytest.raises(UsageError, match="tokens and samples both"):
        default_workload(MODEL, h100_cluster(), tokens=10**9, samples=10**6)


def test_published_interruptions_and_effective_time_follow() -> None:
    """Llama 3 405B: 419 interruptions in 54 days of 16 384 GPUs, over 90 % effective time (section 3.3.4)."""
    cluster = h100_cluster(nodes=2048)
    steps = 54 * 24 * 3600 // 10
    cost = run_cost(default_workload(MODEL, cluster, global_batch=16384, steps=steps), cluster, 10.0)
    assert cost.interruptions == pytest.approx(419, rel=0.01)
    assert isinstance(cost.lost_share, float)
    assert 0.90 < 1 - cost.lost_share < 0.95


def test_unknown_step_time_gives_no_guess() -> None:
    cluster = h100_cluster()
    missing = Unknown(Reason.NOT_RECORDED, "no rate")
    cost = run_cost(default_workload(MODEL, cluster), cluster, missing, price=2.0)
    assert cost.hours == cost.gpu_hours == cost.interruptions == cost.lost_hours == cost.cost == missing


def test_ranks_of_a_cpu_have_no_failure_rate() -> None:
    cluster = cpu_cluster()
    cost = run_cost(default_workload(find_model("smollm-135m"), cluster, global_batch=2), cluster, 1.0)
    assert (cost.interruptions, cost.lost_hours, cost.cost) == (0.0, 0.0, None)


def test_loss_grows_with_the_gpus() -> None:
    losses = [failures_and_loss(h100_cluster(nodes=nodes), None)[1] for nodes in (256, 128)]
    assert losses[0] == pytest.approx(2 * losses[1])


_CHECKPOINTS = Checkpoints(bytes=1e12, write_s=30.0, mtbf_s=7200.0, interval_s=600.0, every_steps=60)


@pytest.mark.parametrize(
    ("checkpoints", "rate", "lost"),
    [
        # An interruption loses half an interval and 600 s of restart; each interval loses 30 s of writing.
        (_CHECKPOINTS, 0.5, 0.5 * (300 + 600) / 3600 + 0.05),
        # Without an interval of its own, the run is assumed to write a checkpoint every 900 s.
        (replace(_CHECKPOINTS, interval_s=_UNKNOWN), 0.5, 0.5 * (450 + 600) / 3600),
        (replace(_CHECKPOINTS, write_s=_UNKNOWN), 0.5, 0.5 * (450 + 600) / 3600),
        # 16 GPUs with the published rate of one interruption in 50 700 GPU hours.
        (replace(_CHECKPOINTS, mtbf_s=_UNKNOWN), 16 * 1.973e-5, 16 * 1.973e-5 * (450 + 600) / 3600),
        (None, 16 * 1.973e-5, 16 * 1.973e-5 * (450 + 600) / 3600),
    ],
)
def test_losses_follow_from_the_checkpoints(
    checkpoints: Checkpoints | None, rate: float, lost: float
) -> None:
    cluster = h100_cluster(nodes=2)
    assert failures_and_loss(cluster, checkpoints) == (pytest.approx(rate), pytest.approx(lost))
    workload = default_workload(MODEL, cluster, steps=3600)
    cost = run_cost(workload, cluster, 2.0, price=3.0, checkpoints=checkpoints)
    assert (cost.interruptions, cost.lost_hours) == (pytest.approx(2 * rate), pytest.approx(2 * lost))
    assert cost.lost_share == pytest.approx(lost / (1 + lost))
    assert cost.cost == pytest.approx(32 * 3 * (1 + lost))
