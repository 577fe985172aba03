"""Test that lists of numbers and names are shortened, and that no number is lost."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.grouping import first_names, folded, number_ranges, runs_of
from probes.parsers.host.cpulist import parse_cpu_list


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([], ""),
        ([7], "7"),
        ([0, 1], "0-1"),
        ([0, 2], "0,2"),
        ([8, 3, 1, 0, 2], "0-3,8"),
        ([5, 5, 6], "5-6"),
        ([1, 3, 5], "1,3,5"),
    ],
)
def test_numbers_are_folded_as_the_kernel_prints_cpus(numbers: list[int], text: str) -> None:
    assert folded(numbers) == text


@given(st.lists(st.integers(0, 300)))
def test_no_number_is_lost_or_added(numbers: list[int]) -> None:
    assert [number for first, last in runs_of(numbers) for number in range(first, last + 1)] == sorted(
        set(numbers)
    )
    assert parse_cpu_list(folded(numbers)) == tuple(sorted(set(numbers)))


@given(st.lists(st.integers(0, 300)))
def test_two_runs_never_touch(numbers: list[int]) -> None:
    runs = runs_of(numbers)
    assert all(following[0] > run[1] + 1 for run, following in itertools.pairwise(runs))


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ([], ""),
        ([5], "5"),
        ([0, 1, 2, 7], "0-2, 7"),
        ([0, 2, 4, 6, 7, 8], "0, 2 and 4 more"),
        ([1, 2, 4, 5, 9], "1-2, 4-5 and 1 more"),
    ],
)
def test_the_first_ranges_are_named_and_the_other_numbers_are_counted(numbers: list[int], words: str) -> None:
    assert number_ranges(numbers, 2) == words


def test_the_first_names_are_listed_and_dots_stand_for_the_others() -> None:
    assert first_names(["gpu1", "gpu2", "gpu3"]) == "gpu1, gpu2, gpu3"
    assert first_names(["gpu1", "gpu2", "gpu3", "gpu4"]) == "gpu1, gpu2, gpu3 ..."
    assert first_names(["gpu1", "gpu2"], 1) == "gpu1 ..."
