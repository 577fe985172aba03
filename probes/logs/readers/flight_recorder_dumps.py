"""Reader of dumps of torch's flight recorder: one file per rank, as JSON or as a pickle that is not executed.

Source: pytorch/pytorch, torch/csrc/distributed/c10d/FlightRecorder*.{hpp,cpp} and TraceUtils.h, versions 1.0
to 2.10 of the dump (torch 2.2 to 2.13, read 2026-11).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from probes.base.grouping import grouped
from probes.base.patterns import pattern
from probes.logs.event import Event, LogLine, event_of
from probes.logs.events.flight_recorder_events import (
    RecordedCollective,
    TorchFlightRecorder,
    TorchFlightRecorderEntry,
    TorchFlightRecorderGroup,
    TorchFlightRecorderRefused,
    TorchFlightRecorderStuck,
    TorchFlightRecorderUnread,
)
from probes.logs.readers.safe_pickle import NotPlainError, RefusedError, loads

DOCUMENT_SIGNS: tuple[bytes, ...] = (
    b"pg_config",
    b"profiling_name",
    b"nccl_comm_state",
    b"comm_lib_version",
    b"nccl_version",
)
_OURS = (b"profiling_name", b"pg_config", b"entries")
_PICKLE = b"\x80"
"""First byte of pickles of protocol 2 or later, which torch and Python write."""
_RANK_OF_NAME = pattern(r"(\d{1,7})(?:\.(?:json|pkl|pickle|bin|txt))?$")
_MOST_ENTRIES = 100_000
_AROUND = 4
"""Number of collectives that are reported before the first that hangs, and as many from there on."""
_MOST_GROUPS = 512
_LONGEST = 160
_DONE = "completed"


def read_document(name: str, data: bytes) -> tuple[Event, ...]:
    """Return the events of a dump; empty if the file is not a dump."""
    if data.lstrip()[:1] not in {_PICKLE, b"{"} or not any(word in data for word in _OURS):
        return ()
    line = LogLine(source=name, number=1, text=name.rpartition("/")[2], raw="")
    try:
        dump = _load(data)
    except NotPlainError as error:
        record = TorchFlightRecorderRefused if isinstance(error, RefusedError) else TorchFlightRecorderUnread
        return (event_of(record(reason=str(error)), line),)
    if not isinstance(dump, dict) or not isinstance(dump.get("entries"), list | tuple):
        return ()
    rank = _rank(name, dump)
    events = tuple(_events(line, dump))
    return events if rank is None else tuple(msgspec.structs.replace(event, rank=rank) for event in events)


def _load(data: bytes) -> object:
    """Return the value of a dump. Raises NotPlainError."""
    if data.lstrip()[:1] != b"{":
        return loads(data)
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise NotPlainError("the JSON is cut or damaged") from error


def _events(line: LogLine, dump: dict[str, object]) -> Iterator[Event]:
    raw = dump["entries"]
    entries = (
        [entry for entry in raw if isinstance(entry, dict)][-_MOST_ENTRIES:]
        if isinstance(raw, list | tuple)
        else []
    )
    groups = grouped((_group(entry), entry) for entry in entries)
    configured = _dict(dump.get("pg_config"))
    version = dump.get("version")
    read = TorchFlightRecorder(
        entries=len(entries),
        groups=len(configured) or len(groups),
        version=version if isinstance(version, str) else None,
    )
    yield event_of(read, line)
    states = _dict(dump.get("pg_status"))
    for key in list(dict.fromkeys((*configured, *states)))[:_MOST_GROUPS]:
        yield event_of(_status(str(key), _dict(configured.get(key)), _dict(states.get(key))), line)
    for group, calls in list(groups.items())[:_MOST_GROUPS]:
        collectives = [entry for entry in calls if entry.get("is_p2p") is not True]
        place = next((place for place, entry in enumerate(collectives) if _hangs(entry)), None)
        if place is not None:
            entry = collectives[place]
            timeout = entry.get("timeout_ms")
            stuck = TorchFlightRecorderStuck(
                **_entry(group, entry),
                timeout_ms=timeout if isinstance(timeout, int) else None,
                place=_place(entry) or None,
            )
            yield event_of(stuck, _worded(line, stuck))
        end = len(collectives) if place is None else place + _AROUND
        for entry in collectives[max(0, end - 2 * _AROUND) : end]:
            collective = TorchFlightRecorderEntry(**_entry(group, entry))
            yield event_of(collective, _worded(line, collective))


def _hangs(entry: dict[str, object]) -> bool:
    return entry.get("state") != _DONE and entry.get("retired") is not True


def _worded(line: LogLine, entry: RecordedCollective) -> LogLine:
    """Return a line that describes an entry, because dumps have no lines."""
    place = entry.place if isinstance(entry, TorchFlightRecorderStuck) else None
    parts = (entry.op, entry.seq, entry.state, entry.sizes, place)
    words = " ".join(str(part) for part in parts if part is not None)
    return line._replace(text=f"{line.text}: group {entry.group}: {words}")


def _group(entry: dict[str, object]) -> str:
    """Return the name of the group, which all its ranks share; old dumps have only its number."""
    group = entry.get("process_group")
    if isinstance(group, list | tuple) and group:
        return str(_short(group[0]))
    return str(_short(entry.get("pg_id", "0")))


def _status(key: str, config: dict[str, object], state: dict[str, object]) -> TorchFlightRecorderGroup:
    desc, members = config.get("desc"), config.get("ranks")
    return TorchFlightRecorderGroup(
        group=str(_short(config.get("name", key))),
        desc=_short(desc) if desc else None,
        members=_short(members) if members else None,
        enqueued=_whole(state.get("last_enqueued_collective")),
        started=_whole(state.get("last_started_collective")),
        completed=_whole(state.get("last_completed_collective")),
    )


def _entry(group: str, entry: dict[str, object]) -> dict[str, Any]:
    """Return the common fields of all records of a collective."""
    name = entry.get("profiling_name")
    fields: dict[str, Any] = {
        "group": group,
        "op": str(name).rpartition(":")[2][:_LONGEST] if isinstance(name, str) else "?",
        "state": str(_short(entry.get("state", "?"))),
    }
    number = _whole(entry.get("collective_seq_id", entry.get("seq_id")))
    if number is not None:
        fields["seq"] = number
    for field, key in (("sizes", "input_sizes"), ("dtype", "input_dtypes")):
        if entry.get(key):
            fields[field] = _short(entry[key])
    return fields


def _place(entry: dict[str, object]) -> str:
    """Return the file, line and name of the first frame outside of torch; empty without such a frame."""
    frames = entry.get("frames")
    for frame in frames[:64] if isinstance(frames, list | tuple) else ():
        if not isinstance(frame, dict):
            continue
        file = frame.get("filename")
        if isinstance(file, str) and "/torch/" not in file and "torch\\" not in file:
            return f"{file[-_LONGEST:]}:{_short(frame.get('line', '?'))} {_short(frame.get('name', ''))}"
    return ""


def _rank(name: str, dump: dict[str, object]) -> int | None:
    rank = _whole(dump.get("rank"))
    if rank is not None:
        return rank
    match = _RANK_OF_NAME.search(name.rpartition("/")[2])
    return int(match[1]) if match else None


def _dict(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _whole(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 62:
        return value
    return int(value) if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value) else None


def _short(value: object, depth: int = 3) -> int | str:
    """Return a whole number unchanged, and any other value as a short text; nested lists are shortened."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value if abs(value) < 1 << 62 else "?"
    if isinstance(value, str):
        return value[:_LONGEST]
    if isinstance(value, list | tuple) and depth:
        return f"[{', '.join(str(_short(item, depth - 1)) for item in value[:8])}]"[:_LONGEST]
    return str(value)[:_LONGEST] if isinstance(value, float) else "?"
