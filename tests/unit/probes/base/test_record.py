"""Test that no hostile name in the output can control a terminal."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from probes.base.record import to_json, visible
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
