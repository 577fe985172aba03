"""Set up the process group of a job, and wrap the model for data parallelism."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any, Callable, Iterator

import torch
import torch.distributed as dist
from torch import nn

from .model import ModelShape, Transformer, initialise
from .protocol import Answer, SetupError
from .rigtune_helper import FREEING_S, Layout, Plan, PlanError, join
from .rigtune_helper import choose_device as device_of_rank
from .rigtune_helper import recompute as recompute_blocks
from .timing import Budget


def choose_device(kind: str) -> torch.device:
    """Return this rank's device: the GPU whose number is LOCAL_RANK, or the CPU. Raises SetupError."""
    if kind not in ("cpu", "cuda"):
        raise SetupError(f"device must be cuda or cpu, not {kind!r}")
    if kind == "cuda":
        if not torch.cuda.is_available():
            raise SetupError(f"no GPU is usable: torch {torch.__version__} finds no CUDA device")
        local_rank, seen = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
        if local_rank >= seen:
            raise SetupError(f"local rank {local_rank} has no GPU: this process sees {seen}")
    return device_of_rank(kind)


@contextlib.contextmanager
def process_group(backend: str, device: torch.device) -> Iterator[None]:
    """Join the process group of the ranks that the launcher started, or create a group of one rank.

    The launcher sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. Only NCCL's group is destroyed, because
    its threads may still be sending. After an exception the group is not destroyed, because all ranks would
    have to take part, and might wait forever. Gloo's group has sent all data, and destroying it can wait
    forever for its own thread (observed with torch 2.4); a short wait lets its threads free their tensors.
    """
    if backend == "nccl" and not dist.is_nccl_available():
        raise SetupError(f"backend nccl: torch {torch.__version__} was built without NCCL")
    if backend == "gloo" and not dist.is_gloo_available():
        raise SetupError(f"backend gloo: torch {torch.__version__} was built without gloo")
    join(backend, device)
    yield
    if backend == "nccl":
        dist.destroy_process_group()
    else:
        time.sleep(FREEING_S)


def build_model(shape: ModelShape, plan: Plan, device: torch.device, *, seed: int = 0) -> nn.Module:
    """Return the model on `device` with fp32 masters, divided as `rigtune_helper` divides a user's model.

    Raises SetupError for a plan that the helper cannot apply to these ranks.

    The weights are the same for every strategy. The model is first built without memory, then filled part by
    part. With FSDP each part is sharded before the next part is filled, so that the whole model is never in
    the memory of one rank.
    """
    try:
        plan.check(dist.get_world_size())
    except PlanError as error:
        raise SetupError(str(error)) from None
    with torch.device("meta"):
        model = Transformer(shape)
    layout, blocks = Layout(plan, device), list(model.blocks)
    recompute_blocks(blocks, plan, keeps_random_state=False)
    generator = torch.Generator(device=device).manual_seed(seed)
    for part in model.children():
        for module in part if part is model.blocks else (part,):
            module.to_empty(device=device)
            initialise(module, generator, shape.layers)
            if plan.is_sharded and part is model.blocks:
                layout.shard(module)
    return layout.wrap(model, blocks)


def barrier() -> None:
    """Wait for all ranks."""
    if dist.get_world_size() > 1:
        dist.barrier()


def largest(device: torch.device, *values: float) -> list[float]:
    """Return the largest of each value over ranks; exact for whole numbers below 2**53."""
    shared = torch.tensor(
        values, dtype=torch.float64, device=device if dist.get_backend() == "nccl" else "cpu"
    )
    dist.all_reduce(shared, op=dist.ReduceOp.MAX)
    return shared.tolist()


def agreed(device: torch.device) -> Callable[[float], float]:
    """Return a function that gives every rank the largest of all ranks' numbers (`timing.time_calls`)."""
    return lambda value: largest(device, value)[0]


def cases_within_budget(
    request: dict[str, Any], answer: Answer, device: torch.device
) -> Iterator[tuple[dict[str, Any], float]]:
    """Yield each case with its time budget in seconds, which is equal on every rank.

    The ranks wait for each other before each case. Cases after the end of the budget are reported as skipped,
    so that a slow machine exceeds the budget by one case at most.
    """
    budget = Budget(request["budget_s"], len(request["cases"]))
    for case in request["cases"]:
        share_s = shared_share(budget, device)
        if share_s > 0:
            yield case, share_s
        else:
            answer.skipped(case, budget.over)


def shared_share(budget: Budget, device: torch.device) -> float:
    """Return the seconds for the next case: the smallest over ranks, because each rank has its own clock."""
    return -largest(device, -budget.next_case())[0]
