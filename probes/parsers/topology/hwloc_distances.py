"""The matrices in hwloc's XML: latencies between NUMA nodes, and bandwidths of NVLink."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

from probes.base.record import Record

_PER_LINK_MBPS = (
    (re.compile(r"P100"), 20_000),
    (re.compile(r"V100|A100|A800|A30\b|H100|H200|H800|H20\b"), 25_000),
)
"""Megabytes per second of one link in one direction that hwloc states by NVLink version 1, and 2 to 4
(topology-nvml.c).
"""


class Matrix(Record, kw_only=True):
    """Values between objects, row by row."""

    name: str
    kind: str
    """Type of all objects; empty where each index names its own (`OSDev:802`)."""
    indexes: tuple[str, ...]
    values: tuple[int, ...]

    @property
    def size(self) -> int:
        """0 where values are missing."""
        count = len(self.indexes)
        return count if count * count == len(self.values) else 0

    def row(self, position: int) -> tuple[int, ...]:
        return self.values[position * self.size : (position + 1) * self.size]


def latency_rows(matrices: Iterable[Matrix]) -> dict[int, tuple[int, ...]]:
    """The distances of each NUMA node by its index."""
    for matrix in matrices:
        if (
            matrix.name == "NUMALatency"
            and matrix.size
            and all(index.isdecimal() for index in matrix.indexes)
        ):
            return {int(index[:6]): matrix.row(position) for position, index in enumerate(matrix.indexes)}
    return {}


def nvlink_counts(
    matrices: Iterable[Matrix], addresses: Mapping[tuple[str, int], str], models: Mapping[str, str]
) -> dict[frozenset[str], int | None]:
    """NVLinks between pairs of GPUs by PCI address; None where there are some and the model does not tell how
    many.

    `addresses` are those of the objects by type and number, `models` the names of the GPUs by address. Over
    switches, two GPUs have all the links of the lesser one to them.
    """
    counts: dict[frozenset[str], int | None] = {}
    for matrix in matrices:
        if matrix.name != "NVLinkBandwidth" or not matrix.size:
            continue
        places = [addresses.get(_key(index, matrix.kind), "") for index in matrix.indexes]
        gpus = [position for position, place in enumerate(places) if place in models]
        switches = [
            n
            for n, index in enumerate(matrix.indexes)
            if _key(index, matrix.kind)[0] == "PCIDev" and n not in gpus
        ]
        for order, first in enumerate(gpus):
            for second in gpus[order + 1 :]:
                megabytes = matrix.row(first)[second] or _over_switches(matrix, first, second, switches)
                if megabytes:
                    pair = frozenset((places[first], places[second]))
                    counts[pair] = _links(megabytes, models[places[first]])
    return counts


def _key(index: str, kind: str) -> tuple[str, int]:
    name, _, number = index.rpartition(":")
    return name or kind, int(number) if number.isdecimal() and len(number) < 19 else -1


def _over_switches(matrix: Matrix, first: int, second: int, switches: list[int]) -> int:
    """What the lesser of two GPUs has to the switches. hwloc leaves out the links between switches, which
    join them all.
    """
    return min(sum(matrix.row(gpu)[switch] for switch in switches) for gpu in (first, second))


def _links(megabytes: int, model: str) -> int | None:
    rate = next((rate for pattern, rate in _PER_LINK_MBPS if pattern.search(model)), None)
    return None if rate is None or math.remainder(megabytes, rate) else megabytes // rate
