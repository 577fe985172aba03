"""Check that PCIe links have full width and the speed of both ends, and that few errors occur on them.

A link with half of its lanes halves the rates of host copies, offloading and GPUDirect. An idle GPU lowers
its PCIe generation to save power. Therefore the current generation counts only while the GPU is busy;
otherwise only the maximum generation of the GPU's path counts, which the driver reports. NICs and NVMe
devices do not lower their generation. Links of other devices are compared with the lanes that both of their
ends support. Source: oracle-quickstart/oci-hpc (width), Primus (outliers); DCGM, nvvs/plugin_src/pcie
(replays); Linux, drivers/pci/pcie/aer.c and pci.c (limited bandwidth); leptonai/gpud, kmsg and mlx5 driver
(slot power).
"""

from collections.abc import Iterator

import msgspec

from probes.base.record import Reason, Unknown, items_of, known, only_known, value_or
from probes.base.units import plural
from probes.facts import Gpu, MachineFacts, PciDevice
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import (
    HOST,
    SMI_LINK,
    Judged,
    events_in,
    fold_names,
    gpus_of,
    judge_each,
    responsive_of,
    unknown_among,
)
from probes.reading.pci.paths import (
    Tree,
    is_for_training,
    name_at,
    names_of,
    subject_of,
    training_devices,
    tree_of,
    unread_tree,
)

WIDTH = Judge(
    check_id="pcie-link",
    why="Host copies, offloading and GPUDirect RDMA share this link; at half the width they take twice as "
    "long.",
)

_RESEAT = Remedy(
    text="Reseat the card and its riser, and look at the slot's settings in the BIOS.",
    command="lspci -vv | grep LnkSta",
    needs_root=True,
)
_COMPARE = Remedy(
    text="Compare with the data sheet: many machines are designed like this (AWS g4dn, g5, g6e). If the "
    "data sheet promises more, reseat the card.",
    command="lspci -vv | grep LnkSta",
    needs_root=True,
)
_WATCHED = frozenset({"rdma", "nvme", "nvswitch"})
_WATCH = Remedy(
    text="Look at the link again during a copy, then at the slot's generation in the BIOS.", command=SMI_LINK
)
SPEED = Judge(
    check_id="pcie-speed",
    why="Each generation doubles the bandwidth: host copies and RDMA reach only half of the rate that the "
    "hardware supports.",
)
ERRORS = Judge(
    check_id="pcie-errors",
    why="Damaged and lost packets slow transfers down; an uncorrectable error ends the job or makes the "
    "GPU unusable.",
)

_SLOT = Remedy(
    text="Look at the slot's generation and bifurcation in the BIOS, then at riser and retimer; compare "
    "with the data sheet.",
    command="lspci -vv | grep -E 'LnkCap:|LnkSta:'",
    needs_root=True,
)
_LOAD = Remedy(
    text="An idle GPU lowers its speed: read the link again during a copy. If the speed stays low, look at "
    "card, riser "
    "and power.",
    command=SMI_LINK,
)
_RESEAT_OR_REPLACE = Remedy(
    text="Reseat the card, its riser and cables; if the count still grows, have the card or slot replaced."
)
_POWER = Remedy(
    text="Power the machine off and on; if the error comes back, have card, slot and power checked."
)
_ALL_ONES = "ffff:ffff"
_NEEDED = frozenset({"gpu", "rdma", "nvswitch", "nvme"})
_STEADY = frozenset({"rdma", "nvme"})
"""Kinds of devices that do not lower their speed when idle.

Plain Ethernet is left out: it serves management.
"""


def pcie_link(evidence: Evidence) -> Iterator[Finding]:
    rest = tuple(_others(evidence))
    yield from rest
    if rest and not known(evidence.facts.gpus):
        return
    gpus = yield from gpus_of(WIDTH, evidence)
    widest = max(only_known(gpu.pcie.width for gpu in gpus), default=0)
    yield from judge_each(
        WIDTH,
        gpus,
        lambda gpu: _judge_width(gpu, widest, evidence),
        what="the PCIe link",
        good="PCIe links have their full width",
    )


def _others(evidence: Evidence) -> Iterator[Finding]:
    """Yield NICs, NVMe devices and NVSwitches whose links have fewer lanes than both ends support.

    Devices without a problem share one finding.
    """
    facts, well = evidence.facts, []
    tree, names = tree_of(facts), names_of(facts)
    for device in items_of(facts.pci_devices):
        subject, now, most = subject_of(device, names), device.pcie.width, tree.possible_width(device)
        is_other = device.kind not in _WATCHED and device.bus_id
        if is_other or isinstance(now, Unknown) or isinstance(most, Unknown):
            continue
        if now >= most:
            well.append(subject)
            continue
        yield WIDTH.warned(
            subject,
            "the PCIe link is narrower than both of its ends allow",
            expected=f"x{most}",
            observed=f"x{now}",
            remedy=_RESEAT,
            evidence=device.evidence,
        )
    if well:
        yield WIDTH.passed(fold_names(well), "PCIe links have the width of both ends")


def _judge_width(gpu: Gpu, widest: int, evidence: Evidence) -> Judged:
    link, subject = gpu.pcie, f"GPU{gpu.index}"
    if isinstance(link.width, Unknown) or isinstance(link.width_max, Unknown):
        return unknown_among(link.width, link.width_max)
    if link.width < link.width_max:
        floor = evidence.thresholds.pcie_width_minimum_fraction
        fault = link.width < widest or link.width < floor.value * link.width_max
        return WIDTH.problem(
            subject,
            "the PCIe link is narrower than it could be"
            if fault
            else "the PCIe link is narrower than the GPU allows; the slot may be narrow by design",
            fails=fault,
            expected=f"x{link.width_max}",
            observed=f"x{link.width}",
            remedy=_RESEAT if fault else _COMPARE,
            evidence=(floor.ref,),
        )
    slow = known(link.generation) and known(link.generation_max) and link.generation < link.generation_max
    # A GPU counts as busy only if its utilization is above zero and its clock is not the idle clock.
    reasons = value_or(gpu.throttle_reasons, ("gpu_idle",))
    if slow and value_or(gpu.utilization_percent, 0) > 0 and "gpu_idle" not in reasons:
        return WIDTH.warned(
            subject,
            "the PCIe link of a busy GPU runs at a lower generation than it could",
            expected=f"generation {link.generation_max}",
            observed=f"generation {link.generation}",
            remedy=_WATCH,
        )
    return f"x{link.width}"


def pcie_speed(evidence: Evidence) -> Iterator[Finding]:
    facts = evidence.facts
    gpus = responsive_of(items_of(facts.gpus))
    slow = [verdict for gpu in gpus if isinstance(verdict := _gpu_speed(gpu, evidence), Finding)]
    if len(slow) == len(gpus) > 1 and len({verdict.observed for verdict in slow}) == 1:
        # This is a property of the machine, not a fault of each card, so one finding is enough.
        yield msgspec.structs.replace(
            slow[0], subject=fold_names([f"GPU{gpu.index}" for gpu in gpus]), evidence=gpus[0].evidence
        )
    else:
        yield from judge_each(
            SPEED,
            gpus,
            lambda gpu: _gpu_speed(gpu, evidence),
            what="the fastest PCIe speed",
            good="PCIe paths have the card's speed",
        )
    tree, names = tree_of(facts), names_of(facts)
    judged = [
        (device, _device_speed(device, tree, subject_of(device, names)))
        for device in items_of(facts.pci_devices)
    ]
    yield from (verdict for _, verdict in judged if isinstance(verdict, Finding))
    well = [subject_of(device, names) for device, verdict in judged if isinstance(verdict, str)]
    if well:
        yield SPEED.passed(fold_names(well), "links run at the speed that both ends support")
    if not gpus and not any(verdict is not None for _, verdict in judged):
        yield _nothing(SPEED, facts, "the PCIe links")


def _gpu_speed(gpu: Gpu, evidence: Evidence) -> Judged:
    row = evidence.catalogue.checked_gpu(gpu.name) if known(gpu.name) else None
    if isinstance(gpu.pcie.generation_max, Unknown):
        return gpu.pcie.generation_max
    if row is None:
        return Unknown(Reason.NOT_SUPPORTED, "the catalogue has no checked figures of the GPU")
    if gpu.pcie.generation_max >= row.pcie_generation:
        return f"generation {gpu.pcie.generation_max}"
    return SPEED.warned(
        f"GPU{gpu.index}",
        "the slot or its setting is slower than the card",
        expected=f"generation {row.pcie_generation}",
        observed=f"generation {gpu.pcie.generation_max} at most",
        remedy=_SLOT,
    )


def _device_speed(device: PciDevice, tree: Tree, subject: str) -> Finding | str | None:
    """Return a finding for a slow link, the speed of a good link, or None if the speed cannot be judged."""
    now = device.pcie.generation
    if isinstance(now, Unknown):
        if now.reason is not Reason.UNPARSABLE:
            return None
        return SPEED.warned(
            subject,
            "no PCIe generation has the reported speed of the link",
            expected="2.5, 5, 8, 16, 32 or 64 GT/s",
            observed=f"{now.detail}, "
            + (f"x{device.pcie.width}" if known(device.pcie.width) else "width unknown"),
            remedy=_SLOT,
            evidence=device.evidence,
        )
    if not device.bus_id and known(device.downgraded):
        if "speed" not in device.downgraded:
            return f"generation {now}"
        return SPEED.warned(
            subject,
            "a link runs below the speed that its device supports",
            expected="the speed of LnkCap, under load",
            observed=f"generation {now}, downgraded",
            remedy=_LOAD,
            evidence=device.evidence,
        )
    most = tree.possible_generation(device)
    if device.kind not in _STEADY or isinstance(most, Unknown):
        return None
    if now >= most:
        return f"generation {now}"
    return SPEED.warned(
        subject,
        "the link runs below the speed that both of its ends support",
        expected=f"generation {most}",
        observed=f"generation {now}",
        remedy=_SLOT,
        evidence=device.evidence,
    )


def _nothing(judge: Judge, facts: MachineFacts, what: str) -> Finding:
    if facts.pci_devices == () or (known(facts.pci_devices) and not known(facts.gpus)) or facts.gpus == ():
        return judge.skipped(HOST, f"no PCI device that training uses reports {what}")
    return judge.undetermined(HOST, unread_tree(facts), what=what)


def pcie_errors(evidence: Evidence) -> Iterator[Finding]:
    facts = evidence.facts
    names, findings, counted = names_of(facts), 0, []
    logged = events_in(facts)
    for event in items_of(logged):
        if event.kind == "pcie-error" and is_for_training(facts, event.device):
            findings += 1
            yield ERRORS.problem(
                HOST if event.device is None else name_at(names, event.device),
                "the kernel reports PCIe errors",
                fails=event.fatal is True,
                expected="none",
                observed=f"{event.message} ({event.count} times)" if event.count > 1 else event.message,
                remedy=_RESEAT_OR_REPLACE,
                evidence=event.evidence,
            )
    tree = tree_of(facts)
    above = {bridge.bus_id for device in training_devices(facts) for bridge in tree.above(device)}
    devices = items_of(facts.pci_devices)
    for device in devices:
        is_needed = device.bus_id in above or (len(devices) == 1 and not known(device.class_code))
        lost = _lost(device, subject_of(device, names), is_needed=is_needed)
        findings += lost is not None
        yield from () if lost is None else (lost,)
        verdict = _counters(device, subject_of(device, names), evidence) if device.bus_id else False
        if isinstance(verdict, Finding):
            findings += 1
            yield verdict
        elif verdict:
            counted.append(subject_of(device, names))
    if counted:
        yield ERRORS.passed(HOST, "few or no PCIe errors since boot", observed=plural(len(counted), "device"))
    elif known(logged) and not findings:
        yield ERRORS.passed(HOST, "the log reports no PCIe error of a device that training uses")
    elif not findings:
        yield _nothing(ERRORS, facts, "the PCIe errors")


def _lost(device: PciDevice, subject: str, *, is_needed: bool) -> Finding | None:
    """Return the finding on a device that does not answer or whose link is down.

    A link may also have gone down because a card was removed on purpose. Therefore a port with no training
    device below it only gets a warning.
    """
    if device.responds is False and (device.kind in _NEEDED or device.device_id == _ALL_ONES):
        return ERRORS.failed(
            subject,
            "the device does not answer on the bus",
            expected="its own identity and revision",
            observed=f"{device.bus_id or 'the device'} reads as all ones (rev ff)",
            remedy=_POWER,
            evidence=device.evidence,
        )
    if not device.link_lost:
        return None
    return ERRORS.problem(
        subject,
        "the PCIe link of the device is down" if device.link_lost != "SDES+" else "the PCIe link went down",
        fails=is_needed or device.kind in _NEEDED or not device.bus_id,
        expected="a link that stays up, with the lanes of the device",
        observed=device.link_lost + (" (surprise down)" if device.link_lost == "SDES+" else ""),
        remedy=_POWER,
        evidence=device.evidence,
    )


def _counters(device: PciDevice, subject: str, evidence: Evidence) -> Finding | bool:
    """Return a finding if errors were counted, else whether the counters are known."""
    most = evidence.thresholds.pcie_correctable_errors_most
    fatal, nonfatal = value_or(device.aer_fatal, 0), value_or(device.aer_nonfatal, 0)
    corrected = value_or(device.aer_correctable, 0)
    if not fatal and not nonfatal and corrected <= most.value:
        return known(device.aer_correctable)
    return ERRORS.warned(
        subject,
        "the PCIe link had errors that could not be corrected"
        if fatal or nonfatal
        else "the PCIe link corrected many errors",
        expected=f"none uncorrected, at most {most.value:g} corrected",
        observed=f"{fatal} fatal, {nonfatal} not fatal, {corrected} corrected since boot",
        remedy=_RESEAT_OR_REPLACE,
        evidence=(*device.evidence, most.ref),
    )
