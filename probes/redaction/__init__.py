"""A recording without what names the machine, its people and their secrets, so that it can be shown to
others.

The same value has the same placeholder everywhere in the recording, and placeholders keep the form of what
they stand for (a MAC address is a MAC address, addresses of one subnet stay in one), so that the recording
gives the same verdict. What names products, versions, places on the PCI bus and counters stays. Rules cannot
know every name: a person should look.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from probes.base.record import Record, Unknown
from probes.redaction.placeholders import KINDS
from probes.redaction.tables import without_serial
from probes.redaction.text import TextRedactor
from probes.sources.base import Given
from probes.sources.stored import (
    Blob,
    CommandAnswer,
    Content,
    NvmlAnswer,
    Recording,
    from_content,
    to_content,
)

__all__ = ["KINDS", "Manifest", "ManifestRow", "Redactor", "redact"]

T = TypeVar("T")

_PASSES = 2
"""A name that is learnt late may tell of others (the domain of a host, the names in it)."""
_ASK_ABOUT_HOSTS = {"getent", "host", "ping", "ssh", "scontrol", "nslookup", "dig"}
_COMMAND_TITLES = {
    ("hostname",): "hostname",
    ("hostname", "-f"): "hostname",
    ("uname", "-n"): "hostname",
    ("whoami",): "user",
}


class ManifestRow(Record, kw_only=True):
    """What was replaced of one kind."""

    kind: str
    title: str
    values: int
    """Different ones."""
    places: int


class Manifest(Record, kw_only=True):
    """What was replaced, and what was kept because the user wanted it."""

    rows: tuple[ManifestRow, ...]
    kept: tuple[str, ...] = ()


def redact(
    recording: Recording, *, salt: bytes, keep: frozenset[str] = frozenset()
) -> tuple[Recording, Manifest]:
    """`recording` redacted, and what was replaced. `keep` names kinds that stay; ValueError for an unknown
    one.
    """
    return Redactor(recording, salt=salt, keep=keep).redacted()


class Redactor:
    """Redacts one recording, and then any text in the same words."""

    def __init__(self, recording: Recording, *, salt: bytes, keep: frozenset[str] = frozenset()) -> None:
        if keep - set(KINDS):
            raise ValueError(f"no kinds of identities: {sorted(keep - set(KINDS))}")
        self._recording = recording
        self._keep = keep
        self._text = TextRedactor(hashlib.sha256(salt).digest(), keep)
        for _ in range(_PASSES):
            for key, text in _texts(recording):
                self._text.learn(text, key)

    def text(self, text: str, key: str = "") -> str:
        """Any text with the placeholders of the recording."""
        return self._text.text(text, key)

    def redacted(self) -> tuple[Recording, Manifest]:
        """The recording and the manifest."""
        book = self._text.book
        book.forget_counts()
        old = self._recording
        new = msgspec.structs.replace(
            old,
            title=self.text(old.title),
            commands=tuple(self._command(answer) for answer in old.commands),
            files={self.text(path): self._content(content, path) for path, content in old.files.items()},
            directories={
                self.text(path): self._names(path, names) for path, names in old.directories.items()
            },
            links={self.text(path): self._value(target, "") for path, target in old.links.items()},
            nvml=tuple(self._call(answer) for answer in old.nvml),
            env={name: self._value(value, name) for name, value in old.env.items()},
            given={
                kind: tuple(self._given(given, kind) for given in rows) for kind, rows in old.given.items()
            },
            checksum="",
        )
        rows = tuple(
            ManifestRow(kind=kind, title=title, values=len(book.replacements[kind]), places=book.places[kind])
            for kind, title in KINDS.items()
            if book.places[kind]
        )
        return new, Manifest(rows=rows, kept=tuple(kind for kind in KINDS if kind in self._keep))

    def _command(self, answer: CommandAnswer) -> CommandAnswer:
        words = [self.text(word, key) for word, key in _words(answer.argv)]
        return CommandAnswer(
            argv=tuple(words),
            exit_code=answer.exit_code,
            stdout=self._content(answer.stdout, _COMMAND_TITLES.get(answer.argv, "")),
            stderr=self._content(answer.stderr, ""),
            failure=self._value(answer.failure, ""),
        )

    def _content(self, content: Content, key: str) -> Content:
        if isinstance(content, str):
            return self.text(content, key)
        data = from_content(content)
        if isinstance(data, Unknown):
            return Blob(unknown=data.reason, detail=self.text(data.detail))
        if key.endswith("/config"):
            return to_content(without_serial(data, self._text.book))
        # Latin-1 gives every byte a character, so what is not replaced comes back as it was.
        return to_content(self.text(data.decode("latin-1"), key).encode("latin-1", "replace"))

    def _names(self, path: str, names: tuple[str, ...] | Unknown) -> tuple[str, ...] | Unknown:
        if isinstance(names, Unknown):
            return self._value(names, "")
        folder = path.rstrip("/")
        return tuple(sorted(self.text(f"{folder}/{name}").rpartition("/")[2] for name in names))

    def _call(self, answer: NvmlAnswer) -> NvmlAnswer:
        value = self._value(answer.value, answer.call)
        return msgspec.structs.replace(answer, value=value, failure=self._value(answer.failure, ""))

    def _given(self, given: Given, kind: str) -> Given:
        return Given(name=self.text(given.name), text=self.text(given.text, kind))

    def _value(self, value: T, key: str) -> T:
        """A value of plain JSON, or an Unknown, with the strings in it redacted under the names they have."""
        changed: Any = value
        match value:
            case str():
                changed = self.text(value, key)
            case Unknown():
                changed = Unknown(value.reason, self.text(value.detail))
            case dict():
                changed = {name: self._value(item, str(name)) for name, item in value.items()}
            case list():
                changed = self._bytes(value) if "uuid" in key.lower() and _are_bytes(value) else None
                changed = changed or [self._value(item, key) for item in value]
        return changed  # type: ignore[no-any-return]

    def _bytes(self, value: list[int]) -> list[int] | None:
        """16 numbers that are a UUID."""
        digits = bytes(value).hex()
        spelt = f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
        return list(bytes.fromhex(self.text(spelt).replace("-", "")))


def _are_bytes(value: list[Any]) -> bool:
    return len(value) == 16 and all(isinstance(item, int) and 0 <= item < 256 for item in value)


def _texts(recording: Recording) -> Iterator[tuple[str, str]]:
    """What each text of a recording is, and the text, for learning."""
    for path, content in recording.files.items():
        yield "", path
        yield path, _readable(content)
    for name, value in recording.env.items():
        yield from _strings(value, name)
    for answer in recording.commands:
        yield from ((key, word) for word, key in _words(answer.argv))
        yield _COMMAND_TITLES.get(answer.argv, ""), _readable(answer.stdout)
        yield "", _readable(answer.stderr)
    for kind, rows in recording.given.items():
        yield from ((kind, given.text) for given in rows)
    for call in recording.nvml:
        yield from _strings(call.value, call.call)
    yield from _paths(recording)


def _paths(recording: Recording) -> Iterator[tuple[str, str]]:
    for path, names in recording.directories.items():
        if not isinstance(names, Unknown):
            yield from (("", f"{path}/{name}") for name in names)
    for path, target in recording.links.items():
        yield "", path
        yield from _strings(target, "")


def _strings(value: object, key: str) -> Iterator[tuple[str, str]]:
    match value:
        case str():
            yield key, value
        case dict():
            for name, item in value.items():
                yield from _strings(item, str(name))
        case list():
            for item in value:
                yield from _strings(item, key)


def _readable(content: Content) -> str:
    if isinstance(content, str):
        return content
    return content.base64.decode("latin-1") if content.base64 else ""


def _words(argv: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Each word of a command line with the option before it: `--token abc`."""
    before = ""
    for at, word in enumerate(argv):
        if at and at == len(argv) - 1 and argv[0] in _ASK_ABOUT_HOSTS and not word.startswith("-"):
            yield word, "hostname"
            continue
        yield (
            word,
            before.lstrip("-").replace("-", "_") if before.startswith("--") and "=" not in before else "",
        )
        before = word
