"""Invented machines of clouds, with the marks that each cloud documents, and machines of no cloud.

No recording has all marks.
"""

from __future__ import annotations

from typing import Any

import msgspec

from probes.catalogue.hardware import load_catalogue
from probes.facts import Cloud, EnvironmentVariable, Gid, Interface, Link, MachineFacts, Nic
from tests.support.machines import h100, h100_node, ndr_port

NEWEST = "2.30.7"
"""NCCL version of the invented machines, unless a test changes it."""


def interface(name: str, *, is_default: bool = False) -> Interface:
    return Interface(
        name=name,
        up=True,
        speed_gbps=100.0,
        mtu=9000,
        addresses=(f"10.{len(name)}.{sum(map(ord, name)) % 250}.7/16",),
        is_virtual=False,
        is_default_route=is_default,
        bond=None,
        bond_members=None,
    )


def ports(names: list[str], **changes: Any) -> tuple[Nic, ...]:
    """Return one port per name, beside the GPUs in order."""
    return tuple(ndr_port(index % 8, name=name, netdev=None, **changes) for index, name in enumerate(names))


def roce(names: list[str], rate_gbps: float = 400.0, index: int = 3) -> tuple[Nic, ...]:
    """Return RoCE ports whose RoCE v2 GID with the IPv4 address has this index."""
    gids = (
        Gid(index=index - 1, gid="::ffff:0a01:0001", kind="RoCE v1", address="10.1.0.1"),
        Gid(index=index, gid="::ffff:0a01:0001", kind="RoCE v2", address="10.1.0.1"),
    )
    return ports(names, link_layer="Ethernet", rate_gbps=rate_gbps, gids=gids)


def efa(count: int, rate_gbps: float) -> tuple[Nic, ...]:
    return ports(
        [f"rdmap{index}s0" for index in range(count)],
        device_type="efa",
        link_layer="Unspecified",
        rate_gbps=rate_gbps,
        speed="",
    )


def machine(
    gpu: str,
    *,
    gpus: int = 8,
    provider: str | None = None,
    machine_type: str | None = None,
    files: tuple[str, ...] = (),
    nics: tuple[Nic, ...] = (),
    interfaces: tuple[str, ...] = ("eth0",),
    **changes: Any,
) -> MachineFacts:
    """Return a healthy machine with GPUs of a catalogue row; the first interface has the default route."""
    row = next(row for row in load_catalogue().gpus if row.id == gpu)
    facts = h100_node(
        gpus=tuple(
            h100(
                index,
                name=row.driver_name,
                memory_bytes=row.memory_bytes,
                compute_capability=row.compute_capability,
            )
            for index in range(gpus)
        ),
        links=tuple(
            Link(a=f"GPU{a}", b=f"GPU{b}", kind="NVLINK", nvlink_count=row.nvlink_count)
            for a in range(gpus)
            for b in range(a + 1, gpus)
        ),
        nics=nics,
        interfaces=tuple(interface(name, is_default=not number) for number, name in enumerate(interfaces)),
        cloud=Cloud(provider=provider, machine_type=machine_type, files=files),
        training=msgspec.structs.replace(
            h100_node().training, torch_version="2.13.0+cu130", nccl_version=NEWEST
        ),
    )
    return msgspec.structs.replace(facts, **changes)


def with_imex(facts: MachineFacts, state: str | None) -> MachineFacts:
    return msgspec.structs.replace(facts, software=msgspec.structs.replace(facts.software, imex=state))


def with_nccl(facts: MachineFacts, version: Any, torch: Any = "2.13.0+cu130") -> MachineFacts:
    training = msgspec.structs.replace(facts.training, nccl_version=version, torch_version=torch)
    return msgspec.structs.replace(facts, training=training)


def in_container(facts: MachineFacts, *capabilities: str) -> MachineFacts:
    container = msgspec.structs.replace(facts.container, runtime="docker", capabilities=capabilities)
    return msgspec.structs.replace(facts, container=container)


def with_file(facts: MachineFacts, path: str = "/etc/nccl.conf", **variables: str) -> MachineFacts:
    """Return the machine with variables from one origin: the path of a file, or `environment`."""
    rows = tuple(
        EnvironmentVariable(name=name, value=value, origin=path) for name, value in variables.items()
    )
    return msgspec.structs.replace(facts, environment=rows)


ENP = ("enp0s12", "enp6s0", "enp12s0", "enp134s0", "enp140s0")
MEGA_ENP = tuple(f"enp{n}s0" for n in (6, 7, 13, 14, 134, 135, 141, 142))
MLX8 = [f"mlx5_{n}" for n in range(8)]
OCI_H200 = [f"mlx5_{n}" for n in (0, 3, 4, 5, 6, 9, 10, 11)]
IBP = [f"ibp{n}" for n in range(8)]
VCN = (ndr_port(1, name="mlx5_12", link_layer="Ethernet", rate_gbps=100.0, device_type="MT4125"),)
"""Port of OCI's virtual network."""
_AWS = {"provider": "aws", "files": ("/opt/amazon/ofi-nccl",), "interfaces": ("ens32",)}

PLATFORM_MACHINES: dict[str, MachineFacts] = {
    "aws-p4d": machine("a100-sxm4-40gb", machine_type="p4d.24xlarge", nics=efa(4, 100.0), **_AWS),
    "aws-p5": machine("h100-sxm", machine_type="p5.48xlarge", nics=efa(32, 100.0), **_AWS),
    "aws-p5en": machine("h200-sxm", machine_type="p5en.48xlarge", nics=efa(16, 200.0), **_AWS),
    "aws-p6-b200": machine("b200", machine_type="p6-b200.48xlarge", nics=efa(8, 400.0), **_AWS),
    "aws-p6-b300": machine("b300", machine_type="p6-b300.48xlarge", nics=efa(16, 400.0), **_AWS),
    "aws-p6e": with_imex(
        machine("gb200", gpus=4, machine_type="p6e-gb200.36xlarge", nics=efa(4, 400.0), **_AWS), "UP"
    ),
    "aws-g5": machine("a10g", provider="aws", machine_type="g5.48xlarge", interfaces=("ens5",)),
    "gcp-a3-high-gke": machine(
        "h100-sxm",
        provider="gcp",
        files=("/run/tcpx",),
        interfaces=("eth0", "eth1", "eth2", "eth3", "eth4"),
    ),
    "gcp-a3-high-slurm": machine("h100-sxm", provider="gcp", files=("/var/lib/tcpx",), interfaces=ENP),
    "gcp-a3-mega-gke": machine(
        "h100-sxm",
        provider="gcp",
        files=("/var/lib/tcpxo",),
        interfaces=tuple(f"eth{n}" for n in range(9)),
    ),
    "gcp-a3-mega-slurm": machine(
        "h100-sxm", provider="gcp", files=("/var/lib/tcpxo",), interfaces=("enp0s12", *MEGA_ENP)
    ),
    "gcp-a3-ultra": machine(
        "h200-sxm",
        provider="gcp",
        files=("/usr/local/gib",),
        nics=roce(MLX8),
        interfaces=("enp0s19", "enp192s20"),
    ),
    "gcp-a4": machine(
        "b200", provider="gcp", files=("/usr/local/gib",), nics=roce(MLX8), interfaces=("eth0", "eth1")
    ),
    "gcp-a4x": with_imex(
        machine(
            "gb200",
            gpus=4,
            provider="gcp",
            files=("/usr/local/gib",),
            nics=roce(MLX8[:4]),
            interfaces=("enp0s3", "enp192s2"),
        ),
        "UP",
    ),
    "gcp-a4x-max": with_imex(
        machine(
            "gb300",
            gpus=4,
            provider="gcp",
            files=("/usr/local/gib",),
            nics=roce(MLX8[:4]),
            interfaces=("eth0", "eth1"),
        ),
        "UP",
    ),
    "gcp-g4": machine("rtx-pro-6000-server", provider="gcp", interfaces=("ens4",)),
    "gcp-without-plugin": machine("h100-sxm", provider="gcp", interfaces=("eth0",)),
    "azure-ndv2": machine("v100-sxm2-32gb", provider="azure", nics=ports(["mlx5_ib0"], rate_gbps=100.0)),
    "azure-ndv4": machine(
        "a100-sxm4-80gb", provider="azure", nics=ports([f"mlx5_ib{n}" for n in range(8)], rate_gbps=200.0)
    ),
    "azure-ndv5": machine("h100-sxm", provider="azure", nics=ports([f"mlx5_ib{n}" for n in range(8)])),
    "azure-ncv4": machine("a100-pcie-80gb", gpus=4, provider="azure"),
    "azure-ncv6": machine("rtx-pro-6000-server", gpus=2, provider="azure"),
    "azure-nd-gb200": with_imex(
        machine("gb200", gpus=4, provider="azure", nics=ports([f"mlx5_ib{n}" for n in range(4)])), None
    ),
    "oci-a100": machine(
        "a100-sxm4-40gb",
        provider="oci",
        nics=(*roce([f"mlx5_{n}" for n in range(18) if n not in (4, 12)], 100.0),),
    ),
    "oci-h100": machine("h100-sxm", provider="oci", nics=(*roce(MLX8), *VCN)),
    "oci-h200": machine("h200-sxm", provider="oci", nics=(*roce(OCI_H200), *VCN)),
    "oci-gb200": with_imex(machine("gb200", gpus=4, provider="oci", nics=ports(MLX8[:4])), "UP"),
    "coreweave-h100": machine("h100-sxm", nics=ports(IBP)),
    "coreweave-gb200": with_imex(machine("gb200", gpus=4, nics=ports(IBP[:4])), "UP"),
    "coreweave-gb300-roce": with_imex(machine("gb300", gpus=4, nics=roce(IBP[:4])), "UP"),
    "alibaba-lingjun": machine("h20", provider="alibaba", nics=roce([f"mlx5_bond_{n}" for n in range(4)])),
    "alibaba-erdma": machine("h20", provider="alibaba"),
    "lambda": machine("h100-sxm", nics=ports(MLX8), interfaces=("eno1",)),
    "bare-dgx": machine("h100-sxm", nics=ports(MLX8), interfaces=("eno1",)),
    "bare-roce": machine("h100-sxm", nics=roce(MLX8), interfaces=("eno1",)),
    "bare-ethernet": machine("h100-sxm", interfaces=("eno1",)),
    "bare-nvl72": with_imex(machine("gb200", gpus=4, nics=ports(MLX8[:4]), interfaces=("eno1",)), "UP"),
}
