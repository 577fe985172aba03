"""Parse `rdma link` of iproute2."""

from __future__ import annotations

import itertools
import re

from probes.base.evidence import line_ref
from probes.base.record import NOT_RECORDED
from probes.facts import Nic
from probes.parsers.fabric.rdma_words import physical_state, port_state, whole_number

_HEAD = re.compile(
    r"(?:link[ \t]+|\d{1,4}/\d{1,4}:[ \t]*)([\w.-]{1,64})/(\d{1,3}):?[ \t]+((?:subnet_prefix|state)[ \t].*)"
)
_KEYS = frozenset(
    {"subnet_prefix", "lid", "sm_lid", "lmc", "state", "physical_state", "netdev", "netdev_index", "caps"}
)


def recognise(text: str) -> bool:
    """Return whether the text is the output of `rdma link`."""
    return ("state " in text or "subnet_prefix" in text) and any(
        _HEAD.match(line) for line in text.splitlines()
    )


def parse_nics(text: str) -> tuple[Nic, ...]:
    """Return the ports, whose output may take several lines each."""
    blocks: list[tuple[str, int, int, list[str]]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if (match := _HEAD.match(line)) is not None:
            blocks.append((match[1], int(match[2]), number, match[3].split()))
        elif blocks and line[:1].isspace():
            blocks[-1][3].extend(line.split())
    return tuple(_nic(*block) for block in blocks)


def _nic(name: str, port: int, line: int, words: list[str]) -> Nic:
    values = {key: value for key, value in itertools.pairwise(words) if key in _KEYS and value not in _KEYS}
    return Nic(
        name=name,
        port=port,
        link_layer="InfiniBand" if "subnet_prefix" in values else NOT_RECORDED,
        state=port_state(values["state"]) if "state" in values else NOT_RECORDED,
        physical_state=physical_state(values["physical_state"])
        if "physical_state" in values
        else NOT_RECORDED,
        lid=whole_number(values["lid"]) if "lid" in values else NOT_RECORDED,
        sm_lid=whole_number(values["sm_lid"]) if "sm_lid" in values else NOT_RECORDED,
        netdev=values.get("netdev", NOT_RECORDED),
        evidence=(line_ref(line),),
    )
