"""Keep the recording of every node of a fleet, and write redacted copies with one mapping for all nodes."""

import base64
import gzip
import json
import secrets
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from assistant.engines.node_command import one_line
from assistant.storage import read_bytes, write_bytes
from assistant.usecases.events import Event, Progress, stage
from assistant.usecases.fleet.check_fleet import FleetRun, asked
from assistant.usecases.fleet.run_folder import (
    ends_of,
    journal,
    recording_of,
    reports_of,
    unanswered,
    unfinished,
    write_meta,
)
from probes.base.errors import InputError
from probes.base.record import Record
from probes.fleet.node_report import NodeEnd, NodeLine, Outcome
from probes.fleet.run_redaction import host_placeholders
from probes.redaction import redact
from probes.redaction.host_names import HostNames
from probes.sources.stored import dump_recording, load_recording

REDACTED = "redacted"


class MissingNode(Record, kw_only=True):
    """A node without a recording."""

    node: str
    outcome: Outcome
    detail: str = ""


class FleetCapture(Record, kw_only=True):
    """The recordings of a run; its JSON is the output of `rigtune fleet capture --format json`."""

    schema_version: int = 1
    folder: str
    engine: str
    wanted: tuple[str, ...]
    recordings: dict[str, str]
    """File of each node below the folder; with `--redact`, only the redacted file of each placeholder."""
    missing: tuple[MissingNode, ...] = ()


class _Line(Record, kw_only=True):
    """The marked line of a node."""

    recording: str
    """Recording, packed with gzip, in base64."""


@stage("capture")
def capture_fleet(run: FleetRun, *, redacting: bool = False) -> Generator[Event, None, FleetCapture]:
    """Ask the nodes that have no recording in the folder; the result is a FleetCapture.

    With `redacting`, the copies to share are written too, and the result names only them. Raises OutputError
    if a recording cannot be kept.
    """
    wanted = write_meta(run.folder, run.meta).wanted
    to_ask = unanswered(run.folder, reports_of(run.folder, run.nodes))
    yield from asked(run, to_ask, _keeping(run.folder))
    kept = {node: file for node in wanted if (run.folder / (file := recording_of(node))).exists()}
    ends = ends_of(run.folder)
    missing = tuple(_missing(ends.get(node) or unfinished(node)) for node in run.nodes if node not in kept)
    captured = FleetCapture(
        folder=str(run.folder), engine=run.engine.id, wanted=run.nodes, recordings=kept, missing=missing
    )
    if not redacting:
        return captured
    hosts = host_placeholders(wanted)
    known = HostNames(hosts, spares_parts=True)
    salt = secrets.token_bytes()
    for number, (node, file) in enumerate(kept.items(), 1):
        path = run.folder / file
        recording, _ = redact(load_recording(read_bytes(path), str(path)), salt=salt, hosts=known)
        named = msgspec.structs.replace(recording, title=f"{hosts[node]}, redacted")
        _write(run.folder / REDACTED / f"{hosts[node]}.json.gz", dump_recording(named))
        yield Progress(stage="capture", message=f"redacted {hosts[node]}", done=number, total=len(kept))
    return msgspec.structs.replace(
        captured,
        wanted=tuple(hosts[node] for node in run.nodes),
        recordings={hosts[node]: f"{REDACTED}/{hosts[node]}.json.gz" for node in kept},
        missing=tuple(msgspec.structs.replace(each, node=hosts[each.node], detail="") for each in missing),
    )


def _missing(end: NodeEnd) -> MissingNode:
    detail = end.detail or ("ended without a recording: is this rigtune on the node?" * (end.outcome == "ok"))
    return MissingNode(node=end.node, outcome=end.outcome, detail=detail)


@contextmanager
def _keeping(folder: Path) -> Iterator[Callable[[NodeLine | NodeEnd], None]]:
    """Yield a function that keeps recordings as files of their nodes, and outcomes in the journal."""
    faults: dict[str, str] = {}
    with journal(folder) as keep_end:

        def keep(event: NodeLine | NodeEnd) -> None:
            if isinstance(event, NodeEnd):
                keep_end(event._replace(detail=faults.get(event.node, event.detail)))
                return
            try:
                data = _recording_in(event)
            except (InputError, ValueError) as error:
                faults[event.node] = f"sent something that is no recording: {one_line(str(error))}"
                return
            _write(folder / recording_of(event.node), data)

        yield keep


def _recording_in(line: NodeLine) -> bytes:
    """Return the file of the recording in the line of a node, which is untrusted.

    Raises InputError and ValueError for anything else.
    """
    packed = base64.b64decode(msgspec.json.decode(line.text, type=_Line).recording, validate=True)
    return dump_recording(load_recording(packed, line.node))


def _write(path: Path, data: bytes) -> None:
    write_bytes(path, gzip.compress(data), 0o600)


def recorded_line(data: bytes) -> str:
    """Return the line by which a node sends the file of its recording."""
    return json.dumps({"recording": base64.b64encode(gzip.compress(data)).decode()})
