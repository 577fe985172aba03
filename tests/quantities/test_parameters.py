"""Test that doubling a parameter changes a figure of a prediction."""

from __future__ import annotations

import pytest

from recipes.predict.parameters import values_by_id
from tests.quantities.changing import cases_by_parameter, first_moved, with_parameter

UNMOVED: dict[str, str] = {}
"""Parameters that no prediction depends on, each with the reason."""


@pytest.mark.parametrize("name", values_by_id())
def test_twice_a_parameter_moves_a_figure(name: str) -> None:
    readers = cases_by_parameter().get(name, ())
    with with_parameter(name, 2 * values_by_id()[name] or 0.5):
        moved = first_moved(readers)
    if name in UNMOVED:
        assert not moved, f"{moved} depends on it now: remove the row from UNMOVED"
    else:
        assert moved, "no representative case depends on it: add one to cases.csv, or the reason to UNMOVED"


def test_the_list_of_parameters_that_nothing_depends_on_names_rows() -> None:
    assert set(UNMOVED) <= set(values_by_id())
