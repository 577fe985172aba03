"""Cases of the checks of network, host and software: healthy machines with one difference."""

from __future__ import annotations

from probes.base.record import Reason, Unknown
from probes.base.units import GIB, KIB, MIB
from probes.facts import MachineFacts
from probes.judging.policies.policy import CheckPolicy, Policy, SoftwareExpectation
from tests.support.check_case import (
    ALL,
    BOX,
    IN_CONTAINER,
    NODE,
    NOT_RECORDED,
    ONE,
    TIMEOUT,
    UNREAD,
    Case,
    disk,
    links,
)
from tests.support.machines import (
    cpu_box,
    h100,
    h100_node,
    ndr_port,
    storage_port,
    with_gpus,
    with_nics,
    with_part,
)

ROCE = h100_node(
    links=NOT_RECORDED,
    nics=(*(ndr_port(n, link_layer="Ethernet") for n in range(8)), *(storage_port(n) for n in range(8, 12))),
)
DOWN = {"state": "DOWN", "physical_state": "Polling", "rate_gbps": 10.0}
OFF = {"state": "DOWN", "physical_state": "Disabled", "rate_gbps": 40.0}


def without_gdr(facts: MachineFacts = NODE) -> MachineFacts:
    return with_part(facts, "software", driver_open_module=False, peermem_loaded=False)


ONLY_A_MATRIX = {"nics": NOT_RECORDED, "pci_devices": NOT_RECORDED}

NETWORK_CASES = (
    Case("nic-state", "up", NODE, ("PASS mlx5_0-8",)),
    Case(
        "nic-state",
        "a rail down",
        with_nics(NODE, "mlx5_5", **DOWN),
        ("FAIL mlx5_5", "PASS mlx5_0-4, mlx5_6-8"),
    ),
    Case("nic-state", "storage down", with_nics(NODE, "mlx5_8", **DOWN), ("WARN mlx5_8", "PASS mlx5_0-7")),
    Case(
        "nic-state",
        "no subnet manager",
        with_nics(NODE, state="INIT"),
        tuple(f"FAIL mlx5_{n}" for n in range(9)),
    ),
    Case(
        "nic-state",
        "a rail switched off, distances unread",
        with_nics(ROCE, "mlx5_5", **OFF),
        ("FAIL mlx5_5", "PASS mlx5_0-4, mlx5_6-11"),
    ),
    Case(
        "nic-state",
        "storage off, distances unread",
        with_nics(ROCE, "mlx5_9", **OFF),
        ("WARN mlx5_9", "PASS mlx5_0-8, mlx5_10-11"),
    ),
    Case("nic-state", "nothing cabled, no GPU", cpu_box(nics=(ndr_port(0, **DOWN),)), ("WARN mlx5_0",)),
    Case("nic-state", "all switched off", h100_node(nics=(ndr_port(0, **OFF),)), ("WARN mlx5_0",)),
    Case("nic-state", "all without a partner", h100_node(nics=(ndr_port(0, **DOWN),)), ("FAIL mlx5_0",)),
    Case(
        "nic-state",
        "second port of a card",
        cpu_box(nics=(ndr_port(0), ndr_port(0, port=2, **DOWN))),
        ("PASS mlx5_0, mlx5_0:2",),
    ),
    Case(
        "nic-state",
        "one unread",
        with_nics(NODE, "mlx5_0", state=TIMEOUT),
        ("UNKNOWN mlx5_0", "PASS mlx5_1-8"),
    ),
    Case("nic-state", "unread", UNREAD, ("UNKNOWN host",)),
    Case("nic-state", "no port", BOX, ("SKIP host",)),
    Case("nic-rate", "equal", NODE, ("PASS mlx5_0-7",)),
    Case(
        "nic-rate",
        "one rail slower",
        with_nics(NODE, "mlx5_3", rate_gbps=200.0),
        ("FAIL mlx5_3", "PASS mlx5_0-2, mlx5_4-7"),
    ),
    Case(
        "nic-rate",
        "one slower, distances unread",
        with_nics(ROCE, "mlx5_3", rate_gbps=200.0),
        ("WARN mlx5_3", "PASS mlx5_0-2, mlx5_4-7"),
    ),
    Case("nic-rate", "rates unread", with_nics(NODE, rate_gbps=TIMEOUT), ("UNKNOWN mlx5_0-7",)),
    Case("nic-rate", "none up", with_nics(NODE, **DOWN), ("SKIP host",)),
    Case("gpu-nic-affinity", "near", NODE, (f"PASS {ALL}",)),
    Case(
        "gpu-nic-affinity",
        "two GPUs far",
        h100_node(links=(*links("PIX", range(6)), *links("SYS", range(6, 8)))),
        ("WARN GPU6", "WARN GPU7", "PASS GPU0-5"),
    ),
    Case("gpu-nic-affinity", "all far", h100_node(links=links("SYS")), ("WARN host",)),
    Case(
        "gpu-nic-affinity",
        "all far, by the matrix alone",
        h100_node(nics=NOT_RECORDED, pci_devices=NOT_RECORDED, links=links("SYS")),
        ("WARN host",),
    ),
    Case(
        "gpu-nic-affinity",
        "all far on Grace",
        with_part(h100_node(links=links("SYS")), "cpu", architecture="aarch64"),
        ("SKIP host",),
    ),
    Case(
        "gpu-nic-affinity",
        "a rail for each, none near",
        h100_node(links=links("NODE")),
        tuple(f"WARN GPU{n}" for n in range(8)),
    ),
    Case(
        "gpu-nic-affinity",
        "none near on Grace",
        with_part(h100_node(links=links("NODE")), "cpu", architecture="aarch64"),
        ("SKIP host",),
    ),
    Case(
        "gpu-nic-affinity",
        "all far on Grace, of which only a paste is there",
        with_part(
            with_gpus(h100_node(links=links("SYS")), name="NVIDIA GB200"), "cpu", architecture=NOT_RECORDED
        ),
        ("SKIP host",),
    ),
    Case(
        "gpu-nic-affinity",
        "one rail for all",
        h100_node(links=links("NODE"), nics=(ndr_port(0),)),
        (f"PASS {ALL}",),
    ),
    Case(
        "gpu-nic-affinity",
        "as many GPUs as on a board with Grace, all far by the matrix alone",
        h100_node(gpus=tuple(map(h100, range(4))), links=links("SYS", range(4)), **ONLY_A_MATRIX),
        ("UNKNOWN host",),
    ),
    Case(
        "gpu-nic-affinity",
        "one GPU more",
        h100_node(gpus=tuple(map(h100, range(5))), links=links("SYS", range(5)), **ONLY_A_MATRIX),
        ("WARN host",),
    ),
    Case(
        "gpu-nic-affinity",
        "on Grace, all far by the matrix alone",
        with_part(h100_node(links=links("SYS"), **ONLY_A_MATRIX), "cpu", architecture="aarch64"),
        ("UNKNOWN host",),
    ),
    Case("gpu-nic-affinity", "unread", h100_node(links=TIMEOUT), ("UNKNOWN host",)),
    Case(
        "gpu-nic-affinity",
        "half read",
        h100_node(links=links("PIX", range(7))),
        ("UNKNOWN GPU7", "PASS GPU0-6"),
    ),
    Case("gpu-nic-affinity", "no port", h100_node(nics=()), ("SKIP host",)),
    Case("peermem", "dma-buf", NODE, ("PASS host",)),
    Case(
        "peermem", "nvidia_peermem", with_part(without_gdr(), "software", peermem_loaded=True), ("PASS host",)
    ),
    Case("peermem", "neither", without_gdr(), ("WARN host",)),
    Case("peermem", "old kernel", with_part(NODE, "software", kernel="5.4.0-150-generic"), ("WARN host",)),
    Case(
        "peermem",
        "half read",
        with_part(NODE, "software", driver_open_module=NOT_RECORDED),
        ("UNKNOWN host",),
    ),
    Case("peermem", "kernel unreadable", with_part(NODE, "software", kernel="tiny"), ("UNKNOWN host",)),
    Case("peermem", "EFA", with_nics(without_gdr(), device_type="EFA"), ("SKIP host",)),
    Case("peermem", "GeForce", with_gpus(without_gdr(), name="NVIDIA GeForce RTX 4090"), ("SKIP host",)),
)

UNLIMITED_STACK = with_part(NODE, "limits", stack_bytes="unlimited")

HOST_CASES = (
    Case("memlock", "unlimited", NODE, ("PASS host",)),
    Case("memlock", "64 GiB", with_part(NODE, "limits", memlock_bytes=64 * GIB), ("PASS host",)),
    Case("memlock", "20 GiB", with_part(NODE, "limits", memlock_bytes=20 * GIB), ("WARN host",)),
    Case("memlock", "64 KiB", with_part(NODE, "limits", memlock_bytes=64 * KIB), ("FAIL host",)),
    Case("memlock", "64 KiB without RDMA", with_part(BOX, "limits", memlock_bytes=64 * KIB), ("SKIP host",)),
    Case("memlock", "unread", with_part(NODE, "limits", memlock_bytes=NOT_RECORDED), ("UNKNOWN host",)),
    Case("shm-size", "large", NODE, ("PASS host",)),
    Case(
        "shm-size", "docker's default", with_part(IN_CONTAINER, "limits", shm_bytes=64 * MIB), ("FAIL host",)
    ),
    Case("shm-size", "4 GiB", with_part(NODE, "limits", shm_bytes=4 * GIB), ("WARN host",)),
    Case(
        "shm-size",
        "4 GiB without GPU",
        with_part(BOX, "limits", shm_bytes=4 * GIB, shm_free_bytes=4 * GIB),
        ("PASS host",),
    ),
    Case("shm-size", "64 MiB without GPU", with_part(BOX, "limits", shm_bytes=64 * MIB), ("WARN host",)),
    Case("shm-size", "full", with_part(NODE, "limits", shm_free_bytes=3 * MIB), ("WARN host",)),
    Case("shm-size", "unread", with_part(NODE, "limits", shm_bytes=TIMEOUT), ("UNKNOWN host",)),
    Case("nofile", "enough", NODE, ("PASS host",)),
    Case("nofile", "half as much again", with_part(NODE, "limits", nofile=98304), ("PASS host",)),
    Case("nofile", "unlimited", with_part(NODE, "limits", nofile="unlimited"), ("PASS host",)),
    Case("nofile", "a shell's default", with_part(BOX, "limits", nofile=1024), ("WARN host",)),
    Case("nofile", "unread", with_part(BOX, "limits", nofile=TIMEOUT), ("UNKNOWN host",)),
    Case("stack-limit", "limited", NODE, ("PASS host",)),
    Case("stack-limit", "unlimited, old NCCL", UNLIMITED_STACK, ("WARN host",)),
    Case(
        "stack-limit",
        "unlimited, new NCCL",
        with_part(UNLIMITED_STACK, "training", nccl_version="2.28.3"),
        ("PASS host",),
    ),
    Case(
        "stack-limit",
        "unlimited, no NCCL",
        with_part(UNLIMITED_STACK, "training", nccl_version=None),
        ("SKIP host",),
    ),
    Case(
        "stack-limit",
        "unlimited, NCCL unread",
        with_part(UNLIMITED_STACK, "training", nccl_version=TIMEOUT),
        ("UNKNOWN host",),
    ),
    Case("stack-limit", "unread", with_part(NODE, "limits", stack_bytes=TIMEOUT), ("UNKNOWN host",)),
    Case("stack-limit", "no GPU", BOX, ("SKIP host",)),
    Case("cpu-affinity", "all", NODE, ("PASS host",)),
    Case("cpu-affinity", "four", with_part(NODE, "cpu", allowed_cpus=4), ("WARN host",)),
    Case("cpu-affinity", "mask unread", with_part(NODE, "cpu", allowed_cpus=NOT_RECORDED), ("UNKNOWN host",)),
    Case(
        "cpu-affinity", "count unread", with_part(NODE, "cpu", logical_cpus=NOT_RECORDED), ("UNKNOWN host",)
    ),
    Case("cpu-governor", "performance", NODE, ("PASS host",)),
    Case("cpu-governor", "powersave", with_part(NODE, "cpu", governor="powersave"), ("WARN host",)),
    Case(
        "cpu-governor", "none", with_part(NODE, "cpu", governor=Unknown(Reason.TOOL_MISSING)), ("SKIP host",)
    ),
    Case("cpu-governor", "unread", with_part(NODE, "cpu", governor=TIMEOUT), ("UNKNOWN host",)),
    Case("numa", "stated", NODE, (f"PASS {ALL}", "PASS mlx5_0-7")),
    Case(
        "numa",
        "GPU without",
        with_gpus(NODE, 3, numa_node=None),
        ("WARN GPU3", "PASS GPU0-2, GPU4-7", "PASS mlx5_0-7"),
    ),
    Case(
        "numa",
        "rail without",
        with_nics(NODE, "mlx5_2", numa_node=None),
        (f"PASS {ALL}", "WARN mlx5_2", "PASS mlx5_0-1, mlx5_3-7"),
    ),
    Case("numa", "one node", with_gpus(h100_node(numa_nodes=BOX.numa_nodes), numa_node=None), ("SKIP host",)),
    Case("numa", "unread", with_gpus(NODE, numa_node=TIMEOUT), (f"UNKNOWN {ALL}", "PASS mlx5_0-7")),
    Case(
        "numa",
        "nodes unread",
        with_part(h100_node(numa_nodes=TIMEOUT), "cpu", sockets=TIMEOUT),
        ("UNKNOWN host",),
    ),
    Case("disk-space", "room", NODE, ("PASS /, /raid",)),
    Case("disk-space", "nearly full", disk(0.92), ("WARN /",)),
    Case("disk-space", "full", disk(0.97), ("FAIL /",)),
    Case("disk-space", "an image", disk(1.0, mount="/snap/core", kind="squashfs"), ("SKIP host",)),
    Case("disk-space", "size zero", disk(0.0, total_bytes=0, free_bytes=0), ("PASS /",)),
    Case("disk-space", "size unread", disk(0.0, total_bytes=TIMEOUT), ("UNKNOWN /",)),
    Case("disk-space", "unread", h100_node(storage=TIMEOUT), ("UNKNOWN host",)),
)


def torch(**changes: object) -> MachineFacts:
    return with_part(NODE, "training", **changes)


EXPECTS_TORCH = Policy(software=SoftwareExpectation(torch=">=2.0"))
REQUIRES_TORCH = Policy(checks=CheckPolicy(required=("torch-cuda",)))
OLD_DRIVER = with_part(
    torch(torch_cuda_version="12.8"), "software", driver_version="470.82.01", cuda_driver_version="11.4"
)

SOFTWARE_CASES = (
    Case("torch-cuda", "suits", NODE, ("PASS host",)),
    *(
        Case(
            check_id, f"a build that no user named, {change}", torch(found_by="PATH", **change), (said,), asks
        )
        for check_id, change, said, asks in (
            ("torch-cuda", {"torch_cuda_version": None}, "SKIP host", Policy()),
            ("torch-cuda", {"path": None, "torch_version": None}, "SKIP host", Policy()),
            ("torch-cuda", {"torch_cuda_version": None}, "FAIL host", EXPECTS_TORCH),
            ("torch-cuda", {"path": None, "torch_version": None}, "WARN host", REQUIRES_TORCH),
            ("torch-architecture", {"torch_cuda_version": "10.2"}, "SKIP host", Policy()),
            ("nccl-version", {"nccl_version": "2.4.8"}, "SKIP host", Policy()),
        )
    ),
    Case("torch-cuda", "CPU build without GPU", BOX, ("PASS host",)),
    Case("torch-cuda", "CPU build with GPUs", torch(torch_cuda_version=None), ("FAIL host",)),
    Case("torch-cuda", "no interpreter", torch(path=None, torch_version=NOT_RECORDED), ("WARN host",)),
    Case("torch-cuda", "no torch", torch(torch_version=None), ("WARN host",)),
    Case("torch-cuda", "driver too old", OLD_DRIVER, ("FAIL host",)),
    Case(
        "torch-cuda",
        "compatibility package",
        with_part(OLD_DRIVER, "software", cuda_driver_version="12.8"),
        ("PASS host",),
    ),
    Case("torch-cuda", "CUDA from the future", torch(torch_cuda_version="19.0"), ("UNKNOWN host",)),
    Case("torch-cuda", "CUDA unread", torch(torch_cuda_version=TIMEOUT), ("UNKNOWN host",)),
    Case(
        "torch-cuda", "driver unread", with_part(NODE, "software", driver_version=TIMEOUT), ("UNKNOWN host",)
    ),
    Case(
        "torch-cuda", "driver unreadable", with_part(NODE, "software", driver_version="?"), ("UNKNOWN host",)
    ),
    Case("torch-cuda", "torch unread", torch(torch_version=TIMEOUT), ("UNKNOWN host",)),
    Case("torch-cuda", "GPUs unread", UNREAD, ("UNKNOWN host",)),
    Case("torch-architecture", "knows Hopper", NODE, (f"PASS {ALL}",)),
    Case(
        "torch-architecture",
        "Blackwell, CUDA 12.4",
        with_gpus(ONE, compute_capability="10.0"),
        ("FAIL GPU0",),
    ),
    Case("torch-architecture", "Volta, CUDA 12.4", with_gpus(ONE, compute_capability="7.0"), ("PASS GPU0",)),
    Case(
        "torch-architecture",
        "Volta, CUDA 13",
        with_gpus(torch(torch_cuda_version="13.0"), 0, compute_capability="7.0"),
        ("FAIL GPU0", "PASS GPU1-7"),
    ),
    Case(
        "torch-architecture",
        "Turing, CUDA 13",
        with_gpus(torch(torch_cuda_version="13.0"), 0, compute_capability="7.5"),
        (f"PASS {ALL}",),
    ),
    Case("torch-architecture", "no such row", with_gpus(ONE, compute_capability="42.0"), ("UNKNOWN GPU0",)),
    Case(
        "torch-architecture",
        "capability unread",
        with_gpus(ONE, compute_capability=TIMEOUT),
        ("UNKNOWN GPU0",),
    ),
    Case("torch-architecture", "CUDA unread", torch(torch_cuda_version=TIMEOUT), ("UNKNOWN host",)),
    Case("torch-architecture", "CUDA unreadable", torch(torch_cuda_version="none"), (f"UNKNOWN {ALL}",)),
    Case("torch-architecture", "no torch", torch(path=None, torch_cuda_version=NOT_RECORDED), ("SKIP host",)),
    Case("torch-architecture", "CPU build", torch(torch_cuda_version=None), ("SKIP host",)),
)
