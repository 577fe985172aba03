"""Parse ports of RDMA devices: the files of /sys/class/infiniband, and `ibstat`."""

import re

from probes.base.patterns import pattern
from probes.base.record import Reason, Unknown, line_ref, quoted
from probes.facts import Nic, Unread
from probes.parsers.fabric.rdma_words import guid, physical_state, port_rate, port_state, whole_number

_NUMBERED = pattern(r"\d+:\s*(\S.*)")
_IBSTAT = pattern(
    r"^[ \t]*CA '[^'\n]+'[ \t]*\n[ \t]*(?:CA type:|Number of ports:|Firmware version:|Port \d{1,3}:)",
    re.MULTILINE,
)
_CA = pattern(r"\s*CA '([^']+)'\s*")
_PORT = pattern(r"\s*Port (\d{1,3}):\s*")
_PANIC = pattern(r"ibpanic: \[\d{1,10}\] main: (.{1,200})")
_VANISHED = pattern(r"stat of IB device '([^'\n]{1,64})' failed: .{1,80}")
_NAME = ""
"""Key under which the device's name is stored; no field has an empty name."""
_MISSING = Unknown(Reason.NOT_RECORDED, "not in the output of ibstat")


def recognise(text: str) -> bool:
    return "CA '" in text and bool(_IBSTAT.search(text))


def port_word(text: str) -> str | Unknown:
    """Return the word of a sysfs state: `ACTIVE` for `4: ACTIVE`, `LinkUp` for `5: LinkUp`."""
    match = _NUMBERED.fullmatch(text.strip())
    return match[1] if match else Unknown(Reason.UNPARSABLE, f"{quoted(text)} is not a port state")


def port_link_layer(text: str) -> str | Unknown:
    """Return `InfiniBand` or `Ethernet`; Unknown for any other word, such as the word that EFA reports."""
    word = text.strip()
    if word in ("InfiniBand", "Ethernet"):
        return word
    return Unknown(Reason.NOT_SUPPORTED, f"link layer {quoted(word)}")


def parse_ibstat(text: str) -> tuple[Nic, ...]:
    """Return the ports of `ibstat`, even if the output ends early.

    If a device vanished while ibstat ran, its `ibpanic` line becomes a port without values, with the error as
    the reason.
    """
    ports: list[Nic] = []
    device: dict[str, str] = {}
    port: dict[str, str] = {}
    start = 0

    def finish_port() -> None:
        if "number" in port:
            ports.append(_nic(device, port, start))
        port.clear()

    for number, line in enumerate(text.splitlines(), 1):
        if (match := _CA.fullmatch(line)) is not None:
            finish_port()
            device = {_NAME: match[1]}
        elif (match := _PORT.fullmatch(line)) is not None and _NAME in device:
            finish_port()
            port["number"], start = match[1], number
        elif (panic := _PANIC.search(line)) is not None:
            finish_port()
            device = {}
            ports += _vanished(panic[1], number)
        else:
            name, colon, value = line.strip().partition(": ")
            if colon and name:
                (port if port else device).setdefault(name, value.strip())
    finish_port()
    return tuple(ports)


def unread_ibstat(text: str) -> tuple[Unread, ...]:
    """Return the lines with which ibstat gave up; the caller fills in `source`."""
    return tuple(
        Unread(source="", line=number, text=line.strip()[:200], why=f"ibstat gave up: {match[1]}")
        for number, line in enumerate(text.splitlines(), 1)
        if (match := _PANIC.search(line)) is not None
    )


def _vanished(words: str, line: int) -> list[Nic]:
    match = _VANISHED.search(words)
    if match is None:
        return []
    error = Unknown(Reason.ERROR, words)
    return [
        Nic(
            name=match[1],
            link_layer=error,
            state=error,
            physical_state=error,
            rate_gbps=error,
            device_type=error,
            evidence=(line_ref(line),),
        )
    ]


def _nic(device: dict[str, str], port: dict[str, str], line: int) -> Nic:
    return Nic(
        name=device[_NAME],
        port=int(port["number"]),
        link_layer=port_link_layer(port["Link layer"]) if "Link layer" in port else _MISSING,
        state=port_state(port["State"]) if "State" in port else _MISSING,
        physical_state=physical_state(port["Physical state"]) if "Physical state" in port else _MISSING,
        rate_gbps=port_rate(port["Rate"])[0] if "Rate" in port else _MISSING,
        device_type=device.get("CA type", _MISSING) or _MISSING,
        firmware_version=device.get("Firmware version", _MISSING) or _MISSING,
        node_guid=guid(device["Node GUID"]) if "Node GUID" in device else _MISSING,
        port_guid=guid(port["Port GUID"]) if "Port GUID" in port else _MISSING,
        lid=whole_number(port["Base lid"]) if "Base lid" in port else _MISSING,
        sm_lid=whole_number(port["SM lid"]) if "SM lid" in port else _MISSING,
        evidence=(line_ref(line),),
    )
