"""Test every writer of words: no control character passes, and no word is lost."""

from __future__ import annotations

import re
from collections import Counter
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant.pages.blocks import (
    Block,
    Column,
    Curve,
    Figure,
    Page,
    Row,
    Section,
    Share,
    Shares,
    Source,
    Table,
    words,
)
from assistant.pages.terms import short
from assistant.pages.training.plan_page import plan_page
from assistant.pages.verdict.findings_page import detail
from assistant.pages.verdict.verdict_page import verdict_page
from assistant.text.plain_writer import clean, clean_lines, filled, text_of
from assistant.tui.panel_writer import line, whole
from probes.base.grouping import folded
from probes.base.record import Reason, Unknown
from probes.base.units import plural
from probes.judging.findings import Status
from tests.support.tui_plans import gpu_plan
from tests.support.tui_text import words as drawn
from tests.support.verdicts import VERDICTS

CELLS = st.lists(st.tuples(st.text(max_size=30), st.sampled_from(("", "bad", "dim"))), max_size=5).map(
    lambda parts: words(*parts)
)


@given(st.text())
def test_clean_is_one_printable_line(text):
    assert clean(text).isprintable()
    assert len(clean(text)) == len(text)


@given(st.text())
def test_clean_lines_keeps_lines_and_drops_control_characters(text):
    assert len(clean_lines(text).split("\n")) == len(text.split("\n"))
    assert "\x1b" not in clean_lines(text)


def test_absurd_lengths_are_cut():
    assert len(line("x" * 1_000_000)) < 3000


@given(CELLS, CELLS, st.integers(20, 90))
def test_colour_adds_escape_codes_alone_wherever_lines_break(label, cell, width):
    coloured = filled(cell, label=label, indent=4, width=width, colour=True)
    assert [re.sub(r"\x1b\[[0-9;]*m", "", each).rstrip() for each in coloured] == [
        each.rstrip() for each in filled(cell, label=label, indent=4, width=width)
    ]


@given(st.lists(st.tuples(CELLS, CELLS), max_size=4), st.integers(30, 90))
def test_a_table_loses_no_word(rows, width):
    page = (Section("title", (Table((Column("a"), Column("b", right=True)), tuple(rows)), Row("end"))),)
    text = text_of(page, width=width)
    assert "\x1b" not in text
    letters = "".join(clean(span.text) for row in rows for cell in row for span in cell)
    assert Counter(letters.replace(" ", "")) <= Counter(text)
    assert "\x1b" in text_of(page, width=width, colour=True)
    assert "title" not in drawn(page[0])


@given(st.sets(st.integers(0, 40)))
def test_folding_loses_no_index(indices):
    unfolded: set[int] = set()
    for part in folded(sorted(indices)).split(","):
        if part:
            low, _, high = part.partition("-")
            unfolded |= set(range(int(low), int(high or low) + 1))
    assert unfolded == indices


def test_narrow_words():
    assert short(Unknown(Reason.PERMISSION, "root alone may read it")) == "?"
    assert short(None) == "-"


def test_plural():
    assert [plural(number, "check") for number in (0, 1, 2)] == ["0 checks", "1 check", "2 checks"]


@given(
    st.lists(
        st.lists(st.from_regex(r"[a-z]{1,12}( [a-z]{1,12}){0,5}", fullmatch=True), min_size=3, max_size=3)
    ),
    st.integers(44, 80),
)
def test_a_table_breaks_no_word_that_the_page_has_room_for(rows, width):
    table = Table((Column("a"), Column("b"), Column("c")), tuple(map(tuple, rows)))
    text = text_of((Section("", (table,)),), width=width)
    assert Counter(text.split()) == Counter(["a", "b", "c", *" ".join(" ".join(row) for row in rows).split()])
    assert all(len(line) <= width for line in text.splitlines())


def test_a_word_that_is_too_long_for_its_column_is_folded_after_a_sign():
    path = "/scratch/datasets/tokens_of_2026/part-00001"
    table = Table((Column(fixed=True), Column()), (("DATA" * 3, path),))
    lines = text_of((Section("", (table,)),), width=36).splitlines()
    assert [line[14:] for line in lines] == ["/scratch/datasets/", "tokens_of_2026/part-", "00001"]


BLOCKS: tuple[Block, ...] = (
    Row(words("a row", (" of words", "bad")), "label"),
    Row("$ a command", literal=True),
    Table(
        (Column("head"), Column("other", right=True)), (("cell", words(("second", "dim"))), (), ("third",))
    ),
    Shares(
        (
            Share("compute", "4.6 s", 0.9),
            Share("products", "3.3 s", 0.6, is_part=True),
            Share("data", "unknown"),
        )
    ),
    Figure("A figure", (Curve("bf16", ((1, 0.0), (2, 50.0))),), str, str),
    Source("set -e\nrun it\n", "bash"),
)


def test_every_kind_of_block_is_tried() -> None:
    assert {type(block) for block in BLOCKS} == set(get_args(Block))


def both(page: Page, width: int = 1000) -> tuple[Counter[str], Counter[str]]:
    """Return the words that each writer makes of a page, without bars and percentages."""
    texts = (text_of(page, width=width), drawn(whole(page, width), width=width))
    plain, shown = (Counter(re.sub(r"[█]|\b[0-9.]+ %", "", text).split()) for text in texts)
    return plain, shown


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: type(block).__name__)
def test_both_writers_say_the_same(block: Block) -> None:
    page = (Section("A title", (block,), indent=8),)
    plain, panel = both(page, width=100)
    assert plain == panel
    assert text_of(page, colour=True) != text_of(page)


@pytest.mark.parametrize(
    "page",
    [plan_page(gpu_plan()), verdict_page(VERDICTS["bad"]), verdict_page(VERDICTS["bad"], verbose=True)],
    ids=["plan", "verdict", "all of a verdict"],
)
def test_both_writers_say_the_same_of_whole_pages(page: Page) -> None:
    plain, panel = both(page)
    assert plain == panel


def test_a_finding_is_reported_in_the_same_words_by_check_and_on_its_screen() -> None:
    finding = next(
        finding
        for finding in VERDICTS["bad"].findings
        if finding.status is Status.FAIL and finding.waived is None
    )
    checked = text_of(verdict_page(VERDICTS["bad"], verbose=True))
    assert text_of((detail((finding,)),)) in checked
