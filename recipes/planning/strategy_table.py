"""The strategies that planning tries, in this order, and the batches that ranks can share.

For every candidate micro_batch x grad_accum x ranks is exactly the global batch. To add a strategy, write a
row here.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from probes.base.errors import UsageError
from recipes.job.candidate import ActivationCheckpointing, Candidate, Degrees
from recipes.job.workload import Pins, Workload
from recipes.machine.cluster_records import Cluster

OFFERED_CHECKPOINTING: tuple[ActivationCheckpointing, ...] = ("none", "full")
"""Checkpointing modes that a recipe can request from the reference workload."""


def divisors(number: int) -> tuple[int, ...]:
    """Return all divisors in ascending order."""
    small = [candidate for candidate in range(1, int(number**0.5) + 1) if number % candidate == 0]
    return tuple(sorted({*small, *(number // candidate for candidate in small)}))


def nearest_global_batches(global_batch: int, multiple: int) -> tuple[int, ...]:
    """Return the nearest valid global batches below and above, at least one of them.

    Valid batches are multiples of the number of ranks (times a pinned micro-batch).
    """
    below = global_batch // multiple * multiple
    return (below, below + multiple) if below else (multiple,)


def round_global_batch(global_batch: int, multiple: int) -> int:
    """Return the nearest valid global batch; the larger one of two equally near batches."""
    return min(
        nearest_global_batches(global_batch, multiple), key=lambda valid: (abs(valid - global_batch), -valid)
    )


def require_divisible(workload: Workload, cluster: Cluster, pins: Pins) -> None:
    """Raise UsageError with the two nearest valid global batches if the ranks cannot share this one."""
    multiple = cluster.world_size * (pins.micro_batch or 1)
    if workload.global_batch % multiple == 0:
        return
    pinned = f" x micro-batch {pins.micro_batch}" if pins.micro_batch else ""
    nearest = " or ".join(str(valid) for valid in nearest_global_batches(workload.global_batch, multiple))
    raise UsageError(
        f"global batch {workload.global_batch} cannot be shared by {cluster.world_size} ranks{pinned}",
        f"choose a global batch of {nearest}, or another number of ranks",
    )


def divisions(workload: Workload, pins: Pins, *, strategy: str, degrees: Degrees) -> Iterator[Candidate]:
    """Yield the candidates of one strategy.

    Each checkpointing mode has every micro-batch that divides the ranks' share, ascending.
    """
    share = workload.global_batch // (degrees.dp * degrees.fsdp)
    for mode in OFFERED_CHECKPOINTING:
        if pins.activation_checkpointing not in (None, mode):
            continue
        for micro_batch in (pins.micro_batch,) if pins.micro_batch else divisors(share):
            yield Candidate(
                strategy=strategy,
                degrees=degrees,
                micro_batch=micro_batch,
                grad_accum=share // micro_batch,
                global_batch=workload.global_batch,
                activation_checkpointing=mode,
                precision=workload.precision,
            )


class Strategy(NamedTuple):
    """One way to divide the work over the ranks."""

    id: str
    degrees: Callable[[int], Degrees]
    """Function that returns the degrees of parallelism for a number of ranks."""
    needs_peers: bool = False
    """Whether the strategy is of no use for one rank; it is then considered for one rank only if the user
    pins it.
    """

    def candidates(self, workload: Workload, cluster: Cluster, pins: Pins) -> Iterator[Candidate]:
        """Yield each micro-batch that divides the ranks' share, ascending, without and with checkpointing."""
        ranks = cluster.world_size
        if ranks > 1 or not self.needs_peers or pins.strategy == self.id:
            yield from divisions(workload, pins, strategy=self.id, degrees=self.degrees(ranks))


STRATEGIES = (
    # Distributed data parallel: every rank has the whole model and reduces gradients once per step.
    Strategy("ddp", lambda ranks: Degrees(dp=ranks)),
    # Fully sharded data parallel (FSDP2): all ranks share parameters, gradients and optimizer states.
    Strategy("fsdp", lambda ranks: Degrees(fsdp=ranks), needs_peers=True),
)
