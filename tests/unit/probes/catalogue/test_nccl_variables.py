"""Test the table of NCCL variables, and how the readers of their values work."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.rows import read_rows
from probes.catalogue.nccl_variables import is_default, load_variables, misread, read_integer
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
