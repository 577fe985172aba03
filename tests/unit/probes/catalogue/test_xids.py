"""The table of Xids and SXids."""

from __future__ import annotations

import pytest

from probes.catalogue.xids import load_xids

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
