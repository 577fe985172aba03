"""Cases of the checks of kernel, power, memory, containers, batch systems and software, and of bad input."""

from __future__ import annotations

import msgspec

from probes.base.record import EvidenceRef, Reason, Unknown
from probes.base.units import GIB
from probes.facts import (
    Contradiction,
    Filesystem,
    Library,
    MachineFacts,
    NumaNode,
    Reading,
    State,
    Unread,
)
from tests.support.check_case import (
    ALL,
    BOX,
    IN_CONTAINER,
    NODE,
    NOT_SUPPORTED,
    ONE,
    TIMEOUT,
    Case,
)
from tests.support.check_cases_environment import (
    ENVIRONMENT_CASES,
    HOST_FAILS,
    HOST_PASSES,
    HOST_SKIPS,
    HOST_UNKNOWN,
    HOST_WARNS,
    IN_JOB,
    NO_ENVIRONMENT,
    batch,
    variables,
)
from tests.support.machines import h100_node, with_gpus, with_nics, with_part

NO_TOOL = Unknown(Reason.TOOL_MISSING, "ipmitool is not installed")


def kernel(facts: MachineFacts = NODE, **changes: object) -> MachineFacts:
    return with_part(facts, "kernel", **changes)


def power(**changes: object) -> MachineFacts:
    return with_part(NODE, "power", **changes)


def limits(**changes: object) -> MachineFacts:
    return with_part(NODE, "limits", **changes)


def container(**changes: object) -> MachineFacts:
    return with_part(IN_CONTAINER, "container", **changes)


def nodes(*sizes: int | Unknown) -> MachineFacts:
    return h100_node(
        numa_nodes=tuple(NumaNode(index=n, cpus=f"{n}", memory_bytes=size) for n, size in enumerate(sizes))
    )


def mount(**changes: object) -> MachineFacts:
    values = {"mount": "/raid", "device": "/dev/md0", "kind": "xfs", "read_only": True, **changes}
    return h100_node(storage=(Filesystem(**values),))


PASTED = h100_node(source="topo.txt")

CONFLICT = Contradiction(
    subject="GPU0",
    field="memory_bytes",
    readings=tuple(
        Reading(value=value, evidence=EvidenceRef(source="paste", key=f"{value}.txt"))
        for value in ("80", "40")
    ),
)

INPUT_CASES = (
    Case("input-readable", "all of it", PASTED, HOST_PASSES),
    Case("input-readable", "live", NODE, HOST_SKIPS),
    Case("input-readable", "from nowhere", h100_node(source=""), HOST_UNKNOWN),
    Case(
        "input-readable",
        "two files, five lines",
        h100_node(
            unread=(
                *(Unread(source="a.txt", line=n, text="?", why="no row") for n in range(1, 5)),
                Unread(source="b.bin", why="unrecognised"),
            )
        ),
        ("WARN host", "WARN host"),
    ),
    Case("input-agreement", "they do", PASTED, HOST_PASSES),
    Case("input-agreement", "live", NODE, HOST_SKIPS),
    Case("input-agreement", "from nowhere", h100_node(source=""), HOST_UNKNOWN),
    Case(
        "input-agreement", "two sizes", h100_node(source="a + b", contradictions=(CONFLICT,)), ("WARN GPU0",)
    ),
    Case(
        "input-agreement",
        "two machines",
        h100_node(
            source="a + b",
            contradictions=tuple(
                msgspec.structs.replace(CONFLICT, subject=subject, field=field)
                for subject in ("GPU0", "GPU1", "GPU3")
                for field in ("name", "memory_bytes", "pci_bus_id", "uuid", "vbios_version")
                if (subject, field) != ("GPU3", "uuid")
            ),
        ),
        ("WARN GPU0-1", "WARN GPU3"),
    ),
)

KERNEL_CASES = (
    Case("time-sync", "kept", NODE, HOST_PASSES),
    Case("time-sync", "a daemon, no more known", with_part(NODE, "clock", synchronized=TIMEOUT), HOST_PASSES),
    Case("time-sync", "not synchronised", with_part(NODE, "clock", synchronized=False), HOST_WARNS),
    Case("time-sync", "no daemon", with_part(NODE, "clock", daemon=None, synchronized=TIMEOUT), HOST_WARNS),
    Case(
        "time-sync",
        "in a container",
        with_part(IN_CONTAINER, "clock", daemon=None, synchronized=TIMEOUT),
        HOST_SKIPS,
    ),
    Case("time-sync", "unread", with_part(NODE, "clock", daemon=TIMEOUT, synchronized=TIMEOUT), HOST_UNKNOWN),
    Case("zombies", "none", NODE, HOST_PASSES),
    Case("zombies", "many", kernel(zombie_processes=1001), HOST_WARNS),
    Case("zombies", "unread", kernel(zombie_processes=TIMEOUT), HOST_UNKNOWN),
    Case("blocked-processes", "none", NODE, HOST_PASSES),
    Case("blocked-processes", "one", kernel(blocked_processes=("nvidia-smi (77)",)), HOST_WARNS),
    Case("blocked-processes", "unread", kernel(blocked_processes=TIMEOUT), HOST_UNKNOWN),
    Case("uptime", "days", NODE, HOST_PASSES),
    Case("uptime", "a minute", kernel(uptime_s=60.0), HOST_WARNS),
    Case("uptime", "unread", kernel(uptime_s=TIMEOUT), HOST_UNKNOWN),
    Case("power-supplies", "working", NODE, HOST_PASSES),
    Case("power-supplies", "one failed", power(failed_supplies=("PSU2",)), HOST_WARNS),
    Case("power-supplies", "no tool", power(failed_supplies=NO_TOOL), HOST_SKIPS),
    Case("power-supplies", "unread", power(failed_supplies=TIMEOUT), HOST_UNKNOWN),
    Case("power-headroom", "enough", NODE, HOST_PASSES),
    Case("power-headroom", "too little", power(supply_capacity_w=6000.0), HOST_WARNS),
    Case("power-headroom", "capacity not told", power(supply_capacity_w=NOT_SUPPORTED), HOST_SKIPS),
    Case("power-headroom", "capacity unread", power(supply_capacity_w=TIMEOUT), HOST_UNKNOWN),
    Case("power-headroom", "limits unread", with_gpus(NODE, 3, power_limit_w=TIMEOUT), HOST_UNKNOWN),
    Case("power-headroom", "no GPU", BOX, HOST_SKIPS),
    Case("sensors", "within", NODE, HOST_PASSES),
    Case("sensors", "one beyond", power(sensor_alarms=("Inlet Temp (52 degrees C)",)), HOST_WARNS),
    Case("sensors", "no tool", power(sensor_alarms=NO_TOOL), HOST_SKIPS),
    Case("sensors", "unread", power(sensor_alarms=TIMEOUT), HOST_UNKNOWN),
    Case("process-limit", "enough", NODE, HOST_PASSES),
    Case("process-limit", "low", limits(processes=4096), HOST_WARNS),
    Case("process-limit", "unread", limits(processes=TIMEOUT), HOST_UNKNOWN),
    Case("port-range", "the kernel's own", NODE, HOST_PASSES),
    Case("port-range", "narrow", kernel(local_port_first=50000, local_port_last=51000), HOST_WARNS),
    Case("port-range", "unread", kernel(local_port_last=TIMEOUT), HOST_UNKNOWN),
    Case("somaxconn", "enough", NODE, HOST_PASSES),
    Case("somaxconn", "an old default", kernel(somaxconn=128), HOST_WARNS),
    Case("somaxconn", "unread", kernel(somaxconn=TIMEOUT), HOST_UNKNOWN),
    Case("numa-balancing", "off", NODE, HOST_PASSES),
    Case("numa-balancing", "on", kernel(numa_balancing=True), HOST_WARNS),
    Case("numa-balancing", "one node", kernel(BOX, numa_balancing=True), HOST_SKIPS),
    Case("numa-balancing", "not built in", kernel(numa_balancing=NOT_SUPPORTED), HOST_SKIPS),
    Case("numa-balancing", "unread", kernel(numa_balancing=TIMEOUT), HOST_UNKNOWN),
    Case("transparent-hugepages", "to who asks", NODE, HOST_PASSES),
    Case("transparent-hugepages", "never", kernel(transparent_hugepages="never"), HOST_WARNS),
    Case("transparent-hugepages", "unread", kernel(transparent_hugepages=TIMEOUT), HOST_UNKNOWN),
    Case("clocksource", "tsc", NODE, HOST_PASSES),
    Case("clocksource", "hpet", kernel(clocksource="hpet"), HOST_WARNS),
    Case("clocksource", "on POWER", with_part(NODE, "cpu", architecture="ppc64le"), HOST_SKIPS),
    Case("clocksource", "unread", kernel(clocksource=TIMEOUT), HOST_UNKNOWN),
    Case("clocksource", "architecture unread", with_part(NODE, "cpu", architecture=TIMEOUT), HOST_UNKNOWN),
    Case("remove-ipc", "kept", NODE, HOST_PASSES),
    Case("remove-ipc", "removed", kernel(remove_ipc=True), HOST_WARNS),
    Case("remove-ipc", "in a container", kernel(IN_CONTAINER, remove_ipc=True), HOST_SKIPS),
    Case("remove-ipc", "unread", kernel(remove_ipc=TIMEOUT), HOST_UNKNOWN),
    Case("swap", "none", NODE, HOST_PASSES),
    Case("swap", "8 GiB", with_part(NODE, "memory", swap_total_bytes=8 * GIB), HOST_WARNS),
    Case("swap", "8 GiB without GPU", with_part(BOX, "memory", swap_total_bytes=8 * GIB), HOST_PASSES),
    Case("swap", "unread", with_part(NODE, "memory", swap_total_bytes=TIMEOUT), HOST_UNKNOWN),
    Case("memory-available", "enough", NODE, HOST_PASSES),
    Case("memory-available", "little", with_part(NODE, "memory", available_bytes=100 * GIB), HOST_WARNS),
    Case("memory-available", "unread", with_part(NODE, "memory", available_bytes=TIMEOUT), HOST_UNKNOWN),
    Case("memory-fragmentation", "whole", NODE, HOST_PASSES),
    Case("memory-fragmentation", "in pieces", kernel(free_blocks_1mib=3), HOST_WARNS),
    Case("memory-fragmentation", "no such zone", kernel(free_blocks_1mib=NOT_SUPPORTED), HOST_SKIPS),
    Case("memory-fragmentation", "unread", kernel(free_blocks_1mib=TIMEOUT), HOST_UNKNOWN),
    Case("memory-balance", "equal", NODE, HOST_PASSES),
    Case("memory-balance", "one has half", nodes(512 * GIB, 1024 * GIB), HOST_WARNS),
    Case("memory-balance", "one node", BOX, HOST_SKIPS),
    Case("memory-balance", "one unread", nodes(512 * GIB, TIMEOUT), HOST_UNKNOWN),
    Case("memory-balance", "unread", h100_node(numa_nodes=TIMEOUT), HOST_UNKNOWN),
    Case("memory-errors", "none", NODE, HOST_PASSES),
    Case("memory-errors", "uncorrected", kernel(memory_errors_uncorrected=1), HOST_FAILS),
    Case("memory-errors", "a few corrected a day", kernel(memory_errors_corrected=80), HOST_PASSES),
    Case("memory-errors", "many corrected a day", kernel(memory_errors_corrected=5000), HOST_WARNS),
    Case("memory-errors", "nobody counts", kernel(memory_errors_uncorrected=NOT_SUPPORTED), HOST_SKIPS),
    Case("memory-errors", "unread", kernel(memory_errors_corrected=TIMEOUT), HOST_UNKNOWN),
    Case("read-only-filesystems", "writable", NODE, ("PASS /, /raid",)),
    Case("read-only-filesystems", "a disk", mount(), ("WARN /raid",)),
    Case("read-only-filesystems", "a share", mount(device="server:/models", kind="nfs4"), ("PASS /raid",)),
    Case("read-only-filesystems", "an image", mount(kind="squashfs"), HOST_SKIPS),
    Case("read-only-filesystems", "unread", mount(read_only=TIMEOUT), ("UNKNOWN /raid",)),
    Case("read-only-filesystems", "mounts unread", h100_node(storage=TIMEOUT), HOST_UNKNOWN),
)

FEW = ("net_raw", "mknod")

LOCKED = with_part(container(capabilities=FEW, seccomp=True), "limits", memlock_bytes=65536)

FROM_SHELL = (State(name="PropagateResourceLimits", value="ALL"),)

NOT_MEMLOCK = (State(name="PropagateResourceLimitsExcept", value="MEMLOCK"),)

ON_PATH = Library(path="/opt/nccl/lib/libnccl.so.2", version="2.19.3", found_by="LD_LIBRARY_PATH")


def libraries(*copies: Library) -> MachineFacts:
    return with_part(NODE, "software", nccl_libraries=copies)


SYSTEM_SOFTWARE_CASES = (
    Case("services", "all active", NODE, HOST_PASSES),
    Case(
        "services",
        "one failed",
        with_part(NODE, "software", services=(State(name="nvidia-persistenced", value="failed"),)),
        ("WARN nvidia-persistenced",),
    ),
    Case("services", "no systemd", with_part(NODE, "software", services=NOT_SUPPORTED), HOST_SKIPS),
    Case("services", "unread", with_part(NODE, "software", services=TIMEOUT), HOST_UNKNOWN),
    Case("container-devices", "passed in", container(rdma_devices=("rdma_cm", "uverbs0")), HOST_PASSES),
    Case("container-devices", "left out", container(rdma_devices=()), HOST_WARNS),
    Case("container-devices", "unread", container(rdma_devices=TIMEOUT), HOST_UNKNOWN),
    Case("container-devices", "no container", NODE, HOST_SKIPS),
    Case("container-locking", "unlimited", container(capabilities=FEW), HOST_PASSES),
    Case("container-locking", "may not", LOCKED, HOST_WARNS),
    Case(
        "container-locking",
        "by capability",
        with_part(LOCKED, "container", capabilities=("ipc_lock",)),
        HOST_PASSES,
    ),
    Case("container-locking", "unread", with_part(LOCKED, "container", capabilities=TIMEOUT), HOST_UNKNOWN),
    Case("container-numa", "may", container(capabilities=("sys_nice",), seccomp=True), HOST_PASSES),
    Case("container-numa", "may not", container(capabilities=FEW, seccomp=True), HOST_WARNS),
    Case("container-numa", "no filter", container(capabilities=FEW, seccomp=False), HOST_PASSES),
    Case("container-numa", "unread", container(capabilities=FEW, seccomp=TIMEOUT), HOST_UNKNOWN),
    Case("container-numa", "runtime unread", container(runtime=TIMEOUT), HOST_UNKNOWN),
    Case("proxy", "none", NODE, HOST_PASSES),
    Case("proxy", "without exceptions", variables(https_proxy="http://proxy:3128"), HOST_WARNS),
    Case(
        "proxy",
        "with exceptions",
        variables(https_proxy="http://proxy:3128", no_proxy=".cluster"),
        HOST_PASSES,
    ),
    Case("proxy", "a sidecar", container(annotations=(State(name="istio", value="listens"),)), HOST_WARNS),
    Case("proxy", "unread", NO_ENVIRONMENT, HOST_UNKNOWN),
    Case("scheduler-limits", "kept", batch(settings=NOT_MEMLOCK), HOST_PASSES),
    Case("scheduler-limits", "from the shell", batch(settings=FROM_SHELL), HOST_WARNS),
    Case(
        "scheduler-limits",
        "other limits kept",
        batch(settings=(State(name="PropagateResourceLimitsExcept", value="CORE"),)),
        HOST_WARNS,
    ),
    Case("scheduler-limits", "no batch system", NODE, HOST_SKIPS),
    Case("scheduler-limits", "unread", batch(settings=TIMEOUT), HOST_UNKNOWN),
    Case("scheduler-binding", "by node", IN_JOB, HOST_PASSES),
    Case("scheduler-binding", "by task", variables(IN_JOB, SLURM_GPUS_PER_TASK="1"), HOST_WARNS),
    Case("scheduler-binding", "bound", variables(IN_JOB, SLURM_GPU_BIND="single:1"), HOST_WARNS),
    Case("scheduler-binding", "bound to none", variables(IN_JOB, SLURM_GPU_BIND="none"), HOST_PASSES),
    Case("scheduler-binding", "no job", NODE, HOST_SKIPS),
    Case("scheduler-binding", "unread", batch(kind=TIMEOUT), HOST_UNKNOWN),
    Case("scheduler-gpus", "all", batch(gpus_of_node=8), HOST_PASSES),
    Case("scheduler-gpus", "fewer", batch(gpus_of_node=4), HOST_WARNS),
    Case("scheduler-gpus", "no batch system", NODE, HOST_SKIPS),
    Case("scheduler-gpus", "unread", batch(settings=FROM_SHELL, gpus_of_node=TIMEOUT), HOST_UNKNOWN),
    Case("nccl-version", "knows Hopper", NODE, (f"PASS {ALL}",)),
    Case(
        "nccl-version", "does not know Blackwell", with_gpus(ONE, compute_capability="10.0"), ("WARN GPU0",)
    ),
    Case("nccl-version", "a bad one", with_part(NODE, "training", nccl_version="2.29.2"), HOST_WARNS),
    Case("nccl-version", "none", with_part(NODE, "training", nccl_version=None), HOST_SKIPS),
    Case(
        "nccl-version", "unread", with_part(NODE, "training", nccl_version=TIMEOUT, path=None), HOST_UNKNOWN
    ),
    Case("nccl-duplicates", "only torch's", NODE, HOST_PASSES),
    Case("nccl-duplicates", "another first", libraries(ON_PATH), HOST_WARNS),
    Case(
        "nccl-duplicates",
        "the same first",
        libraries(msgspec.structs.replace(ON_PATH, version="2.21.5")),
        HOST_PASSES,
    ),
    Case(
        "nccl-duplicates",
        "one unread",
        libraries(msgspec.structs.replace(ON_PATH, version=TIMEOUT)),
        HOST_UNKNOWN,
    ),
    Case("nccl-duplicates", "unread", with_part(NODE, "software", nccl_libraries=TIMEOUT), HOST_UNKNOWN),
    Case("nccl-plugin", "needs none", NODE, HOST_PASSES),
    Case("nccl-plugin", "EFA without", with_nics(NODE, device_type="EFA"), HOST_WARNS),
    Case(
        "nccl-plugin",
        "EFA with",
        with_part(with_nics(NODE, device_type="EFA"), "software", nccl_plugins=("/opt/x/libnccl-net.so",)),
        HOST_PASSES,
    ),
    Case(
        "nccl-plugin",
        "unread",
        with_part(with_nics(NODE, device_type="EFA"), "software", nccl_plugins=TIMEOUT),
        HOST_UNKNOWN,
    ),
)

SYSTEM_CASES = (*INPUT_CASES, *KERNEL_CASES, *SYSTEM_SOFTWARE_CASES, *ENVIRONMENT_CASES)
