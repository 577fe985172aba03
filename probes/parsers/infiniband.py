"""Ports of RDMA devices: the files of /sys/class/infiniband, and `ibstat`."""

from __future__ import annotations

import re

from probes.facts import Nic
from probes.record import Reason, Unknown

_NUMBERED = re.compile(r"\d+:\s*(\S.*)")
_RATE = re.compile(r"(\d+(?:\.\d+)?)(?:\s*Gb/sec.*)?")
_IBSTAT = re.compile(r"^[ \t]*CA '[^'\n]+'[ \t]*\n[ \t]*CA type:", re.MULTILINE)
_CA = re.compile(r"\s*CA '([^']+)'\s*")
_PORT = re.compile(r"\s*Port (\d{1,3}):\s*")
_STATES = {"Active": "ACTIVE", "Initializing": "INIT", "Armed": "ARMED", "Down": "DOWN", "Active Defer": "ACTIVE_DEFER"}
"""ibstat's words for the states that sysfs writes in upper case."""


def recognise(text: str) -> bool:
    """Whether it is the output of `ibstat`."""
    return bool(_IBSTAT.search(text))


def port_word(text: str) -> str | Unknown:
    """The word of a sysfs state: `ACTIVE` of `4: ACTIVE`, `LinkUp` of `5: LinkUp`."""
    match = _NUMBERED.fullmatch(text.strip())
    return match[1] if match else Unknown(Reason.UNPARSABLE, f"{text[:40]!r} is not a port state")


def port_rate_gbps(text: str) -> float | Unknown:
    """The rate of `400 Gb/sec (4X NDR)`, or of ibstat's bare `400`."""
    match = _RATE.fullmatch(text.strip())
    return float(match[1]) if match else Unknown(Reason.UNPARSABLE, f"{text[:40]!r} is not a port rate")


def port_link_layer(text: str) -> str | Unknown:
    """`InfiniBand` or `Ethernet`; EFA and others state none."""
    word = text.strip()
    return word if word in ("InfiniBand", "Ethernet") else Unknown(Reason.NOT_SUPPORTED, f"link layer {word[:40]!r}")


def parse_ibstat(text: str) -> tuple[Nic, ...]:
    """The ports of `ibstat`, also of an output that breaks off: what is complete counts."""
    ports: list[Nic] = []
    device: dict[str, str] = {}
    port: dict[str, str] = {}

    def finish() -> None:
        if "number" in port:
            ports.append(_nic(device, port))
        port.clear()

    for line in text.splitlines():
        if (match := _CA.fullmatch(line)) is not None:
            finish()
            device = {"name": match[1]}
        elif (match := _PORT.fullmatch(line)) is not None and device:
            finish()
            port["number"] = match[1]
        else:
            name, colon, value = line.strip().partition(": ")
            if colon:
                (port if port else device).setdefault(name, value.strip())
    finish()
    return tuple(ports)


def _nic(device: dict[str, str], port: dict[str, str]) -> Nic:
    missing = Unknown(Reason.NOT_RECORDED, "not in the output of ibstat")
    state = port.get("State")
    return Nic(
        name=device["name"],
        port=int(port["number"]),
        link_layer=port_link_layer(port["Link layer"]) if "Link layer" in port else missing,
        state=missing if state is None else _STATES.get(state, Unknown(Reason.UNPARSABLE, f"state {state[:40]!r}")),
        physical_state=port.get("Physical state", missing),
        rate_gbps=port_rate_gbps(port["Rate"]) if "Rate" in port else missing,
        device_type=device.get("CA type", missing),
        firmware_version=device.get("Firmware version", missing),
    )
