"""Collect facts that only input files contain: the InfiniBand fabric, results of other tools, unknown files.

Tools for the fabric query all of its switches, and the other tools measure for minutes, so rigtune starts
none of them on a live machine.
"""

from typing import Any

import msgspec

from probes.base.record import NOT_RECORDED
from probes.collect.collecting import CollectOptions
from probes.facts import FabricPort, Unread
from probes.reading.texts import (
    DIAGNOSES,
    FABRIC_PORTS,
    FABRIC_SWITCHES,
    MEASUREMENTS,
    TextReader,
    read_all,
    records_of,
    unread_of,
)
from probes.sources.base import STRANGER, Given, Source


def collect_fabric(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return `fabric_ports` and `fabric_switches`; unknown if no output was given."""
    if source.is_live:
        return {"fabric_ports": NOT_RECORDED, "fabric_switches": NOT_RECORDED}
    from probes.parsers.fabric.fabric_maps import hosts_by_guid  # noqa: PLC0415 - given files only

    hosts: dict[str, str] = {}
    for given in source.given("guid-list"):
        hosts |= hosts_by_guid(given.text)
    ports = read_all(source, FABRIC_PORTS)
    # If several sources report a port, the first source is used.
    first_reports: dict[tuple[str, int], FabricPort] = {}
    for port in records_of(ports):
        first_reports.setdefault((port.guid if isinstance(port.guid, str) else port.node, port.port), port)
    switches = read_all(source, FABRIC_SWITCHES)
    return {
        "fabric_ports": tuple(_with_host(port, hosts) for port in first_reports.values())
        if ports
        else NOT_RECORDED,
        "fabric_switches": records_of(switches) if switches else NOT_RECORDED,
    }


def _with_host(port: FabricPort, hosts: dict[str, str]) -> FabricPort:
    """Return the port with the host's name added to the node's description, if a list contains the host."""
    host = hosts.get(port.guid) if isinstance(port.guid, str) else None
    if host is None or host in port.node:
        return port
    return msgspec.structs.replace(port, node=f"{host} ({port.node})")


def collect_diagnoses(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return `diagnoses` of other tools; unknown without their output."""
    return _records(source, "diagnoses", DIAGNOSES)


def collect_tool_results(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return `tool_results`, the measurements of other tools; unknown without their output."""
    return _records(source, "tool_results", MEASUREMENTS)


def _records(source: Source, field: str, table: tuple[TextReader[Any], ...]) -> dict[str, object]:
    if source.is_live:
        return {field: NOT_RECORDED}
    texts = read_all(source, table)
    return {field: records_of(texts) if texts else NOT_RECORDED, "unread": unread_of(texts)}


def collect_strangers(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return `unread`: one entry for each given file of no known kind, and for each such part of a file."""
    return {"unread": tuple(_stranger(given) for given in source.given(STRANGER))}


def _stranger(given: Given) -> Unread:
    """Return the entry; for a part of a file, it contains the line number and the title of the part."""
    line, _, title = given.text.partition(" ")
    if not line.isdecimal():
        return Unread(source=given.name, why="rigtune does not know this kind of file")
    return Unread(
        source=given.name,
        line=int(line[:9]),
        text=title[:120],
        why="rigtune does not know this kind of section",
    )
