"""Check that programs can use the RDMA devices: device files and kernel modules.

Source: NVIDIA/NVSentinel, NIC health (uverbs of each NIC); awslabs/awsome-distributed-training, EFA
enumeration (modules); NVIDIA/nccl#451 (device files missing in a container).
"""

from __future__ import annotations

from probes.base.record import Unknown, known
from probes.facts import Nic
from probes.judging.findings import Evidence, Finding, Findings, Judge, Remedy
from probes.judging.rails import training_rails
from probes.judging.reporting import HOST, Judged, judge_each, on_nics, subject_name

DEVICES = Judge(
    check_id="verbs-devices",
    why="Without its device file NCCL finds no RDMA port and silently falls back to TCP.",
)
MODULES = Judge(
    check_id="rdma-modules", why="Without the modules no program can use RDMA, and NCCL falls back to TCP."
)
CORE = ("ib_core", "ib_uverbs")
DRIVER_PREFIXES = {
    "mlx5_": "mlx5_ib",
    "mlx4_": "mlx4_ib",
    "rdmap": "efa",
    "bnxt_re": "bnxt_re",
    "irdma": "irdma",
    "hfi1_": "hfi1",
}
"""The driver by the beginning of a device's name."""


@on_nics(DEVICES)
def verbs_devices(nics: tuple[Nic, ...], evidence: Evidence) -> Findings:
    rails = training_rails(evidence.facts)
    ports = rails.active or rails.down
    if not ports:
        return DEVICES.skipped(HOST, "no port is for training")
    return judge_each(
        DEVICES, ports, _judge, what="the device files in /dev/infiniband", good="RDMA device files are here"
    )


def _judge(nic: Nic) -> Judged:
    if isinstance(nic.has_verbs_device, Unknown):
        return nic.has_verbs_device
    if nic.has_verbs_device:
        return "uverbs"
    return DEVICES.failed(
        subject_name(nic),
        "the device file of the NIC is not here",
        expected="/dev/infiniband/uverbs* of the device",
        observed="none",
        remedy=Remedy(
            text="In a container pass /dev/infiniband in; on a host load ib_uverbs and look at the udev "
            "rules.",
            command="modprobe ib_uverbs",
            needs_root=True,
        ),
    )


@on_nics(MODULES)
def rdma_modules(nics: tuple[Nic, ...], evidence: Evidence) -> Finding:
    software = evidence.facts.software
    if isinstance(software.modules, Unknown):
        return MODULES.undetermined(
            HOST, software.modules, what="the loaded kernel modules", evidence=software.evidence
        )
    drivers = {
        driver for nic in nics for start, driver in DRIVER_PREFIXES.items() if nic.name.startswith(start)
    }
    wanted = (*CORE, *sorted(drivers))
    loaded = {module for module in software.modules if known(module)}
    missing = [module for module in wanted if module not in loaded]
    # Ports that work prove that drivers are built into the kernel.
    if missing and not any(nic.state == "ACTIVE" and nic.has_verbs_device is True for nic in nics):
        return MODULES.warned(
            HOST,
            "RDMA kernel modules are not loaded",
            expected=", ".join(wanted),
            observed=f"without {', '.join(missing)}",
            remedy=Remedy(
                text="Load them now and at every boot.",
                command=f"modprobe -a {' '.join(missing)}",
                needs_root=True,
            ),
            evidence=software.evidence,
        )
    observed = ", ".join(module for module in wanted if module in loaded) or "built into the kernel"
    return MODULES.passed(
        HOST, "the RDMA kernel modules are loaded", observed=observed, evidence=software.evidence
    )
