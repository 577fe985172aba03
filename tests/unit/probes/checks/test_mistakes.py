"""Test which of forty mistakes of NCCL's users are detected on a machine before launch, and by which check.

Each mistake is made on a healthy machine and must be detected. Mistakes that only a running job or a launch
script shows are listed with the reason, so that every number occurs.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import pytest

from probes.base.units import MIB
from probes.facts import Fabric, Gid, Interface, MachineFacts, Naming, PeerAccess, State
from probes.judging.check_table import CHECKS
from probes.judging.findings import Status
from tests.support.check_case import IN_CONTAINER, NODE, links
from tests.support.check_cases_environment import BLACKWELL, IN_JOB, batch, variables
from tests.support.check_cases_system import FROM_SHELL, ON_PATH, container, libraries
from tests.support.machines import evidence_of, h100_node, storage_port, with_gpus, with_nics, with_part

ROWS = {row.id: row for row in CHECKS}


class Mistake(NamedTuple):
    number: int
    words: str
    facts: MachineFacts
    check_id: str


def interface(name: str, *addresses: str, **changes: object) -> Interface:
    values = {
        "name": name,
        "up": True,
        "addresses": addresses,
        "is_virtual": False,
        "is_default_route": False,
        **changes,
    }
    return Interface(**values)


GIDS = (Gid(index=0, gid="fe80::1", kind="RoCE v1"), Gid(index=1, gid="::ffff:10.2.0.17", kind="RoCE v2"))
ROCE_PORT = storage_port(0, rate_gbps=400.0, gids=GIDS)
ROCE_PAIR = (ROCE_PORT, ROCE_PORT, storage_port(1, rate_gbps=400.0, gids=GIDS, traffic_class=106))
MISTAKES = (
    Mistake(1, "docker as control interface", variables(NCCL_SOCKET_IFNAME="docker0"), "nccl-interfaces"),
    Mistake(
        1,
        "an exclusion that lets loopback through",
        variables(NCCL_SOCKET_IFNAME="^virbr"),
        "nccl-interfaces",
    ),
    Mistake(2, "exclusion for gloo", variables(GLOO_SOCKET_IFNAME="^docker0,lo"), "gloo-interface"),
    Mistake(
        3,
        "the name leads to loopback",
        h100_node(naming=Naming(addresses=("127.0.1.1",))),
        "hostname-address",
    ),
    Mistake(
        6,
        "two interfaces in one subnet",
        h100_node(
            interfaces=(
                interface("eno1", "10.1.0.17/24", is_default_route=True),
                interface("eno2", "10.1.0.18/24"),
            )
        ),
        "interface-subnets",
    ),
    Mistake(10, "one core", with_part(NODE, "cpu", allowed_cpus=1), "cpu-affinity"),
    Mistake(11, "a GPU for each task", variables(IN_JOB, SLURM_GPUS_PER_TASK="1"), "scheduler-binding"),
    Mistake(16, "shared memory of 64 MiB", with_part(IN_CONTAINER, "limits", shm_bytes=64 * MIB), "shm-size"),
    Mistake(17, "memlock limited", with_part(NODE, "limits", memlock_bytes=65536), "memlock"),
    Mistake(17, "memlock of the shell that submits", batch(settings=FROM_SHELL), "scheduler-limits"),
    Mistake(18, "no /dev/infiniband in the container", container(rdma_devices=()), "container-devices"),
    Mistake(
        19, "EFA without its plugin falls back to TCP", with_nics(NODE, device_type="EFA"), "nccl-plugin"
    ),
    Mistake(19, "RDMA switched off", variables(NCCL_IB_DISABLE="1"), "nccl-debug-settings"),
    Mistake(21, "another NCCL on the path", libraries(ON_PATH), "nccl-duplicates"),
    Mistake(
        22,
        "no way to GPU memory",
        with_part(NODE, "software", driver_open_module=False, peermem_loaded=False),
        "peermem",
    ),
    Mistake(
        23,
        "GPU far from NIC",
        h100_node(links=(*links("PIX", range(7)), *links("SYS", range(7, 8)))),
        "gpu-nic-affinity",
    ),
    Mistake(24, "IOMMU translates", with_part(NODE, "kernel", iommu="translated"), "iommu"),
    Mistake(
        25,
        "peer access said to work where it is broken",
        with_part(
            with_gpus(
                msgspec.structs.replace(
                    NODE, peer_access=(PeerAccess(a="GPU0", b="GPU1", capability="read", status="OK"),)
                ),
                name="NVIDIA GeForce RTX 4090",
                driver_version="535.54.03",
            ),
            "software",
            driver_version="535.54.03",
        ),
        "peer-access-geforce",
    ),
    Mistake(26, "no peer-to-peer, left in scripts", variables(NCCL_P2P_DISABLE="1"), "nccl-debug-settings"),
    Mistake(27, "an Ethernet port among the rails", variables(NCCL_IB_HCA="mlx5"), "nccl-hcas"),
    Mistake(
        28,
        "mlx5_1 catches mlx5_10",
        variables(with_nics(h100_node(), "mlx5_7", name="mlx5_10"), NCCL_IB_HCA="mlx5_0,mlx5_1,mlx5_2"),
        "nccl-hcas",
    ),
    Mistake(
        29,
        "GID index fixed",
        variables(h100_node(links=(), nics=(ROCE_PORT,)), NCCL_IB_GID_INDEX="3"),
        "nic-gid-index",
    ),
    Mistake(
        30, "another traffic class on one port", h100_node(links=(), nics=ROCE_PAIR), "roce-traffic-class"
    ),
    Mistake(
        32, "Fabric Manager down", with_part(NODE, "software", fabric_manager="inactive"), "fabric-manager"
    ),
    Mistake(
        33,
        "IMEX domain down",
        with_part(
            with_gpus(
                NODE, name="NVIDIA GB200", fabric=Fabric(cluster_uuid="6c1d8ee0-4a5e-4c37-9f2a-2b3f0c9d1e77")
            ),
            "software",
            imex="DOWN",
            imex_channels=0,
        ),
        "imex",
    ),
    Mistake(
        34, "RoCE port without address", h100_node(links=(), nics=(storage_port(0, gids=()),)), "nic-gid"
    ),
    Mistake(
        36,
        "one connection on Blackwell",
        variables(BLACKWELL, CUDA_DEVICE_MAX_CONNECTIONS="1"),
        "cuda-connections",
    ),
    Mistake(37, "a forced algorithm", variables(NCCL_ALGO="Ring"), "nccl-forced"),
    Mistake(38, "MIG slices", with_gpus(NODE, mig_enabled=True), "mig-mode"),
    Mistake(39, "a sidecar", container(annotations=(State(name="istio", value="listens"),)), "proxy"),
    Mistake(39, "a proxy without exceptions", variables(http_proxy="http://proxy:3128"), "proxy"),
    Mistake(40, "unlimited stack", with_part(NODE, "limits", stack_bytes="unlimited"), "stack-limit"),
    Mistake(40, "few open files", with_part(NODE, "limits", nofile=1024), "nofile"),
    Mistake(40, "a short queue of connections", with_part(NODE, "kernel", somaxconn=128), "somaxconn"),
)

NOT_BEFORE_LAUNCH = {
    4: "only a connection between two nodes shows what a firewall blocks",
    5: "only a comparison of nodes shows interface names that differ",
    7: "the port is chosen, and taken, at launch",
    8: "only the job script states the number of tasks",
    9: "only the job script shows where the shell expands a variable",
    12: "the address is computed in the job script",
    13: "only the command line states the rank of the node",
    14: "only the launcher's configuration states the number of processes",
    15: "only the training program shows what a process does with its rank",
    20: "only a comparison of nodes shows container images that differ",
    31: "only connections between two nodes show which rails reach each other",
    35: "only the training program shows which rank waits for which",
}


def test_every_mistake_is_accounted_for() -> None:
    shown = {mistake.number for mistake in MISTAKES}
    assert shown | set(NOT_BEFORE_LAUNCH) == set(range(1, 41))
    assert not shown & set(NOT_BEFORE_LAUNCH)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: f"{mistake.number}: {mistake.words}")
def test_a_mistake_is_found_before_launch(mistake: Mistake) -> None:
    row = ROWS[mistake.check_id]
    findings = list(row.run(evidence_of(mistake.facts)))
    assert {Status.WARN, Status.FAIL} & {finding.status for finding in findings}
