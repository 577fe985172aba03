"""The report of the smoke test (`rigtune_worker.smoke`): one record per rank, and failures."""

from collections.abc import Iterable
from typing import Annotated, NamedTuple, TypeAlias

import msgspec

from probes.base.record import Record

_Count = Annotated[int, msgspec.Meta(ge=0, le=10**7)]
_Text = Annotated[str, msgspec.Meta(max_length=2000)]
_MOST_PROBLEMS = 3
"""Largest number of problems that a report keeps."""


class RankRecord(Record, kw_only=True, tag_field="event", tag="rank"):
    """The place, the backend and the sums of one rank."""

    rank: _Count
    world_size: _Count
    local_rank: _Count
    local_world_size: _Count
    host: _Text
    backend: _Text
    backend_reason: _Text = ""
    """Reason why the backend is not the planned backend; empty if it is."""
    device: _Text
    device_name: _Text = ""
    device_id: _Text = ""
    """Unique id of the GPU; empty for a CPU and for an older torch."""
    threads: _Count = 0
    """CPU threads of this rank."""
    torch_version: _Text = ""
    rank_sum: float
    """Sum of rank + 1 over all ranks of the world."""
    nonce_sum: float
    """Sum of the run's number over all ranks of the world."""
    one_sum: float
    """Number of ranks that took part in the all-reduce."""
    nccl_log: Annotated[str, msgspec.Meta(max_length=40000)] = ""
    """Ends of the lines of NCCL's log that name a transport."""


class RankFailed(Record, kw_only=True, tag_field="event", tag="failed"):
    """The failure of one rank."""

    kind: _Text
    """`missing_ranks`, `foreign_world`, `rank_twice`, `port_in_use`, `unreachable`, `hang` ..."""
    message: _Text
    stage: _Text = ""
    """Part of the test that failed: `connect`, `hello`, `group`, `all-reduce`, `report`."""
    rank: _Count = 0
    world_size: _Count = 0
    host: _Text = ""
    master: _Text = ""
    """Address and port at which the ranks meet."""
    joined: tuple[_Count, ...] = ()
    """Ranks that joined, as this rank knows."""


class SmokeDone(Record, kw_only=True, tag_field="event", tag="done"):
    """The last line of a complete report."""


_Line: TypeAlias = RankRecord | RankFailed | SmokeDone


class SmokeReport(NamedTuple):
    """The reports of all ranks together."""

    ranks: tuple[RankRecord, ...] = ()
    failures: tuple[RankFailed, ...] = ()
    problems: tuple[str, ...] = ()
    """Descriptions of files that cannot be read and of lines that are not records, the first ones only."""


def read_smoke_report(parts: Iterable[bytes], unread: Iterable[str] = ()) -> SmokeReport:
    """Return the records in the report of rank 0 and in the files of failed ranks.

    `unread` has a sentence for each of these files that cannot be read. Lines that are not records become
    problems too; no input raises an error.
    """
    ranks: list[RankRecord] = []
    failures: list[RankFailed] = []
    problems = [*unread]
    for data in parts:
        for number, line in enumerate(data.split(b"\n"), 1):
            if not line.strip():
                continue
            try:
                record = msgspec.json.decode(line, type=_Line)
            except (UnicodeError, msgspec.DecodeError, RecursionError) as error:
                problems.append(f"line {number} of the report is wrong: {error}")
                continue
            match record:
                case RankRecord():
                    ranks.append(record)
                case RankFailed():
                    failures.append(record)
    return SmokeReport(tuple(ranks), tuple(failures), tuple(problems[:_MOST_PROBLEMS]))
