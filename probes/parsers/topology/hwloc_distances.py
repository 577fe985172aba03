"""Read the matrices in hwloc's XML: latencies between NUMA nodes, and bandwidths of NVLink."""

import math
import re
from collections.abc import Iterable, Mapping

from probes.base.record import Record

_PER_LINK_MBPS = (
    (re.compile(r"P100"), 20_000),
    (re.compile(r"V100|A100|A800|A30\b|H100|H200|H800|H20\b"), 25_000),
)
"""Bandwidth in MB/s that hwloc prints for one link in one direction, for each generation of NVLink.

NVLink 1 comes first, then NVLink 2 to 4. Source: hwloc, topology-nvml.c.
"""


class Matrix(Record, kw_only=True):
    """Values between objects, row by row."""

    name: str
    kind: str
    """Type of all objects; empty if each index contains its own type (`OSDev:802`)."""
    indexes: tuple[str, ...]
    values: tuple[int, ...]

    @property
    def size(self) -> int:
        """Return the number of rows and of columns; 0 if values are missing."""
        count = len(self.indexes)
        return count if count * count == len(self.values) else 0

    def row(self, position: int) -> tuple[int, ...]:
        return self.values[position * self.size : (position + 1) * self.size]


def latency_rows(matrices: Iterable[Matrix]) -> dict[int, tuple[int, ...]]:
    """Return the distances of each NUMA node by its index."""
    for matrix in matrices:
        is_by_node = all(map(str.isdecimal, matrix.indexes))
        if matrix.name == "NUMALatency" and matrix.size and is_by_node:
            return {int(index[:6]): matrix.row(position) for position, index in enumerate(matrix.indexes)}
    return {}


def nvlink_counts(
    matrices: Iterable[Matrix], addresses: Mapping[tuple[str, int], str], models: Mapping[str, str]
) -> dict[frozenset[str], int | None]:
    """Return the number of NVLinks between pairs of GPUs by PCI address.

    The number is None if links exist but the GPU's model does not show how many. `addresses` contains the
    objects' PCI addresses by type and number, `models` the GPUs' names by address. Two GPUs behind switches
    have as many links as the GPU with fewer links to the switches.
    """
    counts: dict[frozenset[str], int | None] = {}
    for matrix in (matrix for matrix in matrices if matrix.name == "NVLinkBandwidth" and matrix.size):
        places = [addresses.get(_key(index, matrix.kind), "") for index in matrix.indexes]
        gpus = [position for position, place in enumerate(places) if place in models]
        switches = [
            n
            for n, index in enumerate(matrix.indexes)
            if _key(index, matrix.kind)[0] == "PCIDev" and n not in gpus
        ]
        for order, first in enumerate(gpus):
            for second in gpus[order + 1 :]:
                # GPUs without direct links may be connected by switches.
                megabytes = matrix.row(first)[second] or _over_switches(matrix, first, second, switches)
                if megabytes:
                    pair = frozenset((places[first], places[second]))
                    counts[pair] = _link_count(megabytes, models[places[first]])
    return counts


def _key(index: str, kind: str) -> tuple[str, int]:
    name, _, number = index.rpartition(":")
    return name or kind, int(number) if number.isdecimal() and len(number) < 19 else -1


def _over_switches(matrix: Matrix, first: int, second: int, switches: list[int]) -> int:
    """Return the bandwidth of two GPUs to the switches: the smaller of the two values.

    hwloc leaves out the links between switches, which connect all of them.
    """
    return min(sum(matrix.row(gpu)[switch] for switch in switches) for gpu in (first, second))


def _link_count(megabytes: int, model: str) -> int | None:
    rate = next((rate for pattern, rate in _PER_LINK_MBPS if pattern.search(model)), None)
    return None if rate is None or math.remainder(megabytes, rate) else megabytes // rate
