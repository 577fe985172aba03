"""Run one collective on known fp32 data, and check this rank's result."""

from __future__ import annotations

from typing import Iterator

import torch
import torch.distributed as dist

from .protocol import CaseError

ELEMENT_BYTES = 4
POSITIONS = 97
OWNERS = 61
"""Periods of the data: primes, so that a shifted or swapped chunk is detected.

Every sum stays below 2**24 and so exact in fp32 up to 2834 ranks.
"""
CHUNK = 4 * 1024**2
"""Elements that are made or compared at once, so that a check needs little memory beside the buffers."""
NOT_SUPPORTED = ("not support", "no support", "not implemented", "unsupported")
"""Words of torch's process groups for a missing collective."""

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv")


def buffer_bytes(name: str, size_bytes: int, ranks: int) -> float:
    """Return the device memory of the collective on each rank, without NCCL's own buffers."""
    if name in ("all_reduce", "broadcast"):
        return size_bytes
    if name in ("all_gather", "reduce_scatter"):
        return size_bytes * (1 + 1 / ranks)
    return 2 * size_bytes


class Collective:
    """`size_bytes` is what nccl-tests counts, rounded down to equal parts for all ranks:

    all_reduce, broadcast    each rank's buffer
    all_gather               what each rank has afterwards
    reduce_scatter           what each rank had before
    all_to_all               what each rank sends, its own part included
    send_recv                what each rank sends to the next one, in a ring

    Source: nccl-tests, `*GetCollByteCount` in src/*.cu. Raises CaseError for a name that is none of
    `COLLECTIVES`.
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

    def __call__(self) -> None:
        """Run the collective. Raises CaseError if the backend lacks it."""
        try:
            self._call()
        except RuntimeError as error:
            if isinstance(error, NotImplementedError) or any(
                sign in str(error).lower() for sign in NOT_SUPPORTED
            ):
                why = f"{dist.get_backend()} of torch {torch.__version__} has no {self.name}"
                raise CaseError("unsupported", why) from error
            raise

    def _call(self) -> None:
        if self.name == "all_reduce":
            dist.all_reduce(self.received)
        elif self.name == "broadcast":
            dist.broadcast(self.received, src=0)
        elif self.name == "all_gather":
            dist.all_gather_into_tensor(self.received, self.sent)
        elif self.name == "reduce_scatter":
            dist.reduce_scatter_tensor(self.received, self.sent)
        elif self.name == "all_to_all":
            dist.all_to_all_single(self.received, self.sent)
        else:
            exchange(
                self.sent, (self.rank + 1) % self.world_size, self.received, (self.rank - 1) % self.world_size
            )

    def wrong_values(self) -> int:
        """Fill the buffers, run the collective, and return the number of wrong values on this rank."""
        if self.received is not self.sent:
            self.received.fill_(-1)
        for owner, first, part in pieces(self.sent, [(self.rank, 0, self.sent.numel())]):
            part.copy_(values(owner, first, part.numel(), self.device))
        self()
        wrong = 0
        for owner, first, part in pieces(self.received, list(self._expected_parts())):
            wanted = (
                self._sums(first, part.numel())
                if owner < 0
                else values(owner, first, part.numel(), self.device)
            )
            wrong += int((part != wanted).sum())
        self.sent.zero_()  # so that repeated sums stay finite
        return wrong

    def _expected_parts(self) -> Iterator[tuple[int, int, int]]:
        """Yield the expected parts of `received`: owner (-1 for the sum over ranks), first element, count."""
        if self.name == "all_reduce":
            yield -1, 0, self.received.numel()
        elif self.name == "reduce_scatter":
            yield -1, self.rank * self.part, self.part
        elif self.name == "broadcast":
            yield 0, 0, self.received.numel()
        elif self.name == "send_recv":
            yield (self.rank - 1) % self.world_size, 0, self.received.numel()
        else:
            first = self.rank * self.part if self.name == "all_to_all" else 0
            for owner in range(self.world_size):
                yield owner, first, self.part

    def _sums(self, first: int, count: int) -> torch.Tensor:
        owners = sum(rank % OWNERS for rank in range(self.world_size))
        return positions(first, count, self.device) * self.world_size + owners * POSITIONS


def positions(first: int, count: int, device: torch.device) -> torch.Tensor:
    return torch.arange(first, first + count, device=device).remainder_(POSITIONS).float()


def values(owner: int, first: int, count: int, device: torch.device) -> torch.Tensor:
    """Return the values that rank `owner` sends from place `first` on; each encodes its place and sender."""
    return positions(first, count, device) + owner % OWNERS * POSITIONS


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
    """Return the device memory available to a rank.

    CUDA's free memory, or a share of Linux's available memory.
    """
    if device.type == "cuda":
        torch.cuda.empty_cache()
        return float(torch.cuda.mem_get_info(device)[0])
    try:
        with open("/proc/meminfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024 / dist.get_world_size()
    except OSError:
        pass
    return float("inf")
