"""Write patterns to most of the device's free memory and read them back."""

from __future__ import annotations

import time
from typing import Any, Callable, Iterator

import torch

from ..cases import each_case
from ..copies import CELL_BYTES
from ..protocol import Answer, is_out_of_memory

MOST_CHUNK_CELLS = 32 * 1024**2
FEWEST_CHUNKS = 64
"""Smallest number of chunks.

All chunks are written before the first chunk is read back, so that caches cannot contain the read data. The
expected values need some chunks of the remaining memory.
"""
TESTED_SHARE = 0.9
"""Tested share of the free memory."""
BITS = 64
ROUNDS = 8
CONSTANTS = (0, 0x5555555555555555)

Expected = Callable[[int], torch.Tensor]
"""Function that returns the values of one pass for a chunk number."""


def run(request: dict[str, Any], answer: Answer, device: torch.device) -> None:
    """Test every case {pattern} on all ranks at the same time.

    `settings.most_bytes` limits the memory; 0 for no limit.
    """
    chunks = allocate(free_bytes(device, request["settings"]["most_bytes"]), device)

    def measure(case: dict[str, Any], budget_s: float) -> None:
        started = time.monotonic()
        errors, passes_done = run_passes(
            chunks, PATTERNS[case["pattern"]](chunks[0].numel(), device), started + budget_s
        )
        tested = sum(chunk.numel() for chunk in chunks) * CELL_BYTES
        answer.sample(
            case,
            [time.monotonic() - started],
            memory_errors=errors.count,
            tested_bytes=tested,
            passes=passes_done,
        )
        if errors.count:
            answer.failure(
                "wrong_result",
                f"{errors.count} words of {tested} bytes read back wrong; {errors.first}",
                case,
            )

    each_case(request, answer, device, lambda case, budget_s: lambda: measure(case, budget_s))


def free_bytes(device: torch.device, most_bytes: int) -> int:
    if device.type != "cuda":
        return most_bytes
    free = int(torch.cuda.mem_get_info(device)[0] * TESTED_SHARE)
    return min(free, most_bytes) if most_bytes else free


def allocate(size_bytes: int, device: torch.device) -> list[torch.Tensor]:
    """Return chunks of equal size: at least one, but fewer than requested if memory is fragmented."""
    cells = max(BITS, min(MOST_CHUNK_CELLS, size_bytes // CELL_BYTES // FEWEST_CHUNKS // BITS * BITS))
    chunks: list[torch.Tensor] = []
    for _ in range(max(1, size_bytes // (cells * CELL_BYTES))):
        try:
            chunks.append(torch.empty(cells, dtype=torch.int64, device=device))
        except RuntimeError as error:
            if not chunks or not is_out_of_memory(error):
                raise
            break
    return chunks


class Errors:
    """The number of wrong cells, and a description of the first."""

    def __init__(self) -> None:
        self.count = 0
        self.first = ""

    def check(self, chunk: torch.Tensor, expected: torch.Tensor, offset_bytes: int) -> None:
        wrong = chunk != expected
        count = int(wrong.sum())
        if count and not self.first:
            cell = int(wrong.nonzero()[0])
            actual, wanted = (int(values[cell]) % 2**BITS for values in (chunk, expected))
            address, offset = chunk.data_ptr() + cell * CELL_BYTES, offset_bytes + cell * CELL_BYTES
            self.first = (
                f"the first at address {address:#x}, byte {offset} of the test: "
                f"{actual:#018x} instead of {wanted:#018x}"
            )
        self.count += count


def run_passes(chunks: list[torch.Tensor], passes: Iterator[Expected], ends: float) -> tuple[Errors, int]:
    """Run at least one pass, until the monotonic clock reaches `ends`; return errors and number of passes.

    A pass goes through all memory, alternately upwards and downwards, checks the values of the previous pass
    and writes new values. Passes with a value and its inverse are memtest86's moving inversions.
    """
    errors, done = Errors(), 0
    chunk_bytes = chunks[0].numel() * CELL_BYTES
    written: Expected | None = None
    for expected in passes:
        if done and time.monotonic() >= ends:
            break
        for index in range(len(chunks)) if done % 2 == 0 else reversed(range(len(chunks))):
            if written is not None:
                errors.check(chunks[index], written(index), index * chunk_bytes)
            chunks[index].copy_(expected(index))
        written, done = expected, done + 1
    for index, chunk in enumerate(chunks):
        if written is not None:
            errors.check(chunk, written(index), index * chunk_bytes)
    return errors, done


def walking_ones(cells: int, device: torch.device) -> Iterator[Expected]:
    """Yield values with one bit set in each cell; all passes together set each bit of each cell."""
    places = torch.arange(cells, device=device).remainder_(BITS)
    for shift in range(BITS):
        values = torch.ones_like(places).bitwise_left_shift_((places + shift).remainder_(BITS))
        yield lambda _, values=values: values


def walking_zeros(cells: int, device: torch.device) -> Iterator[Expected]:
    for ones in walking_ones(cells, device):
        values = ones(0).bitwise_not()
        yield lambda _, values=values: values


def addresses(cells: int, device: torch.device) -> Iterator[Expected]:
    """Yield each cell's own number, then the inverse, which detects two addresses of the same cell."""
    numbers = torch.arange(cells, device=device)
    yield lambda index: numbers + index * cells
    yield lambda index: (numbers + index * cells).bitwise_not_()


def random_and_inverse(cells: int, device: torch.device) -> Iterator[Expected]:
    generator = torch.Generator(device)

    def values(seed: int) -> torch.Tensor:
        return torch.empty(cells, dtype=torch.int64, device=device).random_(
            generator=generator.manual_seed(seed)
        )

    for number in range(ROUNDS):
        yield lambda index, number=number: values(index * ROUNDS + number)
        yield lambda index, number=number: values(index * ROUNDS + number).bitwise_not_()


def moving_inversions(cells: int, device: torch.device) -> Iterator[Expected]:
    for constant in CONSTANTS:
        values = torch.full((cells,), constant, dtype=torch.int64, device=device)
        inverse = values.bitwise_not()
        yield lambda _, values=values: values
        yield lambda _, values=inverse: values
        yield lambda _, values=values: values


PATTERNS: dict[str, Callable[[int, torch.device], Iterator[Expected]]] = {
    "walking_ones": walking_ones,
    "walking_zeros": walking_zeros,
    "address": addresses,
    "random_and_inverse": random_and_inverse,
    "moving_inversions": moving_inversions,
}
