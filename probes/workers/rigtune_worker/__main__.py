"""Run one benchmark on this rank: `python -m rigtune_worker BENCH --request FILE --out DIR`.

The rank runs alone or under torchrun.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import itertools
import json
import os
import time
from typing import Any

from .protocol import Answer, CaseError, SetupError, is_out_of_memory, is_peer_lost
from .rank_conditions import conditions, device_uuid, host_conditions
from .worker_process import die_with_parent, print_exception, run_and_leave

BENCHES = (
    "gemm",
    "attention",
    "memory-copy",
    "launch-latency",
    "host-device",
    "peer-copy",
    "sustained",
    "memory-test",
    "collectives",
    "isolation",
    "pairs",
    "host-memory",
    "cpu-gemm",
    "storage",
    "data-loader",
    "train-step",
    "train-cnn",
    "micro-batch",
    "overlap",
    "own-step",
    "noise-scale",
    "network",
    "across-nodes",
)
"""Modules of `rigtune_worker.bench` (with `-` as `_`) that have `run(request, answer, device)`."""
POLL_S = 0.02
LOST_PEER_S = 5.0
"""Seconds to wait for the launcher; torch's agent checks its ranks ten times a second."""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m rigtune_worker", description="Run one benchmark on this rank."
    )
    parser.add_argument("bench", nargs="?", choices=BENCHES)
    parser.add_argument("--request", help="JSON with device, backend, budget_s, cases and model")
    parser.add_argument("--out", help="existing folder for rank<N>.jsonl")
    parser.add_argument(
        "--orders", help="a folder of orders, to be run one after the other by the same ranks"
    )
    options = parser.parse_args()
    if options.orders is None and not (options.bench and options.request and options.out):
        parser.error("BENCH, --request and --out are needed, or --orders")
    die_with_parent()
    with contextlib.ExitStack() as group:
        if options.orders is not None:
            code = run_orders(options.orders, group)
        else:
            code = run_order(options.bench, options.request, options.out, group)
        if code:
            group.pop_all()  # destroying the group needs all ranks
    return code


def run_orders(folder: str, group: contextlib.ExitStack) -> int:
    """Run the orders of a folder (1.json, 2.json ...) until an order is empty or fails.

    Return the exit code.
    """
    for number in itertools.count(1):
        order = wait_for_order(os.path.join(folder, "%d.json" % number))
        if not order:
            break
        code = run_order(order["bench"], order["request"], order["out"], group)
        if code:
            return code
        free_memory()
        with open(os.path.join(order["out"], "ended" + rank()), "w", encoding="ascii"):
            pass
    return 0


def wait_for_order(path: str) -> dict[str, Any]:
    while not os.path.exists(path):
        time.sleep(POLL_S)
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def free_memory() -> None:
    """Free memory, so that the next benchmark starts with as much free memory as this one had."""
    import torch  # noqa: PLC0415 - some benchmarks run where no torch is

    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def rank() -> str:
    return os.environ.get("RANK", "0")


def run_order(bench: str, request_path: str, out: str, group: contextlib.ExitStack) -> int:
    """Run one benchmark and return the exit code, 1 for a failure.

    `group` keeps the process group for later orders.
    """
    with open(request_path, encoding="utf-8") as file:
        request = json.load(file)
    answer = Answer(out, int(rank()))
    try:
        measure(bench, request, answer, group)
    except Exception as error:  # any error of torch is the benchmark's result
        kind, message = getattr(error, "kind", "unsupported"), str(error)
        if not isinstance(error, (SetupError, CaseError)):
            print_exception()
            kind = "out_of_memory" if is_out_of_memory(error) else "crashed"
            message = message.strip() or type(error).__name__
        if is_peer_lost(error):
            # Another rank's end caused the error. The launcher reports the first rank that ends as the
            # cause, so this rank waits until the launcher ends it.
            time.sleep(LOST_PEER_S)
        answer.failure(kind, message)
        return 1
    return 0


def measure(bench: str, request: dict[str, Any], answer: Answer, group: contextlib.ExitStack) -> None:
    run = importlib.import_module("rigtune_worker.bench." + bench.replace("-", "_")).run
    if not request.get("needs_torch", True):
        answer.start(int(rank()), int(os.environ.get("WORLD_SIZE", "1")), "", host_conditions())
        run(request, answer, None)
        answer.done(host_conditions())
        return
    import torch.distributed as dist  # noqa: PLC0415 - some benchmarks run where no torch is

    from .parallel import choose_device, process_group  # noqa: PLC0415

    device = choose_device(request["device"])
    if not dist.is_initialized():
        group.enter_context(process_group(request["backend"], device))
    answer.start(dist.get_rank(), dist.get_world_size(), device_uuid(device), conditions(device))
    run(request, answer, device)
    answer.done(conditions(device))


if __name__ == "__main__":
    run_and_leave(main)
