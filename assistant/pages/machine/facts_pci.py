"""Describe the PCI bus: a summary; with `-v` also the bridges above GPUs, NICs and NVSwitches."""

from collections import Counter

from assistant.pages.machine.facts_words import (
    Line,
    Subject,
    first,
    joined,
    noted,
    said,
    subject,
    unknown_subject,
)
from probes.base.record import Unknown, known, value_or
from probes.base.units import plural
from probes.facts import MachineFacts, PciDevice
from probes.judging.reporting import fold_names
from probes.reading.pci.paths import Tree, names_of, tree_of

_ENDS = ("gpu", "rdma", "nvswitch")
_REDIRECTS = frozenset({"request_redirect", "completion_redirect"})
_TITLES = {"rdma": "NIC", "gpu": "GPU", "nvswitch": "NVSwitch"}


def sections(facts: MachineFacts, *, verbose: bool) -> list[Subject]:
    devices = facts.pci_devices
    if isinstance(devices, Unknown):
        return [unknown_subject("PCIe", devices)]
    tree, names = tree_of(facts), names_of(facts)
    ends = [device for device in tree.devices.values() if device.kind in _ENDS]
    # A source that lists only slots or links does not state what kind of device each one is.
    ends = ends or [device for device in tree.devices.values() if device.kind == "other"]
    drawn = [subject("PCIe tree", _drawn(tree, ends, names))] if verbose and ends else []
    return [subject("PCIe", _summary(tree, ends, names)), *drawn]


def _bridges(tree: Tree, ends: list[PciDevice]) -> list[PciDevice]:
    return list({bridge.bus_id: bridge for device in ends for bridge in tree.above(device)}.values())


def _summary(tree: Tree, ends: list[PciDevice], names: dict[str, str]) -> list[Line]:
    """Return payload sizes, redirecting bridges, too narrow links, and devices without a driver."""
    bridges = _bridges(tree, ends)
    payloads = Counter(device.max_payload_bytes for device in ends if known(device.max_payload_bytes))
    # NVSwitches exchange no data over PCIe.
    crossed = _bridges(tree, [device for device in ends if device.kind != "nvswitch"])
    redirecting = [bridge for bridge in crossed if _REDIRECTS & set(_acs(bridge))]
    silent = [bridge.acs for bridge in crossed if isinstance(bridge.acs, Unknown)]
    acs = (
        plural(len(redirecting), "bridge")
        + f" above GPUs and NICs {'redirects' if len(redirecting) == 1 else 'redirect'} traffic (ACS)"
        if redirecting
        else "no ACS redirect"
    )
    line = joined(
        (
            (
                "bridges",
                f"{plural(len(bridges), 'bridge')} above {plural(len(ends), 'device')}" if bridges else "",
            ),
            ("devices", plural(len(ends), "device") if ends and not bridges else ""),
            ("ACS", acs if redirecting or (crossed and not silent) else silent[0] if silent else ""),
            (
                "MaxPayload",
                f"MaxPayload {' and '.join(map(str, sorted(payloads)))} bytes" if payloads else "",
            ),
        )
    )
    narrow: dict[str, list[str]] = {}
    for device in (*ends, *(device for device in tree.devices.values() if device.kind == "nvme")):
        possible, width = tree.possible_width(device), device.pcie.width
        if known(width) and known(possible) and 0 < width < possible:
            narrow.setdefault(f"x{width} of x{possible}", []).append(_name(device, names))
    unbound = [_name(device, names) for device in ends if device.driver is None and device.kind != "nvswitch"]
    return [
        line,
        *(Line(f"{words}: {fold_names(devices)}") for words, devices in narrow.items()),
        Line(f"without a driver: {', '.join(first(unbound, 6))}" if unbound else ""),
    ]


def _acs(device: PciDevice) -> tuple[str, ...]:
    return device.acs if isinstance(device.acs, tuple) else ()


def _name(device: PciDevice, names: dict[str, str]) -> str:
    return names.get(device.bus_id, device.bus_id)


def _drawn(tree: Tree, ends: list[PciDevice], names: dict[str, str]) -> list[Line]:
    """Return `ends` and every bridge above them as a tree, in which each device follows its parent."""
    wanted = {device.bus_id for device in ends} | {bridge.bus_id for bridge in _bridges(tree, ends)}
    below: dict[str, list[str]] = {}
    roots = []
    for address in sorted(wanted):
        parent = tree.devices[address].parent
        if isinstance(parent, str) and parent in wanted and parent != address:
            below.setdefault(parent, []).append(address)
        else:
            roots.append(address)
    waiting = [(address, 0) for address in reversed(roots)]
    lines: dict[str, Line] = {}
    while waiting:
        address, depth = waiting.pop()
        if address not in lines:
            lines[address] = Line("  " * min(depth, 12) + _device(tree, tree.devices[address], names))
            waiting += [(child, depth + 1) for child in reversed(below.get(address, []))]
    return list(lines.values())


def _device(tree: Tree, device: PciDevice, names: dict[str, str]) -> str:
    name = names.get(device.bus_id, device.bus_id)
    title = name if name != device.bus_id else _TITLES.get(device.kind, device.kind)
    controls = ", ".join(control.replace("_", " ") for control in _acs(device))
    line = joined(
        (
            ("link", _link(tree, device)),
            ("NUMA", "" if device.numa_node is None else said(device.numa_node, "NUMA {}")),
            ("payload", said(device.max_payload_bytes, "payload {}")),
            (
                "read request",
                "" if device.kind == "bridge" else said(device.max_read_request_bytes, "read {}"),
            ),
            ("ACS", f"ACS {controls}" if controls else ""),
            ("slot", said(device.slot, "slot {}")),
            ("errors", noted(device.aer_fatal, 0, form="{} fatal errors")),
            ("driver", "no driver" if device.driver is None and device.kind in ("gpu", "rdma") else ""),
        )
    )
    return f"{device.bus_id} {title}" + (f": {line.text}" if line.text else "")


def _link(tree: Tree, device: PciDevice) -> str:
    """Return `Gen4 of Gen5 x8 of x16`: the trained link, and the faster link that both ends support."""
    words = []
    for prefix, now, most in (
        ("Gen", device.pcie.generation, tree.possible_generation(device)),
        ("x", device.pcie.width, tree.possible_width(device)),
    ):
        if known(now):
            words.append(f"{prefix}{now}" + (f" of {prefix}{most}" if known(most) and now < most else ""))
        elif known(most):
            words.append(f"up to {prefix}{most}")
    return " ".join(words) if value_or(device.pcie.width, 1) else "no link"
