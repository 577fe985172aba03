"""Check that the IOMMU does not translate the addresses of GPUs and NICs.

On x86 without virtual machines, translation costs bandwidth of GPUDirect and breaks it on some machines;
passthrough or no IOMMU is right. On Arm the SMMU has to translate for DMA-BUF before Linux 6.11. Source:
NVIDIA/nccl#257; ROCm/cvs, host checks; NVIDIA/nodewright-packages#121 (Arm).
"""

from __future__ import annotations

from probes.base.record import Unknown, known
from probes.base.versions import at_least
from probes.facts import MachineFacts, is_virtual
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST
from probes.reading.pci.paths import training_devices

JUDGE = Judge(
    check_id="iommu", why="GPUDirect loses bandwidth or fails where every address is translated on its way."
)
ARM = Judge(
    check_id=JUDGE.check_id,
    why="Without translation CUDA cannot create a context there when DMA-BUF is used.",
)


def check(evidence: Evidence) -> Finding:
    facts = evidence.facts
    if facts.gpus == () and not any(device.kind == "gpu" for device in training_devices(facts)):
        return JUDGE.skipped(HOST, "this machine has no GPU")
    if is_virtual(facts):
        return JUDGE.skipped(HOST, "the IOMMU of a virtual machine is its host's matter")
    mode = _mode(facts)
    if isinstance(mode, Unknown):
        return JUDGE.undetermined(HOST, mode, what="the mode of the IOMMU")
    if isinstance(facts.cpu.architecture, Unknown) and mode == "translated":
        return JUDGE.undetermined(HOST, facts.cpu.architecture, what="the architecture")
    if facts.cpu.architecture == "aarch64":
        return _on_arm(evidence, mode)
    if mode == "translated":
        return JUDGE.warned(
            HOST,
            "the IOMMU translates the addresses of GPUs and NICs",
            expected="passthrough or off",
            observed=mode,
            remedy=Remedy(
                text="Boot with iommu=pt, or switch the IOMMU off in the BIOS where no virtual machine "
                "needs it."
            ),
            evidence=facts.kernel.evidence,
        )
    return JUDGE.passed(HOST, "the IOMMU does not translate", observed=mode, evidence=facts.kernel.evidence)


def _mode(facts: MachineFacts) -> str | Unknown:
    """Return the kernel's mode, else that of the groups of the devices."""
    if known(facts.kernel.iommu):
        return facts.kernel.iommu
    groups = {device.iommu_group_type for device in training_devices(facts) if known(device.iommu_group_type)}
    if not groups:
        return facts.kernel.iommu
    return (
        "translated"
        if any(isinstance(group, str) and group.startswith("DMA") for group in groups)
        else "passthrough"
    )


def _on_arm(evidence: Evidence, mode: str) -> Finding:
    kernel, fixed = evidence.facts.software.kernel, evidence.thresholds.arm_passthrough_kernel
    if mode == "translated" or (known(kernel) and at_least(kernel, fixed.value)):
        return ARM.passed(HOST, "the SMMU's mode suits this kernel", observed=mode)
    if isinstance(kernel, Unknown):
        return ARM.undetermined(HOST, kernel, what="the kernel's version")
    return ARM.warned(
        HOST,
        "this kernel needs the SMMU to translate for DMA-BUF",
        expected=f"iommu.passthrough=0, or Linux {fixed.value}",
        observed=f"{mode}, Linux {kernel}",
        remedy=Remedy(text="Boot with iommu.passthrough=0."),
        evidence=(fixed.ref,),
    )
