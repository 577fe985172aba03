"""Collect the InfiniBand fabric from the output of discovery tools.

Such tools ask a whole fabric, so rigtune never starts them on a live host.
"""

from __future__ import annotations

import msgspec

from probes.base.record import NOT_RECORDED
from probes.collect.collecting import CollectOptions
from probes.facts import FabricPort
from probes.sources.base import Source


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return `fabric_ports` and `fabric_switches`; unknown if no output was given."""
    if source.is_live:
        return {"fabric_ports": NOT_RECORDED, "fabric_switches": NOT_RECORDED}
    from probes.parsers.fabric.fabric_maps import hosts_by_guid  # noqa: PLC0415 - pastes only
    from probes.reading.readers.reader_rows import FABRIC_PORTS, FABRIC_SWITCHES  # noqa: PLC0415 - likewise
    from probes.reading.readers.text_reader import read_all, records_of  # noqa: PLC0415 - likewise

    hosts: dict[str, str] = {}
    for given in source.given("guid-list"):
        hosts |= hosts_by_guid(given.text)
    ports, switches = read_all(source, FABRIC_PORTS), read_all(source, FABRIC_SWITCHES)
    return {
        "fabric_ports": tuple(_named(port, hosts) for port in _once(records_of(ports)))
        if ports
        else NOT_RECORDED,
        "fabric_switches": records_of(switches) if switches else NOT_RECORDED,
    }


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
