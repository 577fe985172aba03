"""Parse values of PCI devices in the form key=value.

Such texts are `uevent` files, reports of sites, and the output of `grep .
/sys/bus/pci/devices/*/current_link_width` and `udevadm info`. A new address or a repeated name begins the
next device. Source: Linux, Documentation/ABI/testing/sysfs-bus-pci; drivers/pci/pci-sysfs.c and pci-driver.c
(uevent).
"""

from collections.abc import Callable

from probes.base.patterns import pattern
from probes.base.record import NOT_RECORDED, Record, Unknown, line_ref
from probes.facts import PciDevice, PcieLink
from probes.parsers.topology.pci_addresses import link_generation, link_width, normal_address
from probes.parsers.topology.pci_classes import kind_of

_NAMES = (
    "vendor|device|class|(?:current|max)_link_(?:width|speed)|numa_node|PCI_ID|PCI_CLASS|PCI_SLOT_NAME"
    "|LnkSta[._]?width|address|bdf|bus_id|bus|slot"
)
_VALUE = pattern(
    rf"(?:^|[\s,;/])({_NAMES})[ \t]{{0,3}}[=:][ \t]{{0,3}}[\"']?"
    r"([0-9a-fA-Fx:.]{1,16}(?:[ ]GT/s)?)(?=[\s\"',;]|$)"
)
_PATH = pattern(
    r"/(?:devices|slots)/(?:[^\s/]{1,40}/){0,12}?([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])/[a-z_]"
)
_ADDRESSES = frozenset({"PCI_SLOT_NAME", "bdf", "bus_id", "bus", "slot"})
_SURPRISE_DOWN = pattern(r"\bUESta[._=].{0,60}?\bSDES(?:\+|=1\b)")
_SIGN = pattern(
    r"(?:^|[\s,;/])(?:(?:current|max)_link_(?:width|speed)|LnkSta[._]?width|UESta)[ \t]{0,3}="
    r"|(?:^|/)(?:current|max)_link_(?:width|speed):|PCI_SLOT_NAME=|PCI_ID="
    r"|(?:^|[\s,;/])vendor[ \t]{0,3}[=:][ \t]{0,3}0x[0-9a-fA-F]{4}(?:[\s,;]|$)"
)
"""Names before an equals sign, or before a colon as `grep` prints them after a path.

A name before a colon elsewhere does not count (except a vendor in hexadecimal digits), because YAML of other
projects has the same names.
"""
_MOST_LINES = 100_000


class _Values(Record, kw_only=True):
    """Values of one device and the number of its first line."""

    line: int
    values: dict[str, str]


def recognise(text: str) -> bool:
    return any(_SIGN.search(line[:400]) for line in text.split("\n")[:_MOST_LINES])


def parse_devices(text: str) -> tuple[PciDevice, ...]:
    """Return the devices that the values describe, each with its first line."""
    devices: list[_Values] = []
    for number, line in enumerate(text.splitlines()[:_MOST_LINES], 1):
        path = _PATH.search(line[:400])
        pairs = [("address", path[1])] if path else []
        pairs += [(_name(match[1]), match[2]) for match in _VALUE.finditer(line[:400])]
        pairs += [("SDES", "+")] if _SURPRISE_DOWN.search(line[:400]) else []
        for name, value in pairs:
            known = devices[-1].values if devices else {}
            if not devices or (name in known and (name, value) != ("address", known[name])):
                devices.append(_Values(line=number, values={}))
            devices[-1].values.setdefault(name, value)
    return tuple(_device(device) for device in devices if len(device.values.keys() - {"address"}))


def _name(word: str) -> str:
    if word.startswith("LnkSta"):
        return "current_link_width"
    return "address" if word in _ADDRESSES else word


def _device(entry: _Values) -> PciDevice:
    values = entry.values
    address = normal_address(values.get("address", ""))
    vendor, device = (values.get(name, "").removeprefix("0x").lower() for name in ("vendor", "device"))
    identity = values["PCI_ID"].lower() if "PCI_ID" in values else f"{vendor}:{device}"
    is_gone = identity.startswith("ffff:")
    digits = values.get("class", values.get("PCI_CLASS", "")).removeprefix("0x").rjust(6, "0")[:4].lower()
    code: str | Unknown = digits if digits.strip("0") else NOT_RECORDED
    kind = kind_of(code, identity)
    width, widest = values.get("current_link_width"), values.get("max_link_width", "16")
    is_port = kind in ("bridge", "other") and code != NOT_RECORDED and not is_gone
    is_without_lanes = width in ("0", "x0") and widest not in ("0", "x0") and not is_port
    return PciDevice(
        bus_id="" if isinstance(address, Unknown) else address,
        kind=kind,
        device_id="ffff:ffff" if is_gone else identity if len(identity) == 9 else NOT_RECORDED,
        class_code=code,
        pcie=PcieLink(
            generation=_known(values, "current_link_speed", link_generation),
            generation_max=_known(values, "max_link_speed", link_generation),
            width=_known(values, "current_link_width", link_width),
            width_max=_known(values, "max_link_width", link_width),
        ),
        responds=False if is_gone else NOT_RECORDED,
        link_lost="SDES+" if "SDES" in values else "Width x0" if is_without_lanes else "",
        evidence=(line_ref(entry.line),),
    )


def _known(values: dict[str, str], name: str, read: Callable[[str], int | Unknown]) -> int | Unknown:
    text = values.get(name)
    return NOT_RECORDED if text is None else read(text.removeprefix("x"))
