"""Set up the process group of a job, and wrap the model for data parallelism."""

from __future__ import annotations

import contextlib
import datetime
import os
from typing import Any, Callable, Iterator

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

from .model import ModelShape, Transformer, initialise
from .protocol import Answer, SetupError
from .timing import Budget

try:
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
except ImportError:  # torch before 2.6
    MixedPrecisionPolicy = fully_shard = None

COLLECTIVE_TIMEOUT = datetime.timedelta(minutes=10)
BUCKET_CAP_MB = 25
"""DDP's default, set explicitly because the plan's memory model relies on it."""


def choose_device(kind: str) -> torch.device:
    """Return this rank's device: the GPU whose number is LOCAL_RANK, or the CPU. Raises SetupError."""
    if kind == "cpu":
        return torch.device("cpu")
    if kind != "cuda":
        raise SetupError(f"device must be cuda or cpu, not {kind!r}")
    if not torch.cuda.is_available():
        raise SetupError(f"no GPU is usable: torch {torch.__version__} finds no CUDA device")
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    if local_rank >= torch.cuda.device_count():
        raise SetupError(f"local rank {local_rank} has no GPU: this process sees {torch.cuda.device_count()}")
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)
    return device


@contextlib.contextmanager
def process_group(backend: str, device: torch.device) -> Iterator[None]:
    """Join the process group of the ranks that the launcher started, or create a group of one rank.

    The launcher sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. Only NCCL's group is destroyed, because
    its threads may still be sending. After an exception the group is not destroyed, because all ranks would
    have to take part, and might wait forever. Gloo's group has sent all data, and destroying it can wait
    forever for its own thread (observed with torch 2.4).
    """
    if backend == "nccl" and not dist.is_nccl_available():
        raise SetupError(f"backend nccl: torch {torch.__version__} was built without NCCL")
    if backend == "gloo" and not dist.is_gloo_available():
        raise SetupError(f"backend gloo: torch {torch.__version__} was built without gloo")
    options: dict[str, Any] = {"timeout": COLLECTIVE_TIMEOUT}
    if backend == "nccl":
        # Binding the device initialises NCCL immediately, and ranks need not guess which GPUs other ranks
        # use.
        options["device_id"] = device
    if "RANK" not in os.environ:
        options.update(store=dist.HashStore(), rank=0, world_size=1)
    dist.init_process_group(backend, **options)
    yield
    if backend == "nccl":
        dist.destroy_process_group()


STRATEGIES = ("ddp", "fsdp", "hsdp")
"""Whole copies, parameters sharded over all ranks, and parameters sharded within groups of ranks."""


def build_model(
    shape: ModelShape,
    *,
    strategy: str,
    precision: str,
    recompute: bool,
    device: torch.device,
    sharing_ranks: int | None = None,
    seed: int = 0,
    bucket_mb: int | None = None,
    prefetch: int | None = None,
) -> nn.Module:
    """Return the model on `device` with fp32 masters, wrapped for the strategy.

    `sharing_ranks` ranks share one copy of the parameters with hsdp; with fsdp all ranks do.

    The weights are the same for every strategy. The model is first built without memory, then filled part by
    part. With FSDP each part is sharded before the next part is filled, so that the whole model is never in
    the memory of one rank. `bucket_mb` is the size of DDP's gradient buckets in MiB, `prefetch` the number of
    blocks whose parameters FSDP gathers in advance; None means the default.
    """
    if strategy not in STRATEGIES:
        raise SetupError(f"strategy must be one of {', '.join(STRATEGIES)}, not {strategy!r}")
    with torch.device("meta"):
        model = Transformer(shape)
    for block in model.blocks:
        block.recompute = recompute
    shard = None
    if strategy != "ddp":
        group = sharing_ranks if strategy == "hsdp" else None
        shard = fsdp_sharder(precision, device, group or dist.get_world_size())
    generator = torch.Generator(device=device).manual_seed(seed)
    for part in model.children():
        for module in part if part is model.blocks else (part,):
            module.to_empty(device=device)
            initialise(module, generator, shape.layers)
            if shard is not None and part is model.blocks:
                shard(module)
    if shard is not None:
        shard(model)  # embeddings, final norm and head
        if prefetch is not None:
            prefetch_blocks(list(model.blocks), prefetch)
        return model
    if dist.get_world_size() == 1:
        return model
    return nn.parallel.DistributedDataParallel(
        model,
        device_ids=[device.index] if device.type == "cuda" else None,
        gradient_as_bucket_view=True,
        bucket_cap_mb=bucket_mb or BUCKET_CAP_MB,
    )


def prefetch_blocks(blocks: list[Any], count: int) -> None:
    """Let FSDP2 gather the parameters of the next `count` blocks while a block computes, in both passes."""
    for place, block in enumerate(blocks):
        block.set_modules_to_forward_prefetch(blocks[place + 1 : place + 1 + count])
        block.set_modules_to_backward_prefetch(blocks[max(0, place - count) : place][::-1])


def fsdp_sharder(precision: str, device: torch.device, sharing_ranks: int) -> Callable[[nn.Module], Any]:
    """Return a function that shards a module over groups of neighbouring ranks (FSDP2).

    If a group has fewer than all ranks, each group has a copy of the parameters (HSDP). Raises SetupError for
    an older torch.
    """
    if fully_shard is None:
        raise SetupError(f"strategy fsdp needs torch 2.6 or newer (FSDP2), this is torch {torch.__version__}")
    # Activations have the parameters' type anyway; rotary angles must stay fp32, because bf16 cannot
    # represent the positions.
    policy = MixedPrecisionPolicy(
        param_dtype=torch.bfloat16 if precision == "bf16" else None,
        reduce_dtype=torch.float32,
        cast_forward_inputs=False,
    )
    groups = dist.get_world_size() // sharing_ranks
    if groups == 1:
        mesh = init_device_mesh(device.type, (sharing_ranks,))
    else:
        names = ("replicate", "shard")
        mesh = init_device_mesh(device.type, (groups, sharing_ranks), mesh_dim_names=names)
    return lambda module: fully_shard(module, mesh=mesh, mp_policy=policy)


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


def agree(device: torch.device, loss: torch.Tensor, *, stop: bool = False) -> tuple[float, bool]:
    """Return the mean loss over ranks, and whether any rank must stop; all ranks leave the loop together."""
    shared = torch.stack((loss.float(), torch.tensor(float(stop), device=device)))
    dist.all_reduce(shared)
    total, stops = shared.tolist()
    return total / dist.get_world_size(), stops > 0
