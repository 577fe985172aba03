"""Run one collective on known fp32 data, and check this rank's result."""

from __future__ import annotations

import functools
from typing import Callable, Iterator

import torch
import torch.distributed as dist

from .protocol import CaseError
from .rank_conditions import available_on_host

ELEMENT_BYTES = 4
POSITIONS = 97
OWNERS = 61
"""Periods of the data: primes, so that a shifted or swapped chunk is detected.

Up to 2834 ranks, every sum stays below 2**24 and is therefore exact in fp32.
"""
CHUNK = 4 * 1024**2
"""Number of elements that are created or compared at a time, so that a check needs little memory in addition
to the buffers.
"""
NOT_SUPPORTED = ("not support", "no support", "not implemented", "unsupported")
"""Words in the errors of torch's process groups about a missing collective."""

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv")


def buffer_bytes(name: str, size_bytes: int, ranks: int) -> float:
    """Return the device memory of the collective on each rank, without NCCL's own buffers."""
    both = 1 + 1 / ranks
    buffers = {"all_reduce": 1, "broadcast": 1, "all_gather": both, "reduce_scatter": both}
    return size_bytes * buffers.get(name, 2)


class Collective:
    """A collective with its buffers. `size_bytes` is the size of the following data, as in nccl-tests:

    - all_reduce, broadcast: each rank's buffer
    - all_gather: the data that each rank has afterwards
    - reduce_scatter: the data that each rank had before
    - all_to_all: the data that each rank sends, including its own part
    - send_recv: the data that each rank sends to the next rank, in a ring

    The size is rounded down to equal parts for all ranks. Source: nccl-tests, `*GetCollByteCount` in
    src/*.cu. Raises CaseError for a name that is not in `COLLECTIVES`.
    """

    def __init__(self, name: str, size_bytes: int, device: torch.device) -> None:
        if name not in COLLECTIVES:
            raise CaseError("unsupported", f"there is no collective {name!r}")
        self.name, self.device = name, device
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        self.part = max(1, size_bytes // ELEMENT_BYTES // self.world_size)
        whole = self.part * self.world_size
        if name in ("all_reduce", "broadcast", "send_recv"):
            whole = max(1, size_bytes // ELEMENT_BYTES)
        self.sent = torch.empty(self.part if name == "all_gather" else whole, device=device)
        self.received = self.sent
        if name not in ("all_reduce", "broadcast"):
            self.received = torch.empty(self.part if name == "reduce_scatter" else whole, device=device)
        # The functions refer to the buffers and not to `self`: a cycle would keep the device's memory until a
        # garbage collection.
        sent, received = self.sent, self.received
        following, previous = ((self.rank + step) % self.world_size for step in (1, -1))
        self.run: Callable[[], object] = {
            "all_reduce": lambda: dist.all_reduce(received),
            "broadcast": lambda: dist.broadcast(received, src=0),
            "all_gather": lambda: dist.all_gather_into_tensor(received, sent),
            "reduce_scatter": lambda: dist.reduce_scatter_tensor(received, sent),
            "all_to_all": lambda: dist.all_to_all_single(received, sent),
            "send_recv": lambda: exchange(sent, following, received, previous),
        }[name]

    def __call__(self) -> None:
        """Run the collective. Raises CaseError if the backend lacks it."""
        try:
            self.run()
        except RuntimeError as error:
            is_missing = any(sign in str(error).lower() for sign in NOT_SUPPORTED)
            if not is_missing and not isinstance(error, NotImplementedError):
                raise
            why = f"{dist.get_backend()} of torch {torch.__version__} has no {self.name}"
            raise CaseError("unsupported", why) from error

    def wrong_values(self) -> int:
        """Fill the buffers, run the collective, and return the number of wrong values on this rank."""
        if self.received is not self.sent:
            self.received.fill_(-1)
        fill(self.sent, self.rank)
        self()
        wrong = 0
        for owner, first, part in pieces(self.received, self._expected_parts()):
            expected = self._sums if owner < 0 else functools.partial(values, owner)
            wrong += int((part != expected(first, part.numel(), self.device)).sum())
        self.sent.zero_()  # so that repeated sums stay finite
        return wrong

    def _expected_parts(self) -> list[tuple[int, int, int]]:
        """Return the expected parts of `received`: owner (-1 for the sum of ranks), first element, count."""
        whole, owners = self.received.numel(), range(self.world_size)
        return {
            "all_reduce": [(-1, 0, whole)],
            "broadcast": [(0, 0, whole)],
            "all_gather": [(owner, 0, self.part) for owner in owners],
            "reduce_scatter": [(-1, self.rank * self.part, self.part)],
            "all_to_all": [(owner, self.rank * self.part, self.part) for owner in owners],
            "send_recv": [((self.rank - 1) % self.world_size, 0, whole)],
        }[self.name]

    def _sums(self, first: int, count: int, device: torch.device) -> torch.Tensor:
        owners = sum(rank % OWNERS for rank in range(self.world_size))
        return positions(first, count, device) * self.world_size + owners * POSITIONS


def positions(first: int, count: int, device: torch.device) -> torch.Tensor:
    return torch.arange(first, first + count, device=device).remainder_(POSITIONS).float()


def values(owner: int, first: int, count: int, device: torch.device) -> torch.Tensor:
    """Return what rank `owner` sends from place `first`; each value encodes its place and its sender."""
    return positions(first, count, device) + owner % OWNERS * POSITIONS


def fill(buffer: torch.Tensor, rank: int) -> None:
    """Fill the buffer with the values that `rank` sends."""
    for owner, first, part in pieces(buffer, [(rank, 0, buffer.numel())]):
        part.copy_(values(owner, first, part.numel(), buffer.device))


def pieces(
    buffer: torch.Tensor, wanted: list[tuple[int, int, int]]
) -> Iterator[tuple[int, int, torch.Tensor]]:
    """Yield consecutive parts of `buffer`, cut into chunks: owner, first element, and the part."""
    offset = 0
    for owner, first, count in wanted:
        for begin in range(0, count, CHUNK):
            length = min(CHUNK, count - begin)
            yield owner, first + begin, buffer[offset + begin : offset + begin + length]
        offset += count


def exchange(sent: torch.Tensor, to: int, received: torch.Tensor, source: int) -> None:
    """Send to one rank and receive from another at the same time."""
    operations = [dist.P2POp(dist.isend, sent, to), dist.P2POp(dist.irecv, received, source)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()


def free_bytes(device: torch.device) -> float:
    """Return the memory available to a rank: CUDA's free memory, or a share of Linux's available memory."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        return float(torch.cuda.mem_get_info(device)[0])
    return (available_on_host() or float("inf")) / dist.get_world_size()
