"""Test the words about measurements: results, failures, slow parts, and the hosts of a search."""

from __future__ import annotations

import pytest

from assistant.pages.measured.bench_page import bench_page, brief_lines, failures, sick, title
from assistant.pages.measured.bench_table import (
    case,
    collective_name,
    name_of,
    results_table,
    section_of,
    sources_of,
    surroundings,
)
from assistant.pages.measured.results import Result, results, subjects
from assistant.text.plain_writer import text_of
from probes.compare.measurement_judgement import Comparison, Judgement
from probes.facts.measurements import BenchFailure, Measurement, MeasurementSet
from probes.judging.findings import Finding, Remedy, Status
from tests.support.tui_text import words

RATE = "memory_bandwidth_bytes_per_s"


def measured(*samples: float, bench_id="memory-copy", metric=RATE, unit="byte/s", subject="GPU0", **more):
    conditions = more.pop("conditions", {})
    return Measurement(
        bench_id=bench_id,
        subject=subject,
        metric=metric,
        unit=unit,
        samples=samples,
        parameters=more,
        conditions=conditions,
    )


def compared(share: float, status=Status.PASS, to="reference", **more) -> Comparison:
    fields = {"bench_id": "memory-copy", "subject": "GPU0", "metric": RATE, "value": 4e9, "source": "sheet"}
    return Comparison(**{**fields, "to": to, "share": share, "status": status, **more})


def row(**changes) -> Result:
    fields = {
        "bench_id": "memory-copy",
        "metric": RATE,
        "unit": "byte/s",
        "subject": "GPU0",
        "median": 2e9,
        "p5": 2e9,
        "p95": 2e9,
        "parameters": {},
        "slowest": "",
        "comparisons": (),
    }
    return Result(**{**fields, **changes})


def line_of(result: Result, width: int) -> str:
    """Return the line of one result, with single spaces."""
    lines = words(results_table([result], width=width), width=width).splitlines()
    return " ".join(lines[2].split())


@pytest.mark.parametrize(
    ("bench_id", "place"),
    [
        ("gemm", ("Compute", 0)),
        ("cpu-gemm", ("Compute", 4)),
        ("memory-test", ("Memory", 1)),
        ("noise-scale", ("Training", 4)),
    ],
)
def test_each_benchmark_has_its_place_in_a_section(bench_id, place):
    assert section_of(bench_id) == place


@pytest.mark.parametrize(
    ("bench_id", "metric", "parameters", "name"),
    [
        ("x", "some_time_s", {}, "some time"),
        ("x", "peak_bytes", {}, "peak"),
        ("cpu-gemm", "gemm_flops_per_s", {}, "CPU GEMM"),
        ("sustained", "sustained_rate_per_s", {}, "sustained"),
        ("collectives", "collective_time_s", {}, "time of"),
        ("collectives", "collective_time_s", {"collective": "send_recv"}, "time of send/recv"),
        ("x", "rank_compute_s", {"collective": "all_reduce"}, "own work of a rank"),
    ],
)
def test_a_metric_is_named_without_its_unit(bench_id, metric, parameters, name):
    assert name_of(bench_id, metric, parameters) == name


def test_collectives_are_written_with_hyphens():
    assert [collective_name(name) for name in ("all_reduce", "send_recv")] == ["all-reduce", "send/recv"]


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"m": 8, "n": 8}, "8×8"),
        ({"m": 8, "n": 8, "k": 8}, "8³"),
        ({"direction": "device_to_device", "dtype": "bf16"}, "bf16"),
        ({"direction": "device_to_host"}, "device→host"),
        ({"operation": "read"}, ""),
        ({"operation": "write"}, "write"),
        ({"dtype": "read"}, "read"),
        ({"pinned": True}, ""),
        ({"pinned": False}, "pageable"),
        ({"near": False}, "far"),
        ({"both_ways": True}, "both ways"),
        ({"both_ways": False}, ""),
        ({"flash": True}, "flash"),
        ({"flash": False}, "not flash"),
        ({"layers": "odd"}, "odd"),
        ({"recompute": "none"}, ""),
        ({"recompute": "all_blocks"}, "all blocks"),
        ({"bytes": 2**30}, "1.0 GiB"),
        ({"micro_batch": 8, "sequence_length": 64}, "micro-batch 8 sequence 64"),
        ({"odd_number": 3}, "odd number 3"),
    ],
)
def test_a_case_is_described_by_what_is_unusual(parameters, text):
    assert case(parameters) == text


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (("GPU3",), "GPU3"),
        (("GPU1", "GPU3"), "GPU1,3"),
        (("GPU1", "NIC2"), "GPU1, NIC2"),
        (("GPU1", "GPU1", "host"), "GPU1, host"),
        (("GPU1", "GPU"), "GPU1, GPU"),
    ],
)
def test_devices_are_folded_only_if_all_have_a_number_and_one_kind(names, text):
    assert subjects(names) == text


@pytest.mark.parametrize(
    ("result", "narrow", "wide"),
    [
        (row(), "· memory GPU0 2 GB/s -", "· memory GPU0 2 GB/s -"),
        (
            row(p5=1.9e9, p95=2.2e9),
            "· memory GPU0 2 GB/s 7.5 %",
            "· memory GPU0 2 GB/s 1.9 .. 2.2 GB/s",
        ),
        (row(p5=1.8e9, p95=2.2e9), "· memory GPU0 2 GB/s 10 %", "· memory GPU0 2 GB/s 1.8 .. 2.2 GB/s"),
        (
            row(unit="s", metric="x_s", median=1e-3, p5=9e-4, p95=1.1e-3),
            "· x GPU0 1 ms 10 %",
            "· x GPU0 1 ms 900 µs .. 1.1 ms",
        ),
        (
            row(median=0.0, p5=-1.0, p95=1.0),
            "· memory GPU0 0 GB/s 0.0 %",
            "· memory GPU0 0 GB/s -1e-09 .. 1e-09 GB/s",
        ),
        (
            row(median=-2e9, p5=-2.2e9, p95=-1.8e9),
            "· memory GPU0 -2 GB/s 10 %",
            "· memory GPU0 -2 GB/s -2.2 .. -1.8 GB/s",
        ),
        (row(slowest="GPU5 -18 %"), "· memory GPU0 2 GB/s - GPU5 -18 %", "· memory GPU0 2 GB/s - GPU5 -18 %"),
        (
            row(comparisons=(compared(0.5, Status.FAIL),)),
            "✗ memory GPU0 2 GB/s - 50 % of ref",
            "✗ memory GPU0 2 GB/s - 50 % of 4 GB/s",
        ),
        (
            row(comparisons=(compared(0.5, Status.FAIL, subject="GPU1"), compared(0.75))),
            "✗ memory GPU0 2 GB/s - GPU1 50 % of ref",
            "✗ memory GPU0 2 GB/s - GPU1 50 % of 4 GB/s",
        ),
        (
            row(comparisons=(compared(0.95, subject="GPU1"), compared(0.99))),
            "✓ memory GPU0 2 GB/s - 95 % of ref",
            "✓ memory GPU0 2 GB/s - 95 % of 4 GB/s",
        ),
        (
            row(comparisons=(compared(0.5, parameters={"bytes": 1024}),)),
            "✓ memory GPU0 2 GB/s - 50 % at 1 KiB of ref",
            "✓ memory GPU0 2 GB/s - 50 % of 4 GB/s at 1 KiB",
        ),
        (
            row(comparisons=(compared(0.5, Status.WARN, to="peers"),)),
            "! memory GPU0 2 GB/s - 50 % of peers",
            "! memory GPU0 2 GB/s - 50 %",
        ),
        (
            row(comparisons=(compared(0.5, to="peers"),)),
            "✓ memory GPU0 2 GB/s -",
            "✓ memory GPU0 2 GB/s - 50 %",
        ),
        (
            row(comparisons=(compared(0.5, to="previous"),), slowest="GPU5 -18 %"),
            "✓ memory GPU0 2 GB/s - 50 % of last run",
            "✓ memory GPU0 2 GB/s - 50 %",
        ),
    ],
)
def test_a_line_has_the_spread_and_each_reference(result, narrow, wide):
    assert line_of(result, 109) == narrow
    assert line_of(result, 110) == wide


@pytest.mark.parametrize(
    ("status", "tone"),
    [(Status.FAIL, "bad"), (Status.WARN, "caution"), (Status.UNKNOWN, "dim"), (Status.PASS, "good")],
)
def test_a_share_has_the_tone_of_its_status(status, tone):
    table = results_table([row(comparisons=(compared(0.5, status),))], width=120)
    share = table.rows[1][5][0]
    assert (share.text, share.tone) == ("50 %", tone)


def test_several_references_of_a_narrow_table_are_below_each_other():
    result = row(comparisons=(compared(0.5), compared(0.6, to="previous")))
    lines = words(results_table([result], width=78), width=78).splitlines()
    assert [" ".join(line.split()).removeprefix("✓ memory GPU0 2 GB/s - ") for line in lines[2:]] == [
        "50 % of ref",
        "60 % of last run",
    ]


def test_the_sections_are_in_their_order_with_a_gap_between_them():
    rows = [
        row(bench_id="storage"),
        row(bench_id="new"),
        row(bench_id="memory-test"),
        row(bench_id="memory-copy", subject="GPU1"),
    ]
    lines = words(results_table(rows, width=78), width=78).splitlines()[1:]
    assert [" ".join(line.split()) for line in lines] == [
        "Memory",
        "· memory GPU1 2 GB/s -",
        "· memory GPU0 2 GB/s -",
        "",
        "Storage",
        "· memory GPU0 2 GB/s -",
        "",
        "Other",
        "· memory GPU0 2 GB/s -",
    ]


@pytest.mark.parametrize(
    ("step", "subject", "repeats"),
    [("s" * 15, "GPU0", True), ("s" * 16, "GPU0", False), ("s" * 16, "GPU1", True)],
)
def test_a_long_case_is_written_only_once_for_a_device(step, subject, repeats):
    rows = [row(parameters={"step": step}), row(parameters={"step": step}, subject=subject)]
    assert words(results_table(rows, width=200), width=200).count(step) == 1 + repeats


def test_sources_are_listed_once_and_peers_have_none():
    comparisons = (compared(1.0), compared(0.9), compared(0.9, to="peers"), compared(1.0, to="pinned"))
    assert sources_of([row(comparisons=comparisons)]) == ["reference: sheet", "pinned: sheet"]


def test_medians_that_still_changed_are_counted():
    entries = (measured(1.0, conditions={"unsettled": True}), measured(1.0), measured(1.0))
    assert surroundings(MeasurementSet(measurements=entries)) == [
        "1 of 3 medians were still changing at the time limit"
    ]
    assert surroundings(MeasurementSet(measurements=entries[1:])) == []


@pytest.mark.parametrize(
    ("rates", "slowest"),
    [
        ((100.0, 100.0, 95.0), "GPU2 -5 %"),
        ((100.0, 100.0, 96.0), ""),
        ((100.0, 100.0, 150.0), ""),
        ((100.0,), ""),
        ((0.0, 0.0), ""),
        ((100.0, 50.0), "GPU1 -33.3 %"),
    ],
)
def test_a_device_at_least_five_percent_below_the_median_is_named(rates, slowest):
    entries = [measured(rate, subject=f"GPU{index}") for index, rate in enumerate(rates)]
    (result,) = results(entries, show_all=False)
    assert result.slowest == slowest


@pytest.mark.parametrize(("unit", "slowest"), [("s", "GPU2 +50 %"), ("byte", ""), ("1", ""), ("byte/s", "")])
def test_the_slowest_device_has_the_longest_time(unit, slowest):
    entries = [
        measured(value, subject=f"GPU{index}", metric="x", unit=unit)
        for index, value in enumerate((2.0, 2.0, 3.0))
    ]
    assert results(entries, show_all=False)[0].slowest == slowest


def test_the_percentiles_are_those_of_the_device_that_scatters_most():
    calm, wild = measured(10.0, 10.0), measured(*map(float, range(21)), subject="GPU1")
    (result,) = results([calm, wild], show_all=False)
    assert (result.median, result.p5, result.p95) == (10.0, 1.0, 19.0)
    assert result.spread == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("pairs", "shown"),
    [(((8, 1.0), (16, 2.0)), 16), (((16, 2.0), (8, 1.0)), 16), (((8, 2.0), (16, 2.0)), 8)],
)
def test_training_shows_the_first_fastest_micro_batch(pairs, shown):
    entries = [
        measured(rate, bench_id="train-step", metric="tokens_per_s", unit="token/s", micro_batch=size)
        for size, rate in pairs
    ]
    assert results(entries, show_all=False)[0].parameters["micro_batch"] == shown


@pytest.mark.parametrize(
    ("metric", "unit", "values", "shown"),
    [
        ("rate_per_s", "1/s", (1.0, 2.0), 2.0),
        ("rate_per_s", "1/s", (2.0, 1.0), 2.0),
        ("time_s", "s", (1.0, 2.0), 1.0),
        ("time_s", "s", (2.0, 1.0), 1.0),
    ],
)
def test_of_cases_of_one_size_the_better_is_shown(metric, unit, values, shown):
    entries = [
        measured(value, bench_id="attention", metric=metric, unit=unit, kernel=f"k{index}")
        for index, value in enumerate(values)
    ]
    assert [result.median for result in results(entries, show_all=False)] == [shown]


def test_devices_that_differ_only_by_their_nearest_memory_are_equal():
    entries = [measured(1.0, subject=f"GPU{n}", numa_node=n, near=True) for n in (0, 1)]
    assert [each.subject for each in results(entries, show_all=True)] == ["GPU0-1"]
    entries = [measured(1.0, subject=f"GPU{n}", numa_node=n) for n in (0, 1)]
    assert [each.subject for each in results(entries, show_all=True)] == ["GPU0", "GPU1"]


def test_measurements_without_samples_have_no_line():
    assert results([measured()], show_all=True) == ()


def failure(bench_id: str = "gemm", **more) -> BenchFailure:
    return BenchFailure(
        **{"bench_id": bench_id, "subject": "GPU0", "kind": "crash", "message": "why", **more}
    )


def failure_lines(*entries: BenchFailure) -> list[str]:
    return words(failures(entries), width=200).splitlines()


def test_a_failure_shows_the_last_eight_lines_of_its_log():
    log = "\n".join(f"line {number}" for number in range(9))
    assert failure_lines(failure(log_tail=log, command="python x")) == [
        "✗ gemm on GPU0: why",
        *(f"    | line {number}" for number in range(1, 9)),
        "    again: python x",
    ]


@pytest.mark.parametrize(
    ("number", "log", "lines"),
    [(3, "log", 4), (4, "log", 5), (5, "log", 5), (5, "", 5)],
)
def test_of_many_failures_with_one_log_three_are_named(number, log, lines):
    made = failure_lines(*(failure(message=f"why {index}", log_tail=log) for index in range(number)))
    assert len(made) == lines
    assert (f"✗ gemm on GPU0: why {number - 1}" in made) is (number < 4 or not log)
    assert (f"and {number - 3} more" in made) is (number > 3 and bool(log))


def test_a_benchmark_that_the_user_stopped_shows_no_log():
    assert failure_lines(failure(kind="stopped", log_tail="log", command="c")) == ["✗ gemm on GPU0: why"]
    assert failures(()).is_empty


def finding(subject: str, summary: str, status=Status.FAIL, command: str = "", **more) -> Finding:
    remedy = Remedy(text="do it", command=command) if command or more.pop("remedy", False) else None
    return Finding(check_id="x", subject=subject, status=status, summary=summary, remedy=remedy, **more)


def test_each_slow_part_is_named_once_with_its_other_faults():
    page = sick(
        Judgement(
            findings=(
                finding("GPU1", "warns", Status.WARN, "fix"),
                finding("GPU0", "copies are slow: cable", command="fix"),
                finding("GPU0", "peers are slow: cable"),
                finding("host", "disk is slow"),
                finding("host", "memory is slow"),
                finding("8 ranks", "a"),
                finding("8 ranks", "b"),
                finding("GPU2", "passes", Status.PASS),
            )
        )
    )
    lines = [" ".join(line.split()) for line in words(page, width=200).splitlines()]
    assert lines == [
        "✗ FAIL GPU0: copies are slow: cable",
        "also peers are slow",
        "do do it",
        "$ fix",
        "✗ FAIL host: disk is slow",
        "✗ FAIL host: memory is slow",
        "✗ FAIL 8 ranks: a",
        "✗ FAIL 8 ranks: b",
        "! WARN GPU1: warns",
    ]


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ((), "Quick suite"),
        (("a",), "Quick suite, 1 benchmark measured"),
        (("a", "a", "b"), "Quick suite, 2 benchmarks measured"),
    ],
)
def test_the_title_counts_benchmarks(names, text):
    entries = tuple(measured(1.0, bench_id=name) for name in names)
    assert title("quick", MeasurementSet(measurements=entries)) == text


def head(measurements=(), statuses=(), failed=()) -> list[str]:
    comparisons = tuple(compared(1.0, status) for status in statuses)
    page = bench_page(
        MeasurementSet(suite="quick", started="now", measurements=measurements, failures=failed),
        Judgement(comparisons=comparisons),
        width=200,
    )
    return text_of(page[:1], width=300).splitlines()


def test_the_head_states_what_was_compared():
    first = "1 measurement, quick suite, now"
    good = "✓ nothing is slower than its references"
    unclear = "? 1 of 2 comparisons not judged: the samples scatter too much, or the difference may be chance"
    entries = (measured(1.0),)
    assert head(entries) == [first]
    assert head(entries, [Status.PASS]) == [first, good]
    assert head(entries, [Status.PASS], [failure()]) == [first]
    assert head(entries, [Status.UNKNOWN, Status.PASS]) == [
        first,
        unclear,
        "✓ nothing that could be judged is slower than its references",
    ]
    assert len(head(entries, [Status.UNKNOWN])) == 2


@pytest.mark.parametrize(("number", "more"), [(4, ""), (5, ", and 1 more")])
def test_a_brief_line_has_four_cases(number, more):
    entries = [
        measured(1e9 * (index + 1), metric=f"m{index}", bench_id="x", step="s") for index in range(number)
    ]
    assert brief_lines(entries) == ["x  GPU0  m0 s 1 GB/s, m1 2 GB/s, m2 3 GB/s, m3 4 GB/s" + more]
