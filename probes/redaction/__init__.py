"""Redact a recording, so that people can share it without names, identifiers and secrets.

Placeholders replace secrets, and values that identify the machine or its users. A value has the same
placeholder everywhere in the recording. Placeholders keep the form of the value (a MAC address stays a
MAC address, addresses of one subnet stay in one subnet), so that the redacted recording gives the same
verdict. Names of products, versions, PCI addresses and counters are kept. No rule covers every name, so a
person should review the result.
"""

import hashlib
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from probes.base.record import Record, Unknown
from probes.redaction.host_names import NO_HOSTS, HostNames
from probes.redaction.identifiers import without_serial
from probes.redaction.placeholders import KINDS
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
"""Number of passes that learn names; a name may reveal others (a host reveals its domain)."""
_HOST_COMMANDS = {"getent", "host", "ping", "ssh", "scontrol", "nslookup", "dig"}
_COMMAND_KEYS = {
    ("hostname",): "hostname",
    ("hostname", "-f"): "hostname",
    ("uname", "-n"): "hostname",
    ("whoami",): "user",
}


class ManifestRow(Record, kw_only=True):
    """The number of replaced values of one kind."""

    kind: str
    title: str
    values: int
    """Number of distinct values."""
    places: int


class Manifest(Record, kw_only=True):
    """The kinds that were replaced, and the kinds that were kept on request."""

    rows: tuple[ManifestRow, ...]
    kept: tuple[str, ...] = ()


def redact(
    recording: Recording,
    *,
    salt: bytes,
    keep: frozenset[str] = frozenset(),
    hosts: HostNames = NO_HOSTS,
) -> tuple[Recording, Manifest]:
    """Return `recording` with placeholders, and the manifest; ValueError for an unknown kind in `keep`.

    `salt` keys the placeholders. `keep` lists kinds that are not replaced. `hosts` has the placeholders of
    hosts that several recordings share.
    """
    return Redactor(recording, salt=salt, keep=keep, hosts=hosts).redacted()


class Redactor:
    """Redactor of one recording, and then of any text with the same placeholders."""

    def __init__(
        self,
        recording: Recording,
        *,
        salt: bytes,
        keep: frozenset[str] = frozenset(),
        hosts: HostNames = NO_HOSTS,
    ) -> None:
        if keep - set(KINDS):
            raise ValueError(f"no kinds of identities: {sorted(keep - set(KINDS))}")
        self._recording = recording
        self._keep = keep
        self._text = TextRedactor(hashlib.sha256(salt).digest(), keep, hosts=hosts)
        for _ in range(_PASSES):
            for key, text in _texts(recording):
                self._text.learn(text, key)

    def text(self, text: str, key: str = "") -> str:
        """Return a text with the placeholders of the recording."""
        return self._text.text(text, key)

    def redacted(self) -> tuple[Recording, Manifest]:
        """Return the redacted recording and its manifest."""
        book = self._text.book
        book.forget_counts()
        original = self._recording
        redacted = msgspec.structs.replace(
            original,
            title=self.text(original.title),
            commands=tuple(self._command(answer) for answer in original.commands),
            files={self.text(path): self._content(content, path) for path, content in original.files.items()},
            directories={
                self.text(path): self._names(path, names) for path, names in original.directories.items()
            },
            links={self.text(path): self._value(target, "") for path, target in original.links.items()},
            nvml=tuple(self._call(answer) for answer in original.nvml),
            env={name: self._value(value, name) for name, value in original.env.items()},
            given={
                kind: tuple(self._given(given, kind) for given in rows)
                for kind, rows in original.given.items()
            },
            checksum="",
        )
        rows = tuple(
            ManifestRow(kind=kind, title=title, values=len(book.replacements[kind]), places=book.places[kind])
            for kind, title in KINDS.items()
            if book.places[kind]
        )
        return redacted, Manifest(rows=rows, kept=tuple(kind for kind in KINDS if kind in self._keep))

    def _command(self, answer: CommandAnswer) -> CommandAnswer:
        return CommandAnswer(
            argv=tuple(self.text(word, key) for word, key in _words(answer.argv)),
            exit_code=answer.exit_code,
            stdout=self._content(answer.stdout, _COMMAND_KEYS.get(answer.argv, "")),
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
        # Latin-1 maps every byte to a character, so bytes that no rule replaces stay the same.
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
        """Return a JSON value or an Unknown with redacted strings; field names describe the strings."""
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
        """Return the 16 bytes of the placeholder of a UUID."""
        digits = bytes(value).hex()
        spelt = f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
        return list(bytes.fromhex(self.text(spelt).replace("-", "")))


def _are_bytes(value: list[Any]) -> bool:
    return len(value) == 16 and all(isinstance(item, int) and 0 <= item < 256 for item in value)


def _texts(recording: Recording) -> Iterator[tuple[str, str]]:
    """Yield the key and the text of each part of a recording that may contain names."""
    for path, content in recording.files.items():
        yield "", path
        yield path, _readable(content)
    for name, value in recording.env.items():
        yield from _strings(value, name)
    for answer in recording.commands:
        yield from ((key, word) for word, key in _words(answer.argv))
        yield _COMMAND_KEYS.get(answer.argv, ""), _readable(answer.stdout)
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
    """Yield each word of a command line and its key: `hostname` for a host, or else the option before it."""
    previous = ""
    for position, word in enumerate(argv):
        if position and position == len(argv) - 1 and argv[0] in _HOST_COMMANDS and not word.startswith("-"):
            yield word, "hostname"
            continue
        yield (
            word,
            previous.lstrip("-").replace("-", "_")
            if previous.startswith("--") and "=" not in previous
            else "",
        )
        previous = word
