"""Test how messages quote an input."""

from __future__ import annotations

import pytest

from probes.base.record import quoted


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "''"),
        ("h100", "'h100'"),
        ("it's", '"it\'s"'),
        ("a\x1b[2J\n", r"'a\x1b[2J\n'"),
        ("x" * 60, "'" + "x" * 60 + "'"),
        ("x" * 61, "'" + "x" * 60 + "'"),
    ],
)
def test_a_message_quotes_at_most_sixty_characters_without_control_characters(text: str, words: str) -> None:
    assert quoted(text) == words
