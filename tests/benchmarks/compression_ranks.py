"""One rank of `compression_on_a_slow_network.py`: trains with several ways to exchange gradients, in turn.

Runs in an interpreter with torch, as `compression_ranks.py RANK ADDRESS SETTINGS`; rank 0 prints JSON.
"""

from __future__ import annotations

import datetime
import json
import logging
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "probes" / "workers"))

import torch
import torch.distributed as dist
from rigtune_worker.model import ModelShape, Transformer
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.nn.parallel import DistributedDataParallel

Step = Callable[[], None]
WHOLE_MODEL_MB = 1000
"""Size of a bucket that holds all gradients of the benchmark's model."""


def in_bf16(group, bucket):
    """Call torch's hook under another name, because DDP refuses the hook by its name without NCCL.

    DDP compares the annotations of a hook with types, so this function has none.
    """
    return default_hooks.bf16_compress_hook(group, bucket)


def make_step(way: str, shape: ModelShape, settings: dict) -> Step:
    """Return the function that takes one optimizer step."""
    torch.manual_seed(0)
    model = Transformer(shape)
    averager = None
    trained: torch.nn.Module = model
    if way == "local-sgd":
        averager = PeriodicModelAverager(period=settings["period"])
    elif way == "powersgd":
        # The hook starts all-reduces in callbacks, whose order differs between ranks if there are several
        # buckets; gloo then ends with "distributed collective mismatch". One bucket has one order.
        trained = DistributedDataParallel(model, bucket_cap_mb=WHOLE_MODEL_MB)
    elif way != "alone":
        trained = DistributedDataParallel(model)
    if way == "fp16-compression":
        trained.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif way == "bf16-compression":
        trained.register_comm_hook(None, in_bf16)
    elif way == "powersgd":
        state = PowerSGDState(None, matrix_approximation_rank=settings["rank"], start_powerSGD_iter=2)
        trained.register_comm_hook(state, powerSGD_hook)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.randint(0, shape.vocab, (settings["micro_batch"], shape.sequence_length + 1))

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        logits = trained(tokens[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        if averager is not None:
            averager.average_parameters(model.parameters())

    return step


def timed(work: Callable[[], None], repeats: int) -> float:
    """Return the mean seconds of a run; `repeats` runs take place between two barriers."""
    dist.barrier()
    start = time.perf_counter()
    for _ in range(repeats):
        work()
    dist.barrier()
    return (time.perf_counter() - start) / repeats


def rates(size: int) -> dict[str, float]:
    """Return what the predictor needs: seconds of all-reduces, FLOP/s of a product, bytes/s of a copy."""
    small, large = torch.zeros(1), torch.zeros(size // 4)
    left, right = torch.randn(1024, 256), torch.randn(256, 688)
    source, target = torch.zeros(2**24), torch.zeros(2**24)
    return {
        "small_s": timed(lambda: dist.all_reduce(small), 10),
        "large_s": timed(lambda: dist.all_reduce(large), 1),
        "flops_per_s": 2 * 1024 * 256 * 688 / timed(lambda: torch.mm(left, right), 20),
        "bytes_per_s": 2 * 4 * 2**24 / timed(lambda: target.copy_(source), 3),
    }


def main() -> None:
    rank, address, settings = int(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
    logging.disable()
    torch.set_num_threads(1)
    limit = datetime.timedelta(seconds=300)
    dist.init_process_group(
        "gloo", init_method=f"tcp://{address}:29400", rank=rank, world_size=2, timeout=limit
    )
    shape = ModelShape.from_dict(settings["shape"])
    steps: dict[str, Step] = {}
    refused: dict[str, str] = {}
    for way in settings["ways"]:
        try:
            step = make_step(way, shape, settings)
            for _ in range(settings["warm_up"]):
                step()
            steps[way] = step
        except (RuntimeError, TypeError) as error:
            refused[way] = str(error).splitlines()[0]
    size = 4 * sum(p.numel() for p in Transformer(shape).parameters())
    times: dict[str, list[float]] = {way: [] for way in steps}
    measured: list[dict[str, float]] = []
    order = random.Random(0)  # noqa: S311 - the order of the measurements, the same on both ranks
    for _ in range(settings["rounds"]):
        measured.append(rates(size))
        ways = list(steps)
        order.shuffle(ways)
        for way in ways:
            times[way].append(timed(steps[way], settings["period"]))
    if rank == 0:
        print(json.dumps({"times": times, "rates": measured, "refused": refused, "bytes": size}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
