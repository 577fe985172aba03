"""Test curves, matrices and fits of measurements over sizes, over time and over pairs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant.pages.blocks import Curve, Figure, plain
from assistant.pages.measured.drawings import figures, fit_section, is_link, matrices, worth_a_line
from assistant.text.plot import draw
from probes.compare.measurement_judgement import Comparison
from probes.facts.measurements import Measurement
from probes.judging.findings import Status
from tests.support.tui_measured import measured_on_cpu, measured_on_gpus
from tests.support.tui_text import words

MEASURED = measured_on_gpus().measurements


def test_sizes_and_time_are_drawn():
    drawn = {figure.title: figure for figure in figures(MEASURED)}
    assert set(drawn) == {"Bus bandwidth by message size", "SM clock over time"}
    (curve,) = drawn["Bus bandwidth by message size"].curves
    assert [x for x, _ in curve.points] == [1024 * 4**power for power in range(11)]
    clocks = drawn["SM clock over time"]
    assert "GPU5" in {curve.name for curve in clocks.curves}
    assert 0 < clocks.floor < 1.6e9


def collective(ranks: int, devices: str = "") -> tuple[Measurement, ...]:
    return tuple(
        Measurement(
            bench_id="collectives",
            subject=devices or f"{ranks} ranks",
            metric="bus_bandwidth_bytes_per_s",
            unit="byte/s",
            samples=(1e9 * ranks,),
            parameters={"collective": "all_reduce", "bytes": size},
        )
        for size in (1024, 4096, 16384)
    )


@pytest.mark.parametrize(
    ("measured", "named"),
    [
        (collective(8), 0),
        (collective(2) + collective(8), 2),
        (collective(16) + collective(32), 2),
        (collective(2, "GPU0") + collective(2, "GPU1"), 0),
    ],
    ids=["one number of ranks", "one digit", "two digits", "equal devices"],
)
def test_curves_name_the_number_of_ranks_only_if_there_are_several(measured, named):
    (figure,) = figures(measured)
    assert sum("ranks" in curve.name for curve in figure.curves) == named
    assert len(figure.curves) == max(1, named)


def test_measurements_without_sizes_are_not_drawn():
    assert figures(measured_on_cpu().measurements) == ()
    assert matrices(measured_on_cpu().measurements) == ()
    assert fit_section(measured_on_cpu().measurements).is_empty


def test_pairs_are_a_matrix_by_sender_and_receiver():
    (panel,) = matrices(MEASURED)
    rows = [line.split() for line in words(panel, width=80).splitlines()]
    assert rows[0] == [f"GPU{index}" for index in range(8)]
    assert rows[1] == ["GPU0", "-", "280", "280", "210!", "280", "280", "280", "280"]
    assert rows[4] == ["GPU3", *["210!"] * 3, "-", *["210!"] * 4]


def test_numa_nodes_are_a_matrix_of_cores_and_memory():
    measurements = [
        Measurement(
            bench_id="host-memory",
            subject=f"NUMA node {node}",
            metric="memory_bandwidth_bytes_per_s",
            unit="byte/s",
            samples=(2e11 if node == memory else 9e10,),
            parameters={"operation": "copy", "numa_node": node, "memory_node": memory},
        )
        for node in (0, 1)
        for memory in (0, 1)
    ]
    (panel,) = matrices(measurements)
    assert "200" in words(panel, width=80)
    assert "90" in words(panel, width=80)
    assert matrices(measurements[:1]) == ()


def test_a_fit_is_two_numbers_with_its_error():
    text = words(fit_section(MEASURED))
    assert "all-reduce, 8 ranks" in text
    assert "30 µs + bytes / 211.4 GB/s" in text
    assert "within 0 %" in text


def test_a_plot_goes_up_with_its_curve_and_names_it():
    figure = Figure("Rate", (Curve("bf16", ((1, 0.0), (2, 50.0), (4, 100.0))),), str, str, is_log=True)
    title, *rows = map(plain, draw(figure, width=60, height=5))
    assert title == "Rate"
    assert rows[0].endswith("bf16")
    columns = [[index for index, sign in enumerate(row) if 0x2800 < ord(sign) < 0x2900] for row in rows[:5]]
    assert all(columns)
    assert min(columns[0]) > min(columns[-1])
    assert all(len(row) <= 60 for row in rows)


POINTS = st.lists(st.tuples(st.floats(1, 1e12), st.floats(0, 1e15)), min_size=1, max_size=6).map(
    lambda p: tuple(sorted(p))
)


@given(
    st.lists(
        st.builds(Curve, st.text(st.characters(categories=["Ll"]), max_size=6), POINTS),
        min_size=1,
        max_size=9,
    ),
    st.booleans(),
    st.integers(20, 140),
)
def test_any_figure_has_its_height_and_width(curves, is_log, width):
    figure = Figure("t", tuple(curves), lambda x: f"{x:.1e}", lambda y: f"{y:.1e}", is_log=is_log)
    lines = [plain(line) for line in draw(figure, width=width, height=4)]
    assert len(lines) == 1 + 4 + 2
    assert all(len(line) <= max(width, 28) for line in lines)


@pytest.mark.parametrize("value", [0.0, 5.0])
def test_one_value_alone_can_be_drawn(value):
    assert draw(Figure("t", (Curve("a", ((1.0, value),)),), str, str), width=40)


def test_a_matrix_names_the_reference_that_all_its_pairs_have():
    compared = [
        Comparison(
            bench_id=one.bench_id, subject=one.subject, metric=one.metric, parameters=one.parameters,
            to="reference", value=370.8e9, share=one.median / 370.8e9, status=Status.PASS,
            source="18 NVLinks; nccl",
        )
        for one in MEASURED
        if one.bench_id == "peer-copy"
    ]  # fmt: skip
    (panel,) = matrices(MEASURED, compared)
    assert "370.8 (18 NVLinks)" in panel.title
    (panel,) = matrices(MEASURED, compared[1:])
    assert "370.8" not in panel.title


def step(micro_batch: object, rate: float = 1.0, subject: str = "8 ranks", **fields) -> Measurement:
    base = {
        "bench_id": "train-step",
        "metric": "tokens_per_s",
        "unit": "token/s",
        "parameters": {"micro_batch": micro_batch},
    }
    return Measurement(**{**base, "subject": subject, "samples": (rate,), **fields})


@pytest.mark.parametrize(
    ("sizes", "points"),
    [
        ((1, 2, 4), [1.0, 2.0, 4.0]),
        ((4, 1, 2), [1.0, 2.0, 4.0]),
        ((1, 2), []),
        ((0, 1, 2), []),
        ((0, 1, 2, 4), [1.0, 2.0, 4.0]),
        ((True, 1, 2), []),
        (("x", 1, 2), []),
    ],
)
def test_a_sweep_of_at_least_three_positive_sizes_is_a_curve(sizes, points):
    drawn = figures([step(size) for size in sizes])
    assert [x for figure in drawn for x, _ in figure.curves[0].points] == points


def test_equal_devices_share_a_curve_of_medians_and_four_curves_are_shown():
    entries = [
        step(size, rate=rate, parameters={"micro_batch": size, "dtype": name})
        for name, rate in (("a", 1.0), ("b", 5.0), ("c", 3.0), ("d", 2.0), ("e", 4.0))
        for size in (1, 2, 4)
    ]
    (figure,) = figures(entries)
    assert [curve.name for curve in figure.curves] == ["b", "e", "c", "d"]
    pair = [step(size, rate, f"GPU{rate}") for size in (1, 2, 4) for rate in (1.0, 3.0)]
    assert [y for _, y in figures(pair)[0].curves[0].points] == [2.0, 2.0, 2.0]


def test_only_square_products_are_a_sweep():
    def product(m: int, n: int, k: int) -> Measurement:
        return Measurement(
            bench_id="gemm", subject="GPU0", metric="gemm_flops_per_s", unit="flop/s", samples=(1e12,),
            parameters={"m": m, "n": n, "k": k},
        )  # fmt: skip

    squares = [product(size, size, size) for size in (256, 512, 1024)]
    assert [x for x, _ in figures([*squares, product(64, 64, 128)])[0].curves[0].points] == [256, 512, 1024]


def clocks(*series: float, subject: str = "GPU0", times: tuple[float, ...] = ()) -> Measurement:
    return step(1, subject=subject, series={"sm_clock_hz": series, **({"elapsed_s": times} if times else {})})


def test_a_series_is_drawn_over_its_times_or_else_over_its_numbers():
    (figure,) = figures([clocks(1e9, 2e9, 2e9, times=(0.0, 5.0, 10.0))])
    assert figure.curves[0].points == ((0.0, 1e9), (5.0, 2e9), (10.0, 2e9))
    assert [figure.x_words(x) for x in (0.0, 5.0)] == ["0 s", "5 s"]
    (figure,) = figures([clocks(1e9, 2e9, 2e9, times=(0.0, 5.0))])
    assert [x for x, _ in figure.curves[0].points] == [0.0, 1.0, 2.0]
    assert figures([clocks(1e9, 2e9)]) == ()


@pytest.mark.parametrize(
    ("values", "floor"),
    [
        ((100.0, 80.0, 90.0), 70.0),
        ((100.0, 100.0, 100.0), 95.0),
        ((100.0, 0.0, 50.0), 0.0),
        ((10.0, 9.5, 10.0), 9.0),
    ],
)
def test_the_axis_begins_half_of_the_range_below_the_smallest_value(values, floor):
    assert figures([clocks(*values)])[0].floor == pytest.approx(floor)


@pytest.mark.parametrize(
    ("number", "named"),
    [(4, ["GPU0", "GPU1", "GPU2", "GPU3"]), (5, ["GPU0", "GPU2", "GPU4"]), (6, ["GPU0", "GPU3", "GPU5"])],
)
def test_of_many_devices_the_lowest_the_middle_and_the_highest_are_drawn(number, named):
    entries = [clocks(*[1e9 + index] * 3, subject=f"GPU{index}") for index in reversed(range(number))]
    assert [curve.name for curve in figures(entries)[0].curves] == named


def pair(value: float, subject: str = "GPU0->GPU1", **parameters: object) -> Measurement:
    return Measurement(
        bench_id="peer-copy", subject=subject, metric="peer_bandwidth_bytes_per_s", unit="byte/s",
        samples=(value,), parameters=parameters,
    )  # fmt: skip


@pytest.mark.parametrize(("low", "shown"), [(90e9, "90"), (89e9, "89!")])
def test_a_pair_below_nine_tenths_of_the_median_is_marked(low, shown):
    entries = [pair(100e9), pair(100e9, "GPU1->GPU0"), pair(low, "GPU0->GPU2")]
    (panel,) = matrices(entries)
    assert shown in words(panel, width=80).split()


def test_names_are_in_natural_order_and_a_pair_shows_its_best_size():
    entries = [
        pair(1e9, "GPU10->GPU2", bytes=1024),
        pair(3e9, "GPU10->GPU2", bytes=2048),
        pair(3e9, "GPU2->GPU10", bytes=1024),
    ]  # fmt: skip
    (panel,) = matrices(entries)
    assert [line.split() for line in words(panel, width=80).splitlines()] == [
        ["GPU2", "GPU10"], ["GPU2", "-", "3"], ["GPU10", "3", "-"],
    ]  # fmt: skip


def test_the_table_leaves_out_links_and_repetitions_unless_all_is_shown():
    repeated = step(1, metric="peak_reserved_bytes", unit="byte")
    own = pair(1e9, "x", numa_node=0, memory_node=0)
    entries = [pair(1e9), pair(2e9, "GPU1->GPU0"), repeated, step(2)]
    assert worth_a_line(entries, show_all=False) == [entries[3]]
    assert worth_a_line(entries, show_all=True) == entries
    assert worth_a_line(entries[:1], show_all=False) == entries[:1]
    assert [is_link(each) for each in (entries[0], own, step(1))] == [True, False, False]


def test_a_plot_has_exact_lines_and_each_name_its_own():
    figure = Figure(
        "Rate",
        (Curve("a", ((0.0, 10.0), (1.0, 20.0), (2.0, 30.0))), Curve("b", ((0.0, 30.0), (2.0, 30.0)))),
        "{:.0f}x".format,
        "{:.0f}y".format,
        floor=10.0,
    )
    assert [plain(line) for line in draw(figure, width=24, height=3)] == [
        "Rate",
        "30y │⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉⣉⡩⠭⠛⠛⠉ a",
        "    │     ⣀⡠⠔⠒⠉⠉       b",
        "10y │⣀⠤⠒⠊⠉            ",
        "    └─────────────────",
        "     0x             2x",
    ]
