"""Test that bytes of any kind become lines, wherever they are cut."""

from __future__ import annotations

import codecs
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.logs.reader_table import line_readers
from probes.logs.stream import LONGEST_LINE, MOST_ALIKE, LogStream, Sieve

SIGNS = (b"Watchdog caught", b"Xid ", b"via NET/")
WANTED = b"node-1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA"


def lines_of(data: bytes, *cuts: int) -> list[tuple[int, bytes]]:
    stream = LogStream((SIGNS,))
    lines = []
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for start, end in itertools.pairwise(edges):
        lines += list(stream.feed(data[start:end]))
    return [(line.number, line.text) for line in [*lines, *stream.finish()]]


def test_only_wanted_lines_pass_with_their_numbers() -> None:
    assert lines_of(b"a\nXid 79\n\nb\nXid 31") == [(2, b"Xid 79"), (5, b"Xid 31")]


def test_carriage_returns_colours_and_nul_hide_no_sign() -> None:
    assert lines_of(b" 5%\r10%\rXid 79\r\nb\nXid \x00\x1b[31m31\x1b[0m\n") == [(1, b"Xid 79"), (3, b"Xid 31")]


def test_long_lines_come_in_pieces_and_do_not_upset_the_count() -> None:
    long = b"x" * (3 << 20)
    lines = lines_of(long + b" Xid 1\nXid 79\n", *range(0, 3 << 20, 1 << 18))
    assert [number for number, _ in lines] == [1, 2]
    assert all(len(text) <= LONGEST_LINE for _, text in lines)


def test_utf_16_is_read() -> None:
    data = codecs.BOM_UTF16_LE + "a\nXid 79\n".encode("utf-16-le")
    assert lines_of(data, 3, 9) == [(2, b"Xid 79")]
    assert lines_of(codecs.BOM_UTF8 + b"Xid 79\n") == [(1, b"Xid 79")]


def test_lines_that_differ_in_numbers_alone_are_bounded() -> None:
    stream = LogStream((SIGNS,))
    data = b"".join(
        b"host-%d:1:2 [0] NCCL INFO Channel 00/0 : %d[0] -> 8[0] via NET/IB/0\n" % (n, n)
        for n in range(MOST_ALIKE + 99)
    )
    assert len(list(stream.feed(data))) == MOST_ALIKE
    assert stream.lines_read == MOST_ALIKE + 99


def test_a_line_with_a_sign_passes_though_one_like_it_has_none() -> None:
    sieve = Sieve(((b"Xid ",), (b"status=12",)))
    assert not sieve.readers(b"status=5")
    assert sieve.readers(b"status=12") == (1,)


def test_words_differ_in_the_letters_of_addresses_too() -> None:
    sieve = Sieve(((b"state DEAD", b"ailed"),))
    assert not sieve.readers(b"rank 3: state ")
    assert sieve.readers(b"rank 3: state DEAD") == (0,)
    assert not sieve.readers(b"worker filed")
    assert sieve.readers(b"worker failed") == (0,)


@pytest.mark.parametrize("prefix", ["at 0x", "GPU ", "0000:"])
def test_lines_that_differ_in_addresses_alone_are_bounded(prefix: str) -> None:
    sieve = Sieve(((b"Xid ",),))
    lines = (f"Xid {prefix}{n * 7919 % (1 << 20) | 1 << 24:x}" for n in range(MOST_ALIKE + 99))
    assert sum(bool(sieve.readers(line.encode())) for line in lines) == MOST_ALIKE


ALL_SIGNS = tuple(reader.signs for reader in line_readers())


@given(st.data(), st.text("abxyz:[] 0123", max_size=9), st.text("abxyz:[] 0123", max_size=9))
def test_every_sign_is_found_wherever_it_is(data: st.DataObject, before: str, behind: str) -> None:
    place = data.draw(st.integers(0, len(ALL_SIGNS) - 1))
    sign = data.draw(st.sampled_from(ALL_SIGNS[place]))
    assert place in Sieve(ALL_SIGNS).readers(before.encode() + sign + behind.encode())


@given(
    st.lists(
        st.sampled_from([WANTED, b"Xid 79", b"", b"noise", b"\xff\xfe\x00\x01", b"loss 1.5\r"]), max_size=30
    ),
    st.lists(st.integers(0, 4000)),
)
def test_the_cuts_of_chunks_change_nothing(lines: list[bytes], cuts: list[int]) -> None:
    data = b"\n".join(lines)
    assert lines_of(data, *cuts) == lines_of(data)


@given(st.binary(max_size=3000), st.lists(st.integers(0, 3000), max_size=5))
def test_any_bytes_are_read(data: bytes, cuts: list[int]) -> None:
    for _, text in lines_of(data, *cuts):
        assert any(sign in text for sign in SIGNS)
