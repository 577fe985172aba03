"""Test the table of Xids and SXids."""

from __future__ import annotations

import pytest

from probes.catalogue.xids import causing_xids, load_xids

ROWS = load_xids()


def test_every_number_has_one_meaning() -> None:
    codes = [code for row in ROWS.xid for code in row.codes]
    assert len(codes) == len(set(codes))
    assert all(row.name and row.action for row in ROWS.xid)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (13, "application"),
        (31, "application"),
        (43, "application"),
        (48, "reset"),
        (64, "hardware"),
        (79, "hardware"),
        (74, "link"),
    ],
)
def test_well_known_numbers(code: int, kind: str) -> None:
    row = ROWS.find(code)
    assert row is not None
    assert row.kind == kind


def test_numbers_without_meaning() -> None:
    assert ROWS.find(99999) is None
    assert ROWS.find(None) is None
    assert ROWS.sub_code(149, 99) is None
    assert ROWS.sub_code(149, 37) is not None


@pytest.mark.parametrize(
    ("code", "fatal"),
    [(20034, True), (22013, False), (11012, False), (19084, True), (99999, None), (7, None)],
)
def test_switch_numbers(code: int, fatal: bool | None) -> None:
    assert ROWS.switch_fatal(code) is fatal


@pytest.mark.parametrize(
    ("code", "part"),
    [
        (10999, "host interface"),
        (11000, "packet ingress"),
        (30001, "reduction"),
        (7, None),
        (9999, None),
        (99999, None),
    ],
)
def test_the_thousands_digits_of_an_sxid_name_a_part_of_the_switch(code: int, part: str | None) -> None:
    assert ROWS.switch_part(code) == part


def test_numbers_at_both_ends_of_a_range_are_not_fatal() -> None:
    for word in ROWS.switch.nonfatal.split():
        first, _, last = word.partition("-")
        for code in (int(first), int(last or first)):
            assert ROWS.switch_fatal(code) is False, word


def test_each_follower_has_the_longest_window_of_its_causes() -> None:
    windows = causing_xids()
    for chain in ROWS.chain:
        for follower in chain.followers:
            for root in chain.roots:
                assert windows[follower][root] >= chain.within_s > 0
    assert 79 in windows[154]
    assert 154 not in windows.get(79, {})
