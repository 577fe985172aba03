"""Run one benchmark on this rank: `python -m rigtune_worker BENCH --request FILE --out DIR`, alone or under
torchrun.
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
from .worker_process import die_with_parent, run_and_leave, tell_exception

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
"""Each is a module of `rigtune_worker.bench`, with `-` as `_`, that has `run(request, answer, device)`."""
LOOK_S = 0.02
LOST_PEER_S = 5.0
"""torch's agent looks at its ranks ten times a second."""


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
            group.pop_all()  # taking the group down needs all ranks
    return code


def run_orders(folder: str, group: contextlib.ExitStack) -> int:
    """Run what the folder orders (1.json, 2.json ...) until an empty order comes, or one fails: its exit
    code.
    """
    for number in itertools.count(1):
        order = wait_for_order(os.path.join(folder, "%d.json" % number))
        if not order:
            break
        code = run_order(order["bench"], order["request"], order["out"], group)
        if code:
            return code
        let_go_of_memory()
        with open(os.path.join(order["out"], "ended" + rank()), "w", encoding="ascii"):
            pass
    return 0


def wait_for_order(path: str) -> dict[str, Any]:
    while not os.path.exists(path):
        time.sleep(LOOK_S)
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def let_go_of_memory() -> None:
    """The next benchmark finds the memory as this one did."""
    import torch  # noqa: PLC0415 - some benchmarks run where no torch is

    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def rank() -> str:
    return os.environ.get("RANK", "0")


def run_order(bench: str, request_path: str, out: str, group: contextlib.ExitStack) -> int:
    """One benchmark. `group` keeps the process group for orders to come. The exit code, 1 where it failed."""
    with open(request_path, encoding="utf-8") as file:
        request = json.load(file)
    answer = Answer(out, int(rank()))
    try:
        measure(bench, request, answer, group)
    except (SetupError, CaseError) as error:
        let_the_first_fail(error)
        answer.failure(getattr(error, "kind", "unsupported"), str(error))
    except Exception as error:  # whatever torch raises is the benchmark's result
        tell_exception()
        let_the_first_fail(error)
        message = str(error).strip() or type(error).__name__
        answer.failure("out_of_memory" if is_out_of_memory(error) else "crashed", message)
    else:
        return 0
    return 1


def let_the_first_fail(error: Exception) -> None:
    """Where another rank's end is the reason, wait for the launcher to end this one too: it takes the first
    for the cause.
    """
    if is_peer_lost(error):
        time.sleep(LOST_PEER_S)


def measure(bench: str, request: dict[str, Any], answer: Answer, group: contextlib.ExitStack) -> None:
    run = importlib.import_module("rigtune_worker.bench." + bench.replace("-", "_")).run
    if not request.get("needs_torch", True):
        from .surroundings import host_conditions  # noqa: PLC0415

        answer.start(int(rank()), int(os.environ.get("WORLD_SIZE", "1")), "", host_conditions())
        run(request, answer, None)
        answer.done(host_conditions())
        return
    measure_with_torch(run, request, answer, group)


def measure_with_torch(
    run: Any, request: dict[str, Any], answer: Answer, group: contextlib.ExitStack
) -> None:
    import torch.distributed as dist  # noqa: PLC0415 - some benchmarks run where no torch is

    from .parallel import choose_device, process_group  # noqa: PLC0415
    from .surroundings import conditions, device_uuid  # noqa: PLC0415

    device = choose_device(request["device"])
    if not dist.is_initialized():
        group.enter_context(process_group(request["backend"], device))
    answer.start(dist.get_rank(), dist.get_world_size(), device_uuid(device), conditions(device))
    run(request, answer, device)
    answer.done(conditions(device))


if __name__ == "__main__":
    run_and_leave(main)
