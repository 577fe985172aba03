"""Parse `lspci` in all its forms, and single lines of its output.

The forms are short, -n, -nn and -v to -vvv, with or without domains; -mm and -vmm; and trees (-t, -tv) of
pciutils 3.5 to 3.13. Source of the field names: pciutils, ls-caps.c and ls-ecaps.c.
"""

import re

import msgspec

from probes.base.record import NOT_RECORDED, Reason, Record, Unknown, line_ref
from probes.facts import Gpu, Link, Nic, PciDevice, PcieLink, PciKind, Unread
from probes.parsers.topology.lspci_forms import as_plain, is_machine_form, is_tree, parse_tree
from probes.parsers.topology.pci_addresses import (
    GENERATION_BY_SPEED,
    End,
    link_width,
    normal_address,
    tree_links,
)
from probes.parsers.topology.pci_classes import (
    CLASS_CODES,
    gpu_of_device,
    kind_of,
    nic_of_device,
    vendor_of_words,
)

_HEADER = re.compile(r"((?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]) +(\S.{3,300})")
_NUMERIC = re.compile(r"([0-9a-f]{4}): ([0-9a-f]{4}:[0-9a-f]{4})(?: |$)")
_CLASS = re.compile(r"([A-Z3][^:\[]{1,60}?)(?: \[([0-9a-f]{4})\])?: (.*)")
_GENERIC = re.compile(
    r"[A-Z][A-Za-z /-]{2,40} (?:controller|bridge|device|interface|bus|counters|peripheral|memory)"
)
"""Form of the names of device classes that the table does not contain."""
_IDS = re.compile(r"\[([0-9a-f]{4}:[0-9a-f]{4})\]")
_BARE_DEVICE = re.compile(r"Device ([0-9a-f]{4})\b")
_REVISION = re.compile(r" \((?:rev|prog-if) .*")
_LINK = re.compile(
    r"\bLnk(Cap|Sta)[:=][ \t]?.{0,40}?Speed ([\d.]{1,5}|unknown)(?: ?GT/s)?(?: \((\w+)\))?,"
    r" Width (x\d{1,3})(?: \((\w+)\))?"
)
_PAYLOAD = re.compile(r"MaxPayload (\d{2,4}) bytes")
_READ_REQUEST = re.compile(r"MaxReadReq (\d{2,4}) bytes")
_BUS = re.compile(r"Bus: primary=([0-9a-f]{2}), secondary=([0-9a-f]{2}), subordinate=([0-9a-f]{2})")
_ALL_ONES = re.compile(r"\(rev ff\)|!!! Unknown header type 7f|\bffff:ffff\b|Illegal Vendor ID")
_SURPRISE_DOWN = re.compile(r"UESta[:=].{0,40}?\bSDES\+")
"""Only the status of uncorrectable errors: masks and severities contain this flag for healthy devices too."""
_LOOSE = re.compile(r"ACSCtl:[ \t]*SrcValid[+-] |UESta[:=][ \t]*DLP[+-] ")
_ACS_LINE = re.compile(r"ACSCtl:[ \t]*SrcValid[+-] ")
_ACS = {
    "SrcValid": "source_validation",
    "TransBlk": "translation_blocking",
    "ReqRedir": "request_redirect",
    "CmpltRedir": "completion_redirect",
    "UpstreamFwd": "upstream_forwarding",
    "EgressCtrl": "egress_control",
    "DirectTrans": "direct_translated",
}
_MOST_UNREAD = 20
_MOST_LINES = 400_000
"""Maximum number of lines that are read: above what any server prints, and a bound for hostile texts."""


class Lspci(Record, kw_only=True):
    """Content of one listing."""

    devices: tuple[PciDevice, ...]
    """Devices in the order of the listing.

    A device without address (`bus_id` is empty) comes from lines about a link, without the line that names
    the device.
    """
    unread: tuple[Unread, ...] = ()


def recognise(text: str) -> bool:
    """Return whether the text has a line of a device or link, or is a tree or a listing for scripts."""
    for line in text.splitlines()[:_MOST_LINES]:
        if line[:1] in " \tLAU" and (_LINK.match(bare := line.lstrip()) or _LOOSE.match(bare)):
            return True
        if ":" in line[2:9] and (match := _HEADER.fullmatch(line)) and _class_and_name(match[2]) is not None:
            return True
    return is_tree(text) or is_machine_form(text)


def parse_lspci(text: str) -> Lspci:
    """Return the devices in `text`, each with the number of its first line."""
    if is_machine_form(text):
        text = as_plain(text)
    blocks: list[_Block] = []
    unread: list[Unread] = []
    for number, line in enumerate(text.splitlines()[:_MOST_LINES], 1):
        header, bare = _HEADER.match(line), line.strip()
        identity = _class_and_name(header[2]) if header is not None else None
        if header is not None and identity is not None:
            blocks.append(_Block(str(normal_address(header[1])), *identity, number))
            blocks[-1].is_gone = _ALL_ONES.search(header[2]) is not None
        elif header is not None:
            why = "lspci prints no such device class"
            row = Unread(source="", line=number, text=line[:80], why=why)
            unread += [row] if len(unread) < _MOST_UNREAD else []
        else:
            # Lines without a device come from `lspci -vvv | grep`. There each ACSCtl line is another bridge,
            # but the state of a link follows its capability.
            is_loose = not blocks or not blocks[-1].address
            is_first = not blocks and (_LINK.match(bare) or _LOOSE.match(bare))
            if is_loose and (_ACS_LINE.match(bare) or is_first):
                blocks.append(_Block("", "", "", "", number))
            if blocks:
                blocks[-1].take(bare)
    devices = _with_parents([block.device(last=block is blocks[-1]) for block in blocks], blocks)
    return Lspci(
        devices=_with_tree(devices, parse_tree(text)) if is_tree(text) else devices,
        unread=tuple(unread),
    )


def parse_devices(text: str) -> tuple[PciDevice, ...]:
    return parse_lspci(text).devices


def parse_unread(text: str) -> tuple[Unread, ...]:
    return parse_lspci(text).unread


def parse_nics(text: str) -> tuple[Nic, ...]:
    """Return the functions that support RDMA; lspci does not print the names of their RDMA devices."""
    return tuple(map(nic_of_device, _adapters(_devices_of_kind(text, "rdma"))))


def _adapters(devices: tuple[PciDevice, ...]) -> tuple[PciDevice, ...]:
    """Return the physical functions, because virtual functions are not separate NICs on their host.

    In a virtual machine, which has only virtual functions, return the virtual functions.
    """
    physical = tuple(device for device in devices if device.is_virtual_function is not True)
    return physical or devices


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    return tuple(gpu_of_device(device) for device in _devices_of_kind(text, "gpu"))


def _devices_of_kind(text: str, kind: str) -> tuple[PciDevice, ...]:
    return tuple(device for device in parse_devices(text) if device.kind == kind and device.bus_id)


def parse_links(text: str) -> tuple[Link, ...]:
    """Return the links of all GPUs and NICs if the listing shows bridges (-v); NICs are named by address."""
    devices = {device.bus_id: device for device in parse_devices(text)}
    gpus = sorted(
        (device for device in devices.values() if device.kind == "gpu"), key=lambda device: device.bus_id
    )
    if not gpus or isinstance(gpus[0].parent, Unknown):
        return ()
    ends = [End(f"GPU{index}", device) for index, device in enumerate(gpus)]
    nics = tuple(device for device in devices.values() if device.kind == "rdma" and device.bus_id)
    ends += [End(device.bus_id, device) for device in _adapters(nics)]
    return tree_links(ends, devices, {})


def _class_and_name(rest: str) -> tuple[str, str, str] | None:
    """Return class code, device id and name of a device line without its address; None for other lines.

    The device id is `10de:` if only the vendor is known, and empty if nothing is known.
    """
    numeric = _NUMERIC.match(rest)
    if numeric is not None:
        return numeric[1], numeric[2], ""
    match = _CLASS.match(rest)
    if match is None:
        return None
    code = match[2] or CLASS_CODES.get(match[1]) or ""
    if not code and not _GENERIC.fullmatch(match[1]):
        return None
    words = _REVISION.sub("", match[3])
    ids = _IDS.findall(words)
    if ids:
        return code, ids[-1], _IDS.sub("", words).strip()
    vendor = vendor_of_words(words)
    bare = _BARE_DEVICE.search(words)
    return code, f"{vendor}:{bare[1] if bare else ''}" if vendor else "", words.strip()


class _Block:
    """Lines of one device."""

    def __init__(self, address: str, code: str, device_id: str, name: str, line: int) -> None:
        self.address = address
        self.secondary: int | None = None
        self.is_verbose = False
        self._code, self._id, self._name, self._line = code, device_id, name, line
        self._section = ""
        self._links: dict[str, tuple[str, str, str, str]] = {}
        self._acs: tuple[str, ...] | Unknown | None = None
        self._numbers: dict[str, int] = {}
        self._words: dict[str, str] = {}
        self._lost = ""
        self._states = 0
        self.is_gone = self._denied = self._ended = False

    def take(self, text: str) -> None:
        """Add a line without its indentation."""
        # An empty line ends the device; the text after it may be about another subject.
        self._ended = self._ended or not text
        if self._ended:
            return
        key, colon, value = text.partition(":")
        if colon and key.isalnum():
            self._section = key
        self.is_verbose = self.is_verbose or key in ("Control", "Flags", "Capabilities")
        self._denied = self._denied or "<access denied>" in text
        self.is_gone = self.is_gone or _ALL_ONES.match(text) is not None
        link = _LINK.match(text)
        if link is not None:
            self._links.setdefault(link[1], (link[2], link[3] or "", link[4], link[5] or ""))
            self._states += link[1] == "Sta"
        elif _SURPRISE_DOWN.match(text):
            self._lost = "SDES+"
        elif key == "ACSCtl":
            self._acs = tuple(name for flag, name in _ACS.items() if f"{flag}+" in value.split())
        elif key in ("NUMA node", "Kernel driver in use", "Physical Slot"):
            self._words.setdefault(key, value.strip()[:80])
        elif match := _BUS.match(text):
            self.secondary = int(match[2], 16)
        if self._section in ("DevCap", "DevCtl") and (payload := _PAYLOAD.search(text)):
            self._numbers.setdefault(self._section, int(payload[1]))
        if self._section == "DevCtl" and (request := _READ_REQUEST.search(text)):
            self._numbers.setdefault("MaxReadReq", int(request[1]))

    def device(self, *, last: bool) -> PciDevice:
        """Return the record of the device.

        For the last device of a text, missing values are unknown, because the text may have been cut.
        """
        absent = None if self.is_verbose and not last else NOT_RECORDED
        denied = Unknown(Reason.PERMISSION, "lspci was not run by root") if self._denied else absent
        code: str | Unknown = self._code or NOT_RECORDED
        whole_id = len(self._id) == len("10de:2330")
        kind = kind_of(code, self._id or NOT_RECORDED)
        return PciDevice(
            bus_id=self.address,
            kind=kind,
            device_id=self._id if whole_id else NOT_RECORDED,
            class_code=code,
            name=self._name or NOT_RECORDED,
            driver=self._words.get("Kernel driver in use", absent),
            numa_node=_numa_node(self._words.get("NUMA node", "")),
            pcie=self._pcie(),
            downgraded=self._downgraded(),
            max_payload_bytes=self._numbers.get("DevCtl", NOT_RECORDED),
            max_payload_supported_bytes=self._numbers.get("DevCap", NOT_RECORDED),
            max_read_request_bytes=self._numbers.get("MaxReadReq", NOT_RECORDED),
            acs=denied if self._acs is None else self._acs,
            responds=False if self.is_gone else NOT_RECORDED,
            link_lost=self._lost or self._without_lanes(kind),
            slot=self._words.get("Physical Slot", NOT_RECORDED),
            is_virtual_function=True if "Virtual Function" in self._name else NOT_RECORDED,
            evidence=(line_ref(self._line),),
        )

    def _without_lanes(self, kind: PciKind) -> str:
        """Return `Width x0` if a device with lanes has lost all of them.

        Ports are not reported, because the port of an empty slot has no lanes either. For the same reason,
        several link lines without a device are not reported.
        """
        status, ability = self._links.get("Sta"), self._links.get("Cap")
        is_port = kind in ("bridge", "other") if self.address else self._states > 1
        is_virtual = ability is not None and ability[2] == "x0"
        return "Width x0" if status and status[2] == "x0" and not is_port and not is_virtual else ""

    def _pcie(self) -> PcieLink:
        status, ability = self._links.get("Sta"), self._links.get("Cap")
        generation, width = _speed_and_width(status)
        most_generation, most_width = _speed_and_width(ability)
        if status is not None and ability is None:
            # Without the line of the capability, the maximum is known if lspci marks that it is reached.
            most_generation = generation if status[1] == "ok" else NOT_RECORDED
            most_width = width if status[3] == "ok" else NOT_RECORDED
        return PcieLink(
            generation=generation, width=width, generation_max=most_generation, width_max=most_width
        )

    def _downgraded(self) -> tuple[str, ...] | Unknown:
        _, speed, _, width = self._links.get("Sta", ("", "", "", ""))
        marks = {"speed": speed, "width": width}
        downgraded = tuple(name for name, mark in marks.items() if mark == "downgraded")
        return downgraded if speed or width else NOT_RECORDED


def _numa_node(text: str) -> int | Unknown | None:
    if text == "-1":
        return None
    return int(text) if text.isdecimal() and len(text) < 6 else NOT_RECORDED


def _speed_and_width(link: tuple[str, str, str, str] | None) -> tuple[int | Unknown, int | Unknown]:
    if link is None:
        return NOT_RECORDED, NOT_RECORDED
    speed = link[0]
    generation = GENERATION_BY_SPEED.get(speed, Unknown(Reason.NOT_SUPPORTED, f"link speed {speed} GT/s"))
    return generation, link_width(link[2][1:])


def _with_parents(devices: list[PciDevice], blocks: list[_Block]) -> tuple[PciDevice, ...]:
    """Return each device with the bridge above its bus, if the listing shows the bridges' buses (-v)."""
    above: dict[tuple[str, int], str] = {}
    for block in blocks:
        if block.secondary is not None and block.address:
            above.setdefault((block.address.split(":", 1)[0], block.secondary), block.address)
    return tuple(_with_parent(device, above) if above and device.bus_id else device for device in devices)


def _with_parent(device: PciDevice, above: dict[tuple[str, int], str]) -> PciDevice:
    domain, bus, _ = device.bus_id.split(":")
    parent = above.get((domain, int(bus, 16)))
    return device if parent == device.bus_id else msgspec.structs.replace(device, parent=parent)


def _with_tree(devices: tuple[PciDevice, ...], tree: tuple[PciDevice, ...]) -> tuple[PciDevice, ...]:
    """Return `devices` with their parents in the tree of the same text, and the tree's other devices."""
    places = {device.bus_id: device for device in tree}
    placed = [
        msgspec.structs.replace(device, parent=places[device.bus_id].parent)
        if device.bus_id in places and isinstance(device.parent, Unknown)
        else device
        for device in devices
    ]
    named = {device.bus_id for device in devices}
    return (*placed, *(device for device in tree if device.bus_id not in named))
