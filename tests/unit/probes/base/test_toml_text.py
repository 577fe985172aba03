"""Test the reader of TOML files that people write, and its limits."""

from __future__ import annotations

import pytest

from probes.base.errors import InputError
from probes.base.toml_text import parse_toml


def test_a_document_is_returned() -> None:
    text = 'a.b.c = 1\nname = "v1.2.3 (see 1. 2. 3.)"\n[[rows]]\nx = -9223372036854775808\n'
    assert parse_toml(text, "a.toml") == {
        "a": {"b": {"c": 1}},
        "name": "v1.2.3 (see 1. 2. 3.)",
        "rows": [{"x": -(2**63)}],
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("ok = 1\n" + "a." * 40_000 + "b = 1", "line 2: more than 64 dots"),
        ("a . " * 100 + "b = 1", "line 1: more than 64 dots"),
        ("[" + "a." * 40_000 + "b]", "line 1: more than 64 dots"),
        ("a = " + "[" * 5_000 + "]" * 5_000, "nested too deeply"),
        ("a = " + "{a=" * 5_000 + "1" + "}" * 5_000, "nested too deeply"),
        ("rows = [{ x = " + "9" * 400 + " }]", r"rows\[0\].x does not fit in 64 bits"),
        ("x = 9223372036854775808", "x does not fit in 64 bits"),
        ("a = 1\nname = '\udcff'", "line 2: not UTF-8"),
        ("a = 1\na = 2", "not valid TOML"),
        ("#" * (4 * 2**20 + 1), "longer than 4 MiB"),
    ],
)
def test_hostile_text_is_refused_with_its_place(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=f"^a.toml.*{problem}"):
        parse_toml(text, "a.toml")


def test_the_limits_themselves_are_accepted() -> None:
    assert parse_toml("a." * 64 + "b = 9223372036854775807", "a.toml")
    assert parse_toml("#" * (4 * 2**20), "a.toml") == {}
