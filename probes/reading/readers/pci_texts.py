"""Texts that tell of PCI devices. Each is a row of `READERS`: a kind (`probes/catalogue/kinds.py`) and a
function of its parser, `(text: str) -> tuple[PciDevice, ...]`, one partial record per device. A parser may
leave `line_ref(12)` as evidence.
"""

from __future__ import annotations

import importlib
from typing import cast

import msgspec

from probes.base.record import EvidenceRef, Record, Unknown
from probes.facts import PciDevice, Unread
from probes.reading.outputs import outputs
from probes.sources.base import Source


class PciReader(Record, kw_only=True):
    """One kind of text and the functions that find devices in it."""

    kind: str
    module: str
    function: str = "parse_devices"
    unread: str = ""
    """A second function of the module: `(text: str) -> tuple[Unread, ...]`, `source` left empty."""

    def read(self, source: Source) -> tuple[tuple[PciDevice, ...], tuple[Unread, ...]]:
        """The devices that the texts of this kind tell of, and what of the texts could not be read."""
        found = outputs(source, self.kind)
        if isinstance(found, Unknown):
            return (), ()
        module = importlib.import_module(f"probes.parsers.{self.module}")
        devices: list[PciDevice] = []
        unread: list[Unread] = []
        for output in found:
            origin = output.evidence
            for device in cast("tuple[PciDevice, ...]", getattr(module, self.function)(output.text)):
                refs = tuple(
                    EvidenceRef(source=origin.source, key=origin.key, detail=ref.detail)
                    for ref in device.evidence
                )
                devices.append(msgspec.structs.replace(device, evidence=refs or (origin,)))
            if self.unread:
                lines = cast("tuple[Unread, ...]", getattr(module, self.unread)(output.text))
                unread += [msgspec.structs.replace(line, source=origin.key) for line in lines]
        return tuple(devices), tuple(unread)


READERS: tuple[PciReader, ...] = (
    PciReader(kind="lspci", module="topology.lspci", unread="parse_unread"),
    PciReader(kind="hwloc", module="topology.hwloc_xml", unread="parse_unread"),
    PciReader(kind="nccl-topology", module="topology.nccl_topology", unread="parse_unread"),
    PciReader(kind="lstopo", module="topology.lstopo_console"),
    PciReader(kind="fabric-manager-log", module="fabric.fabric_manager_log"),
    PciReader(kind="dmidecode", module="topology.dmidecode", function="parse_slots"),
)
"""In the order of trust: the first that knows a field has the last word."""
