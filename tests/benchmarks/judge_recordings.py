"""Judge recordings of nodes in one process, as for a fleet; print milliseconds per node beside the limit of 30 ms.

python -m tests.benchmarks.judge_recordings [NODES]

Each node is read anew from a file: facts from the recording, then all checks, then the verdict. The files have
the same content.
"""

from __future__ import annotations

import contextlib
import io
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from assistant.cli import command_line
from assistant.usecases.check import evidence_under, verdict_on
from assistant.usecases.events import Event, StageFinished
from assistant.usecases.probe import probe_machine
from probes.collect.collecting import CollectOptions
from probes.facts import MachineFacts
from probes.judging.policies.policy import Policy
from probes.judging.policies.selection import select
from probes.sources.choose import open_source

BAR_MS = 30.0
WARM_UP = 5
FILES = 50
"""Number of files, all copies of one recording; if there are more nodes, several nodes read the same file."""


def result(events: Iterator[Event]) -> MachineFacts:
    *_, end = events
    assert isinstance(end, StageFinished)
    facts: MachineFacts = end.result
    return facts


def write_recordings(folder: Path) -> tuple[Path, ...]:
    paths = tuple(folder / f"node{number}.json" for number in range(FILES))
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())):
        command_line(["probe", "--machine", "dgx-h100", "--record", str(paths[0])])
    for path in paths[1:]:
        path.write_bytes(paths[0].read_bytes())
    return paths


def judge(path: Path) -> tuple[float, float]:
    """Return milliseconds of wall and of CPU time for one node."""
    wall, cpu = time.perf_counter(), time.process_time()
    facts = result(probe_machine(open_source((path,)), CollectOptions()))
    verdict_on(evidence_under(Policy(), facts, today=None), select("deep").rows)
    return (time.perf_counter() - wall) * 1e3, (time.process_time() - cpu) * 1e3


def main(nodes: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        paths = write_recordings(Path(scratch))
        size = paths[0].stat().st_size
        for path in paths[:WARM_UP]:
            judge(path)
        times = [judge(paths[number % FILES]) for number in range(nodes)]
    walls, cpus = zip(*times, strict=True)
    print(
        f"{nodes} recordings of {size / 1e3:.0f} kB: {statistics.median(walls):.1f} ms wall, "
        f"{statistics.median(cpus):.1f} ms CPU each (median; bar {BAR_MS:g} ms on one core); 10 000 nodes: "
        f"{statistics.mean(cpus) * 10:.0f} s of CPU"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
