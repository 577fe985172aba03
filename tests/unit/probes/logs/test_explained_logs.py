"""Compare what is read from the small logs of each cause with a stored file.

RIGTUNE_UPDATE_GOLDEN=1 writes the stored files anew. Other tests compare the first cause; here no event with its
fields, rank and time may change unnoticed, and no fact. Of the sentences only the numbers are compared, because
words change without a change of meaning.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import tests
from probes.base.grouping import grouped
from probes.logs.event import Event
from probes.logs.reading import Reading
from tests.support.log_cases.reading import cases

FOLDER = Path(tests.__path__[0]) / "golden" / "explained"
LOGS = grouped(cases())
NUMBER = re.compile(r"\d+(?:\.\d+)*")


def line_of(event: Event) -> str:
    origin = {
        name: value
        for name in ("host", "rank", "local_rank", "pid", "time_s")
        if (value := getattr(event, name)) is not None
    }
    if event.count > 1:
        origin["count"] = event.count
    fields = {name: value for name, value in event.fields.items() if value is not None}
    return f"{event.number} {event.kind} {_json(fields)} {_json(origin) if origin else ''}".rstrip()


def _json(value: object) -> str:
    return json.dumps(msgspec.to_builtins(value, str_keys=True), ensure_ascii=False, sort_keys=True)


def numbers_of(name: str, *sentences: str) -> Iterator[str]:
    numbers = [number for sentence in sentences for number in NUMBER.findall(sentence)]
    if numbers:
        yield f"  numbers of {name}: {' '.join(sorted(numbers))}"


def lines_of(text: str) -> Iterator[str]:
    reading = Reading()
    source = reading.source("0.log")
    reading.feed(source, text.encode())
    source.end()
    yield from map(line_of, reading.events())
    explanation = reading.explanation()
    yield f"state {explanation.state}, {explanation.lines_read} lines"
    for diagnosis in explanation.diagnoses:
        cited = " ".join(str(line.line) for line in diagnosis.evidence)
        fault = "" if diagnosis.is_fault else ", no fault"
        effects = f", {len(diagnosis.secondary)} effects" if diagnosis.secondary else ""
        yield f"{diagnosis.cause_id} {diagnosis.confidence:.3f}{fault}{effects}, lines {cited}"
        yield from numbers_of("summary", diagnosis.summary)
        yield from numbers_of("effects", *diagnosis.secondary)
    yield from numbers_of("expected", *explanation.expected)
    yield from (f"{name}: {_json(value)}" for name, value in sorted(explanation.facts.items()))


@pytest.mark.parametrize("cause", LOGS)
def test_nothing_that_is_read_from_a_log_changes_unnoticed(cause: str) -> None:
    text = "".join(f"{line}\n" for log in LOGS[cause] for line in ("# log", *lines_of(log)))
    file = FOLDER / f"{cause}.txt"
    if os.environ.get("RIGTUNE_UPDATE_GOLDEN"):
        file.write_text(text, "utf-8")
    assert file.read_text("utf-8") == text


def test_every_file_belongs_to_a_cause() -> None:
    assert {file.stem for file in FOLDER.iterdir()} == set(LOGS)
