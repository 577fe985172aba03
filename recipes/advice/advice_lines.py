"""Lines of advice: each line is a data row whose texts are filled in from an observation of a machine.

The rows are in `recipes/data/advice/<subject>.toml`. A row names one condition. The module of the subject
observes which conditions hold on a machine, and returns the values for the row's texts. Every line has a
source. It also has a fact, or names what is unknown and how to read the missing value.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from probes.base.record import Record, Unknown
from probes.base.rows import load_rows
from probes.catalogue.thresholds import Cited
from probes.facts import MachineFacts

SCHEMA_VERSION = 1

Subject = Literal["hardware", "mig", "container", "kubelet", "network"]
Kind = Literal["do", "good", "note", "unknown"]


class Row(Cited, kw_only=True):
    """One row of advice. Words in braces are filled in from the observation."""

    id: str
    when: str
    """Name of the condition."""
    kind: Kind
    """Kind of the line.

    `do`: something to change; `good`: nothing to change; `note`: a fact to know; `unknown`: a fact that was
    not read, with the way to read it.
    """
    text: str
    fact: str
    """The facts, by the names under which `rigtune probe --format json` shows them, with their values."""
    why: str = ""
    commands: tuple[str, ...] = ()
    """Commands that a person may run; rigtune runs none of them."""
    flags: dict[str, tuple[str, ...]] = {}
    """Options of a container tool (`docker`, `podman`) that follow from the row."""
    settings: dict[str, Any] = {}
    """Part of a configuration (a profile of LXD, the kubelet's file) that follows from the row."""


class Observed(NamedTuple):
    """A condition that holds on a machine, and the words for the texts of its rows."""

    condition: str
    words: Mapping[str, str] = {}


class Line(Record, kw_only=True):
    """One line of advice."""

    id: str
    """Id of the data row."""
    kind: Kind
    text: str
    why: str
    fact: str
    commands: tuple[str, ...]
    source: str
    date: str
    """The month in which the source was read."""


class Document(Record, kw_only=True):
    """A text to copy: a command line, a profile, a part of a configuration, or a text for another person."""

    name: str
    purpose: str
    language: str
    """Language for an editor: `sh`, `yaml`, `text`."""
    text: str


class Advice(Record, kw_only=True):
    """The output of `rigtune advise hardware|mig|container|kubelet|network --format json`."""

    schema_version: int = SCHEMA_VERSION
    subject: Subject
    machine: str
    """Name of the machine, the recording or the list of parts."""
    lines: tuple[Line, ...]
    documents: tuple[Document, ...] = ()


def load_advice(subject: Subject) -> tuple[Row, ...]:
    """Return the rows of a subject, in the order of the lines."""
    return load_rows("recipes", "rows", Row, file=f"advice/{subject}")


def lines_for(subject: Subject, observations: Iterable[Observed]) -> tuple[Line, ...]:
    """Return one line for each observation and each row of its condition, in the order of the rows.

    Raises ValueError for a condition without a row, and KeyError for a word that the observation lacks: both
    are mistakes in rigtune, which the tests of the rows find.
    """
    return tuple(_line(row, observed) for row, observed in matches(subject, observations))


def matches(subject: Subject, observations: Iterable[Observed]) -> tuple[tuple[Row, Observed], ...]:
    """Return the rows whose conditions were observed, each with its observation, in the order of the rows.

    Raises ValueError for a condition without a row.
    """
    rows, observed = load_advice(subject), tuple(observations)
    nameless = {each.condition for each in observed} - {row.when for row in rows}
    if nameless:
        raise ValueError(f"no row of {subject} advice for {sorted(nameless)}")
    return tuple((row, each) for row in rows for each in observed if each.condition == row.when)


def unread(condition: str, value: Unknown) -> Observed:
    """Return the observation that a fact is unknown, with the reason in words."""
    return Observed(condition, {"reason": value.words})


def absence(facts: MachineFacts, variable: str) -> str:
    """Return why a variable that is not set has no value: `no NAME`, or why the environment is unknown."""
    return str(facts.environment) if isinstance(facts.environment, Unknown) else f"no {variable}"


def filled(template: Any, words: Mapping[str, str]) -> Any:
    """Return a text, or all texts of a list or table, with the words in braces filled in."""
    match template:
        case str():
            return template.format_map(words)
        case dict():
            return {filled(name, words): filled(value, words) for name, value in template.items()}
        case list() | tuple():
            return [filled(value, words) for value in template]
    return template


def _line(row: Row, observed: Observed) -> Line:
    words = observed.words
    return Line(
        id=row.id,
        kind=row.kind,
        text=filled(row.text, words),
        why=filled(row.why, words),
        fact=filled(row.fact, words),
        # a word of the observation may contain several commands, for example one for each port
        commands=tuple(line for text in filled(row.commands, words) for line in text.split("\n")),
        source=row.source,
        date=row.date,
    )
