"""Test that many measurements become few lines, each beside its references."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant.pages.measured.bench_page import brief_lines
from assistant.pages.measured.bench_table import OTHER, case, name_of, results_table, section_of, sources_of
from assistant.pages.measured.results import results, subjects
from probes.base.units import quantity
from probes.compare.measurement_judgement import Comparison
from probes.facts.measurements import Measurement
from probes.judging.findings import Status
from tests.support.tui_measured import judged_on_gpus, measured_on_gpus
from tests.support.tui_text import words

MEASURED = measured_on_gpus().measurements


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (("GPU0", "GPU1", "GPU3"), "GPU0-1,3"),
        (("CPU rank 0", "CPU rank 1"), "CPU ranks 0-1"),
        (("NUMA node 0", "NUMA node 1"), "NUMA nodes 0-1"),
        (("NUMA node 0",), "NUMA node 0"),
        (("GPU0", "host"), "GPU0, host"),
    ],
)
def test_devices_of_one_kind_share_a_name(names, shown):
    assert subjects(names) == shown


def one(
    bench_id: str, metric: str, unit: str, value: float, subject: str = "GPU0", **parameters
) -> Measurement:
    return Measurement(
        bench_id=bench_id, subject=subject, metric=metric, unit=unit, samples=(value,), parameters=parameters
    )


def test_devices_alike_share_a_line_and_the_slow_one_is_named():
    gemm = [row for row in results(MEASURED, show_all=False) if row.bench_id == "gemm"]
    assert [(row.subject, row.parameters["dtype"], row.parameters["m"]) for row in gemm] == [
        ("GPU0-7", "bf16", 8192),
        ("GPU0-7", "fp32", 8192),
    ]
    assert gemm[0].median == pytest.approx(7.05e14)
    assert gemm[0].slowest == "GPU5 -18 %"


def test_all_shows_every_case_of_a_sweep():
    rows = results(MEASURED, show_all=True)
    assert len([row for row in rows if row.bench_id == "gemm"]) == 4
    assert len([row for row in rows if row.metric == "collective_time_s"]) == 11


def test_a_shape_that_was_asked_for_is_shown_beside_the_best_of_the_sweep():
    entries = [
        one("gemm", "gemm_flops_per_s", "flop/s", float(size), "GPU0", m=size, n=size, k=size)
        for size in (1, 2, 3)
    ]
    asked = [msgspec.structs.replace(entries[0], conditions={"asked": True}), *entries[1:]]
    assert [row.parameters["m"] for row in results(asked, show_all=False)] == [1, 3]


@pytest.mark.parametrize("fastest", [256, 1024, 2048])
def test_the_same_case_represents_a_sweep_in_every_run(fastest):
    rates = [
        one("gemm", "gemm_flops_per_s", "flop/s", 1.0 + (size == fastest), "GPU0", m=size, n=size, k=size)
        for size in (256, 1024, 2048)
    ]
    times = [
        one("collectives", "collective_time_s", "s", 1.0 - (size == fastest) / 2, "2 ranks", bytes=size)
        for size in (256, 1024, 2048)
    ]
    shown = results([*rates, *times], show_all=False)
    assert [row.parameters.get("m", row.parameters.get("bytes")) for row in shown] == [2048, 256]


def test_a_sweep_of_times_is_shown_by_its_shortest_time():
    entries = [
        one("collectives", "collective_time_s", "s", size / 1e9, "2 ranks", bytes=size)
        for size in (4096, 1024, 65536)
    ]
    assert [row.parameters["bytes"] for row in results(entries, show_all=False)] == [1024]


def test_memory_errors_are_shown_by_the_worst_pattern():
    entries = [
        one("memory-test", "memory_errors", "1", errors, pattern=name)
        for name, errors in (("a", 0.0), ("b", 3.0))
    ]
    assert [row.median for row in results(entries, show_all=False)] == [3.0]


def test_the_device_with_errors_is_shown_as_failed_and_those_without_are_not():
    measurements = [
        one("memory-test", "memory_errors", "1", 3.0 * (index == 6), f"GPU{index}", pattern="address")
        for index in range(8)
    ]
    (row,) = results(measurements, show_all=False)
    assert (row.subject, row.median, row.status) == ("GPU6", 3, Status.FAIL)


def test_the_figures_of_a_collective_stay_together():
    measurements = [
        one("collectives", metric, unit, value, "8 ranks", collective=name, bytes=size)
        for size in (1024, 2**30)
        for name in ("all_reduce", "all_gather")
        for metric, unit, value in (
            ("collective_time_s", "s", float(size)),
            ("bus_bandwidth_bytes_per_s", "byte/s", float(size)),
        )
    ]
    rows = results(measurements, show_all=False)
    assert [row.parameters["collective"] for row in rows] == [
        "all_reduce",
        "all_reduce",
        "all_gather",
        "all_gather",
    ]


def test_memory_and_time_are_those_of_the_fastest_micro_batch():
    """The least memory of any micro-batch is not shown, because nobody trains with that micro-batch."""
    steps = [row for row in results(MEASURED, show_all=False) if row.bench_id == "train-step"]
    assert {row.parameters["micro_batch"] for row in steps} == {4}
    assert len(steps) == 4


def test_gpus_near_other_nodes_are_alike():
    rows = [row for row in results(MEASURED, show_all=False) if row.bench_id == "host-device"]
    assert [row.subject for row in rows] == ["GPU0-7", "GPU0-7"]


def test_ranks_in_other_numbers_are_not_alike():
    entries = [
        one("train-step", "step_time_s", "s", 1.0, subject, world_size=1) for subject in ("1 rank", "8 ranks")
    ]
    assert [row.subject for row in results(entries, show_all=False)] == ["1 rank", "8 ranks"]


def test_a_line_carries_the_worst_of_its_comparisons():
    gemm = results(MEASURED, judged_on_gpus().comparisons, show_all=False)[0]
    assert gemm.status is Status.FAIL
    assert len(gemm.beside("reference")) == 8
    assert min(gemm.beside("reference"), key=lambda row: row.share).subject == "GPU5"


def test_the_best_case_takes_the_comparison_of_another_where_it_has_none_itself():
    sizes = [
        one("gemm", "gemm_flops_per_s", "flop/s", rate, m=m, n=m, k=m, dtype="bf16")
        for m, rate in ((1, 1.0), (2, 2.0))
    ]
    of_small = Comparison(
        bench_id="gemm",
        subject="GPU0",
        metric="gemm_flops_per_s",
        parameters=sizes[0].parameters,
        to="reference",
        value=4.0,
        share=0.25,
        status=Status.FAIL,
        source="x",
    )
    assert results(sizes, [of_small], show_all=False)[0].status is Status.FAIL
    assert [row.status for row in results(sizes, [of_small], show_all=True)] == [Status.FAIL, None]
    other = msgspec.structs.replace(of_small, subject="GPU1")
    assert results(sizes, [other], show_all=False)[0].status is None


def test_a_count_has_all_its_digits():
    written = [quantity(value, "1") for value in (65536.0, 6.0671, 0.0, 1e30, float("inf"), float("nan"))]
    assert written == ["65536", "6.067", "0", "1e+30", "inf", "nan"]


def test_case_words():
    assert case({"dtype": "bf16", "m": 1, "n": 2, "k": 3}) == "bf16 1×2×3"
    assert case({"dtype": "bf16", "m": 8, "n": 8, "k": 8}) == "bf16 8³"
    assert (
        case({"direction": "host_to_device", "bytes": 512 * 1024**2, "pinned": False})
        == "host→device 512 MiB pageable"
    )
    assert case({"collective": "all_reduce", "bytes": 1024, "world_size": 2, "backend": "gloo"}) == "1 KiB"
    assert case({"layers": "nvlink", "bytes": 1024}) == "only over NVLink 1 KiB"
    assert case({"work": "gemm", "pinned": False}) == "gemm"  # here `pinned` means bound to CPUs
    assert case({"step": "my_train.py:make_step", "micro_batch": 8}) == "my_train.py:make_step micro-batch 8"
    assert case({"odd": "\x1b[31m", "flag": False}) == "\x1b[31m not flag"


def test_names_distinguish_equal_metrics_of_two_benchmarks():
    assert name_of("gemm", "gemm_flops_per_s", {}) == "GEMM"
    assert name_of("sustained", "gemm_flops_per_s", {}) == "sustained GEMM"
    assert name_of("host-memory", "memory_bandwidth_bytes_per_s", {}) == "host memory"
    assert (
        name_of("collectives", "bus_bandwidth_bytes_per_s", {"collective": "all_reduce"})
        == "bus bandwidth of all-reduce"
    )
    assert name_of("new-one", "brand_new_rate_per_s", {}) == "brand new rate"
    assert section_of("new-one") == (OTHER, 0)


@pytest.mark.parametrize("width", [54, 78, 138])
def test_the_table_shows_sections_shares_and_sources(width):
    rows = results(MEASURED, judged_on_gpus().comparisons, show_all=False)
    text = words(results_table(rows, width=width), width=width)
    for word in ("Compute", "Links", "Training", "705 TFLOP/s", "GPU5"):
        assert word in text
    assert any("ml-engineering" in source for source in sources_of(rows))


def test_a_benchmark_is_one_line_while_others_run():
    gemm = [entry for entry in MEASURED if entry.bench_id == "gemm"]
    assert brief_lines(gemm) == [
        "gemm  GPU0-7  GEMM bf16 8192³ 705 TFLOP/s (GPU5 -18 %), fp32 8192³ 52 TFLOP/s (GPU5 -18 %)"
    ]
    assert brief_lines([entry for entry in MEASURED if entry.bench_id == "peer-copy"]) == [
        "peer-copy  56 pairs"
    ]


ANY = st.builds(
    Measurement,
    bench_id=st.sampled_from(("gemm", "storage", "x")),
    subject=st.text(max_size=8),
    metric=st.text(max_size=12),
    unit=st.sampled_from(("s", "byte/s", "1", "odd")),
    samples=st.lists(st.floats(-1e300, 1e300), max_size=3).map(tuple),
    parameters=st.dictionaries(
        st.text(max_size=5), st.one_of(st.text(max_size=5), st.integers(), st.floats(), st.booleans())
    ),
)


@given(st.lists(ANY, max_size=6), st.booleans())
def test_whatever_was_measured_can_be_shown(measurements, show_all):
    rows = results(measurements, show_all=show_all)
    text = words(results_table(rows, width=80), width=80)
    assert "\x1b" not in text
