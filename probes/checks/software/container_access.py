"""Check that the container has what RDMA and NCCL need.

They need device files, the right to lock memory, and the right to place memory on NUMA nodes. Source: NCCL
user guide, troubleshooting (containers, cuMem host allocations); docker run reference (capabilities,
seccomp); NVIDIA/nccl#451.
"""

from __future__ import annotations

from collections.abc import Iterator

from probes.base.record import Reason, Unknown, known
from probes.facts import MachineFacts
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST, nics_of

DEVICES = Judge(
    check_id="container-devices",
    why="NCCL finds no RDMA device and falls back to TCP without a word, at a tenth of the rate.",
)
LOCKING = Judge(
    check_id="container-locking",
    why="RDMA buffers must be locked in memory; without the right to, registering them fails.",
)
NUMA = Judge(
    check_id="container-numa",
    why="NCCL places shared buffers by NUMA node; where the container forbids that, some versions fail to "
    "start.",
)


def container_devices(evidence: Evidence) -> Iterator[Finding]:
    if (stop := _outside(DEVICES, evidence.facts)) is not None:
        yield stop
        return
    if not (yield from nics_of(DEVICES, evidence)):
        return
    container = evidence.facts.container
    files = container.rdma_devices
    if isinstance(files, Unknown):
        yield DEVICES.undetermined(HOST, files, what="/dev/infiniband", evidence=container.evidence)
    elif any(name.startswith("uverbs") for name in files):
        yield DEVICES.passed(
            HOST,
            "the container has RDMA device files",
            observed=f"{len(files)} in /dev/infiniband",
            evidence=container.evidence,
        )
    else:
        yield DEVICES.warned(
            HOST,
            "the host's RDMA devices are not passed into the container",
            expected="uverbs* in /dev/infiniband",
            observed=", ".join(files) or "none",
            remedy=Remedy(
                text="Start it with --device=/dev/infiniband, or in Kubernetes ask for the device plugin's "
                "RDMA resource."
            ),
            evidence=container.evidence,
        )


def container_locking(evidence: Evidence) -> Iterator[Finding]:
    facts, container = evidence.facts, evidence.facts.container
    if (stop := _outside(LOCKING, facts)) is not None:
        yield stop
        return
    if not (yield from nics_of(LOCKING, evidence)):
        return
    limit, minimum = facts.limits.memlock_bytes, evidence.thresholds.memlock_minimum_bytes
    may = container.capabilities
    enough = not isinstance(limit, Unknown) and (limit == "unlimited" or limit >= minimum.value)
    if enough or (known(may) and "ipc_lock" in may):
        yield LOCKING.passed(
            HOST,
            "the container may lock memory",
            observed="by its limit" if enough else "by the capability IPC_LOCK",
            evidence=container.evidence,
        )
    elif isinstance(limit, Unknown) or isinstance(may, Unknown):
        unknown = next(value for value in (limit, may) if isinstance(value, Unknown))
        yield LOCKING.undetermined(
            HOST, unknown, what="the right to lock memory", evidence=container.evidence
        )
    else:
        yield LOCKING.warned(
            HOST,
            "the container may not lock memory",
            expected="an unlimited memlock, or the capability IPC_LOCK",
            observed=f"a limit of {limit} bytes without the capability",
            remedy=Remedy(
                text="Start it with --ulimit memlock=-1 --cap-add IPC_LOCK; in Kubernetes add IPC_LOCK to "
                "its capabilities."
            ),
            evidence=(*container.evidence, minimum.ref),
        )


def container_numa(evidence: Evidence) -> Finding:
    facts, container = evidence.facts, evidence.facts.container
    if (stop := _outside(NUMA, facts)) is not None:
        return stop
    may, filtered = container.capabilities, container.seccomp
    if known(facts.numa_nodes) and len(facts.numa_nodes) == 1:
        return NUMA.skipped(HOST, "this machine has one NUMA node")
    if filtered is False or (known(may) and "sys_nice" in may):
        how = "no system call filter" if filtered is False else "the capability SYS_NICE"
        return NUMA.passed(HOST, "the container may place memory", observed=how, evidence=container.evidence)
    if isinstance(may, Unknown) or isinstance(filtered, Unknown):
        unknown = next(value for value in (may, filtered) if isinstance(value, Unknown))
        return NUMA.undetermined(
            HOST, unknown, what="the rights of the container", evidence=container.evidence
        )
    return NUMA.warned(
        HOST,
        "the container may not place memory by NUMA node",
        expected="the capability SYS_NICE, with which the default seccomp filter allows these calls",
        observed="a system call filter without it",
        remedy=Remedy(
            text="Start it with --cap-add SYS_NICE, or set NCCL_CUMEM_HOST_ENABLE=0 for NCCL 2.24 to 2.26.4."
        ),
        evidence=container.evidence,
    )


def _outside(judge: Judge, facts: MachineFacts) -> Finding | None:
    runtime = facts.container.runtime
    if isinstance(runtime, Unknown):
        if runtime.reason is Reason.NOT_SUPPORTED:
            return judge.skipped(HOST, "this machine is not a container")
        return judge.undetermined(HOST, runtime, what="whether this is a container")
    return (
        judge.skipped(HOST, "this machine is not a container")
        if runtime is None or runtime == "wsl"
        else None
    )
