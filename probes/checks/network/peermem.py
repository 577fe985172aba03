"""Check that NICs access GPU memory directly (GPUDirect RDMA).

There are two ways: dma-buf, with the open kernel module and a kernel that supports it, and the older module
nvidia_peermem. EFA brings its own, and GeForce GPUs have none. Source: NVIDIA GPU Operator, GPUDirect RDMA;
NVIDIA/nccl#897, #1537.
"""

from __future__ import annotations

from collections.abc import Iterator

from probes.base.record import Unknown, known
from probes.base.versions import at_least
from probes.catalogue.thresholds import Version
from probes.facts import MachineFacts, Nic, Software
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.rails import training_rails
from probes.judging.reporting import HOST, gpus_of, nics_of

JUDGE = Judge(
    check_id="peermem",
    why="Without GPUDirect RDMA every message to another node is copied through host memory, at a fraction "
    "of the rate.",
)

REMEDY = Remedy(
    text="Switch to the open kernel module, which brings dma-buf; until then load nvidia_peermem, now and "
    "at every boot.",
    command="modprobe nvidia_peermem",
    needs_root=True,
)


def check(evidence: Evidence) -> Iterator[Finding]:
    gpus = yield from gpus_of(JUDGE, evidence)
    if not gpus or not (yield from nics_of(JUDGE, evidence)):
        return
    facts, rails = evidence.facts, training_rails(evidence.facts).active
    refs = facts.software.evidence
    if not rails:
        yield JUDGE.skipped(HOST, "no RDMA port is up, see nic-state")
    elif all(_is_efa(nic) for nic in rails):
        yield JUDGE.skipped(HOST, "EFA brings its own way to GPU memory")
    elif all(known(gpu.name) and "geforce" in gpu.name.lower() for gpu in gpus):
        yield JUDGE.skipped(HOST, "GeForce GPUs have no GPUDirect RDMA")
    elif (module := _peer_module(facts.software)) is not None:
        yield JUDGE.passed(
            HOST, "NICs reach GPU memory directly", observed=f"{module} is loaded", evidence=refs
        )
    else:
        yield _by_dma_buf(facts, evidence.thresholds.dma_buf_kernel)


def _peer_module(software: Software) -> str | None:
    """Return the loaded module; nv_peer_mem is the predecessor of the driver's own module."""
    if software.peermem_loaded is True:
        return "nvidia_peermem"
    return "nv_peer_mem" if known(software.modules) and "nv_peer_mem" in software.modules else None


def _by_dma_buf(facts: MachineFacts, since: Version) -> Finding:
    software = facts.software
    new_enough = at_least(software.kernel, since.value) if known(software.kernel) else software.kernel
    if software.driver_open_module is True and new_enough is True:
        return JUDGE.passed(
            HOST,
            "NICs reach GPU memory directly",
            observed="open kernel module, dma-buf",
            evidence=(*software.evidence, since.ref),
        )
    no_dma_buf = software.driver_open_module is False or new_enough is False
    if no_dma_buf and software.peermem_loaded is False:
        module = (
            "proprietary kernel module"
            if software.driver_open_module is False
            else f"kernel {software.kernel}"
        )
        return JUDGE.warned(
            HOST,
            "NICs cannot reach GPU memory directly",
            expected=f"the open kernel module on Linux {since.value} or newer, or nvidia_peermem",
            observed=f"{module}, nvidia_peermem not loaded",
            remedy=REMEDY,
            evidence=(*software.evidence, since.ref),
        )
    missing = (software.peermem_loaded, software.driver_open_module, new_enough)
    unknown = next(value for value in missing if isinstance(value, Unknown))
    return JUDGE.undetermined(HOST, unknown, what="the setup of GPUDirect RDMA", evidence=software.evidence)


def _is_efa(nic: Nic) -> bool:
    return nic.name.startswith("rdmap") or (known(nic.device_type) and "efa" in nic.device_type.lower())
