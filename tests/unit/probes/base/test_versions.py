"""Test that versions are compared by their numbers."""

from __future__ import annotations

import pytest

from probes.base.record import Unknown
from probes.base.versions import at_least, numbers_of


@pytest.mark.parametrize(
    ("version", "numbers"),
    [
        ("5.15.0-91-generic", (5, 15, 0)),
        (" 570.124.06\n", (570, 124, 6)),
        ("2..3", (2, 3)),
        ("v2", ()),
        ("", ()),
        ("123456789", (123456789,)),
        ("20240501123456", (202405011,)),
    ],
)
def test_the_leading_numbers_are_read(version: str, numbers: tuple[int, ...]) -> None:
    assert numbers_of(version) == numbers


@pytest.mark.parametrize(
    ("version", "minimum", "newer"),
    [
        ("2.20.3", "2.20", True),
        ("2.20", "2.20.0", True),
        ("2.20.0", "2.20", True),
        ("2.20", "2.20.1", False),
        ("2.9", "2.20", False),
        ("12", "11.8.1", True),
        ("11.8.1", "12", False),
    ],
)
def test_missing_parts_count_as_zero(version: str, minimum: str, newer: bool) -> None:
    assert at_least(version, minimum) is newer


def test_a_name_is_no_version() -> None:
    answer = at_least("main", "2.20")
    assert isinstance(answer, Unknown)
    assert answer.words == "unparsable: 'main' is not a version"
