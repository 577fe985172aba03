"""Parse `perfquery`: the counters of ports, by the LID of their node.

-x adds the counters of 64 bits, -E the details of errors.
"""

from __future__ import annotations

import re

from probes.base.evidence import line_ref
from probes.base.record import Unknown
from probes.facts import Nic, counts
from probes.parsers.fabric.rdma_words import whole_number

_HEAD = re.compile(
    r"#[ \t]*Port[\w ]{0,40}[Cc]ounters:[ \t]*(?:Lid|DR path slid \d+; dlid \d+;[^\n]{0,60}?Lid)[ \t]+"
    r"(\d{1,5})[ \t]+port[ \t]+(\d{1,3})\b.*"
)
_FIELD = re.compile(r"([A-Z][A-Za-z0-9]{3,60}):\.*(\d{1,20}|0x[0-9a-fA-F]{1,16})")
_NAMES = {
    "SymbolErrorCounter": "symbol_error",
    "LinkErrorRecoveryCounter": "link_error_recovery",
    "LinkDownedCounter": "link_downed",
    "VL15Dropped": "VL15_dropped",
    "PortXmitPkts": "port_xmit_packets",
    "PortRcvPkts": "port_rcv_packets",
}
"""Names of counters in sysfs, except those that are the same words with underscores."""
_NO_COUNTERS = frozenset({"PortSelect", "CounterSelect", "CounterSelect2"})
_WORD = re.compile(r"[A-Z]+(?![a-z])\d*|[A-Z][a-z0-9]*")


def recognise(text: str) -> bool:
    """Return whether the text is the output of `perfquery`."""
    return "ounters: " in text and any(
        line.startswith("#") and _HEAD.fullmatch(line) for line in text.splitlines()
    )


def parse_nics(text: str) -> tuple[Nic, ...]:
    """Return the ports with their counters by sysfs names.

    The tool knows no device names, so `name` is empty and `lid` is set.
    """
    ports: dict[tuple[int, int], tuple[int, dict[str, int]]] = {}
    current: dict[str, int] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#"):
            match = _HEAD.fullmatch(line)
            current = (
                None if match is None else ports.setdefault((int(match[1]), int(match[2])), (number, {}))[1]
            )
        elif (
            current is not None
            and (match := _FIELD.fullmatch(line.strip())) is not None
            and match[1] not in _NO_COUNTERS
        ):
            value = whole_number(match[2])
            if not isinstance(value, Unknown):
                current.setdefault(_sysfs_name(match[1]), value)
    return tuple(
        Nic(name="", port=port, lid=lid, counters=counts(values), evidence=(line_ref(line),))
        for (lid, port), (line, values) in ports.items()
        if values
    )


def _sysfs_name(name: str) -> str:
    return _NAMES.get(name) or "_".join(word.lower() for word in _WORD.findall(name))
