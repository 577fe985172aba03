"""Test rows of parameters for kinds of kernels, the error for a missing row, and the meanings of rows."""

from __future__ import annotations

from typing import get_args

import pytest

from recipes.predict.parameters import load_parameters, parameter
from recipes.predict.stacks import Kernels


@pytest.mark.parametrize("kernels", get_args(Kernels))
def test_every_kind_of_kernels_has_its_traffic_and_launches(kernels: str) -> None:
    assert parameter("time.traffic", kernels) > 0
    assert parameter("time.block_kernels", kernels) > 0


def test_a_row_that_is_not_there_is_reported() -> None:
    with pytest.raises(KeyError, match=r"no row time\.nothing"):
        parameter("time.nothing", "hopper")


def test_rows_say_what_they_mean_by_themselves() -> None:
    """A meaning that begins with `the same` refers to the row without a key, which must exist."""
    rows = load_parameters()
    lost = [
        row.id
        for row in rows.values()
        if row.meaning.startswith("the same") and ".".join(row.id.split(".")[:2]) not in rows
    ]
    assert lost == []
