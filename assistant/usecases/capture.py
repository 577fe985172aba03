"""Record everything that can be read about a machine, without names that identify it."""

import secrets
from collections.abc import Generator

import msgspec

from assistant.usecases.events import Event, result_of, stage
from assistant.usecases.probe import probe_machine
from probes.base.record import Record
from probes.collect.collecting import CollectOptions
from probes.redaction import Manifest, redact
from probes.sources.base import Source
from probes.sources.recording import RecordingSource
from probes.sources.stored import Recording


class Capture(Record, kw_only=True):
    """A recording with the list of its redactions; `manifest` is None without redaction."""

    recording: Recording
    manifest: Manifest | None = None


@stage("capture")
def capture_machine(
    source: Source,
    options: CollectOptions,
    *,
    redacted: bool = True,
    keep: frozenset[str] = frozenset(),
    salt: str | None = None,
) -> Generator[Event, None, Capture]:
    """Probe the machine and redact the recording; the last event's result is a `Capture`.

    Without `salt`, a random salt is used once and not stored, so that nobody can test whether a placeholder
    replaces a certain value. Captures with the same salt have the same placeholders.
    """
    recorder = RecordingSource(source)
    yield from result_of(probe_machine(recorder, options))
    recording = recorder.recording(source.title)
    if not redacted:
        return Capture(recording=recording)
    salt_bytes = salt.encode() if salt else secrets.token_bytes()
    recording, manifest = redact(recording, salt=salt_bytes, keep=keep)
    recording = msgspec.structs.replace(recording, title=f"{recording.title}, redacted")
    return Capture(recording=recording, manifest=manifest)
