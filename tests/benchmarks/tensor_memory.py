"""Measure the peak memory of tensors on this rank, from before the model is built to after the second training step.

    python -m torch.distributed.run --standalone --nproc-per-node 2 tests/benchmarks/tensor_memory.py
    REQUEST.json OUT

The request is that of the benchmark train-step or train-cnn (`probes.bench.bench_requests.BenchRequest`). Rank N writes
the peaks of its cases in bytes, in their order, to OUT/peaksN.json. On a CPU the peaks come from the memory events of
torch's profiler, which are every allocation and release; on a GPU they come from the CUDA allocator. Needs
`rigtune_worker` on the path.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rigtune_worker.parallel import choose_device, process_group
from rigtune_worker.steps import cnn_step, reference_step
from rigtune_worker.worker_process import die_with_parent, run_and_leave

STEPS = 2
"""Steps of each case: the first creates the optimizer's states, the second has them from its beginning."""
MAKERS: dict[str, Callable[[dict[str, Any], dict[str, Any], torch.device], Callable[[], object]]] = {
    "train-step": reference_step,
    "train-cnn": cnn_step,
}


def run_steps(make: Callable[[], Callable[[], object]]) -> None:
    step = make()
    for _ in range(STEPS):
        step()


def peak_bytes(make: Callable[[], Callable[[], object]], device: torch.device) -> int:
    """Return the peak bytes of tensors while `make` builds a step and while that step runs twice."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        run_steps(make)
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profiler:
        run_steps(make)
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda one: one.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak


def main() -> int:
    die_with_parent()
    request = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    device = choose_device(request["device"])
    make = MAKERS[request["bench_id"]]
    with process_group(request["backend"], device):
        peaks = [
            peak_bytes(lambda case=case: make(case, request["model"], device), device)
            for case in request["cases"]
        ]
    rank = os.environ.get("RANK", "0")
    (Path(sys.argv[2]) / f"peaks{rank}.json").write_text(json.dumps(peaks), encoding="utf-8")
    return 0


if __name__ == "__main__":
    run_and_leave(main)
