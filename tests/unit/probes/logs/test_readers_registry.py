"""All readers keep what the table promises of them."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.logs import readers
from probes.logs.line import LogLine
from probes.logs.reader_table import READERS, document_readers, line_readers

_KIND = re.compile(r"[a-z][a-z0-9_-]*(?:\.[a-z0-9-]+){1,3}")


def _modules() -> Iterator[str]:
    for module in pkgutil.iter_modules(readers.__path__):
        yield f"{readers.__name__}.{module.name}"


@pytest.mark.parametrize("name", list(_modules()))
def test_every_module_that_reads_has_a_row(name):
    module = importlib.import_module(name)
    reads = hasattr(module, "SIGNS") or hasattr(module, "DOCUMENT_SIGNS")

    assert reads == (name in {row.module for row in READERS})


def test_rows_have_names_of_their_own():
    assert len({row.id for row in READERS}) == len({row.module for row in READERS}) == len(READERS)


@pytest.mark.parametrize("row", READERS, ids=lambda row: row.id)
def test_signs_are_words_that_mean_something(row):
    module = row.load()

    for sign in (*getattr(module, "SIGNS", ()), *getattr(module, "DOCUMENT_SIGNS", ())):
        assert isinstance(sign, bytes)
        assert len(sign.strip()) >= 3
        assert b"\n" not in sign


_SIGNS = [sign.decode() for reader in line_readers() for sign in reader.signs]


@given(
    st.lists(
        st.tuples(st.text(max_size=40), st.sampled_from(_SIGNS), st.text(max_size=40)).map("".join)
        | st.tuples(
            st.sampled_from(_SIGNS), st.integers(-(10**20), 10**20).map(str), st.sampled_from(_SIGNS)
        ).map(" ".join),
        max_size=12,
    )
)
def test_whatever_stands_around_a_sign_is_read_without_raising(texts):
    for reader in line_readers():
        told = []
        for number, text in enumerate(texts, 1):
            told += reader.read(LogLine(source="any.log", number=number, text=text, raw=text))
        told += reader.end()
        for event in told:
            assert _KIND.fullmatch(event.kind), event.kind
            assert event.source == "any.log"
            assert all(isinstance(value, str | int | float) for value in event.fields.values()), event.fields
            assert all(len(str(value)) <= 1000 for value in event.fields.values())


@given(
    st.binary(max_size=200), st.sampled_from([sign for reader in document_readers() for sign in reader.signs])
)
def test_whatever_stands_around_a_sign_of_a_document_is_read_without_raising(data, sign):
    for reader in document_readers():
        for event in reader.read("any.bin", data + sign + data):
            assert _KIND.fullmatch(event.kind), event.kind
