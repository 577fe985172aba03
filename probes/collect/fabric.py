"""Collect the InfiniBand fabric from the output of discovery tools.

Such tools ask a whole fabric, so rigtune never starts them on a live host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from probes.base.record import NOT_RECORDED, EvidenceRef, Unknown
from probes.collect.collecting import CollectOptions
from probes.facts import FabricPort, FabricSwitch
from probes.reading.outputs import outputs
from probes.sources.base import Source

Placed = TypeVar("Placed", FabricPort, FabricSwitch)


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return `fabric_ports` and `fabric_switches`; unknown if no output was given."""
    if source.is_live:
        return {"fabric_ports": NOT_RECORDED, "fabric_switches": NOT_RECORDED}
    from probes.parsers.fabric.guid_list import hosts_by_guid  # noqa: PLC0415 - pastes only
    from probes.parsers.fabric.iblinkinfo import parse_fabric as parse_iblinkinfo  # noqa: PLC0415 - likewise
    from probes.parsers.fabric.ibnetdiscover import parse_fabric as parse_ibnetdiscover  # noqa: PLC0415
    from probes.parsers.fabric.ibswinfo import parse_switches  # noqa: PLC0415 - likewise

    hosts: dict[str, str] = {}
    for given in source.given("guid-list"):
        hosts |= hosts_by_guid(given.text)
    discovered = _read(source, "ibnetdiscover", parse_ibnetdiscover)
    linked = _read(source, "iblinkinfo", parse_iblinkinfo)
    switches = _read(source, "ibswinfo", parse_switches)
    ports = None if discovered is None and linked is None else _once((*(linked or ()), *(discovered or ())))
    return {
        "fabric_ports": NOT_RECORDED if ports is None else tuple(_named(port, hosts) for port in ports),
        "fabric_switches": NOT_RECORDED if switches is None else switches,
    }


def _read(source: Source, kind: str, parse: Callable[[str], tuple[Placed, ...]]) -> tuple[Placed, ...] | None:
    texts = outputs(source, kind, (kind,))
    if isinstance(texts, Unknown):
        return None
    return tuple(_placed(record, output.evidence) for output in texts for record in parse(output.text))


def _placed(record: Placed, evidence: EvidenceRef) -> Placed:
    """Return `record` with evidence that leads to its line."""
    refs = tuple(
        EvidenceRef(source=evidence.source, key=evidence.key, detail=ref.detail) for ref in record.evidence
    )
    return msgspec.structs.replace(record, evidence=refs)


def _once(ports: tuple[FabricPort, ...]) -> tuple[FabricPort, ...]:
    """Return each port once, as the first source reports it."""
    first_reports: dict[tuple[str, int], FabricPort] = {}
    for port in ports:
        first_reports.setdefault((port.guid if isinstance(port.guid, str) else port.node, port.port), port)
    return tuple(first_reports.values())


def _named(port: FabricPort, hosts: dict[str, str]) -> FabricPort:
    """Return the port with the host's name beside the node's description, if a list contains the host."""
    host = hosts.get(port.guid) if isinstance(port.guid, str) else None
    return (
        port
        if host is None or host in port.node
        else msgspec.structs.replace(port, node=f"{host} ({port.node})")
    )
