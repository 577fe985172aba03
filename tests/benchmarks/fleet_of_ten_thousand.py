"""Read and compare the stored answers of 10 000 nodes; print time and memory beside the limits of 5 s and 300 MB.

python -m tests.benchmarks.fleet_of_ten_thousand [NODES]
"""

from __future__ import annotations

import datetime
import resource
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from assistant.engines.engine_table import choose_engine
from assistant.usecases.fleet.check_fleet import FleetRun, check_fleet
from assistant.usecases.fleet.fleet_store import add_run
from assistant.usecases.fleet.run_folder import RAW
from probes.fleet.node_report import NodeReport, Reason
from probes.judging.findings import Status
from tests.support.simulated_fleet import Fleet, write_run

BAR_S, BAR_MB = 5.0, 300.0


WEEKS = 12
PASSED = tuple(f"some-check-of-a-node-{number}" for number in range(100))


def reports_of_run(nodes: int) -> list[NodeReport]:
    """Return the reports of a run with slow and failing nodes, as large as those of real nodes."""
    fleet = Fleet(
        nodes,
        1,
        rack_sd=0.005,
        factor=lambda node, gpu: 0.9 if (node, gpu) == (5, 5) else 0.98 if node % 107 == 3 else 1.0,
        attributes=lambda node: {
            "switch": f"s{node // 128}",
            "pdu": f"p{node // 64}",
            "batch": f"b{node % 40}",
            "vbios": "b" if node % 107 == 3 else "a",
            "driver": "580.1",
        },
    )
    failed = Reason(check_id="gpu-count", subject="host", status=Status.FAIL, summary="7 of 8 GPUs")
    return [
        msgspec.structs.replace(
            report,
            passed=PASSED,
            parts={metric.slot: metric.part_id for metric in report.metrics},
            **({"verdict": Status.FAIL, "reasons": (failed,)} if number % 200 == 7 else {}),
        )
        for number, report in enumerate(fleet.run())
    ]


def main(nodes: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder, store = Path(scratch) / "run", Path(scratch) / "store.sqlite"
        reports = reports_of_run(nodes)
        now = datetime.datetime.now(datetime.timezone.utc)
        write_run(folder, reports, now)
        run = FleetRun(
            engine=choose_engine("exec", has_pattern=True)[0],
            engine_reason="all nodes have answered",
            nodes=tuple(report.node for report in reports),
            command=("false",),
            limit_s=1,
            folder=folder,
        )
        long_store = Path(scratch) / "long.sqlite"
        for week in range(1, WEEKS + 1):
            add_run(long_store, f"week {week}", now - datetime.timedelta(weeks=week), reports)
        del reports
        size_mb = (folder / RAW).stat().st_size / 1e6
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        for title, judged_store in (
            ("judged", None),
            ("with states", store),
            ("again", store),
            (f"with {WEEKS} weeks of history", long_store),
        ):
            began, cpu = time.perf_counter(), time.process_time()
            *_, end = check_fleet(run, judged_store)
            wall_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu
            print(
                f"{nodes} nodes, {size_mb:.0f} MB of answers, {title}: {wall_s:.2f} s wall, {cpu_s:.2f} s CPU "
                f"(bar {BAR_S:g} s)"
            )
        result = end.result
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory {peak:.0f} MB, {before:.0f} MB before (bar {BAR_MB:g} MB)")
    print(f"{len(result.good)} good, {len(result.bad)} bad")
    print(f"causes: {[each.subject for each in result.common_causes]}")
    print(f"{len(result.states.changes)} changes of state; brake: {result.states.brake or 'none'}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
