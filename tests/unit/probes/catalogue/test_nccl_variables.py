"""Test the table of NCCL variables, and how the readers of their values work."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.rows import read_rows
from probes.catalogue.nccl_variables import (
    Variable,
    is_default,
    load_variables,
    misread,
    numbered_level,
    read_integer,
)
from probes.collect.environment import asked_names

TABLE = load_variables()


def test_the_names_read_alone_are_those_of_the_rows() -> None:
    names = [row.name for row in TABLE.variables]
    assert asked_names()[: len(names)] == tuple(names)
    assert len(set(names)) == len(names)
    assert not set(names) & set(read_rows("environment_names")["names"])


def test_every_row_is_sound() -> None:
    for row in TABLE.variables:
        assert row.source in TABLE.sources
        assert TABLE.ref(row).detail
        assert bool(row.words) == (row.kind in ("word", "words")), row.name
        assert row.minimum is None or row.maximum is None or row.minimum < row.maximum
        assert row.use != "dead" or row.note
        assert row.default is None or misread(row, row.default) is None, row.name
        assert row.default is None or is_default(row, row.default)


def test_no_name_is_of_a_secret() -> None:
    words = ("_TOKEN", "SECRET", "PASSWORD", "PSK", "CREDENTIAL", "API_KEY")
    assert not [name for name in asked_names() if any(word in name for word in words)]


@pytest.mark.parametrize(
    ("text", "value", "rest"),
    [
        ("1", 1, ""),
        ("true", 0, "true"),
        ("010", 8, ""),
        ("0x34", 52, ""),
        ("4M", 4, "M"),
        ("-2", -2, ""),
        ("+7 ", 7, " "),
        ("09", 0, "9"),
        ("", 0, ""),
    ],
)
def test_integers_as_the_c_library_reads_them(text: str, value: int, rest: str) -> None:
    assert (read_integer(text).value, read_integer(text).rest) == (value, rest)


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("NCCL_P2P_DISABLE", "1", None),
        ("NCCL_P2P_DISABLE", "", None),
        ("NCCL_P2P_DISABLE", "true", "0, because only digits"),
        ("NCCL_P2P_DISABLE", "2", "out of range"),
        ("NCCL_BUFFSIZE", "8M", "8, because only digits"),
        ("NCCL_BUFFSIZE", "0x800000", None),
        ("NCCL_IB_GID_INDEX", "03", "leading 0 means octal"),
        ("NCCL_IB_TIMEOUT", "300", "five bits"),
        ("NCCL_IB_TIMEOUT", "0", "for ever"),
        ("NCCL_P2P_LEVEL", "SYS", None),
        ("NCCL_P2P_LEVEL", "sys", "in capitals"),
        ("NCCL_P2P_LEVEL", "NODE", "ignores it"),
        ("NCCL_P2P_LEVEL", "5", "SYS, by an old numbering"),
        ("NCCL_NET_GDR_LEVEL", "0", "LOC, by"),
        ("NCCL_NET_GDR_LEVEL", "3", "PHB, by"),
        ("NCCL_NET_GDR_LEVEL", "99999999999999999999999", "SYS, by"),
        ("NCCL_NET_GDR_LEVEL", "٣", "ignores it"),
        ("NCCL_SOCKET_FAMILY", "af_inet", "AF_INET6"),
        ("NCCL_SOCKET_FAMILY", "4", "AF_INET6"),
        ("NCCL_DEBUG", "info", None),
        ("NCCL_DEBUG", "verbose", "nothing for 'verbose'"),
        ("NCCL_DEBUG_SUBSYS", "^INIT,NET", None),
        ("NCCL_DEBUG_SUBSYS", "INIT,NETWORK", "'NETWORK'"),
        ("TORCH_NCCL_BLOCKING_WAIT", "True", None),
        ("TORCH_NCCL_BLOCKING_WAIT", "on", "ends with an error"),
        ("NCCL_ALGO", "whatever", None),
    ],
)
def test_values_that_are_taken_for_others(name: str, text: str, problem: str | None) -> None:
    row = TABLE.find(name)
    assert row is not None
    words = misread(row, text)
    assert words is None if problem is None else words is not None and problem in words


@given(st.sampled_from(TABLE.variables), st.text(max_size=40))
def test_no_value_breaks_the_reader(row, text: str) -> None:
    misread(row, text)
    is_default(row, text)


def test_a_row_read_alone_is_that_of_the_whole_table():
    assert [TABLE.find(row.name) for row in TABLE.variables] == list(TABLE.variables)
    for name in ("", "NCCL_", "NCCL_DEBUG\n", '" }', "x" * 1000):
        assert TABLE.find(name) is None


def row_of(kind: str, **fields: object) -> Variable:
    return Variable(name="NCCL_X", kind=kind, use="system", source="s", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "value", "rest"),
    [
        ("0", 0, ""),
        ("00", 0, ""),
        ("0x", 0, "x"),
        ("0X1f", 31, ""),
        ("-0x10", -16, ""),
        ("-010", -8, ""),
        ("0787", 7, "87"),
        ("0778x", 63, "8x"),
        ("  12 b", 12, " b"),
        # Nineteen digits are read: more do not fit into 64 bits anyway.
        ("1" * 20, int("1" * 19), ""),
        ("0x" + "f" * 20, 16**19 - 1, ""),
    ],
)
def test_signs_bases_and_long_numbers(text: str, value: int, rest: str) -> None:
    assert (read_integer(text).value, read_integer(text).rest) == (value, rest)


@pytest.mark.parametrize(
    ("minimum", "maximum", "text", "words"),
    [
        (2, 8, "2", None),
        (2, 8, "8", None),
        (2, 8, "1", "1, which is out of range (from 2 to 8)"),
        (2, 8, "9", "9, which is out of range (from 2 to 8)"),
        (2, None, "1", "1, which is out of range (at least 2)"),
        (2, None, "99", None),
        (None, 8, "9", "9, which is out of range (at most 8)"),
        (None, 8, "-9", None),
        (None, None, "7", None),
        (0, 8, "0", None),
        (0, 8, "-1", "-1, which is out of range (from 0 to 8)"),
        (None, None, "5 ", None),
        (None, None, "5 x", "5, because only digits are read"),
        (None, None, "05", "5, because a leading 0 means octal"),
        (None, None, "-05", "-5, because a leading 0 means octal"),
        (None, None, "0x5", None),
        (None, None, "10", None),
    ],
)
def test_numbers_out_of_their_range(
    minimum: int | None, maximum: int | None, text: str, words: str | None
) -> None:
    assert misread(row_of("number", minimum=minimum, maximum=maximum), text) == words


def test_a_note_follows_the_range() -> None:
    noted = row_of("number", minimum=1, note="it waits for ever")
    assert misread(noted, "0") == "0, which is out of range (at least 1; it waits for ever)"


@pytest.mark.parametrize(("text", "fits"), [("0", True), ("1", True), ("-1", False), ("2", False)])
def test_a_switch_is_0_or_1(text: str, fits: bool) -> None:
    assert (misread(row_of("switch"), text) is None) is fits


@pytest.mark.parametrize(
    ("kind", "fields", "text", "same"),
    [
        ("number", {"default": "4"}, "4", True),
        ("number", {"default": "4"}, "0x4", True),
        ("number", {"default": "4"}, "5", False),
        ("number", {"default": "4", "harmless": ("5",)}, "5", True),
        ("switch", {"default": "0"}, "0", True),
        ("switch", {"default": "0"}, "1", False),
        ("flag", {"default": "1"}, "Yes", True),
        ("flag", {"default": "1"}, "no", False),
        ("flag", {"default": "0"}, "no", True),
        ("flag", {"default": "0"}, "T", False),
        ("word", {"default": "WARN", "words": ("WARN", "INFO")}, "warn", True),
        ("word", {"default": "WARN", "words": ("WARN", "INFO")}, "info", False),
        ("number", {"default": "4"}, "", True),
        ("number", {}, "", True),
        ("number", {}, "4", False),
        ("text", {}, "x", False),
    ],
)
def test_values_with_the_effect_of_the_default(
    kind: str, fields: dict[str, object], text: str, same: bool
) -> None:
    assert is_default(row_of(kind, **fields), text) is same


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("0", "LOC"),
        ("1", "PIX"),
        ("2", "PXB"),
        ("3", "PHB"),
        ("4", "SYS"),
        ("5", "SYS"),
        ("PHB", None),
        ("-1", None),
        ("1.5", None),
        ("", None),
    ],
)
def test_levels_of_the_old_numbering(text: str, level: str | None) -> None:
    assert numbered_level(text) == level


@pytest.mark.parametrize(
    ("exact", "text", "wrong"),
    [
        (False, "ring", ""),
        (True, "ring", "'ring'"),
        (True, "Ring", ""),
        (False, "^Ring,Tree", ""),
        (False, "Ring,Torus", "'Torus'"),
    ],
)
def test_words_that_nccl_does_not_know(exact: bool, text: str, wrong: str) -> None:
    words = misread(row_of("words", words=("Ring", "Tree"), exact=exact), text)
    assert words == (f"nothing for {wrong}; it knows Ring, Tree" if wrong else None)
    single = misread(row_of("word", words=("Ring", "Tree")), "^Ring")
    assert single == "nothing for '^Ring'; it knows Ring, Tree"
