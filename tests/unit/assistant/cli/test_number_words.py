"""Test how numbers with units and rows of node counts are read."""

from __future__ import annotations

import click
import pytest

from assistant.cli.options import NODES, TOKENS


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1", 1),
        (" 12 ", 12),
        ("2k", 2_000),
        ("1.5M", 1_500_000),
        ("3B", 3 * 10**9),
        ("3g", 3 * 10**9),
        ("0.5T", 5 * 10**11),
        ("1e3", 1000),
        ("1000000T", 10**18),
    ],
)
def test_a_count_may_have_a_unit(text, number):
    assert TOKENS.convert(text, None, None) == number


@pytest.mark.parametrize("text", ["", "0", "-1", "0.4", "x", "B", "1X", "1000001T", "nan", "inf", "1e400"])
def test_what_is_no_count_is_refused(text):
    with pytest.raises(click.BadParameter):
        TOKENS.convert(text, None, None)


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("4", (4,)),
        ("0", (0,)),
        ("1,2,4", (1, 2, 4)),
        ("4,1,2,2", (1, 2, 4)),
        ("1,2,...,16", (1, 2, 4, 8, 16)),
        ("1,2,...,15", (1, 2, 4, 8, 15)),
        ("1,2,…,4", (1, 2, 4)),
        ("2,6,...,54", (2, 6, 18, 54)),
        ("2,3,...,6", (2, 3, 4, 5, 6)),
        ("4,6,...,11", (4, 6, 8, 10, 11)),
        ("1,4,6,...,10", (1, 4, 6, 8, 10)),
        (",".join(map(str, range(1, 65))), tuple(range(1, 65))),
    ],
)
def test_numbers_of_nodes_continue_by_their_ratio_or_difference(text, counts):
    assert NODES.convert(text, None, None) == counts


@pytest.mark.parametrize(
    "text",
    [
        "", "x", "1,x", "...,4", "1,...,4", "1,2,...", "2,2,...,8", "4,2,...,8", "0,2,...,8", "0,1", "-1,2",
        ",".join(map(str, range(1, 66))), "1,2,3,...,100",
    ],
)  # fmt: skip
def test_rows_that_cannot_continue_are_refused(text):
    with pytest.raises(click.BadParameter):
        NODES.convert(text, None, None)
