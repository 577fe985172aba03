"""A cluster model of topograph: a tree of switches, and blocks of nodes at its leaves.

Source of the format: the test models of NVIDIA/topograph (tests/models), read 2026-11. Nodes are host lists:
`node[01-18]`.
"""

from __future__ import annotations

import re
from typing import Any

from probes.base.record import NOT_RECORDED
from probes.facts.expected import Cluster
from probes.parsers.tools.documents import load_yaml, members, table, word

_TOP = re.compile(r"^(switches|blocks|nodes|capacity_blocks):", re.MULTILINE)
_RANGES = re.compile(r"([^\[\],]{0,200})\[([0-9,-]{1,4000})\]([^\[\],]{0,200})")
_DOMAIN = "/domain"
_MOST_NODES = 1_000_000


def recognise(text: str) -> bool:
    keys = {match[1] for match in _TOP.finditer(text[:400_000])}
    return "switches" in keys and bool(keys & {"blocks", "nodes", "capacity_blocks"})


def parse_cluster(text: str) -> Cluster:
    """Nodes, switches, tiers and NVLink domains; what the model does not tell is unknown."""
    document = load_yaml(text)
    children = _children(document)
    blocks = [
        block
        for block in members(document, "blocks") or members(document, "capacity_blocks")
        if isinstance(block, dict)
    ]
    leaves = {name for block in blocks if (name := word(block.get("switch"))) is not None}
    switches = {*children, *(child for below in children.values() for child in below), *leaves}
    per_domain: dict[str, int] = {}
    nodes = 0
    for block in blocks:
        count = sum(_count(entry) for entry in members(block, "nodes"))
        nodes += count
        domain = _domain(block)
        if domain is not None:
            per_domain[domain] = per_domain.get(domain, 0) + count
    return Cluster(
        nodes=nodes if blocks and nodes <= _MOST_NODES else NOT_RECORDED,
        switches=len(switches) if switches else NOT_RECORDED,
        tiers=_tiers(children, leaves) if switches else NOT_RECORDED,
        nvlink_domains=len(per_domain) if per_domain else NOT_RECORDED,
        nodes_per_domain=tuple(per_domain.values()) if per_domain else NOT_RECORDED,
    )


def _children(document: dict[str, Any]) -> dict[str, list[str]]:
    """The switches below each switch."""
    return {
        name: [child for each in members(row, "switches") if (child := word(each)) is not None]
        for name, row in table(document, "switches").items()
    }


def _domain(block: dict[str, Any]) -> str | None:
    for part in ("annotations", "labels"):
        for name, value in table(block, part).items():
            if name.endswith(_DOMAIN):
                return word(value)
    return None


def _tiers(children: dict[str, list[str]], leaves: set[str]) -> int:
    """The longest way from a root down, in switches; circles end where they close."""
    below = {child for names in children.values() for child in names}
    level = {name for name in {*children, *leaves} if name not in below}
    seen: set[str] = set()
    depth = 0
    while level:
        depth += 1
        seen |= level
        level = {child for name in level for child in children.get(name, ()) if child not in seen}
    return depth


def _count(entry: object) -> int:
    """How many nodes a host list names."""
    text = word(entry)
    if text is None:
        return 0
    rest = _RANGES.sub("", text)
    plain = sum(1 for part in rest.split(",") if part.strip())
    return plain + sum(_in_ranges(match[2]) for match in _RANGES.finditer(text))


def _in_ranges(text: str) -> int:
    total = 0
    for piece in text.split(","):
        first, dash, last = piece.partition("-")
        if not first.isdigit() or len(first) > 9 or (dash and (not last.isdigit() or len(last) > 9)):
            continue
        total += max(int(last or first) - int(first) + 1, 0)
    return total
