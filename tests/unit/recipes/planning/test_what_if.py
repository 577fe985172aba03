"""Scaling curves, the effect of hardware numbers, and comparisons of machines."""

from __future__ import annotations

import pytest

from probes.base.errors import NoFeasiblePlanError
from probes.base.record import Unknown
from probes.facts import MachineFacts
from recipes.job.models.names import find_model
from recipes.job.pins import Pins
from recipes.machine.cluster_records import AttentionRate, Cluster
from recipes.planning.plan import Plan
from recipes.planning.planner import default_workload, make_plan
from recipes.planning.what_if import (
    FEWER,
    KNOBS,
    NETWORK,
    Variation,
    answer,
    comparison,
    scaling_curve,
    sensitivity,
)
from tests.support.clusters import h100_cluster
from tests.support.what_if import refused_answer, timed_answer


def plan_with(cluster: Cluster, model: str = "llama-3-8b") -> object:
    def planned(change: Variation) -> Plan:
        changed = change(cluster)
        return make_plan(default_workload(find_model(model), changed), changed, MachineFacts(), Pins())

    return planned


def curve(*speeds: tuple[int, float]):
    return scaling_curve((gpus // 8, timed_answer(gpus, speed)) for gpus, speed in speeds)


def test_efficiency_is_relative_to_the_first_size() -> None:
    points = curve((8, 100.0), (16, 180.0), (32, 240.0)).points
    assert [point.efficiency for point in points] == pytest.approx([1.0, 0.9, 0.6])
    assert [point.marginal_efficiency for point in points] == pytest.approx([1.0, 0.8, 0.3])


def test_more_nodes_stop_paying_below_the_threshold() -> None:
    result = curve((8, 100.0), (16, 180.0), (32, 240.0), (64, 480.0))
    assert (result.threshold, result.pays_until_nodes, result.stops_at_nodes) == (0.5, 2, 4)


def test_all_sizes_pay() -> None:
    assert curve((8, 100.0), (16, 199.0)).stops_at_nodes is None


def test_size_that_leaves_gpus_idle_does_not_pay() -> None:
    rows = [(64, timed_answer(512, 3e6)), (128, timed_answer(512, 3e6))]
    result = scaling_curve(rows)
    assert [point.nodes for point in result.points] == [64, 128]
    assert (result.pays_until_nodes, result.stops_at_nodes) == (64, 128)


def test_first_size_that_fits_is_the_reference() -> None:
    result = scaling_curve([(1, refused_answer("1 node", "too small")), (2, timed_answer(16, 50.0))])
    assert isinstance(result.points[0].efficiency, Unknown)
    assert result.points[1].efficiency == 1.0
    assert result.pays_until_nodes == 2


def test_a_curve_without_a_plan_has_no_size_at_which_it_stops_paying() -> None:
    result = scaling_curve([(1, refused_answer("1 node", "too small"))])
    assert (result.pays_until_nodes, result.stops_at_nodes) == (None, None)


def test_variant_without_a_plan_keeps_its_reason() -> None:
    def fails() -> Plan:
        raise NoFeasiblePlanError("needs 91 GiB of 79 GiB", "more nodes")

    row = answer("1 node", fails)
    assert (row.layout, row.reason) == ("", "needs 91 GiB of 79 GiB")
    assert isinstance(row.tokens_per_s, Unknown)


@pytest.mark.parametrize("measured", [False, True])
@pytest.mark.parametrize("knob", KNOBS, ids=lambda knob: knob.name)
def test_more_of_a_number_never_slows_the_job(knob, measured: bool) -> None:
    rates = tuple(
        AttentionRate(
            precision="bf16", backward=backward, sequence_length=8192, head_dim=128, flops_per_s=4e14
        )
        for backward in (False, True)
    )
    cluster = h100_cluster(nodes=2, attention_rates=rates if measured else ())
    planned = plan_with(cluster)
    base, more = (answer("", lambda f=f: planned(lambda c: knob.scaled(c, f))) for f in (1.0, 2.0))
    assert more.tokens_per_s >= base.tokens_per_s * (1 - 1e-9)
    if knob.name not in ("memory size",):
        assert more.tokens_per_s > base.tokens_per_s


def test_every_hardware_number_is_examined_and_the_best_is_named() -> None:
    result = sensitivity(plan_with(h100_cluster(nodes=2)))
    assert [change.name for change in result.changes] == [*(knob.name for knob in KNOBS), FEWER]
    gains = {change.name: change.twice_gain for change in result.changes if change.twice is not None}
    assert gains[result.best_change] == max(gains.values()) == result.best_gain
    assert result.best_other_change not in ("matrix rate", "attention rate")
    fewer = result.changes[-1]
    assert fewer.more.gpus == 14
    assert fewer.gain < 0


def test_one_node_has_no_network_to_change() -> None:
    result = sensitivity(plan_with(h100_cluster()))
    assert NETWORK not in [change.name for change in result.changes]


def test_job_that_does_not_fit_names_the_change_with_which_it_fits() -> None:
    result = sensitivity(plan_with(h100_cluster(nodes=2), "llama-3-70b"))
    assert result.base.layout == ""
    assert result.best_change == "memory size"
    assert isinstance(result.best_gain, Unknown)


def test_machines_are_compared_with_the_first() -> None:
    result = comparison((timed_answer(8, 100.0), timed_answer(8, 150.0), refused_answer("small", "no")))
    assert result.speed[:2] == (1.0, 1.5)
    assert isinstance(result.speed[2], Unknown)
