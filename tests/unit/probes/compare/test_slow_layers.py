"""Test the verdict over layers, the drop in a curve, blame for slow pairs, and the results in findings."""

from __future__ import annotations

import pytest

from probes.compare.measured_findings import by_subject, failures, observed, too_uncertain
from probes.compare.slow_parts import (
    Layer,
    SlowPart,
    blamed,
    collapse_of,
    not_isolated,
    slow_layer,
    slow_parts,
)
from probes.facts.measurements import BenchFailure, Measurement
from probes.judging.findings import Evidence, Judge, Status
from tests.support.machines import CATALOGUE, h100_node
from tests.support.measured import copies, gemm, measured, scattered

JUDGE = Judge(check_id="demo", why="because")
MIB = 2**20
NOTHING = "no layer has a reference"


@pytest.mark.parametrize(
    ("measured", "references", "because"),
    [
        ({}, {}, NOTHING),
        ({"nic": 10.0}, {}, NOTHING),
        ({}, {"nic": 10.0}, NOTHING),
        ({"nic": 0.0}, {"nic": 10.0}, NOTHING),
        ({"nic": 10.0}, {"nic": 0.0}, NOTHING),
        # A rate below 1 byte/s is slow, and not absent.
        ({"nic": 0.4}, {"nic": 0.8}, "nic alone reaches 50% of its reference"),
        ({"nic": 90.0, "all": 90.0}, {"nic": 100.0, "all": 100.0}, "no layer is slow: all, nic"),
        ({"nic": 89.0}, {"nic": 100.0}, "nic alone reaches 89% of its reference"),
        (
            {"nvlink": 10.0, "nic": 20.0, "all": 10.0},
            {"nvlink": 100.0, "nic": 100.0, "all": 100.0},
            "nvlink alone reaches 10% of its reference and nic alone reaches 20% of its reference",
        ),
        ({"all": 50.0}, {"all": 100.0}, "all layers together reach 50% of their reference"),
        (
            {"all": 50.0, "nvlink": 99.0, "nic": 99.0},
            {"all": 100.0, "nvlink": 100.0, "nic": 100.0},
            "all layers together reach 50% of their reference, although nvlink, nic alone is fast: "
            "NCCL's choice of algorithm or a setting may be the cause",
        ),
    ],
)
def test_the_verdict_over_the_layers_is_one_sentence(
    measured: dict[Layer, float], references: dict[Layer, float], because: str
) -> None:
    assert slow_layer(measured, references).because == because


@pytest.mark.parametrize(
    ("layer", "transports", "others"),
    [
        ("nvlink", ("P2P/CUMEM", "NVLS"), ""),
        ("nvlink", ("P2P/CUMEM", "NET/IB/0", "SHM/direct"), "NET/IB/0, SHM/direct"),
        ("host-memory", ("SHM/direct",), ""),
        ("host-memory", ("P2P/CUMEM",), "P2P/CUMEM"),
        ("nic", ("NET/IB",), ""),
        ("nic", ("NET/Socket",), "NET/Socket"),
        ("nic", ("NET/IB", "P2P/CUMEM"), "P2P/CUMEM"),
        ("all", ("NET/Socket", "SHM/direct", "COLLNET"), ""),
    ],
)
def test_transports_outside_of_the_measured_layer_are_named(
    layer: Layer, transports: tuple[str, ...], others: str
) -> None:
    assert not_isolated(layer, transports) == others


def curve(*rates: float) -> list[tuple[float, float, str]]:
    """Return points at 4, 8, 16 ... MiB, named by their place."""
    return [(4 * MIB * 2**place, rate, f"p{place}") for place, rate in enumerate(rates)]


@pytest.mark.parametrize(
    ("rates", "drop"),
    [
        ((), None),
        ((100.0,), None),
        ((100.0, 110.0, 120.0), None),
        ((100.0, 75.0), None),
        ((100.0, 74.0), ("p0", "p1", 0.74)),
        ((100.0, 200.0, 100.0), ("p1", "p2", 0.5)),
        ((100.0, 20.0, 10.0, 40.0), ("p0", "p2", 0.1)),
        ((100.0, 10.0, 20.0), ("p0", "p1", 0.1)),
        # Rates may be given in any unit, also one in which they are below 1.
        ((0.5, 0.1), ("p0", "p1", 0.2)),
        ((0.0, 0.0), None),
        ((0.0, 100.0, 20.0), ("p1", "p2", 0.2)),
        # Of two equal peaks the smaller message is named, and of two equal drops the first.
        ((100.0, 100.0, 10.0, 10.0), ("p0", "p2", 0.1)),
    ],
)
def test_the_deepest_drop_of_a_curve(rates: tuple[float, ...], drop: tuple[str, str, float] | None) -> None:
    for points in (curve(*rates), curve(*rates)[::-1]):
        deepest = collapse_of(points)
        assert (deepest and (deepest.peak, deepest.low, deepest.share)) == drop


def test_half_of_the_peak_is_no_failure() -> None:
    half = collapse_of(curve(100.0, 50.0))
    assert half is not None
    assert not half.fails


def pairs(*names: str) -> set[frozenset[str]]:
    return {frozenset(name) for name in names}


@pytest.mark.parametrize(
    ("slow", "measured", "expected"),
    [
        # Two slow pairs of `a` are enough to blame it, and one pair blames neither end.
        (pairs("ab", "ac"), pairs("ab", "ac", "bc"), ("a",)),
        (pairs("ab"), pairs("ab", "cd"), (frozenset("ab"),)),
        (pairs("ab"), pairs("ab", "ac", "bc"), (frozenset("ab"),)),
        (pairs("ab", "ac", "de"), pairs("ab", "ac", "bc", "de", "df", "ef"), ("a", frozenset("de"))),
        (set(), set(), ()),
    ],
)
def test_a_member_is_blamed_for_two_slow_pairs_or_more(
    slow: set[frozenset[str]], measured: set[frozenset[str]], expected: tuple[object, ...]
) -> None:
    assert blamed(slow, measured) == expected


def test_the_usual_rate_of_a_slow_part_is_the_median_of_its_equals() -> None:
    rates = {frozenset(pair): 100.0 + place for place, pair in enumerate(("ab", "ac", "ad", "bc", "bd"))}
    (part,) = slow_parts({**rates, frozenset("cd"): 51.0}, least_difference=0.1)
    assert (part.part, part.usual, part.share) == (frozenset("cd"), 101.5, pytest.approx(51 / 101.5))
    assert SlowPart("GPU0", 0.0, 0.0).share == 0.0


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], ""),
        (gemm(700.0), "bf16 700 TFLOP/s"),
        (gemm(735.0, 701.0, 720.0), "bf16 701 TFLOP/s to 735 TFLOP/s"),
        # Of several cases of one part the best counts: the highest rate, the shortest time.
        ([*gemm(500.0), *gemm(700.0, size=4096)], "bf16 700 TFLOP/s"),
        ([measured("train-step", "step_time_s", "GPU0", seconds) for seconds in (3.0, 2.0)], "2 s"),
        ([*gemm(700.0), *gemm(50.0, dtype="fp32")], "bf16 700 TFLOP/s; fp32 50 TFLOP/s"),
    ],
)
def test_results_are_shown_as_a_range_over_the_parts(rows: list[Measurement], words: str) -> None:
    assert observed(rows) == words


@pytest.mark.parametrize(
    ("families", "end"), [(4, "d 700 TFLOP/s"), (5, "; and 1 more"), (7, "; and 3 more")]
)
def test_at_most_four_families_of_results_are_shown(families: int, end: str) -> None:
    rows = [entry for dtype in "abcdefg"[:families] for entry in gemm(700.0, dtype=dtype)]
    assert observed(rows).endswith(end)
    assert observed(rows).count("700 TFLOP/s") == 4


def failure(bench_id: str, kind: str) -> BenchFailure:
    return BenchFailure(bench_id=bench_id, subject="GPU0", kind=kind, message="m")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("crashed", Status.UNKNOWN),
        ("timeout", Status.UNKNOWN),
        ("unsupported", Status.SKIP),
        ("stopped", Status.SKIP),
        ("wrong_result", None),
    ],
)
def test_a_benchmark_without_a_result_is_reported_by_its_own_check(kind: str, status: Status | None) -> None:
    evidence = Evidence(
        facts=h100_node(),
        catalogue=CATALOGUE,
        bench_failures=(failure("gemm", kind), failure("attention", "crashed")),
    )
    results = [finding.status for finding in failures(JUDGE, evidence, ("gemm",))]
    assert results == ([] if status is None else [status])


def test_the_widest_scatter_is_named() -> None:
    narrow, wide = scattered(gemm(700.0)[0]), scattered(copies(2500.0)[0], (0.1, 0.2, 1.0, 1.0, 3.0, 4.0))
    for rows in ((narrow, wide), (wide, narrow)):
        finding = too_uncertain(JUDGE, rows)
        assert finding.status is Status.UNKNOWN
        assert "±181 %" in f"{finding.observed} {finding.summary}"
    assert by_subject([]) == {}
