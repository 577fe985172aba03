"""Store a machine's counters in the state directory, so that monitoring judges only their increase.

The file contains two snapshots. Monitoring compares with the older snapshot, so that an error is reported for
at least one window of time, and for at most two. The file is written at most once per window.
"""

import msgspec

from assistant.storage import read_bytes, write_record
from assistant.usecases.bench.baseline import file_of
from probes.base.errors import InputError, OutputError
from probes.base.record import Record, from_json
from probes.judging.counters import Snapshot, is_before

_NAME = "counters"


class _Kept(Record, kw_only=True):
    schema_version: int = 1
    older: Snapshot
    newer: Snapshot


def exchange(machine: str, now: Snapshot, window_s: float) -> tuple[Snapshot | None, str]:
    """Return the earlier counters of the machine, if any, and an error message that may be empty.

    The present counters are stored if there is no snapshot, or if the last snapshot is at least `window_s`
    old. A file that is damaged, or was written before the last boot, is replaced.
    """
    path = file_of(machine, _NAME)
    kept: _Kept | None = None
    try:
        kept = from_json(read_bytes(path), _Kept) if path.exists() else None
    except (InputError, OSError, msgspec.DecodeError):
        kept = None
    if kept is not None and not (is_before(kept.older, now) and is_before(kept.newer, now)):
        kept = None
    complaint = ""
    if kept is None or now.taken_s - kept.newer.taken_s >= window_s:
        try:
            write_record(path, _Kept(older=kept.newer if kept else now, newer=now))
        except OutputError as error:
            complaint = f"counters are not kept for the next run: {error.message}"
    return (kept.older if kept else None), complaint
