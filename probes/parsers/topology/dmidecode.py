"""Parse `dmidecode`: the maker's names and the slot of each PCI address; also a table of address and slot."""

from __future__ import annotations

import re
from collections.abc import Iterator

from probes.base.evidence import line_ref
from probes.base.record import NOT_RECORDED, Record, Unknown
from probes.facts import Dmi, PciDevice
from probes.parsers.topology.pci_addresses import normal_address

_HANDLE = re.compile(r"Handle 0x[0-9A-Fa-f]{4,8}, DMI type \d{1,3}")
_TABLE = re.compile(
    r"([0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])\s{1,40}"
    r"(\S.{0,79}\bPCI(?:-E|e| ?Express)?\b.{0,60})"
)
"""Row of a table of address and slot."""
_EMPTY = frozenset(
    {"", "Not Specified", "To Be Filled By O.E.M.", "Default string", "Unknown", "None", "N/A"}
)
"""Texts that boards contain in place of a value."""
_MOST_LINES = 100_000


class Section(Record, kw_only=True):
    """Title and fields of one structure."""

    title: str
    line: int
    fields: dict[str, str]


def recognise(text: str) -> bool:
    if _HANDLE.search(text) is not None:
        return True
    rows = [line for line in text.splitlines()[:200] if line.strip()]
    return bool(rows) and all(_TABLE.fullmatch(row.rstrip()) for row in rows)


def parse_slots(text: str) -> tuple[PciDevice, ...]:
    """Return the occupied slots as devices of which only address and slot are known."""
    slots: dict[str, PciDevice] = {}
    for section in _sections(text):
        address = normal_address(section.fields.get("Bus Address", ""))
        name = section.fields.get("Designation", "")
        if (
            section.title == "System Slot Information"
            and not isinstance(address, Unknown)
            and name not in _EMPTY
        ):
            slots.setdefault(address, _slot(address, name, section.line))
    for number, line in enumerate(text.splitlines()[:_MOST_LINES], 1):
        if match := _TABLE.fullmatch(line.rstrip()):
            address = str(normal_address(match[1]))
            slots.setdefault(address, _slot(address, " ".join(match[2].split()), number))
    return tuple(slots.values())


def _slot(address: str, name: str, line: int) -> PciDevice:
    return PciDevice(bus_id=address, kind="other", slot=name[:80], evidence=(line_ref(line),))


def parse_dmi(text: str) -> Dmi:
    sections = {section.title: section.fields for section in reversed(list(_sections(text)))}
    return Dmi(
        system_vendor=_field_value(sections, "System Information", "Manufacturer"),
        product_name=_field_value(sections, "System Information", "Product Name"),
        board_name=_field_value(sections, "Base Board Information", "Product Name"),
        bios_version=_field_value(sections, "BIOS Information", "Version"),
    )


def _field_value(sections: dict[str, dict[str, str]], title: str, field: str) -> str | Unknown:
    value = sections.get(title, {}).get(field, "")
    return NOT_RECORDED if value in _EMPTY else value


def _sections(text: str) -> Iterator[Section]:
    title, line, after_handle = "", 0, False
    fields: dict[str, str] = {}
    for number, row in enumerate(text.splitlines()[:_MOST_LINES], 1):
        if _HANDLE.match(row):
            if title:
                yield Section(title=title, line=line, fields=fields)
            title, line, fields, after_handle = "", number, {}, True
        elif after_handle:
            title, after_handle = row.strip(), False
        elif title and ":" in row:
            name, _, value = row.partition(":")
            fields.setdefault(name.strip(), value.strip()[:200])
    if title:
        yield Section(title=title, line=line, fields=fields)
