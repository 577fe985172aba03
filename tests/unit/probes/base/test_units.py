"""Test how numbers are written, and that the written terms of a sum add up to the written sum."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.units import (
    GIB,
    KIB,
    MIB,
    count,
    duration,
    gb_per_s,
    gbit_per_s,
    gib,
    gib_of_terms,
    percent,
    plural,
    quantity,
    si,
)

TERMS = st.lists(st.floats(0, 200 * GIB) | st.floats(0, 9 * MIB) | st.integers(0, 4 * KIB), max_size=9)


@pytest.mark.parametrize(
    ("terms", "written"),
    [
        ((3.74, 7.47, 4.6, 23.46, 7.57), ("3.7", "7.5", "4.6", "23.4", "7.6", "46.8")),
        ((1.3333, 1.3333, 1.3334), ("1.33", "1.33", "1.34", "4.00")),
        ((60.045, 0.04, 0.04), ("60.1", "0.0", "0.0", "60.1")),
    ],
)
def test_largest_remainders_are_rounded_up(terms, written) -> None:
    assert gib_of_terms([GIB * term for term in terms]) == tuple(f"{number} GiB" for number in written)


@given(TERMS)
def test_written_terms_add_up(terms) -> None:
    *sizes, total = [size.split() for size in gib_of_terms(terms)]
    assert sum((Decimal(number) for number, _ in sizes), Decimal(0)) == Decimal(total[0])
    assert {unit for _, unit in sizes} <= {total[1]}
    scale = {"GiB": GIB, "MiB": MIB, "KiB": KIB, "B": 1}[total[1]]
    step = 10.0 ** -(len(total[0].partition(".")[2])) * scale
    for term, (number, _) in zip(terms, sizes, strict=True):
        assert abs(float(number) * scale - term) <= step * (1 + 1e-6)
    if sum(terms) >= 10 * GIB:
        assert " ".join(total) == gib(sum(terms))


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (gib(0), "0 B"),
        (gib(1023), "1023 B"),
        (gib(KIB), "1 KiB"),
        (gib(1.6 * KIB), "2 KiB"),
        (gib(MIB), "1 MiB"),
        (gib(512 * MIB), "512 MiB"),
        (gib(GIB), "1.0 GiB"),
        (gib(-1.5 * GIB), "-1.5 GiB"),
        (gib_of_terms((4 * GIB, 6 * GIB)), ("4.0 GiB", "6.0 GiB", "10.0 GiB")),
        (gib_of_terms((GIB, 0)), ("1.00 GiB", "0.00 GiB", "1.00 GiB")),
        (gib_of_terms((512 * MIB, 3.4 * MIB)), ("512 MiB", "3 MiB", "515 MiB")),
        (gib_of_terms((3,)), ("3 B", "3 B")),
        (gb_per_s(371.24e9), "371.2 GB/s"),
        (gbit_per_s(400), "400 Gb/s"),
        (gbit_per_s(2.5), "2.5 Gb/s"),
        (percent(0.4567), "45.7 %"),
        (percent(1), "100 %"),
    ],
)
def test_memory_bandwidth_and_shares_are_written_in_their_units(written, text) -> None:
    assert written == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B/s"),
        (999, "999 B/s"),
        (1e3, "1 kB/s"),
        (1e6, "1 MB/s"),
        (1e9, "1 GB/s"),
        (1e12, "1 TB/s"),
        (1e15, "1 PB/s"),
        (794.4e12, "794 TB/s"),
        (-41.25e3, "-41.2 kB/s"),
    ],
)
def test_an_si_prefix_starts_at_its_factor(value: float, text: str) -> None:
    assert si(value, "B/s") == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (16384, "16384"),
        (-99_999, "-99999"),
        (99_999, "99999"),
        (100_000, "100 k"),
        (0.25, "0.25"),
        (999.5, "999.5"),
        (1000.5, "1 k"),
        (1e6, "1 M"),
        (137.4e6, "137 M"),
        (1e9, "1 B"),
        (8.03e9, "8.03 B"),
        (1e12, "1 T"),
    ],
)
def test_small_whole_counts_are_written_with_all_digits(value: float, text: str) -> None:
    assert count(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (7265, "2 h 01 min"),
        (3600, "1 h 00 min"),
        (3599, "59 min 59 s"),
        (125, "2 min 05 s"),
        (60, "1 min 00 s"),
        (59.4, "59.4 s"),
        (1, "1 s"),
        (0.9, "900 ms"),
        (1e-3, "1 ms"),
        (0.999e-3, "999 µs"),
        (12e-6, "12 µs"),
    ],
)
def test_a_duration_is_written_in_its_largest_unit(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (794e12, "flop/s", "794 TFLOP/s"),
        (2e9, "byte/s", "2 GB/s"),
        (0.5, "s", "500 ms"),
        (2 * GIB, "byte", "2.0 GiB"),
        (999.4, "token/s", "999 tokens/s"),
        (1000, "token/s", "1000 tokens/s"),
        (41_234.5, "image/s", "41.2 k images/s"),
        (12.345, "sample/s", "12.3 samples/s"),
        (999.4, "1/s", "999/s"),
        (1000, "1/s", "1000/s"),
        (41_234.5, "1/s", "41.2 k/s"),
        (71.26, "degC", "71.3 °C"),
        (123_456, "1", "123456"),
        (0.123456, "1", "0.1235"),
        (1e9 - 1, "1", "999999999"),
        (1e9, "1", "1e+09"),
        (2500, "W", "2.5 kW"),
    ],
)
def test_a_measured_value_is_written_as_its_unit_asks(value: float, unit: str, text: str) -> None:
    assert quantity(value, unit) == text


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [(0, "GPU", "0 GPUs"), (1, "GPU", "1 GPU"), (2, "GPU", "2 GPUs"), (3, "NVSwitch", "3 NVSwitches")],
)
def test_a_noun_is_singular_for_one(number: int, noun: str, text: str) -> None:
    assert plural(number, noun) == text
