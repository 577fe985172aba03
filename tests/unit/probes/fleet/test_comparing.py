"""Test the limits of the comparison of nodes on small groups whose median and deviation are plain to see."""

from __future__ import annotations

import math

import pytest

from probes.fleet.comparing.common_causes import common_causes
from probes.fleet.comparing.compare_nodes import compare_nodes
from probes.fleet.comparing.past import slower_than_before
from probes.fleet.comparing.peers import can_judge, slow_parts, two_humps
from probes.fleet.comparing.series import Series, Value, series_of, spread_of
from probes.fleet.node_report import Metric, NodeReport

SPREAD = (99.0,) * 7 + (100.0,) * 3 + (101.0,) * 7
"""The median is 100 and the median deviation 1, also with one slow part: a deviation is 1.4826."""
NARROW = (100.0,) * 17
"""Equal parts: the deviation is the smallest one, 0.2 % of the median."""


def series(*values: float, samples: dict[int, tuple[float, ...]] | None = None) -> Series:
    given = samples or {}
    return Series(
        "rate",
        ("H100",),
        tuple(
            Value(f"n{number}", f"GPU-{number}", "GPU0", value, given.get(number, (value,)))
            for number, value in enumerate(values)
        ),
    )


def kinds(findings) -> list[tuple[str, str]]:
    return [(finding.kind, finding.subject) for finding in findings]


@pytest.mark.parametrize(
    ("peers", "value", "kind"),
    [
        # 5 and 3.5 deviations of 1.4826 below 100 are 92.6 and 94.8.
        (SPREAD, 92.5, "slow-part"),
        (SPREAD, 92.7, "suspect-part"),
        (SPREAD, 94.7, "suspect-part"),
        (SPREAD, 94.9, None),
        (SPREAD, 110.0, None),
        (NARROW, 96.9, "slow-part"),
        (NARROW, 97.1, None),
    ],
)
def test_a_part_is_slow_beyond_both_limits(peers: tuple[float, ...], value: float, kind: str | None) -> None:
    findings = list(slow_parts(series(value, *peers)))
    assert kinds(findings) == ([(kind, "n0 GPU0")] if kind else [])
    for finding in findings:
        assert finding.change == pytest.approx(value / 100 - 1)
        assert finding.deviations == pytest.approx((value - 100) / (1.4826 if peers is SPREAD else 0.2))
        assert ("measure it again" in finding.summary) is (kind == "suspect-part")


def test_a_slow_part_is_described_by_its_share() -> None:
    (finding,) = slow_parts(series(90.0, *NARROW))
    assert finding.summary == "n0 GPU0 is 10 % slower than the median of 18 peers"


def test_sixteen_parts_are_enough_peers() -> None:
    few = series(*NARROW[:15])
    (finding,) = slow_parts(few)
    assert (finding.kind, len(finding.nodes)) == ("few-peers", 15)
    assert list(slow_parts(series(*NARROW[:16]))) == []
    assert (can_judge(few), can_judge(series(*NARROW[:16]))) == (False, True)


def test_parts_without_a_rate_have_no_peers() -> None:
    idle = series(*(0.0,) * 17, 5.0)
    assert list(slow_parts(idle)) == []
    assert not can_judge(idle)


@pytest.mark.parametrize(
    ("low", "high", "share"),
    [
        ((90.0,) * 8, (100.0,) * 8, 0.1),
        ((95.1,) * 8, (100.0,) * 8, None),
        ((94.9,) * 8, (100.0,) * 8, 0.051),
        # A hump is a tenth of the parts.
        ((90.0,) * 2, (100.0,) * 18, 0.1),
        ((90.0,) * 2, (100.0,) * 19, None),
        # The humps must be 4 deviations of both apart, here 5.9 and 11.9.
        ((89.5, 90.5) * 4, (99.5, 100.5) * 4, 0.1),
        ((89.0, 91.0) * 4, (99.0, 101.0) * 4, None),
    ],
)
def test_two_kinds_of_parts_are_two_humps(
    low: tuple[float, ...], high: tuple[float, ...], share: float | None
) -> None:
    values = (*low, *high)
    findings = list(two_humps(series(*values), values))
    if share is None:
        assert findings == []
        return
    (finding,) = findings
    assert finding.change == pytest.approx(-share)
    assert finding.nodes == tuple(f"n{number}" for number in range(len(low)))
    assert not can_judge(series(*values))


@pytest.mark.parametrize(
    ("samples", "area"),
    [
        ((100.0, 100.0, 100.0, 60.0, 70.0), 0.14),
        ((100.0, 100.0, 100.0, 100.0, 74.0), 0.052),
        ((100.0, 100.0, 100.0, 100.0, 76.0), None),
        ((100.0, 100.0, 60.0, 100.0), None),  # too few samples
    ],
)
def test_a_part_can_be_slow_in_bursts(samples: tuple[float, ...], area: float | None) -> None:
    steady = dict.fromkeys(range(1, 18), (100.0,) * 5)
    findings = list(slow_parts(series(100.0, *NARROW, samples={0: samples, **steady})))
    assert kinds(findings) == ([("bursts", "n0 GPU0")] if area else [])
    for finding in findings:
        assert finding.change == pytest.approx(-area)


@pytest.mark.parametrize(
    ("runs", "value", "is_slower"), [(3, 98.4, True), (3, 98.6, False), (2, 90.0, False), (3, 103.0, False)]
)
def test_a_part_is_compared_with_three_earlier_runs(runs: int, value: float, is_slower: bool) -> None:
    past = {("rate", f"GPU-{number}"): (100.0,) * runs for number in range(3)}
    findings = list(slower_than_before(series(value, 100.0, 100.0), past))
    assert kinds(findings) == ([("slower-than-before", "n0 GPU0")] if is_slower else [])
    for finding in findings:
        assert finding.deviations == pytest.approx((value / 100 - 1) / 0.002)
        assert finding.summary == "n0 GPU0 is 1.6 % slower than in 3 earlier runs"


@pytest.mark.parametrize(
    ("parts", "change", "kind"), [(16, 0.988, True), (16, 0.992, False), (15, 0.98, False)]
)
def test_a_group_that_became_slower_is_one_finding(parts: int, change: float, kind: bool) -> None:
    past = {("rate", f"GPU-{number}"): (100.0,) * 3 for number in range(parts)}
    findings = list(slower_than_before(series(*(100.0 * change,) * parts), past))
    assert [finding.kind for finding in findings if finding.kind == "common-mode"] == ["common-mode"] * kind
    # Fewer parts than peers are judged one by one.
    assert len(findings) == (parts if parts == 15 else int(kind))


def test_the_change_of_the_group_is_subtracted() -> None:
    past = {("rate", f"GPU-{number}"): (100.0,) * 3 for number in range(17)} | {
        ("rate", "GPU-17"): (0.0,) * 3
    }
    findings = list(slower_than_before(series(95.0, *(98.0,) * 16, 50.0), past))
    assert kinds(findings) == [("common-mode", "H100"), ("slower-than-before", "n0 GPU0")]
    assert findings[0].summary.startswith("the median of 17 parts became 2 % slower")
    assert findings[1].change == pytest.approx(-0.03)
    assert findings[1].summary.endswith("3 earlier runs, beside the change of its group of -2 %")


@pytest.mark.parametrize(
    ("slow", "others", "change", "deviations"),
    [
        # Standard error of the median of n nodes: 0.002 x sqrt(pi / 2) / sqrt(n).
        (4, 12, -0.02, -15.96),
        (4, 12, -0.0064, -5.107),
        (4, 12, -0.0062, None),  # 4.95 standard errors
        (6, 30, -0.0051, None),
        (2, 6, -0.02, -11.28),
        (2, 5, -0.02, None),  # too few units
        (4, 12, 0.02, None),
    ],
)
def test_slow_nodes_of_one_switch_are_named_together(
    slow: int, others: int, change: float, deviations: float | None
) -> None:
    values = series(*(100.0 * (1 + change),) * slow, *(100.0,) * others)
    attributes = {f"n{number}": {"switch": "a" if number < slow else "b"} for number in range(slow + others)}
    findings = list(common_causes(values, attributes))
    if deviations is None:
        assert findings == []
        return
    (finding,) = findings
    assert (finding.subject, len(finding.nodes)) == ("switch = a", slow)
    assert finding.change == pytest.approx(change)
    assert finding.deviations == pytest.approx(deviations, rel=1e-3)


@pytest.mark.parametrize(("racks", "is_named"), [(8, True), (7, False)])
def test_a_rack_is_one_unit(racks: int, is_named: bool) -> None:
    """All nodes of a rack count once: 2 % are 8 standard errors of one rack."""
    values = series(*(98.0 if number // 4 == 3 else 100.0 for number in range(4 * racks)))
    attributes = {f"n{number}": {"rack": f"r{number // 4}"} for number in range(4 * racks)}
    findings = list(common_causes(values, attributes))
    assert [finding.subject for finding in findings] == (["rack = r3"] if is_named else [])
    for finding in findings:
        assert finding.deviations == pytest.approx(-0.02 / (0.002 * math.sqrt(math.pi / 2)))
        assert finding.summary == "the 4 nodes with rack r3 are 2 % slower than the others"


def test_an_image_that_is_in_every_rack_is_compared_within_the_racks() -> None:
    values = series(*(98.0 if number % 4 == 0 else 100.0 for number in range(16)))
    attributes = {
        f"n{number}": {"rack": f"r{number // 4}", "image": "new" if number % 4 == 0 else "old"}
        for number in range(16)
    }
    (finding,) = common_causes(values, attributes)
    assert (finding.subject, len(finding.nodes)) == ("image = new", 4)
    assert finding.deviations == pytest.approx(-0.02 / (0.002 * math.sqrt(math.pi / 2) / 2))


def test_attributes_that_define_the_group_are_no_cause() -> None:
    values = series(*(98.0,) * 4, *(100.0,) * 12)
    assert not list(
        common_causes(values, {f"n{number}": {"driver": str(number < 4)} for number in range(16)})
    )
    assert not list(common_causes(series(*(0.0,) * 16), {}))


def test_a_time_is_compared_as_a_rate() -> None:
    metric = Metric(
        part_kind="gpu", part_id="GPU-0", slot="GPU0", metric="time", unit="s", samples=(0.5, 0.25, 0.0),
        is_larger_better=False,
    )  # fmt: skip
    (made,) = series_of([NodeReport(node="n0", outcome="ok", metrics=(metric,))])
    assert (made.values[0].samples, made.values[0].value) == ((2.0, 4.0), 3.0)
    assert made.group_words == "all nodes"


def test_the_spread_is_the_median_deviation_but_never_nothing() -> None:
    assert spread_of([1.0, 2.0, 4.0]) == (2.0, pytest.approx(1.4826))
    assert spread_of([-50.0] * 3) == (-50.0, pytest.approx(0.1))
    assert spread_of([50.0] * 3, 1.0) == (50.0, 0.002)
    assert spread_of([0.0] * 3) == (0.0, 1e-30)
    assert spread_of([1.0, 2.0, 4.0]).deviations(2.0 - 1.4826) == pytest.approx(-1)


@pytest.mark.parametrize(("others", "kind"), [(5, "minority"), (6, "mixed")])
def test_a_minority_is_at_most_a_twentieth(others: int, kind: str) -> None:
    reports = [
        NodeReport(
            node=f"n{number}",
            outcome="ok",
            verdict="PASS",
            attributes={"bios": "new" if number < others else "old"},
        )
        for number in range(100)
    ]
    (finding,) = compare_nodes(reports)
    assert (finding.kind, len(finding.nodes)) == (kind, others)
    if kind == "mixed":
        assert finding.summary == "bios is mixed (old 94 %, new 6 %): a roll-out, or two generations"
    else:
        assert finding.summary == "5 nodes with bios new, and 95 with old"
