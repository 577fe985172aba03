"""Is the machine what its hardware profile says?

A profile lists the devices by PCI address with the link that each should have. A device at another address,
behind a narrower link, or gone, means that a board was moved, does not sit well, or has failed. The link's
generation is compared by what the device can do: an idle GPU lowers it. Source: the PCI and InfiniBand checks
of facebookresearch/gcm.
"""

from __future__ import annotations

from collections.abc import Iterator

from probes.base.record import Unknown, value_or
from probes.facts import ExpectedDevice, ExpectedPort, Nic, PciDevice
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST

JUDGE = Judge(
    check_id="profile-match",
    why="Ranks, rails and CPU cores are assigned by place; a device elsewhere, or behind a narrower link, slows all ranks.",
)
_FOR_TRAINING = {"gpu", "ib"}
_RESEAT = Remedy(
    text="Compare with a machine of the same kind, then look at the slot: reseat or exchange the board."
)


def check(evidence: Evidence) -> Iterator[Finding]:
    profile = evidence.facts.profile
    if isinstance(profile.devices, Unknown) and isinstance(profile.ports, Unknown):
        yield JUDGE.skipped(HOST, "no hardware profile was given")
        return
    present = _present(evidence)
    found: list[Finding] = []
    if isinstance(present, Unknown):
        yield JUDGE.undetermined(HOST, present, what="the devices on the PCI bus", evidence=profile.evidence)
    else:
        for device in value_or(profile.devices, ()):
            found += _device(device, present, profile.devices)
    nics = evidence.facts.nics
    for port in value_or(profile.ports, ()):
        if not isinstance(nics, Unknown):
            found += _port(port, nics)
    yield from found
    if not found and not isinstance(present, Unknown):
        count = len(value_or(profile.devices, ()))
        yield JUDGE.passed(
            HOST,
            "the machine is what its hardware profile says",
            observed=f"{count} devices",
            evidence=profile.evidence,
        )


def _present(evidence: Evidence) -> dict[str, PciDevice] | Unknown:
    """Devices by address; a listing of GPUs alone does not show what is missing."""
    devices = evidence.facts.pci_devices
    if isinstance(devices, Unknown):
        return devices
    return {device.bus_id: device for device in devices}


def _device(
    expected: ExpectedDevice,
    present: dict[str, PciDevice],
    all_expected: tuple[ExpectedDevice, ...] | Unknown,
) -> Iterator[Finding]:
    name = expected.slot or expected.bus_id
    device = present.get(expected.bus_id)
    is_vital = expected.kind in _FOR_TRAINING or expected.is_critical
    if device is None:
        judge = JUDGE.failed if is_vital else JUDGE.warned
        yield judge(
            name,
            f"no device at {expected.bus_id}, where the profile has {expected.name or expected.kind}",
            expected=f"{expected.kind} at {expected.bus_id}",
            observed=_elsewhere(expected, present, all_expected),
            remedy=_RESEAT,
        )
        return
    width, top = device.pcie.width, device.pcie.generation_max
    narrow = expected.width is not None and isinstance(width, int) and width < expected.width
    slow = bool(expected.generations) and isinstance(top, int) and top < min(expected.generations)
    if narrow or slow:
        yield JUDGE.warned(
            name,
            f"the PCIe link of {expected.name or expected.bus_id} is less than the profile says",
            expected=f"x{expected.width or '?'} generation {'/'.join(map(str, expected.generations)) or '?'}",
            observed=f"x{value_or(width, '?')} generation {value_or(top, '?')}",
            remedy=_RESEAT,
            evidence=device.evidence,
        )


def _elsewhere(
    expected: ExpectedDevice,
    present: dict[str, PciDevice],
    all_expected: tuple[ExpectedDevice, ...] | Unknown,
) -> str:
    """Devices of that kind at addresses that the profile does not have."""
    kind = {"gpu": "gpu", "ib": "rdma", "nvme": "nvme"}.get(expected.kind)
    planned = {device.bus_id for device in value_or(all_expected, ())}
    others = sorted(
        address for address, device in present.items() if device.kind == kind and address not in planned
    )
    return (
        f"nothing there; unplanned devices of its kind at {', '.join(others)}" if others else "nothing there"
    )


def _port(expected: ExpectedPort, nics: tuple[Nic, ...]) -> Iterator[Finding]:
    nic = next((nic for nic in nics if expected.name in (nic.name, nic.netdev)), None)
    if nic is None:
        if expected.link_layer == "InfiniBand" and nics:
            yield JUDGE.failed(
                expected.name,
                "a port of the profile is missing",
                expected=f"{expected.link_layer} port {expected.name}",
                observed="no such port",
                remedy=_RESEAT,
            )
        return
    rate = nic.rate_gbps
    if expected.rate_gbps is not None and isinstance(rate, float) and rate < expected.rate_gbps:
        yield JUDGE.warned(
            expected.name,
            "the port is slower than the profile says",
            expected=f"{expected.rate_gbps:g} Gb/s",
            observed=f"{rate:g} Gb/s",
            remedy=Remedy(text="Check the cable and the configuration of the switch port."),
            evidence=nic.evidence,
        )
    firmware = nic.firmware_version
    if (
        expected.firmware_versions
        and isinstance(firmware, str)
        and firmware not in expected.firmware_versions
    ):
        yield JUDGE.warned(
            expected.name,
            "the port has firmware that the profile does not name",
            expected=" or ".join(expected.firmware_versions),
            observed=firmware,
            remedy=Remedy(
                text="Bring all cards to the firmware of the profile, or bring the profile up to date."
            ),
            evidence=nic.evidence,
        )
