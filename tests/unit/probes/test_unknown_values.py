"""Test the helpers that ask whether values are known."""

from __future__ import annotations

from probes.base.record import (
    NOT_RECORDED,
    Reason,
    Unknown,
    first_unknown,
    items_of,
    map_known,
    only_known,
    when_missing,
)

MISSING, DENIED = Unknown(Reason.TOOL_MISSING), Unknown(Reason.PERMISSION)


def test_an_unknown_value_keeps_its_reason() -> None:
    assert map_known("7", int) == 7
    assert map_known(DENIED, int) is DENIED
    assert first_unknown(1, None, DENIED, MISSING) is DENIED
    assert first_unknown(0, "", None) is None


def test_only_a_missing_tool_is_replaced_by_another_value() -> None:
    assert (when_missing(MISSING, 0), when_missing(DENIED, 0), when_missing(7, 0)) == (0, DENIED, 7)
    assert when_missing(MISSING, DENIED) is DENIED


def test_known_values_keep_their_order_and_falsehood() -> None:
    assert only_known([0, NOT_RECORDED, None, "", DENIED, 2]) == [0, None, "", 2]
    assert (items_of((1, 2)), items_of(NOT_RECORDED), items_of(())) == ((1, 2), (), ())
