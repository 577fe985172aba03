"""Test the fit of time by size: it recovers the constants, states its error, and is never impossible."""

from __future__ import annotations

import itertools
import json
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.record import to_json
from probes.bench.bench_report import report_of
from probes.bench.latency_bandwidth import fit, fits
from probes.facts.measurements import Measurement, MeasurementSet

SIZES = [1024.0 * 4**power for power in range(10)]
latencies = st.floats(1e-6, 1e-3)
bandwidths = st.floats(1e8, 1e12)


@given(latencies, bandwidths)
def test_made_up_constants_come_back(latency_s, bandwidth):
    model = fit([(size, latency_s + size / bandwidth) for size in SIZES])
    assert len(model.lines) == 1
    assert model.residual < 1e-6
    for size in SIZES:
        assert model.time_s(size) == pytest.approx(latency_s + size / bandwidth, rel=1e-6)
    if SIZES[-1] / bandwidth > latency_s / 10:
        assert model.bandwidth_bytes_per_s == pytest.approx(bandwidth, rel=1e-4)
    if SIZES[0] / bandwidth < latency_s * 10:
        assert model.latency_s == pytest.approx(latency_s, rel=1e-4)


@given(latencies, st.floats(1e9, 1e11), st.lists(st.floats(0.95, 1.05), min_size=13, max_size=13))
def test_noise_of_five_percent_moves_the_constants_by_at_most_an_eighth(latency_s, bandwidth, noise):
    sizes = [
        latency_s * bandwidth * 2.0**power for power in range(-6, 7)
    ]  # from all latency to all bandwidth
    model = fit(
        [(size, (latency_s + size / bandwidth) * factor) for size, factor in zip(sizes, noise, strict=True)]
    )
    assert model.latency_s == pytest.approx(latency_s, rel=0.125)
    assert model.bandwidth_bytes_per_s == pytest.approx(bandwidth, rel=0.125)
    assert model.residual <= 0.05


@given(latencies, bandwidths, st.floats(3, 30), st.floats(3, 30))
def test_a_change_of_protocol_is_two_lines(latency_s, bandwidth, slower, faster):
    """Small messages have little latency and little bandwidth, and large messages more of both.

    NCCL's protocols LL and Simple behave so.
    """
    middle = latency_s * bandwidth
    sizes = [middle * 4.0**power for power in range(-5, 8)]
    curve = [
        (
            size,
            latency_s + size / bandwidth * 50
            if size < middle
            else latency_s * slower * 20 + size / bandwidth,
        )
        for size in sizes
    ]
    model = fit(curve)
    for size, duration_s in curve:
        assert model.time_s(size) == pytest.approx(duration_s, rel=0.2)


@given(st.lists(st.tuples(st.floats(1, 1e12), st.floats(1e-9, 1e4)), max_size=20))
def test_whatever_was_measured_nothing_is_negative_and_time_never_falls_with_size(points):
    model = fit(points)
    if model is None:
        assert len({size for size, _ in points}) < 3
        return
    assert model.residual >= 0
    assert all(line.latency_s >= 0 and line.seconds_per_byte >= 0 for line in model.lines)
    assert model.bandwidth_bytes_per_s is None or model.bandwidth_bytes_per_s > 0
    sizes = sorted(
        {size for size, _ in points} | {0.0, 1.0, 1e15, *(line.high_bytes * 1.0001 for line in model.lines)}
    )
    times = [model.time_s(size) for size in sizes]
    assert all(math.isfinite(time) and time >= 0 for time in times)
    assert all(before <= after * (1 + 1e-12) for before, after in itertools.pairwise(times))


@given(
    st.lists(
        st.tuples(st.floats(1, 1e9), st.floats(1e-6, 1.0)),
        min_size=3,
        max_size=8,
        unique_by=lambda point: point[0],
    )
)
def test_no_other_line_has_less_squared_relative_error(points):
    """Compare with lines whose latency or time per byte differs by one in a thousand."""
    model = fit(points)
    if len(model.lines) > 1:
        return
    line = model.lines[0]

    def squares(latency_s, per_byte):
        return sum(((latency_s + size * per_byte) / duration_s - 1) ** 2 for size, duration_s in points)

    best = squares(line.latency_s, line.seconds_per_byte)
    for latency_step in (-1e-3, 0, 1e-3):
        for byte_step in (-1e-3, 0, 1e-3):
            latency_s = max(0.0, line.latency_s * (1 + latency_step) + (latency_step > 0) * 1e-9)
            per_byte = max(0.0, line.seconds_per_byte * (1 + byte_step) + (byte_step > 0) * 1e-15)
            assert squares(latency_s, per_byte) >= best * (1 - 1e-6) - 1e-9


def test_values_that_no_clock_gives_do_not_count():
    good = [(size, 1e-5 + size / 1e9) for size in SIZES]
    bad = [(0.0, 1.0), (-1.0, 1.0), (1e3, 0.0), (1e3, math.inf), (math.nan, 1.0), (1e3, math.nan)]
    assert fit([*bad, *good]) == fit(good)
    assert fit(good[:2] * 5) is None


def test_the_range_is_that_of_the_measurements():
    model = fit([(size, 1e-5 + size / 1e9) for size in SIZES])
    assert model is not None
    assert (model.lines[0].low_bytes, model.lines[-1].high_bytes) == (SIZES[0], SIZES[-1])


def measured(collective, size, duration_s, **more) -> Measurement:
    parameters = {"collective": collective, "bytes": size, "world_size": 8, "backend": "nccl", **more}
    return Measurement(
        bench_id="collectives",
        subject="8 ranks",
        metric="collective_time_s",
        unit="s",
        samples=(duration_s,),
        parameters=parameters,
    )


def test_each_collective_world_and_layer_has_a_fit_of_its_own():
    sizes = [1024, 65536, 2**22]
    models = fits(
        [
            *(measured("all_reduce", size, 1e-5 + size / 1e9) for size in sizes),
            *(measured("broadcast", size, 2e-5 + size / 2e9) for size in sizes),
            *(measured("all_reduce", size, 3e-5 + size / 3e9, layers="nic") for size in sizes),
            *(measured("all_gather", size, 1.0) for size in sizes[:2]),
        ]
    )
    assert [(model.parameters["collective"], model.parameters.get("layers")) for model in models] == [
        ("all_reduce", None),
        ("broadcast", None),
        ("all_reduce", "nic"),
    ]
    assert [model.latency_s for model in models] == pytest.approx([1e-5, 2e-5, 3e-5])
    assert [model.bandwidth_bytes_per_s for model in models] == pytest.approx([1e9, 2e9, 3e9])
    assert all("bytes" not in model.parameters and model.points == 3 for model in models)


def test_the_report_of_a_run_contains_its_fits():
    run = MeasurementSet(
        measurements=tuple(measured("all_reduce", size, 1e-5 + size / 1e9) for size in (1024, 65536, 2**22))
    )
    (model,) = json.loads(to_json(report_of(run)))["collective_fits"]
    assert model["lines"][0]["latency_s"] == pytest.approx(1e-5)
    assert model["residual"] < 1e-6
    assert model["parameters"]["collective"] == "all_reduce"


def test_the_report_of_a_run_has_the_statistics_of_its_samples():
    row = Measurement(
        bench_id="gemm", subject="GPU0", metric="gemm_flops_per_s", unit="flop/s",
        samples=tuple(float(number) for number in range(100, -1, -1)), parameters={},
    )  # fmt: skip
    (written,) = report_of(
        MeasurementSet(measurements=(row, msgspec.structs.replace(row, samples=())))
    ).measurements
    assert (written.median, written.p5, written.p95) == (50, 5, 95)
    assert (written.interval_low, written.interval_high) == (39, 61)


@pytest.mark.parametrize("sizes", [3, 5, 6, 12])
def test_two_lines_need_three_sizes_each(sizes):
    """The time is constant below the middle, and then proportional to the size and at least four times it."""
    points = [
        (4.0**power, 1.0 if power < sizes / 2 else 4.0 ** (power - sizes / 2 + 1)) for power in range(sizes)
    ]
    model = fit(points)
    assert len(model.lines) == (2 if sizes >= 6 else 1)


def test_a_collective_whose_time_does_not_grow_has_no_bandwidth():
    model = fit([(1e3, 2.0), (1e4, 2.0), (1e5, 2.0)])
    assert (model.latency_s, model.bandwidth_bytes_per_s, model.residual) == (2.0, None, 0.0)
    model = fit([(1e3, 3.0), (1e4, 2.0), (1e5, 1.0)])
    assert model.bandwidth_bytes_per_s is None


def test_the_median_of_one_size_counts():
    model = fit([(size, time) for size in (1e3, 1e4, 1e5) for time in (1.0, 1.0, 9.0)])
    assert model.latency_s == pytest.approx(1.0)
