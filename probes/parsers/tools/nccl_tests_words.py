"""Identify the collective of an nccl-tests table without its command line.

Bus bandwidth is algorithm bandwidth times a factor that depends on the collective and the number of ranks n:
2(n-1)/n for all-reduce, (n-1)/n for all-gather, reduce-scatter and all-to-all, 1 for broadcast and reduce.
Source: NVIDIA/nccl-tests, doc/PERFORMANCE.md (read 2026-11).
"""

from __future__ import annotations

from typing import NamedTuple

_PRECISION = 0.004
"""Largest deviation of the quotient of two rounded rates of at least `_LEAST_RATE` GB/s."""
_LEAST_RATE = 2.0
_MOST_GUESSED = 128
"""Most ranks that the rounding of the printed rates can distinguish."""


class Names(NamedTuple):
    """Collective and number of ranks of a table."""

    test: str
    ranks: int | None


def collective(name: str, columns: tuple[str, str], rates: tuple[float, float], ranks: int | None) -> Names:
    """Return the collective's name and the number of ranks: stated, else derived from one row.

    `columns` are the reduction and the root, `rates` the algorithm and the bus bandwidth in GB/s.
    """
    algorithm, bus = rates
    factor = bus / algorithm if algorithm >= _LEAST_RATE else None
    guess = name or _by_columns(*columns, factor)
    if ranks is not None or factor is None:
        return Names(guess, ranks)
    if guess == "all_reduce":
        return Names(guess, _ranks(factor / 2))
    if guess in ("all_gather", "reduce_scatter", "alltoall", "all_gather or alltoall"):
        return Names(guess, _ranks(factor))
    return Names(guess, None)


def _by_columns(redop: str, root: str, factor: float | None) -> str:
    has_reduction = redop not in ("", "none")
    has_root = root not in ("", "-1")
    if has_reduction and has_root:
        return "reduce"
    if factor is None:
        return "collective"
    if has_reduction:
        if factor < 1 - _PRECISION:
            return "reduce_scatter"
        return "all_reduce" if factor > 1 + _PRECISION else "all_reduce or sendrecv"  # two ranks
    if factor < 1 - _PRECISION:
        return "all_gather or alltoall"
    return "broadcast" if root not in ("", "-1") else "sendrecv"


def _ranks(share: float) -> int | None:
    """Return n for the share (n-1)/n; None if rounding leaves a doubt."""
    if not 0 < share < 1:
        return None
    count = round(1 / (1 - share))
    if not 2 <= count <= _MOST_GUESSED:
        return None
    return count if abs((count - 1) / count - share) < _PRECISION / count else None
