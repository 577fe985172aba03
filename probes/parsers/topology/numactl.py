"""Parse reports of NUMA nodes: `numactl -H` (`numactl --hardware`), and the node of a GPU's memory."""

import re
from collections.abc import Iterable, Iterator

from probes.base.grouping import folded
from probes.base.patterns import pattern
from probes.base.record import NOT_RECORDED
from probes.base.units import MIB
from probes.facts import NumaNode

_MARK = pattern(r"^node \d{1,5} (?:cpus|size):|^available: \d{1,5} nodes? \(", re.MULTILINE)
_CPUS = pattern(r"node (\d{1,5}) cpus:((?: +\d{1,6}(?:-\d{1,6})?,?)*)(?: +\(\d{1,6}\))? *")
"""The CPUs of a node. With `--cpu-compress`, the line contains ranges, followed by the number of CPUs."""
_MEMORY = pattern(r"node (\d{1,5}) (size|free): (\d{1,12}) MB *")
_ROW = pattern(r" *(?:node +)?(\d{1,5}):((?: +\d{1,4})+) *")
_HEADING = pattern(r" *(?:node distances:|nodes?(?: +\d{1,5})+) *")
_BARE_ROW = pattern(r" *\d{1,4}(?: +\d{1,4})+ *")
_OWN_DISTANCE, _LONGEST_DISTANCE, _MOST_NODES = 10, 255, 1024
"""Distances of the SLIT (ACPI 6.5, System Locality Distance Information), and MAX_NUMNODES of Linux."""

_MOST_CPUS = 65_536
"""Maximum number of CPUs in one range. Linux supports at most 8192."""


def recognise(text: str) -> bool:
    return _MARK.search(text) is not None or bool(_bare_matrix(text))


def _bare_matrix(text: str) -> dict[int, tuple[int, ...]]:
    """Return the distances of each node if the text is only a matrix; empty for other texts.

    The matrix is square; each node has the distance 10 to itself and larger distances to the others. Rows
    without a node number come from sysfs and are in the order of the nodes.
    """
    lines = [line for line in text[:2_000_000].splitlines() if line.strip() and not _HEADING.fullmatch(line)]
    if not 2 <= len(lines) <= _MOST_NODES:
        return {}
    labelled = [_ROW.fullmatch(line) for line in lines]
    if all(labelled):
        rows = {int(match[1]): match[2] for match in labelled if match}
    elif all(map(_BARE_ROW.fullmatch, lines)):
        rows = dict(enumerate(lines))
    else:
        return {}
    matrix = {node: tuple(map(int, words.split())) for node, words in rows.items()}
    is_square = len(matrix) == len(lines) and all(len(row) == len(matrix) for row in matrix.values())
    return matrix if is_square and _are_distances(list(matrix.values())) else {}


def _are_distances(rows: list[tuple[int, ...]]) -> bool:
    return all(
        distance == _OWN_DISTANCE if column == number else _OWN_DISTANCE < distance <= _LONGEST_DISTANCE
        for number, row in enumerate(rows)
        for column, distance in enumerate(row)
    )


def parse_numa_nodes(text: str) -> tuple[NumaNode, ...]:
    """Return the nodes with the CPUs, memory and distances that the text contains."""
    cpus: dict[int, str] = {}
    memory: dict[tuple[int, str], int] = {}
    distances = _bare_matrix(text)
    if distances:
        return tuple(NumaNode(index=node, distances=row) for node, row in sorted(distances.items()))
    for line in text.splitlines()[:20_000]:
        if match := _CPUS.fullmatch(line):
            cpus[int(match[1])] = folded(_numbers(match[2].split()))
        elif match := _MEMORY.fullmatch(line):
            memory[int(match[1]), match[2]] = int(match[3]) * MIB
        elif match := _ROW.fullmatch(line):
            distances[int(match[1])] = tuple(int(number) for number in match[2].split())
    indexes = {*cpus, *(index for index, _ in memory)}
    has_all_rows = all(len(row) == len(distances) for row in distances.values())
    return tuple(
        NumaNode(
            index=index,
            cpus=cpus.get(index, NOT_RECORDED),
            memory_bytes=memory.get((index, "size"), NOT_RECORDED),
            memory_free_bytes=memory.get((index, "free"), NOT_RECORDED),
            distances=distances.get(index, NOT_RECORDED) if has_all_rows else NOT_RECORDED,
        )
        for index in sorted(indexes)
    )


def _numbers(words: Iterable[str]) -> Iterator[int]:
    """Return the CPUs of words such as `0-15` and `17`, at most `_MOST_CPUS` of each range."""
    for word in words:
        first, _, last = word.rstrip(",").partition("-")
        yield from range(int(first), min(int(last or first), int(first) + _MOST_CPUS) + 1)


def numa_status_node(text: str) -> int | None:
    """Return the NUMA node of the GPU's memory; None if the memory is not a NUMA node."""
    pairs = (line.partition(":") for line in text.splitlines()[:20])
    values = (value.strip() for name, _, value in pairs if name.strip() == "Node")
    return next((int(value) for value in values if value.isdecimal() and len(value) < 12), None)
