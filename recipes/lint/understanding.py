"""Counts of the parts of a file that were read and that were not read."""

from collections.abc import Sequence

from probes.base.record import Record
from probes.base.units import plural
from recipes.lint.document import Document


class Understood(Record, kw_only=True):
    """Parts of one file that rules can judge, and parts that they cannot."""

    document: str
    kind: str
    commands: int
    settings: int
    """Variables that the file sets."""
    requests: int
    """Requests to a scheduler."""
    keys: int
    """Values of a structured file."""
    values_of_run: int
    """Words and values that are known only during the run, such as `$1`; rules do not guess these."""
    parts_not_read: int
    """Parts that the reader could not read; the notes name them."""


def understood(document: Document) -> Understood:
    """Count the parts of a document that rules can judge, and the parts that they cannot."""
    words = [word for command in document.commands for word in command.arguments]
    return Understood(
        document=document.name,
        kind=document.kind,
        commands=len(document.commands),
        settings=len(document.settings),
        requests=len(document.directives),
        keys=len(document.entries),
        values_of_run=sum(not word.is_literal for word in words)
        + sum(not item.is_literal for item in document.settings),
        parts_not_read=len(document.problems) + len(document.faults),
    )


def in_words(parts: Sequence[Understood]) -> str:
    """Return `read: 12 commands, 8 variables, 5 requests; 3 values depend on the run`."""
    counts = (
        (sum(part.commands for part in parts), "command"),
        (sum(part.settings for part in parts), "variable"),
        (sum(part.requests for part in parts), "request"),
        (sum(part.keys for part in parts), "key"),
    )
    text = "read: " + (", ".join(plural(count, noun) for count, noun in counts if count) or "nothing")
    of_run = sum(part.values_of_run for part in parts)
    text += (
        f"; {plural(of_run, 'value')} {'depends' if of_run == 1 else 'depend'} on the run" if of_run else ""
    )
    left = sum(part.parts_not_read for part in parts)
    return text + (f"; {plural(left, 'part')} could not be read" if left else "")
