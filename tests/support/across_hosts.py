"""Make small requests over several hosts, and run them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from assistant.usecases.bench.bench_run import RunEnded, run_request
from assistant.usecases.bench.bench_session import Sessions
from assistant.usecases.bench.bench_watch import Watch
from probes.bench.across_nodes import pairs_request
from probes.bench.bench_requests import BenchRequest, Case, SpreadBy
from tests.support.bench_answers import BENCHES, bench_context, requests
from tests.support.machines import cpu_box

KIB = 1024
COLLECTIVES: tuple[Case, ...] = tuple(
    {"collective": name, "bytes": 64 * KIB} for name in ("all_reduce", "all_gather", "all_to_all")
)


def tiny_request(
    hosts: tuple[str, ...], spread_by: SpreadBy, *, ranks: int, bench_id: str = "across-nodes"
) -> BenchRequest:
    """Return a request for collectives of 64 KiB and all pairs, or for TCP with one stream."""
    context = bench_context(ranks=ranks // len(hosts), hosts=hosts, spread_by=spread_by)
    if bench_id == "network":
        (request,) = requests("network", hosts=hosts, spread_by=spread_by)
        return msgspec.structs.replace(
            request, cases=tuple(case for case in request.cases if case["streams"] == 1)
        )
    request = pairs_request(context, hosts)
    cases = (*COLLECTIVES, *({**case, "bytes": 64 * KIB} for case in request.cases))
    return msgspec.structs.replace(request, cases=cases, budget_s=2.0)


def measured_across(
    request: BenchRequest, python: str, directory: Path, stop: Callable[[], bool] = lambda: False
) -> RunEnded:
    module, watch = BENCHES[request.bench_id], Watch(cpu_box())
    with Sessions() as sessions:
        *_, ended = run_request(request, module, python, directory, stop=stop, watch=watch, sessions=sessions)
    assert isinstance(ended, RunEnded)
    return ended
