"""Check that programs can use the RDMA devices, and that NICs access GPU memory directly (GPUDirect RDMA).

A NIC can access GPU memory in two ways: with dma-buf, which needs the open kernel module and a kernel that
supports dma-buf, or with the older module nvidia_peermem. EFA has a separate mechanism, and GeForce GPUs have
none. Source: NVIDIA/NVSentinel, NIC health (uverbs of each NIC); awslabs/awsome-distributed-training, EFA
enumeration (modules); NVIDIA/nccl#451 (device files missing in a container), #897, #1537; NVIDIA GPU
Operator, GPUDirect RDMA.
"""

from collections.abc import Iterator

from probes.base.record import Unknown, known, value_or
from probes.base.versions import at_least
from probes.catalogue.thresholds import Version
from probes.facts import MachineFacts, Nic, Software
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.rails import training_rails
from probes.judging.reporting import (
    HOST,
    Judged,
    each_port,
    gpus_of,
    nics_of,
    on_nics,
    subject_name,
    unknown_among,
)

DEVICES = Judge(
    check_id="verbs-devices",
    why="Without its device file NCCL finds no RDMA port and silently falls back to TCP.",
)
MODULES = Judge(
    check_id="rdma-modules", why="Without the modules no program can use RDMA, and NCCL falls back to TCP."
)
_CORE = ("ib_core", "ib_uverbs")
_DRIVER_PREFIXES = {
    "mlx5_": "mlx5_ib",
    "mlx4_": "mlx4_ib",
    "rdmap": "efa",
    "bnxt_re": "bnxt_re",
    "irdma": "irdma",
    "hfi1_": "hfi1",
}
"""The driver of a device, by the prefix of the device's name."""
PEERMEM = Judge(
    check_id="peermem",
    why="Without GPUDirect RDMA every message to another node is copied through host memory, at a fraction "
    "of the rate.",
)

_OPEN_MODULE = Remedy(
    text="Switch to the open kernel module, which brings dma-buf; until then load nvidia_peermem, now and "
    "at every boot.",
    command="modprobe nvidia_peermem",
    needs_root=True,
)


_OLD_KERNEL = Remedy(
    text="Load nvidia_peermem, now and at every boot, or update the kernel.",
    command="modprobe nvidia_peermem",
    needs_root=True,
)


def _rails(evidence: Evidence) -> tuple[Nic, ...]:
    rails = training_rails(evidence.facts)
    return rails.active or rails.down


@each_port(
    DEVICES,
    _rails,
    absent="no port is used for training",
    what="the device files in /dev/infiniband",
    good="RDMA device files exist",
)
def verbs_devices(nic: Nic, evidence: Evidence) -> Judged:
    if isinstance(nic.has_verbs_device, Unknown):
        return nic.has_verbs_device
    if nic.has_verbs_device:
        return "uverbs"
    return DEVICES.failed(
        subject_name(nic),
        "the device file of the NIC is missing",
        expected="/dev/infiniband/uverbs* of the device",
        observed="none",
        remedy=Remedy(
            text="For a container, pass /dev/infiniband into it; on a host, load ib_uverbs and look at the "
            "udev "
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
        driver for nic in nics for start, driver in _DRIVER_PREFIXES.items() if nic.name.startswith(start)
    }
    wanted = (*_CORE, *sorted(drivers))
    loaded = {module for module in software.modules if known(module)}
    missing = [module for module in wanted if module not in loaded]
    # If ports work, their drivers are built into the kernel.
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
        HOST, "the RDMA kernel modules are loaded or built in", observed=observed, evidence=software.evidence
    )


def peermem(evidence: Evidence) -> Iterator[Finding]:
    gpus = yield from gpus_of(PEERMEM, evidence)
    if not gpus or not (yield from nics_of(PEERMEM, evidence)):
        return
    facts, rails = evidence.facts, training_rails(evidence.facts).active
    refs = facts.software.evidence
    if not rails:
        yield PEERMEM.skipped(HOST, "no RDMA port is up; see nic-state")
    elif all(_is_efa(nic) for nic in rails):
        yield PEERMEM.skipped(HOST, "EFA has its own mechanism to access GPU memory")
    elif all(known(gpu.name) and "geforce" in gpu.name.lower() for gpu in gpus):
        yield PEERMEM.skipped(HOST, "GeForce GPUs have no GPUDirect RDMA")
    elif (module := _peer_module(facts.software)) is not None:
        yield PEERMEM.passed(
            HOST, "NICs reach GPU memory directly", observed=f"{module} is loaded", evidence=refs
        )
    else:
        yield _by_dma_buf(facts, evidence.thresholds.dma_buf_kernel)


def _peer_module(software: Software) -> str | None:
    """Return the loaded module; nv_peer_mem is the predecessor of nvidia_peermem."""
    if software.peermem_loaded is True:
        return "nvidia_peermem"
    return "nv_peer_mem" if known(software.modules) and "nv_peer_mem" in software.modules else None


def _by_dma_buf(facts: MachineFacts, since: Version) -> Finding:
    software = facts.software
    new_enough = at_least(software.kernel, since.value) if known(software.kernel) else software.kernel
    if software.driver_open_module is True and new_enough is True:
        return PEERMEM.passed(
            HOST,
            "NICs reach GPU memory directly",
            observed="open kernel module, dma-buf",
            evidence=(*software.evidence, since.ref),
        )
    is_proprietary = software.driver_open_module is False
    if (is_proprietary or new_enough is False) and software.peermem_loaded is False:
        module = "proprietary kernel module" if is_proprietary else f"kernel {software.kernel}"
        return PEERMEM.warned(
            HOST,
            "NICs cannot reach GPU memory directly",
            expected=f"the open kernel module on Linux {since.value} or newer, or nvidia_peermem",
            observed=f"{module}, nvidia_peermem not loaded",
            remedy=_OPEN_MODULE if is_proprietary else _OLD_KERNEL,
            evidence=(*software.evidence, since.ref),
        )
    unknown = unknown_among(software.peermem_loaded, software.driver_open_module, new_enough)
    return PEERMEM.undetermined(HOST, unknown, what="the setup of GPUDirect RDMA", evidence=software.evidence)


def _is_efa(nic: Nic) -> bool:
    return nic.name.startswith("rdmap") or "efa" in value_or(nic.device_type, "").lower()
