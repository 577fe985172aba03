from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from assistant.present.text import clean, clean_block, folded, short, shown
from probes.base.record import Reason, Unknown
from probes.base.units import plural


@given(st.text())
def test_clean_is_one_printable_line(text):
    result = clean(text)
    assert "\n" not in result
    assert "\x1b" not in result
    assert all(character.isprintable() or character == " " for character in result)


@given(st.text())
def test_clean_block_keeps_lines_and_drops_control_characters(text):
    assert len(clean_block(text).split("\n")) == max(len(text.expandtabs(4).splitlines()), 1)
    assert "\x1b" not in clean_block(text)


def test_absurd_lengths_are_cut():
    assert len(clean("x" * 1_000_000)) < 3000


@given(st.sets(st.integers(0, 40)))
def test_folding_loses_no_index(indices):
    found: set[int] = set()
    for part in folded(sorted(indices)).split(","):
        if part:
            low, _, high = part.partition("-")
            found |= set(range(int(low), int(high or low) + 1))
    assert found == indices


def test_unknown_is_told_with_its_reason():
    unknown = Unknown(Reason.PERMISSION, "root alone may read it")
    assert shown(unknown).plain == "? permission"
    assert short(unknown) == "?"
    assert short(None) == "-"


def test_plural():
    assert [plural(number, "check") for number in (0, 1, 2)] == ["0 checks", "1 check", "2 checks"]
