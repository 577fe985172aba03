"""Test curves, matrices and fits of measurements over sizes, over time and over pairs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant.pages.blocks import Curve, Figure, plain
from assistant.pages.measured.drawings import figures, fit_section, matrices
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
