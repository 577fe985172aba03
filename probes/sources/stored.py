"""Stored answers: the recording, its file, and the source that answers from it.

A recording file is JSON, plain or gzipped. Text stays readable; content that is not UTF-8 is kept as base64.
The checksum detects damaged and edited files.
"""

import gzip
import hashlib
import io
import posixpath
import zlib
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, cast

import msgspec

from probes.base.errors import InputError
from probes.base.record import NOT_RECORDED, Reason, StrictRecord, Unknown, from_json, to_json, value_or
from probes.sources.base import MAX_GIVEN_BYTES, CommandResult, Given, NvmlValue, read_bounded

T = TypeVar("T")

FORMAT = "rigtune-recording"
SCHEMA_VERSION = 1
_NOTHING_GIVEN, _NO_CHECKSUM = b',"given":{}', b',"checksum":""}'
_MAX_LINKS = 40
"""Maximum number of links that are followed, as in the kernel (MAXSYMLINKS)."""


class Blob(StrictRecord, kw_only=True, omit_defaults=True):
    """Content that is not text: bytes as base64, or the reason why there is no content."""

    base64: bytes | None = None
    unknown: Reason | None = None
    detail: str = ""


Content = str | Blob


class CommandAnswer(StrictRecord, kw_only=True, omit_defaults=True):
    """The recorded result of a command."""

    argv: tuple[str, ...]
    exit_code: int = 0
    stdout: Content = ""
    stderr: Content = ""
    failure: Unknown | None = None


class NvmlAnswer(StrictRecord, kw_only=True, omit_defaults=True):
    """The recorded result of an NVML call, or its failure."""

    call: str
    args: tuple[int, ...] = ()
    value: Any = None
    failure: Unknown | None = None


class Recording(StrictRecord, kw_only=True):
    """All answers that were given about one machine. This is the file format."""

    format: Literal["rigtune-recording"] = "rigtune-recording"
    schema_version: int = SCHEMA_VERSION
    title: str
    created: str = ""
    """Time of the recording: ISO 8601 in UTC; empty for a catalogue machine and for pasted files."""
    commands: tuple[CommandAnswer, ...] = ()
    files: dict[str, Content] = {}
    directories: dict[str, tuple[str, ...] | Unknown] = {}
    links: dict[str, str | Unknown] = {}
    """Canonical path, or absolute target of a symbolic link, by the path that was asked for."""
    nvml: tuple[NvmlAnswer, ...] = ()
    env: dict[str, str | Unknown | None] = {}
    given: dict[str, tuple[Given, ...]] = {}
    """Pasted texts by kind."""
    checksum: str = ""
    """SHA-256 over the other fields; not checked if empty."""


class _Header(msgspec.Struct):
    """The fields that identify a recording of any version."""

    format: str = ""
    schema_version: int = 0


def to_content(data: bytes | Unknown) -> Content:
    """Return `data` in the form in which a recording stores it."""
    if isinstance(data, Unknown):
        return Blob(unknown=data.reason, detail=data.detail)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return Blob(base64=data)


def from_content(content: Content) -> bytes | Unknown:
    """Return the bytes of a recorded content: the inverse of `to_content`."""
    if isinstance(content, str):
        return content.encode("utf-8")
    if content.unknown is not None:
        return Unknown(content.unknown, content.detail)
    return content.base64 or b""


def dump_recording(recording: Recording) -> bytes:
    """Return the file of `recording`, with its checksum."""
    return to_json(msgspec.structs.replace(recording, checksum=_checksum(recording)), indent=1)


def load_recording(data: bytes, name: str) -> Recording:
    """Return the recording in `data` of the file `name`.

    Raises InputError if the data is not a recording, is damaged, or needs a newer rigtune.
    """
    text = unpack(data, name)
    try:
        header = from_json(text, _Header)
    except msgspec.DecodeError as error:
        raise InputError(
            f"{name} is not a readable recording: {error}",
            "It is damaged or incomplete, or it is not a recording. Copy it again, or record again with "
            "`rigtune probe "
            "--record`.",
        ) from error
    if header.format != FORMAT:
        raise InputError(
            f"{name} is not a rigtune recording", "Give a file that `rigtune probe --record` wrote."
        )
    if header.schema_version > SCHEMA_VERSION:
        raise InputError(
            f"{name} has recording version {header.schema_version}; "
            f"this rigtune reads up to {SCHEMA_VERSION}",
            "Update rigtune on this machine.",
        )
    try:
        recording = from_json(text, Recording)
    except msgspec.DecodeError as error:
        raise InputError(
            f"{name} is a damaged recording: {error}", "Record again with `rigtune probe --record`."
        ) from error
    if recording.checksum and recording.checksum != _checksum(recording):
        raise InputError(
            f"{name} was changed after it was recorded: its checksum does not match",
            "Record again with `rigtune probe --record`. If the change is intended, empty the field "
            "`checksum` in the file.",
        )
    return recording


def _checksum(recording: Recording) -> str:
    """Return the checksum of the content, independent of order and white space."""
    content = msgspec.json.encode(msgspec.structs.replace(recording, checksum=""), order="deterministic")
    if not recording.given:
        # The field `given` is newer than the first recordings, whose checksums must stay valid.
        content = content.removesuffix(_NOTHING_GIVEN + _NO_CHECKSUM) + _NO_CHECKSUM
    return "sha256:" + hashlib.sha256(content).hexdigest()


def unpack(data: bytes, name: str) -> bytes:
    """Return `data`, unpacked if gzipped. Raises InputError if that fails or yields too much."""
    if not data.startswith(b"\x1f\x8b"):
        return data
    try:
        return read_bounded(
            gzip.GzipFile(fileobj=io.BytesIO(data)),
            name,
            MAX_GIVEN_BYTES,
            excess="unpacks to more than",
            advice="This is not a recording of one machine.",
        )
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(
            f"{name} is a damaged gzip file: {error}", "Copy it again, or record again."
        ) from error


class StoredSource:
    """Answers from a recording; the answer to a question that was not recorded is `Unknown`.

    A path without a recorded answer is resolved through the recorded symbolic links, like in the kernel.
    """

    def __init__(self, recording: Recording) -> None:
        self.title = recording.title
        self._commands = {
            answer.argv: CommandResult(
                exit_code=answer.exit_code,
                stdout=value_or(from_content(answer.stdout), b""),
                stderr=value_or(from_content(answer.stderr), b""),
                failure=answer.failure,
            )
            for answer in recording.commands
        }
        self._files = {path: from_content(content) for path, content in recording.files.items()}
        self._directories = recording.directories
        self._links = recording.links
        self._nvml = {(answer.call, answer.args): answer for answer in recording.nvml}
        self._env = recording.env
        self._given = recording.given

    @property
    def is_live(self) -> bool:
        return False

    def run(self, argv: tuple[str, ...], *, timeout_s: float = 10.0) -> CommandResult:
        return self._commands.get(argv) or CommandResult(failure=NOT_RECORDED)

    def read(self, path: str) -> bytes | Unknown:
        return self._at(self._files, path)

    def names(self, directory: str) -> tuple[str, ...] | Unknown:
        return self._at(self._directories, directory)

    def link(self, path: str) -> str | Unknown:
        if path in self._links:
            return self._links[path]
        target = follow_links(path, self._links)
        return target if target in self._files or target in self._directories else NOT_RECORDED

    def nvml(self, call: str, *args: int) -> NvmlValue | Unknown:
        answer = self._nvml.get((call, args))
        if answer is None:
            return NOT_RECORDED
        return cast("NvmlValue", answer.value) if answer.failure is None else answer.failure

    def expect(self, device: int, like: int) -> None:
        """Do nothing: all answers are already stored."""

    def env(self, name: str) -> str | Unknown | None:
        return self._env.get(name, NOT_RECORDED)

    def given(self, kind: str) -> tuple[Given, ...]:
        return self._given.get(kind, ())

    def close(self) -> None:
        """Do nothing: nothing was started."""

    def _at(self, answers: Mapping[str, T | Unknown], path: str) -> T | Unknown:
        return (
            answers[path] if path in answers else answers.get(follow_links(path, self._links), NOT_RECORDED)
        )


def follow_links(path: str, links: Mapping[str, str | Unknown]) -> str:
    """Return the target of `path` through all `links` (absolute targets); `path` itself if links form a
    circle.
    """
    resolved, remaining, hops = "/", _parts(path), 0
    while remaining:
        resolved = posixpath.join(resolved, remaining.pop(0))
        target = links.get(resolved)
        if isinstance(target, str) and target != resolved:
            hops += 1
            if hops > _MAX_LINKS:
                return path
            resolved, remaining = "/", [*_parts(target), *remaining]
    return resolved


def _parts(path: str) -> list[str]:
    return [part for part in posixpath.normpath(path).split("/") if part]
