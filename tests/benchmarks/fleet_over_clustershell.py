"""Start local processes in place of nodes by rigtune's engine and by ClusterShell alone; print the ratios of CPU times.

python -m tests.benchmarks.fleet_over_clustershell [NODES]
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ClusterShell.Event import EventHandler
from ClusterShell.NodeSet import NodeSet
from ClusterShell.Task import task_self

from assistant.engines.clustershell_runs import nodes_of
from assistant.engines.engine_table import choose_engine
from assistant.usecases.fleet.check_fleet import FleetRun, check_fleet

BAR = 1.2
LINE = '@rigtune {"node": "n", "outcome": "ok", "verdict": "PASS"}'


def cpu_s() -> float:
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


class Lines(EventHandler):  # type: ignore[misc]
    """Count lines, which is the least work that a caller of ClusterShell can do."""

    count = 0

    def ev_read(self, worker: object, node: str, sname: str, msg: bytes) -> None:
        self.count += 1


def bare(nodes: int) -> None:
    task = task_self()
    for name in ("stdout_msgtree", "stderr_msgtree"):
        task.set_default(name, False)  # noqa: FBT003 - the library's signature
    task.set_default("distant_workername", "exec")
    task.set_info("fanout", 64)
    task.shell(f"timeout -k 5 60 echo '{LINE}'", nodes=NodeSet(f"n[1-{nodes}]"), handler=Lines(), timeout=70)
    task.resume()


def ours(nodes: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        run = FleetRun(
            engine=choose_engine("exec", has_pattern=True)[0],
            engine_reason="benchmark",
            nodes=nodes_of(f"n[1-{nodes}]"),
            command=("echo", LINE),
            limit_s=60,
            folder=Path(scratch),
        )
        *_, end = check_fleet(run)
        assert len(end.result.good) == nodes


def measured(work: Callable[[int], None], nodes: int) -> tuple[float, float]:
    before, began = cpu_s(), time.perf_counter()
    work(nodes)
    return cpu_s() - before, time.perf_counter() - began


def main(nodes: int) -> None:
    bare(50)  # the first run pays for imports and for threads that later runs reuse
    ours(50)
    pairs = [(measured(bare, nodes), measured(ours, nodes)) for _ in range(3)]
    for (bare_cpu, bare_s), (own_cpu, own_s) in pairs:
        print(
            f"{nodes} nodes: bare {bare_cpu:.2f} s CPU, {bare_s:.1f} s wall; rigtune {own_cpu:.2f} s CPU, "
            f"{own_s:.1f} s wall; ratio of CPU {own_cpu / bare_cpu:.2f} (bar {BAR:g})"
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory {peak:.0f} MB (bar 60 MB)")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000)
