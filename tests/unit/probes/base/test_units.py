"""Test that the written terms of a sum add up to the written sum."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.units import GIB, KIB, MIB, gib, gib_of_terms

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
