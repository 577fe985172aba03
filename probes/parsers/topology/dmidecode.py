"""Parse `dmidecode`: names of vendor and product, and the slot of each PCI address; also tables of slots."""

import itertools
import re
from collections.abc import Iterator

from probes.base.record import NOT_RECORDED, Record, Unknown, line_ref
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
    """Return the slots that state an address as devices; only their addresses and slots are known."""
    rows = [
        (section.fields.get("Bus Address", ""), section.fields.get("Designation", ""), section.line)
        for section in _sections(text)
        if section.title == "System Slot Information"
    ]
    rows += [
        (match[1], " ".join(match[2].split()), number)
        for number, line in enumerate(text.splitlines()[:_MOST_LINES], 1)
        if (match := _TABLE.fullmatch(line.rstrip()))
    ]
    slots: dict[str, PciDevice] = {}
    for printed, name, line_number in rows:
        address = normal_address(printed)
        if not isinstance(address, Unknown) and name not in _EMPTY:
            slot = PciDevice(bus_id=address, kind="other", slot=name[:80], evidence=(line_ref(line_number),))
            slots.setdefault(address, slot)
    return tuple(slots.values())


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
    rows = text.splitlines()[:_MOST_LINES]
    starts = [number for number, row in enumerate(rows) if _HANDLE.match(row)]
    for start, end in itertools.pairwise((*starts, len(rows))):
        title, *body = rows[start + 1 : end] or ("",)
        fields: dict[str, str] = {}
        for row in body:
            name, colon, value = row.partition(":")
            if colon:
                fields.setdefault(name.strip(), value.strip()[:200])
        if title.strip():
            yield Section(title=title.strip(), line=start + 1, fields=fields)
