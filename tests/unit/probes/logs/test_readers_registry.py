"""Test that all readers do what the table promises."""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.logs import readers
from probes.logs.event import LogLine
from probes.logs.events.log_record import LogRecord
from probes.logs.events.measurement_events import NcclTestsFailure
from probes.logs.reader_table import READERS, document_readers, line_readers
from probes.logs.readers.row_readers import Row
from probes.logs.readers.row_readers import row as make_row

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
def test_signs_of_readers_have_at_least_three_characters(row):
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
def test_whatever_surrounds_a_sign_is_read_without_raising(texts):
    for reader in line_readers():
        events = []
        for number, text in enumerate(texts, 1):
            events += reader.read(LogLine(source="any.log", number=number, text=text, raw=text))
        events += reader.end()
        for event in events:
            assert _KIND.fullmatch(event.kind), event.kind
            assert event.source == "any.log"
            assert all(isinstance(value, str | int | float) for value in event.fields.values()), event.fields
            assert all(len(str(value)) <= 1000 for value in event.fields.values())


@given(
    st.binary(max_size=200), st.sampled_from([sign for reader in document_readers() for sign in reader.signs])
)
def test_whatever_surrounds_a_sign_of_a_document_is_read_without_raising(data, sign):
    for reader in document_readers():
        for event in reader.read("any.bin", data + sign + data):
            assert _KIND.fullmatch(event.kind), event.kind


_parser: Any = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")


def _participations(items: Iterable[Any], names: dict[int, str]) -> list[frozenset[str]]:
    """Return sets of named groups that a match can have: the fewest first, then one choice at a time."""
    choices = [_choices_of(code, argument, names) for code, argument in items]
    fewest = [each[0] for each in choices]
    sets = [frozenset().union(*fewest)]
    for place, alternatives in enumerate(choices):
        others = frozenset().union(*fewest[:place], *fewest[place + 1 :])
        sets += [others | alternative for alternative in alternatives[1:]]
    return sets


def _choices_of(code: Any, argument: Any, names: dict[int, str]) -> list[frozenset[str]]:
    match str(code), argument:
        case "SUBPATTERN", (number, _, _, inner):
            own = frozenset({names[number]} if number in names else ())
            return [own | each for each in _participations(inner, names)]
        case "BRANCH", (_, branches):
            return [each for branch in branches for each in _participations(branch, names)]
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT", (least, _, inner):
            return [frozenset[str]()] * (least == 0) + _participations(inner, names)
        case "ASSERT", (_, inner):
            return _participations(inner, names)
        case "ATOMIC_GROUP", inner:
            return _participations(inner, names)
        case _:
            return [frozenset()]


def _rows() -> Iterator[Any]:
    for name in _modules():
        for title, value in vars(importlib.import_module(name)).items():
            for place, row in enumerate(value if isinstance(value, tuple) else ()):
                if isinstance(row, Row):
                    yield pytest.param(
                        row, id=f"{name.rpartition('.')[2]}-{title}-{place}-{row.word.strip()[:20]}"
                    )


@pytest.mark.parametrize("row", list(_rows()))
def test_a_row_makes_its_record_whichever_optional_groups_take_part(row):
    """A required field that only an optional group fills raises for lines without the group."""
    names = {number: name for name, number in row.shape.groupindex.items()}
    for present in _participations(_parser.parse(row.shape.pattern, row.shape.flags & ~re.UNICODE), names):
        texts: Any = {name: "1" if name in present else None for name in names.values()}
        assert isinstance(row.record(texts), LogRecord)


@pytest.mark.parametrize(
    "text",
    [
        "PBS: job killed: 42 exceeded limit",
        "h:1:2 [0] NCCL INFO Init timings - ncclCommInitRank: rank 0 nranks 2 total 0.5 (0)",
    ],
)
def test_a_number_in_the_place_of_words_is_read_without_raising(text):
    line = LogLine(source="any.log", number=1, text=text, raw=text)
    assert any(reader.read(line) for reader in line_readers())


def test_an_optional_group_of_a_required_field_is_noticed():
    with pytest.raises(TypeError, match="reason"):
        test_a_row_makes_its_record_whichever_optional_groups_take_part(
            make_row(NcclTestsFailure, "failed", "failed(?:: (?P<reason>.*))?")
        )
