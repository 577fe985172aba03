"""Read texts: the output of a command, and the texts that a person gave. One reader serves all kinds.

A row names a kind of text (`probes/catalogue/text_kinds.py`), the commands that write such a text on this
machine, and a function of the kind's parser: `(text: str) -> tuple[R, ...]`, partial records with what the
text reports and nothing else. A parser may leave `line_ref(12)` as the evidence of a record; without any, the
whole text is named. The parser is loaded only if there is such a text.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar, cast

import msgspec

from probes.base.record import NOT_RECORDED, EvidenceRef, Record, Unknown, command_ref, items_of, map_known
from probes.facts import Unread
from probes.sources.base import Source

R = TypeVar("R", bound=Record)


class Output(Record, kw_only=True):
    """A text and its origin."""

    text: str
    evidence: EvidenceRef
    """Origin: `command`, or `paste` with the file's name."""

    def line(self, number: int) -> EvidenceRef:
        """Return the reference to a line of the text, counted from 1."""
        return EvidenceRef(source=self.evidence.source, key=self.evidence.key, detail=f"line {number}")


def outputs(
    source: Source, kind: str, *argvs: tuple[str, ...], timeout_s: float = 10.0, even_failed: bool = False
) -> tuple[Output, ...] | Unknown:
    """Return the texts of `kind` and the output of each command of `argvs`; Unknown without any.

    `kind` is a row of `probes/catalogue/text_kinds.py`. With `even_failed`, the output of a failed command
    counts too.
    """
    texts = [
        Output(text=given.text, evidence=EvidenceRef(source="paste", key=given.name))
        for given in source.given(kind)
    ]
    failure: Unknown | None = None
    for argv in argvs:
        result = source.run(argv, timeout_s=timeout_s)
        text = result.text()
        if isinstance(text, Unknown) and even_failed and result.stdout.strip():
            text = result.stdout.decode("utf-8", "replace")
        if not isinstance(text, Unknown):
            texts.append(Output(text=text, evidence=command_ref(argv)))
        else:
            failure = failure or text
    return tuple(texts) or failure or NOT_RECORDED


class ReadText(Record, Generic[R], kw_only=True):
    """Records that one text reports."""

    output: Output
    records: tuple[R, ...]
    unread: tuple[Unread, ...] = ()
    """Lines that could not be read."""
    attached: int | Unknown | None = None
    """Number of GPUs that the driver counts; None if the text does not report it."""
    failure: Unknown | None = None
    """Reason why the driver reports no GPU at all, if the text states one."""


class TextReader(Record, Generic[R], kw_only=True):
    """One kind of text and the functions of its parser's module that read it."""

    kind: str
    parse: str
    """Module below `probes.parsers` and function: `lspci:parse_devices`. It returns a record, or a tuple."""
    commands: tuple[tuple[str, ...], ...] = ()
    timeout_s: float = 10.0
    even_failed: bool = False
    """True if the output of a failed command counts.

    A tool may end with an error when one of several devices vanishes.
    """
    is_driver: bool = False
    """True if the text reports what only a working driver knows."""
    is_live: bool = False
    """True if the commands are worth their time on a live machine."""
    unread: str = ""
    """Second function of the module: `(text: str) -> tuple[Unread, ...]`, with `source` left empty.

    Only set if no other collector reports the same lines.
    """
    attached: str = ""
    """Function for the driver's own count: `(text: str) -> int | Unknown | None`."""
    failure: str = ""
    """Function for a text that only reports an error: `(text: str) -> Unknown | None`."""

    def read(self, source: Source) -> tuple[ReadText[R], ...] | Unknown:
        """Return what each text of this kind reports; without any text, why the command failed."""
        texts = outputs(
            source, self.kind, *self.commands, timeout_s=self.timeout_s, even_failed=self.even_failed
        )
        return map_known(texts, lambda texts: tuple(map(self._read, texts)))

    def _read(self, output: Output) -> ReadText[R]:
        parsed = self._function(self.parse.partition(":")[2])(output.text)
        records = parsed if isinstance(parsed, tuple) else (parsed,)
        lines = self._function(self.unread)(output.text) if self.unread else ()
        return ReadText(
            output=output,
            records=tuple(_placed(record, output.evidence) for record in records),
            unread=tuple(msgspec.structs.replace(line, source=output.evidence.key) for line in lines),
            attached=self._function(self.attached)(output.text) if self.attached else None,
            failure=self._function(self.failure)(output.text) if self.failure else None,
        )

    def _function(self, name: str) -> Callable[[str], Any]:
        module = importlib.import_module(f"probes.parsers.{self.parse.partition(':')[0]}")
        return cast("Callable[[str], Any]", getattr(module, name))


def read_all(source: Source, readers: Iterable[TextReader[R]]) -> tuple[ReadText[R], ...]:
    """Return what the texts of all `readers` report, in their order."""
    return tuple(text for reader in readers for text in items_of(reader.read(source)))


def records_of(texts: Iterable[ReadText[R]]) -> tuple[R, ...]:
    """Return the records of all `texts`."""
    return tuple(record for text in texts for record in text.records)


def unread_of(texts: Iterable[ReadText[Any]]) -> tuple[Unread, ...]:
    """Return the lines of all `texts` that could not be read."""
    return tuple(line for text in texts for line in text.unread)


def _placed(record: R, origin: EvidenceRef) -> R:
    """Return `record` with evidence that names the text, and the line if the parser names it."""
    if "evidence" not in record.__struct_fields__:
        return record
    references: tuple[EvidenceRef, ...] = getattr(record, "evidence", ())
    refs = tuple(EvidenceRef(source=origin.source, key=origin.key, detail=ref.detail) for ref in references)
    return msgspec.structs.replace(record, evidence=refs or (origin,))
