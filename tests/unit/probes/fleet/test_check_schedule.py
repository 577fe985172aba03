"""Test the costs of checks and the losses by slow parts; the expected figures are calculated by hand."""

from __future__ import annotations

import msgspec
import pytest

from probes.fleet.check_schedule import (
    Site,
    best_interval_h,
    load_check_kinds,
    payoff,
    payoff_without_check,
)

KINDS = {kind.id: kind for kind in load_check_kinds()}


@pytest.mark.parametrize(
    ("nodes", "nothing", "passive", "daily", "weekly_burn_in"),
    [
        (16, 17, 16, (33, 4), (71, 17)),
        (128, 138, 124, (33, 35), (71, 138)),
        (1024, 1106, 995, (33, 276), (71, 1106)),
    ],
)
def test_node_hours_per_thousand_node_days(nodes, nothing, passive, daily, weekly_burn_in):
    site = Site(job_nodes=nodes)
    assert payoff_without_check(site).total == pytest.approx(nothing, abs=0.5)
    silent = payoff(KINDS["passive"], 1 / 12, site)
    assert (silent.check_cost, silent.remaining_loss) == (0, pytest.approx(passive, rel=0.03))
    quick = payoff(KINDS["quick"], 24, site)
    assert (quick.check_cost, quick.remaining_loss) == pytest.approx(daily, rel=0.1)
    burn_in = payoff(KINDS["burn-in"], 168, site)
    assert (burn_in.check_cost, burn_in.remaining_loss) == pytest.approx(weekly_burn_in, rel=0.03)


@pytest.mark.parametrize(("nodes", "quick", "burn_in"), [(16, 82, 316), (128, 29, 112), (1024, 10, 40)])
def test_the_best_interval_has_the_smallest_cost(nodes, quick, burn_in):
    site = Site(job_nodes=nodes)
    assert best_interval_h(KINDS["quick"], site) == pytest.approx(quick, rel=0.08)
    assert best_interval_h(KINDS["burn-in"], site) == pytest.approx(burn_in, rel=0.06)
    patient = msgspec.structs.replace(site, by_hand_h=1e6)
    for kind in (KINDS["quick"], KINDS["burn-in"]):
        best = best_interval_h(kind, patient)
        costs = [payoff(kind, best * factor, patient).total for factor in (0.8, 1.0, 1.25)]
        assert min(costs) == costs[1]


def test_without_slow_parts_no_check_pays():
    site = Site(slow_per_1000_node_days=0.0)
    assert best_interval_h(KINDS["quick"], site) == float("inf")
    assert payoff_without_check(site).total == 0
