"""Compare what each benchmark measures, and for how long, with the expected text.

RIGTUNE_UPDATE_GOLDEN=1 writes the file again. A changed size, round or budget shows as a changed line.
"""

from __future__ import annotations

import os
from pathlib import Path

from probes.bench.bench_requests import BenchContext, BenchRequest, BenchSettings
from tests.support.bench_answers import BENCHES, MODEL
from tests.support.machines import cpu_box, h100, h100_node

FILE = Path(__file__).parent / "text" / "bench-requests.txt"
SETTINGS = BenchSettings(step="train:step", folder="/data", data_path="/data/images", noise_scale=True)


def contexts() -> dict[str, BenchContext]:
    """Return a GPU machine and a CPU machine in both suites, and many hosts."""
    gpus = h100_node(gpus=tuple(h100(index) for index in range(8)))
    hosts = tuple(f"node{number}" for number in range(100))
    result = {}
    for suite in ("quick", "full"):
        common = {"threads_per_rank": 1, "model": MODEL, "settings": SETTINGS, "suite": suite}
        gpu = {"device": "cuda", "backend": "nccl", "ranks_per_node": 8, "facts": gpus, **common}
        cpu = {"device": "cpu", "backend": "gloo", "ranks_per_node": 2, "facts": cpu_box(), **common}
        result[f"8 GPUs, {suite}"] = BenchContext(**gpu)
        result[f"2 CPU ranks, {suite}"] = BenchContext(**cpu)
        result[f"100 hosts of 8 GPUs, {suite}"] = BenchContext(**gpu, hosts=hosts)
        result[f"100 hosts of 2 CPU ranks, {suite}"] = BenchContext(**cpu, hosts=hosts)
    return result


def described(request: BenchRequest) -> str:
    """Return the request in one line: budget, number of cases, and the values of each parameter."""
    names = sorted({name for case in request.cases for name in case})
    parts = [f"{request.ranks} ranks", f"{request.budget_s:g} s", f"{len(request.cases)} cases"]
    for name in names:
        values = list(dict.fromkeys(case[name] for case in request.cases if name in case))
        text = " ".join(map(str, values[:40])) + (" ..." if len(values) > 40 else "")
        parts.append(f"{name} {text}")
    named = {name: value for name, value in request.settings.items() if isinstance(value, int | float)}
    return "; ".join([*parts, *(f"{name}={value}" for name, value in named.items())])


def test_requests_are_as_expected() -> None:
    lines = []
    for title, context in contexts().items():
        for bench_id, bench in BENCHES.items():
            lines += [f"{title}: {bench_id}: {described(request)}" for request in bench.requests(context)]
    text = "\n".join(lines) + "\n"
    if os.environ.get("RIGTUNE_UPDATE_GOLDEN"):
        FILE.write_text(text)
    assert FILE.read_text() == text
