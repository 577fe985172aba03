"""Test unknown values, and output that no hostile name can use against a terminal."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from probes.base.record import (
    Reason,
    Unknown,
    first_unknown,
    is_invisible,
    items_of,
    known,
    map_both,
    map_known,
    only_known,
    to_json,
    value_or,
    visible,
    when_missing,
)
from probes.facts import MachineFacts

HOSTILE = "\x1b[31m\x7f\x9b2J\u202egpj.exe\u2069"


def test_json_escapes_what_a_terminal_obeys() -> None:
    data = to_json(MachineFacts(hostname=f"nöde{HOSTILE}"))
    assert not any(mark in data.decode() for mark in "\x1b\x7f\x9b\u202e\u2069")
    assert "nöde".encode() in data
    assert json.loads(data)["hostname"] == f"nöde{HOSTILE}"


@given(st.text())
def test_json_returns_every_name(name: str) -> None:
    assert json.loads(to_json({"name": name}))["name"] == name


def test_control_characters_in_output_are_replaced() -> None:
    assert visible(f"a\tb\nnö{HOSTILE}") == "a\tb\nnö\ufffd[31m\ufffd\ufffd2J\ufffdgpj.exe\ufffd"


def test_a_character_is_invisible_or_not() -> None:
    assert all(map(is_invisible, "\x00\x1b\x7f\u202e"))
    assert not any(map(is_invisible, "a\t\n\rö"))


def test_known_and_unknown_values_are_distinguished() -> None:
    missing, late = Unknown(Reason.TOOL_MISSING), Unknown(Reason.TIMEOUT, "10 s")
    assert (known(0), known(missing)) == (True, False)
    assert (value_or(3, 4), value_or(missing, 4)) == (3, 4)
    assert (items_of((1,)), items_of(missing)) == ((1,), ())
    assert (map_known(3, str), map_known(late, str)) == ("3", late)
    assert [map_both(a, b, max) for a, b in ((1, 2), (missing, late), (1, late))] == [2, missing, late]
    assert [when_missing(value, 5) for value in (3, missing, late)] == [3, 5, late]
    assert only_known([1, missing, 2]) == [1, 2]
    assert (first_unknown(1, late, missing), first_unknown(1, 2)) == (late, None)
    assert (missing.words, late.words) == ("tool missing", "timeout: 10 s")
