"""Words and numbers that the tools of RDMA ports share: states, rates, identifiers."""

import re

from probes.base.patterns import pattern
from probes.base.record import NOT_RECORDED, Reason, Unknown, quoted

_RATE = pattern(
    r"(\d{1,5}(?:\.\d{1,5})?)"
    r"(?: \(FDR10\)|\s*Gb/sec(?:\s*\((\d{1,2})X(?:\s+([A-Z]{2,4}\d{0,3}))?\))?.{0,40})?"
)
_HEX = pattern(r"(?:0x)?([0-9a-f]{1,16})", re.IGNORECASE)
_INTEGER = pattern(r"0x[0-9a-f]{1,16}|\d{1,20}", re.IGNORECASE)

LANE_GBPS = {
    "SDR": 2.5,
    "DDR": 5.0,
    "QDR": 10.0,
    "FDR10": 10.0,
    "FDR": 14.0,
    "EDR": 25.0,
    "HDR": 50.0,
    "NDR": 100.0,
    "XDR": 200.0,
}
"""Rate of one lane in Gb/s, as the kernel defines it.

Source: `rate` of ib_port_sysfs in drivers/infiniband/core/sysfs.c, and ib_rate_to_mult.
"""

_STATES = {
    "active": "ACTIVE",
    "init": "INIT",
    "initialize": "INIT",
    "initializing": "INIT",
    "armed": "ARMED",
    "arm": "ARMED",
    "down": "DOWN",
    "active defer": "ACTIVE_DEFER",
    "active_defer": "ACTIVE_DEFER",
}
_PHYSICAL = {
    "linkup": "LinkUp",
    "polling": "Polling",
    "disabled": "Disabled",
    "disable": "Disabled",
    "sleep": "Sleep",
    "linkerrorrecovery": "LinkErrorRecovery",
    "portconfigurationtraining": "PortConfigurationTraining",
    "training": "PortConfigurationTraining",
    "phytest": "Phy Test",
}


def port_state(word: str) -> str | Unknown:
    """Return the logical state in upper case.

    For example, `ACTIVE` is the result for ibstat's `Active`, ibv_devinfo's `PORT_ACTIVE (4)` and rdma's
    `ACTIVE`.
    """
    name = word.partition("(")[0].strip().lower().removeprefix("port_")
    return _STATES.get(name) or Unknown(Reason.UNPARSABLE, f"{quoted(word)} is not a port state")


def physical_state(word: str) -> str | Unknown:
    """Return the physical state as the kernel names it: `LinkUp` for `LINK_UP (5)`."""
    name = re.sub(r"[\s_]", "", word[:60].partition("(")[0]).lower()
    return _PHYSICAL.get(name) or Unknown(Reason.UNPARSABLE, f"{quoted(word)} is not a physical port state")


def port_rate(text: str) -> tuple[float | Unknown, int | Unknown, str | Unknown]:
    """Return rate in Gb/s, lanes and speed for `400 Gb/sec (4X NDR)`; only the rate for ibstat's `400`."""
    match = _RATE.fullmatch(text.strip())
    if match is None:
        unknown = Unknown(Reason.UNPARSABLE, f"{quoted(text)} is not a port rate")
        return unknown, unknown, unknown
    missing = Unknown(Reason.NOT_SUPPORTED, f"the rate {quoted(text)} names neither lanes nor speed")
    return float(match[1]), int(match[2]) if match[2] else missing, match[3] or missing


def lane_speed(gbps: float) -> str | Unknown:
    """Return the name of a lane's speed: EDR for 25.78125, HDR for 53.125.

    `gbps` may be the signalling rate or the data rate.
    """
    names = (name for name, rate in LANE_GBPS.items() if 0.98 * rate <= gbps <= 1.07 * rate)
    # QDR and FDR10 have the same rate. The table lists QDR first, so QDR is used.
    return next(names, None) or Unknown(Reason.UNPARSABLE, f"no lane runs at {gbps:g} Gb/s")


def guid(text: str) -> str | Unknown:
    """Return a 64-bit identifier as sysfs writes it: `946d:ae03:0012:3456` for `0x946dae0300123456`."""
    match = _HEX.fullmatch(text.strip().replace(":", ""))
    if match is None:
        return Unknown(Reason.UNPARSABLE, f"{quoted(text)} is not a GUID")
    digits = match[1].lower().zfill(16)
    return ":".join(digits[start : start + 4] for start in range(0, 16, 4))


def or_missing(value: str | Unknown) -> str | Unknown:
    """Return the value, or NOT_RECORDED if the value cannot be read."""
    return NOT_RECORDED if isinstance(value, Unknown) else value


def whole_number(text: str) -> int | Unknown:
    """Return a decimal or 0x number of at most 64 bits, such as a counter or LID."""
    match = _INTEGER.fullmatch(text.strip())
    if match is None:
        return Unknown(Reason.UNPARSABLE, f"{quoted(text)} is not a number")
    return int(match[0], 16 if match[0][:2].lower() == "0x" else 10)


def mapped_ipv4(gid: str) -> str | None:
    """Return the IPv4 address that a RoCE GID contains (`::ffff:a.b.c.d`, any notation); None for others."""
    import ipaddress  # noqa: PLC0415 - needed only for RoCE; the import takes several milliseconds

    try:
        address = ipaddress.IPv6Address(gid)
    except ValueError:
        return None
    return str(address.ipv4_mapped) if address.ipv4_mapped else None


def long_gid(text: str) -> str | Unknown:
    """Return a GID with all digits in groups of four: `fe80:0000:...`."""
    import ipaddress  # noqa: PLC0415 - as above

    try:
        return ipaddress.IPv6Address(text.strip()[:64]).exploded
    except ValueError:
        return Unknown(Reason.UNPARSABLE, f"{quoted(text)} is not a GID")
