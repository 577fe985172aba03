"""Parse lspci's output for scripts (`-mm`, `-vmm`), and its trees (`-t`, `-tv`, `-tvnn`).

The forms for scripts are rewritten as `lspci` and `lspci -v`. A tree shows addresses and bridges; what a
device is can be seen only from its name. A bus is printed in brackets, its devices in one column, one line
for each. Source: pciutils, lspci(8), section "Machine readable output"; lspci.c and ls-tree.c (read 2026-11).
"""

import re

from probes.base.patterns import pattern
from probes.base.record import NOT_RECORDED, line_ref
from probes.facts import PciDevice, PciKind
from probes.parsers.topology.pci_classes import vendor_of_words

_ADDRESS = r"((?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])"
_ONE_LINE = pattern(
    rf'{_ADDRESS} "([^"\n]{{2,80}})" "([^"\n]{{2,120}})" "([^"\n]{{0,200}})"(?: -r([0-9a-f]{{2}}))?.*'
)
_SLOT = pattern(rf"(?:Slot|Device):[ \t]*{_ADDRESS}[ \t]*")
_FIELD = pattern(
    r"(Class|Vendor|Device|Rev|NUMANode|Driver|PhySlot|SVendor|SDevice|ProgIf|Module|IOMMUGroup):"
    r"[ \t]*(.{0,200})"
)
_BARE = pattern(r"([0-9a-f]{4}) ([0-9a-f]{4})")
_BOTH = pattern(r"(.{1,120})\[([0-9a-f]{4})\] (.{0,200})\[([0-9a-f]{4})\]")
_PLAIN = {"NUMANode": "NUMA node", "Driver": "Kernel driver in use", "PhySlot": "Physical Slot"}

_ROOT = pattern(r"^[ -]?[-+\\|` ]{0,400}-?\[[0-9a-f]{4,8}:[0-9a-f]{2}[^\]\n]{0,12}\]-", re.MULTILINE)
_TOKEN = pattern(
    r"\[(?:([0-9a-f]{4,8}):)?([0-9a-f]{2})(?:-[0-9a-f]{2})?(?:/[0-9a-f]{2})?\](?=-|$)"
    r"|([0-9a-f]{2}\.[0-7])(?= |-|$)"
)
_NAME = pattern(r" {2,}(\S.{1,200})")
_IDS = pattern(r" ?\[([0-9a-f]{4}:[0-9a-f]{4})\]")
_GPU = pattern(
    r"NVIDIA Corporation "
    r"(?!.{0,60}(?:Audio|USB|UCSI|Serial|Bridge|Switch|\[10de:1af1\]|\[10de:22a3\]|\[10de:1ac2\]))"
)
_SWITCH = pattern(r"NVIDIA Corporation .{0,60}(?:NVSwitch|\[10de:1af1\]|\[10de:22a3\]|\[10de:1ac2\])")
_ADAPTER = pattern(
    r"Mellanox .{0,80}(?:ConnectX|Connect-IB|BlueField|MT\d{4,5})(?!.{0,60}(?:Bridge|Switch|DMA|Crypto|SoC))"
)
_LONGEST = 1000
_MOST_COLUMNS = 400


def is_machine_form(text: str) -> bool:
    if '" "' in text and any(_ONE_LINE.fullmatch(line) for line in text.splitlines()[:1000]):
        return True
    return (
        "Slot:" in text
        and "Class:" in text
        and any(_SLOT.fullmatch(line) for line in text.splitlines()[:1000])
    )


def as_plain(text: str) -> str:
    """Return the text in the form that `lspci -v` prints, with the same number of lines."""
    lines = text.splitlines()
    plain: list[str] = []
    for number, line in enumerate(lines):
        if (row := _ONE_LINE.fullmatch(line)) is not None:
            plain.append(_header(row[1], row[2], f"{row[3]} {row[4]}", row[5] or ""))
        elif (slot := _SLOT.fullmatch(line)) is not None:
            fields = _fields(lines, number + 1)
            device_words = f"{fields.get('Vendor', '')} {fields.get('Device', '')}"
            plain.append(
                _header(
                    slot[1], fields.get("Class", "Unclassified device"), device_words, fields.get("Rev", "")
                )
            )
        elif (field := _FIELD.fullmatch(line)) is not None:
            plain.append(f"\t{_PLAIN[field[1]]}: {field[2]}" if field[1] in _PLAIN else "\t-")
        else:
            plain.append(line)
    return "\n".join(plain)


def _fields(lines: list[str], start: int) -> dict[str, str]:
    """Return the fields of one device, which end at an empty line."""
    fields: dict[str, str] = {}
    for line in lines[start : start + 20]:
        field = _FIELD.fullmatch(line)
        if field is None:
            break
        fields.setdefault(field[1], field[2].strip())
    return fields


def _header(address: str, words: str, device_words: str, revision: str) -> str:
    """Return a device's line as `lspci` prints it.

    Numbers without names (-n) are joined by a colon; the numbers behind vendor and device (-nn) are put
    together at the end.
    """
    if (bare := _BARE.fullmatch(device_words)) is not None:
        device_words = f"{bare[1]}:{bare[2]}"
    elif (named := _BOTH.fullmatch(device_words)) is not None:
        device_words = f"{named[1]}{named[3]}[{named[2]}:{named[4]}]"
    return f"{address} {words}: {device_words}" + (f" (rev {revision})" if revision else "")


def is_tree(text: str) -> bool:
    return "-[" in text and _ROOT.search(text) is not None


def parse_tree(text: str) -> tuple[PciDevice, ...]:
    """Return every device with the bridge above it."""
    devices: dict[str, PciDevice] = {}
    columns: dict[int, tuple[str, str, str | None]] = {}
    # Domain, number and upper bridge of the bus whose devices are printed in a column.
    for number, line in enumerate(text.splitlines(), 1):
        bus: tuple[str, str, str | None] | None = None
        domain, bridge, end = "0000", None, 0
        for token in _TOKEN.finditer(line[:_LONGEST]):
            start = token.start()
            if start > _MOST_COLUMNS or line[end:start].strip(" |+-\\`"):
                break  # The rest is a name.
            end = token.end()
            if token[3] is None:
                domain = token[1][-4:] if token[1] else domain
                bus = (domain, token[2], bridge)
                continue
            place = bus or columns.get(start)
            if place is None:
                break  # The line that names the bus is missing.
            columns[start] = place
            domain, bus = place[0], None
            bridge = f"{place[0]}:{place[1]}:{token[3]}"
            devices[bridge] = _device(bridge, place[2], line[end:_LONGEST], number)
    return tuple(devices.values())


def _device(address: str, parent: str | None, rest: str, line: int) -> PciDevice:
    match = _NAME.match(rest)
    name = match[1].strip() if match else ""
    ids = _IDS.findall(name)
    kind: PciKind = "bridge" if rest.startswith("-[") else _kind(name)
    return PciDevice(
        bus_id=address,
        kind=kind,
        device_id=ids[-1] if ids else NOT_RECORDED,
        name=_IDS.sub("", name) or NOT_RECORDED,
        parent=parent,
        evidence=(line_ref(line),),
    )


def _kind(name: str) -> PciKind:
    """Return the kind that a name shows, because a tree has no classes.

    `other` if the name does not show it.
    """
    if vendor_of_words(name) is None:
        return "other"
    if _SWITCH.match(name):
        return "nvswitch"
    if _GPU.match(name):
        return "gpu"
    return "rdma" if _ADAPTER.match(name) else "other"
