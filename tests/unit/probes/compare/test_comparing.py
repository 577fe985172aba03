"""Test the comparisons of measurements with references, peers and earlier runs."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant.usecases.check import judge_measurements
from probes.compare.comparing import (
    beside_baselines,
    beside_peers,
    beside_references,
    comparisons,
    judged_cases,
    share_of,
    worse,
)
from probes.facts.measurements import Baseline, Measurement, MeasurementSet
from probes.judging.findings import Evidence, Status
from probes.judging.policies.file import load_policy, thresholds_under
from tests.support.machines import CATALOGUE, evidence_of, h100_node
from tests.support.measured import collective, copies, earlier, gemm, host_copies, measured, scattered

WIDE = (0.1, 0.2, 1.0, 1.0, 3.0, 4.0)
"""Samples with a `Measurement.spread` of 181 %, as multiples of the median."""


def evidence(*measurements: Measurement, baselines: tuple[Baseline, ...] = ()) -> Evidence:
    return msgspec.structs.replace(evidence_of(h100_node()), measurements=measurements, baselines=baselines)


@given(st.floats(1e-6, 1e12), st.floats(1e-6, 1e12))
def test_a_share_is_the_same_for_a_rate_and_for_its_time(entry: float, other: float) -> None:
    assert share_of(entry, other, "low") == pytest.approx(share_of(1 / entry, 1 / other, "high"))
    assert share_of(entry, entry, "low") == share_of(entry, entry, "high") == 1.0


def test_which_side_is_bad() -> None:
    assert worse(gemm(1.0)[0]) == "low"
    assert worse(measured("train-step", "step_time_s", "8 ranks", 1.0)) == "high"
    assert worse(measured("train-step", "peak_memory_bytes", "8 ranks", 1.0)) == "high"
    assert worse(measured("noise-scale", "noise_scale_sequences", "8 ranks", 1.0)) is None


def test_the_best_case_of_a_sweep_is_judged() -> None:
    (beside,) = beside_references(evidence(*collective((512, 440.0), (1024, 465.0))))
    assert beside.measured.parameters["bytes"] == 1024 * 2**20
    assert beside.status is Status.PASS
    assert 0.9 < beside.share < 1.1


def test_a_rate_of_a_ring_warns_where_nvls_is_expected() -> None:
    (beside,) = beside_references(evidence(*collective((1024, 345.0))))
    assert (beside.status, beside.uses_fallback) == (Status.WARN, True)
    assert "ring" in beside.compared.words
    assert "NVLS" in beside.reference.words


def test_a_policy_moves_the_limits() -> None:
    policy = load_policy(
        "[thresholds]\nmeasured_fail_fraction = 0.5\nmeasured_warn_fraction = 0.6\n", "site.toml", CATALOGUE
    )
    half = evidence(*gemm(450.0))
    moved = msgspec.structs.replace(half, thresholds=thresholds_under(policy))
    assert [entry.status for entry in beside_references(half)] == [Status.FAIL]
    assert [entry.status for entry in beside_references(moved)] == [Status.PASS]


def test_peers_are_of_one_kind_and_one_case() -> None:
    both = [*gemm(700.0, 701.0, 400.0), *copies(2500.0, 2501.0, 2502.0)]
    groups = list(beside_peers(evidence(*both)))
    assert [len(group.members) for group in groups] == [3, 3]
    assert [group.slow for group in groups] == [("GPU2",), ()]
    other = [
        msgspec.structs.replace(entry, conditions={"device_name": "another model"}) for entry in gemm(700.0)
    ]
    assert list(beside_peers(evidence(*gemm(300.0), *other))) == []


def test_only_equal_parameters_compare_with_an_earlier_run() -> None:
    now = gemm(650.0)
    same = list(beside_baselines(evidence(*now, baselines=earlier("previous", gemm(720.0)))))
    assert [round(entry.share, 2) for entry in same] == [0.9]
    assert same[0].status is Status.WARN
    low, high = same[0].interval or (0.0, 0.0)
    assert low < same[0].share < high < 1.0
    assert not list(beside_baselines(evidence(*now, baselines=earlier("previous", gemm(720.0, size=4096)))))
    times = measured("train-step", "step_time_s", "8 ranks", 0.2)
    (slower,) = beside_baselines(
        evidence(times, baselines=earlier("pinned", measured("train-step", "step_time_s", "8 ranks", 0.1)))
    )
    assert (slower.share, slower.status) == (pytest.approx(0.5), Status.FAIL)


def test_a_single_sample_proves_no_change() -> None:
    now, then = (measured("memory-test", "sustained_bytes", "GPU0", value) for value in (2.0, 1.0))
    lone = msgspec.structs.replace(now, samples=(2.0,))
    before = msgspec.structs.replace(then, samples=(1.0,))
    (results,) = beside_baselines(evidence(lone, baselines=earlier("previous", before)))
    assert (results.share, results.status) == (0.5, Status.UNKNOWN)


@pytest.mark.parametrize("median", [300.0, 720.0, 790.0])
def test_measurements_that_scatter_too_much_are_not_judged(median: float) -> None:
    now, then = [scattered(entry, WIDE) for entry in gemm(median, 720.0, 720.0)], gemm(720.0, 720.0, 720.0)
    results = list(comparisons(evidence(*now, baselines=earlier("previous", then))))
    assert {entry.to for entry in results} == {"reference", "peers", "previous"}
    assert {entry.status for entry in results} == {Status.UNKNOWN}
    findings = judge_measurements(
        evidence().facts, MeasurementSet(measurements=tuple(now)), earlier("previous", then)
    ).findings
    assert not {Status.FAIL, Status.WARN} & {finding.status for finding in findings}
    unknown = {finding.check_id for finding in findings if finding.status is Status.UNKNOWN}
    assert {"measured-gemm", "equal-devices", "measured-baseline"} <= unknown


def test_a_part_whose_fastest_samples_are_too_slow_fails_however_they_scatter() -> None:
    slow = scattered(gemm(100.0)[0], (0.1, 0.5, 1.0, 1.0, 1.9, 2.0))
    assert [entry.status for entry in beside_references(evidence(slow))] == [Status.FAIL]


def test_a_difference_that_may_be_chance_is_neither_slower_nor_as_fast() -> None:
    now = scattered(gemm(650.0)[0], (0.7, 0.8, 1.0, 1.0, 1.2, 1.3))
    (result,) = beside_baselines(evidence(now, baselines=earlier("previous", gemm(720.0))))
    assert result.status is Status.UNKNOWN


def test_judged_is_the_largest_case_and_of_times_the_smallest() -> None:
    sizes = (1, 64, 1024)
    now, then = collective(*((size, 100.0) for size in sizes)), collective(*((size, 99.0) for size in sizes))
    results = list(judged_cases(beside_baselines(evidence(*now, baselines=earlier("previous", then)))))
    assert [entry.measured.parameters["bytes"] for entry in results] == [1024 * 2**20]
    times = [msgspec.structs.replace(entry, metric="collective_time_s", unit="s") for entry in now]
    (latency,) = judged_cases(beside_baselines(evidence(*times, baselines=earlier("previous", times))))
    assert latency.measured.parameters["bytes"] == 2**20
    both = [now[0], times[0]]
    (stopped,) = judged_cases(beside_baselines(evidence(*both, baselines=earlier("previous", both))))
    assert stopped.measured.metric == "collective_time_s"


def test_a_slow_case_that_no_finding_judges_is_only_a_warning() -> None:
    now, then = collective((1, 10.0), (1024, 100.0)), collective((1, 100.0), (1024, 100.0))
    results = [
        entry
        for entry in comparisons(evidence(*now, baselines=earlier("previous", then)))
        if entry.to == "previous"
    ]
    assert [entry.status for entry in results] == [Status.WARN, Status.PASS]


def test_comparisons_for_the_table() -> None:
    results = list(
        comparisons(evidence(*gemm(715.0, 700.0, 430.0), baselines=earlier("pinned", gemm(720.0))))
    )
    assert [(entry.to, entry.subject, entry.status.value) for entry in results] == [
        ("reference", "GPU0", "PASS"),
        ("reference", "GPU1", "PASS"),
        ("reference", "GPU2", "FAIL"),
        ("peers", "GPU0", "PASS"),
        ("peers", "GPU1", "PASS"),
        ("peers", "GPU2", "WARN"),
        ("pinned", "GPU0", "PASS"),
    ]
    assert all(entry.source and entry.value > 0 for entry in results)
    pinned = results[-1]
    assert pinned.share_low is not None
    assert pinned.share_high is not None
    assert pinned.share_low <= pinned.share <= pinned.share_high


@pytest.mark.parametrize(("gpus", "words"), [(2, ()), (3, ("all 3",)), (8, ("all 8",))])
def test_peers_are_compared_from_three_on_with_their_number(gpus: int, words: tuple[str, ...]) -> None:
    compared = comparisons(evidence(*gemm(*(650.0 + n for n in range(gpus)))))
    sources = {each.source for each in compared if each.to == "peers"}
    assert sources == {f"median of {number}, including this one" for number in words}


def statuses(*entries: Measurement, kind: str, before: list[Measurement] | None = None) -> list[str]:
    results = comparisons(evidence(*entries, baselines=earlier("previous", before or [])))
    return [entry.status.value for entry in results if entry.to == kind]


@pytest.mark.parametrize(
    ("tflops", "status"),
    [(720.0, "PASS"), (685.0, "PASS"), (683.0, "WARN"), (541.0, "WARN"), (539.0, "FAIL")],
)
def test_a_run_is_slower_from_five_percent_on_and_fails_below_three_quarters(
    tflops: float, status: str
) -> None:
    assert statuses(*gemm(tflops), kind="previous", before=gemm(720.0)) == [status]


@pytest.mark.parametrize("busy_side", [0, 1])
def test_a_slow_run_beside_other_processes_is_only_a_warning(busy_side: int) -> None:
    now, before = gemm(300.0, 720.0)
    before = msgspec.structs.replace(before, subject=now.subject)
    sides = [now, before]
    sides[busy_side] = msgspec.structs.replace(sides[busy_side], conditions={"host_busy": True})
    assert statuses(sides[0], kind="previous", before=[sides[1]]) == ["WARN"]


@pytest.mark.parametrize("samples", [(), (0.0, 0.0), (-1.0, -2.0), (1e31, 1e31)])
def test_runs_without_a_plausible_median_are_not_compared(samples: tuple[float, ...]) -> None:
    good = gemm(720.0)[0]
    wrong = msgspec.structs.replace(good, samples=samples)
    assert statuses(wrong, kind="previous", before=[good]) == []
    assert statuses(good, kind="previous", before=[wrong]) == []
    assert statuses(wrong, kind="reference") == []
    assert statuses(*gemm(1.0, 1.0), msgspec.structs.replace(wrong, subject="GPU2"), kind="peers") == []


@pytest.mark.parametrize("value", [0.0, -1e12, float("inf")])
def test_one_impossible_sample_leaves_the_medians_comparable(value: float) -> None:
    """Without a test of significance, a slower median may be chance."""
    now = gemm(300.0)[0]
    now = msgspec.structs.replace(now, samples=(*[now.median] * 20, value))
    (result,) = beside_baselines(evidence(now, baselines=earlier("previous", gemm(720.0))))
    assert (result.change, result.interval, result.status) == (None, None, Status.UNKNOWN)


def test_metrics_that_repeat_another_are_compared_with_nothing() -> None:
    rows = [
        measured("collectives", "algorithm_bandwidth_bytes_per_s", f"GPU{index}", 1e9) for index in range(3)
    ]
    assert statuses(*rows, kind="peers") == []
    assert statuses(*rows, kind="previous", before=rows) == []


def test_metrics_without_a_bad_side_are_compared_with_nothing() -> None:
    rows = [measured("noise-scale", "noise_scale_sequences", f"GPU{index}", 9.0) for index in range(3)]
    assert statuses(*rows, kind="peers") == []
    assert statuses(*rows, kind="previous", before=rows) == []


def test_a_run_that_is_pinned_and_the_previous_one_is_compared_once() -> None:
    now = gemm(720.0)[0]
    same = (*earlier("pinned", now), *earlier("previous", now))
    assert [case.baseline.kind for case in beside_baselines(evidence(now, baselines=same))] == ["pinned"]
    other = (*earlier("pinned", now), *earlier("previous", now, started="2026-11-20T08:00:00Z"))
    assert [case.baseline.kind for case in beside_baselines(evidence(now, baselines=other))] == [
        "pinned",
        "previous",
    ]


def test_the_latest_previous_run_counts() -> None:
    runs = (
        *earlier("previous", gemm(720.0), started="2026-11-19T08:00:00Z"),
        *earlier("previous", gemm(360.0), started="2026-11-18T08:00:00Z"),
    )
    for baselines in (runs, runs[::-1]):
        (case,) = beside_baselines(evidence(*gemm(720.0), baselines=baselines))
        assert case.share == pytest.approx(1.0)


def test_the_interval_of_a_time_has_its_lower_end_first() -> None:
    now, before = (measured("train-step", "step_time_s", "8 ranks", seconds) for seconds in (0.2, 0.1))
    (case,) = beside_baselines(evidence(now, baselines=earlier("previous", before)))
    assert case.interval is not None
    low, high = case.interval
    assert 0.48 < low < 0.5 < high < 0.52


def test_the_usual_value_of_an_even_number_of_peers_lies_between_the_middle_two() -> None:
    (group,) = beside_peers(evidence(*gemm(690.0, 700.0, 720.0, 730.0)))
    assert group.usual == pytest.approx(710e12)
    assert group.share(group.members[0]) == pytest.approx(690 / 710)
    (odd,) = beside_peers(evidence(*gemm(690.0, 700.0, 730.0)))
    assert odd.usual == pytest.approx(700e12)


@pytest.mark.parametrize(("tflops", "slow"), [(668.0, ()), (660.0, ("GPU3",))])
def test_a_peer_is_slow_if_it_is_five_percent_below_the_median(tflops: float, slow: tuple[str, ...]) -> None:
    (group,) = beside_peers(evidence(*gemm(700.0, 700.0, 700.0, tflops)))
    assert group.slow == slow


def test_copies_between_numa_nodes_are_peers_and_other_parameters_divide() -> None:
    def rows(**parameters: tuple[int, ...]) -> list[Measurement]:
        return [
            measured(
                "host-memory",
                "memory_bandwidth_bytes_per_s",
                f"node {place}",
                1e11,
                **{name: values[place] for name, values in parameters.items()},
            )
            for place in range(3)
        ]

    def sizes(*entries: Measurement) -> list[int]:
        return [len(group.members) for group in beside_peers(evidence(*entries))]

    assert sizes(*rows(numa_node=(0, 1, 2), memory_node=(0, 1, 2))) == [3]
    assert sizes(*rows(numa_node=(0, 1, 2), memory_node=(0, 1, 2), threads=(8, 8, 8))) == [3]
    assert sizes(*rows(numa_node=(0, 1, 2), memory_node=(0, 1, 2), threads=(8, 8, 9))) == [2]
    assert sizes(*rows(numa_node=(0, 1, 2))) == []


@pytest.mark.parametrize(
    ("changes", "cases"),
    [({"near": None}, 1), ({"near": True}, 2), ({"near": None, "direction": None}, 2)],
)
def test_the_fastest_numa_node_counts_if_the_one_of_the_gpu_is_unknown(
    changes: dict[str, object], cases: int
) -> None:
    """Without `near` the copies try all nodes, and only the best is judged."""
    entries = []
    for node, rate in ((0, 30.0), (1, 55.0)):
        entry = host_copies(rate)[0]
        parameters = {**entry.parameters, "numa_node": node, **changes}
        kept = {name: value for name, value in parameters.items() if value is not None}
        entries.append(msgspec.structs.replace(entry, parameters=kept))
    runs = list(judged_cases(beside_baselines(evidence(*entries, baselines=earlier("previous", entries)))))
    assert len(runs) == cases


@pytest.mark.parametrize(("rate", "status", "algorithm"), [(345.0, "WARN", "NVLS"), (100.0, "FAIL", "ring")])
def test_a_warning_shows_the_reference_of_the_faster_algorithm(
    rate: float, status: str, algorithm: str
) -> None:
    """A failure shows the reference of the slower algorithm, which every healthy machine reaches."""
    rows = comparisons(evidence(*collective((1024, rate))))
    (result,) = (entry for entry in rows if entry.to == "reference")
    assert result.status.value == status
    assert algorithm in result.source
    assert result.share == pytest.approx(rate * 1e9 / result.value)
