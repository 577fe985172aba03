"""Check that GPUs and NICs have their full PCIe width, and busy GPUs their full speed.

A link that trained narrow halves host copies, offloading and GPUDirect. An idle GPU lowers its PCIe
generation to save power, so a low generation counts only while the GPU is busy. Other devices are compared
with the lanes that both ends of their link have. Source: oracle-quickstart/oci-hpc (width), Primus
(outliers).
"""

from __future__ import annotations

from collections.abc import Iterator

from probes.base.record import Unknown, known
from probes.facts import Gpu
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import SMI_LINK, Judged, fold_names, gpus_of, judge_each
from probes.reading.pci.paths import names_of, subject_of, tree_of

JUDGE = Judge(
    check_id="pcie-link",
    why="Host copies, offloading and GPUDirect RDMA share this link; at half the width they take twice as "
    "long.",
)

RESEAT = Remedy(
    text="Reseat the card and its riser, and look at the slot's settings in the BIOS.",
    command="lspci -vv | grep LnkSta",
    needs_root=True,
)
COMPARE = Remedy(
    text="Compare with the data sheet: many machines are built so (AWS g4dn, g5, g6e). If it promises more, "
    "reseat the card.",
    command="lspci -vv | grep LnkSta",
    needs_root=True,
)
WATCHED = frozenset({"rdma", "nvme", "nvswitch"})
WATCH = Remedy(
    text="Look at the link again during a copy, then at the slot's generation in the BIOS.", command=SMI_LINK
)


def check(evidence: Evidence) -> Iterator[Finding]:
    rest = tuple(_others(evidence))
    yield from rest
    if rest and not known(evidence.facts.gpus):
        return
    gpus = yield from gpus_of(JUDGE, evidence)
    widest = max((gpu.pcie.width for gpu in gpus if known(gpu.pcie.width)), default=0)
    yield from judge_each(
        JUDGE,
        gpus,
        lambda gpu: _judge(gpu, widest, evidence),
        what="the PCIe link",
        good="PCIe links have their full width",
    )


def _others(evidence: Evidence) -> Iterator[Finding]:
    """Yield NICs, NVMe and NVSwitches that trained narrower than both ends allow.

    The others share one finding.
    """
    facts, well = evidence.facts, []
    tree, names = tree_of(facts), names_of(facts)
    for device in facts.pci_devices if known(facts.pci_devices) else ():
        subject, now = subject_of(device, names), device.pcie.width
        if device.kind not in WATCHED and device.bus_id:
            continue
        most = tree.possible_width(device)
        if isinstance(now, Unknown) or isinstance(most, Unknown):
            continue
        if now >= most:
            well.append(subject)
            continue
        yield JUDGE.warned(
            subject,
            "the PCIe link is narrower than both of its ends allow",
            expected=f"x{most}",
            observed=f"x{now}",
            remedy=RESEAT,
            evidence=device.evidence,
        )
    if well:
        yield JUDGE.passed(fold_names(well), "PCIe links have the width of both ends")


def _judge(gpu: Gpu, widest: int, evidence: Evidence) -> Judged:
    link, subject = gpu.pcie, f"GPU{gpu.index}"
    if isinstance(link.width, Unknown):
        return link.width
    if isinstance(link.width_max, Unknown):
        return link.width_max
    if link.width < link.width_max:
        floor = evidence.thresholds.pcie_width_minimum_fraction
        fault = link.width < widest or link.width < floor.value * link.width_max
        return JUDGE.problem(
            subject,
            "the PCIe link is narrower than it could be"
            if fault
            else "the PCIe link is narrower than the GPU allows; the slot may be so",
            fails=fault,
            expected=f"x{link.width_max}",
            observed=f"x{link.width}",
            remedy=RESEAT if fault else COMPARE,
            evidence=(floor.ref,),
        )
    slow = known(link.generation) and known(link.generation_max) and link.generation < link.generation_max
    if slow and _works(gpu):
        return JUDGE.warned(
            subject,
            "the PCIe link of a busy GPU runs at a lower generation than it could",
            expected=f"generation {link.generation_max}",
            observed=f"generation {link.generation}",
            remedy=WATCH,
        )
    return f"x{link.width}"


def _works(gpu: Gpu) -> bool:
    """Return whether a GPU is busy by both signs; a GPU between two kernels shows neither."""
    busy = known(gpu.utilization_percent) and gpu.utilization_percent > 0
    return busy and known(gpu.throttle_reasons) and "gpu_idle" not in gpu.throttle_reasons
