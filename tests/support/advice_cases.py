"""Machines for the rows of `rigtune advise`: one on which a row fires, and one on which it does not."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from assistant.usecases.advise import Question, advise
from probes.base.record import Reason, Unknown
from probes.base.units import GIB
from probes.catalogue.hardware import load_catalogue
from probes.facts import (
    Accelerator,
    EnvironmentVariable,
    Gid,
    Gpu,
    GpuLimits,
    Link,
    MachineFacts,
    MigDevice,
    NumaNode,
    PcieLink,
)
from recipes.advice.advice_lines import Advice, Subject
from recipes.advice.machine_parts import PartsList, described_machine
from tests.support.machines import cpu_box, h100_node, storage_port, with_gpus, with_nics, with_part

UNKNOWN = Unknown(Reason.TOOL_MISSING, "no such tool")


def advised(subject: Subject, facts: MachineFacts, **question: Any) -> Advice:
    """Return the advice on one subject for these facts."""
    return advise(facts, load_catalogue(), Question(subject=subject, **question))


def ids(subject: Subject, facts: MachineFacts, **question: Any) -> set[str]:
    """Return the ids of the rows that fire."""
    return {line.id for line in advised(subject, facts, **question).lines}


class Case(NamedTuple):
    """A machine with the settings of a question."""

    facts: MachineFacts
    question: dict[str, Any] = {}


def changed(facts: MachineFacts, **changes: Any) -> MachineFacts:
    return msgspec.structs.replace(facts, **changes)


NODE = h100_node()
BOX = cpu_box()
BLANK = MachineFacts()
BARE_BOX = changed(with_part(BOX, "container", virtualization=None), source="box")
VIRTUAL = with_part(NODE, "container", virtualization="kvm")
MI300X = changed(NODE, gpus=(Gpu(index=0, name="AMD Instinct MI300X"),), links=())
GAUDI = changed(BLANK, gpus=(), accelerators=(Accelerator(name="Intel Gaudi 3"),))
AMD_ONLY = changed(BLANK, gpus=(), accelerators=(Accelerator(name="AMD Instinct MI300X"),))
NAMELESS = with_gpus(NODE, name=UNKNOWN, pci_device_id=UNKNOWN)
POWERLESS = with_gpus(NAMELESS, power_limit_w=UNKNOWN, power_limit_default_w=UNKNOWN)
SLOT = PcieLink(generation=5, generation_max=5, width=16, width_max=16)


def pcie(**changes: int) -> PcieLink:
    return msgspec.structs.replace(SLOT, **changes)


def of_model(name: str, **changes: Any) -> MachineFacts:
    """Return the node with GPUs of another model."""
    return with_gpus(NODE, name=name, pci_device_id=UNKNOWN, **changes)


def parts(**stated: Any) -> MachineFacts:
    """Return the machine of a list of parts with four H100 PCIe."""
    return described_machine(BLANK, PartsList(gpu="H100-PCIE", gpus=4, **stated), load_catalogue())


def supplied(power_w: float | Unknown) -> MachineFacts:
    return with_part(NODE, "power", supply_capacity_w=power_w)


def linked(*kinds: str) -> MachineFacts:
    """Return the node with links of these PCIe distances between its first GPUs."""
    links = tuple(Link(a=f"GPU{index}", b=f"GPU{index + 1}", kind=kind) for index, kind in enumerate(kinds))
    return changed(NODE, links=links)


def with_memory(size: int | Unknown) -> MachineFacts:
    return with_part(NODE, "memory", total_bytes=size)


CARDS = parts(cpu="EPYC 9654", sockets=2, network="4x200G RoCE", memory_gib=512)
A100_CARDS = of_model("NVIDIA A100 80GB PCIe", power_limit_w=300.0, power_limit_default_w=300.0)

HARDWARE: dict[str, tuple[Case, Case]] = {
    "no-gpu": (Case(BARE_BOX), Case(NODE)),
    "gpus-unknown": (Case(BLANK), Case(NODE)),
    "other-accelerators": (Case(GAUDI), Case(NODE)),
    "board-power-unknown": (Case(POWERLESS), Case(NODE)),
    "board-heat": (Case(NODE), Case(POWERLESS)),
    "supplies-of-host": (Case(with_part(VIRTUAL, "power", supply_capacity_w=UNKNOWN)), Case(VIRTUAL)),
    "processor-power-unknown": (Case(with_part(A100_CARDS, "cpu", model="Neoverse-V2")), Case(NODE)),
    "supplies-unknown": (Case(supplied(UNKNOWN)), Case(NODE)),
    "supplies-short": (Case(supplied(5599.0)), Case(supplied(5600.0))),
    "supplies-tight": (Case(supplied(10191.0)), Case(supplied(10193.0))),
    "supplies-enough": (Case(supplied(10193.0)), Case(supplied(10191.0))),
    "power-limit-lowered": (Case(with_gpus(NODE, 2, power_limit_w=500.0)), Case(NODE)),
    "gpu-link-unknown": (Case(with_gpus(NODE, pcie=PcieLink())), Case(NODE)),
    "gpu-link-narrow": (Case(with_gpus(NODE, 1, pcie=pcie(width=8))), Case(NODE)),
    "gpu-link-of-host": (
        Case(with_gpus(VIRTUAL, 1, pcie=pcie(width=8))),
        Case(with_gpus(NODE, 1, pcie=pcie(width=8))),
    ),
    "gpu-slot-narrow": (Case(with_gpus(NODE, pcie=pcie(width=8, width_max=8))), Case(NODE)),
    "gpu-slot-slow": (Case(with_gpus(NODE, pcie=pcie(generation_max=4))), Case(NODE)),
    "gpu-link-full": (Case(NODE), Case(with_gpus(NODE, pcie=pcie(width=8)))),
    "nic-link-unknown": (Case(with_nics(NODE, pcie=PcieLink())), Case(NODE)),
    "nic-link-narrow": (Case(with_nics(NODE, "mlx5_1", pcie=pcie(width=8))), Case(NODE)),
    "nic-slot-slow": (
        Case(with_nics(NODE, pcie=pcie(generation=4))),  # 252 Gb/s for a port of 400
        Case(with_nics(NODE, pcie=pcie(generation=4), rate_gbps=200.0)),
    ),
    "nic-link-full": (Case(NODE), Case(with_nics(NODE, pcie=PcieLink()))),
    "lanes-unknown": (Case(parts()), Case(CARDS)),
    "lanes-short": (Case(parts(cpu="Ryzen 9 7950X")), Case(CARDS)),
    "lanes-enough": (Case(CARDS), Case(parts(cpu="Ryzen 9 7950X"))),
    "switches-unknown": (Case(changed(NODE, links=UNKNOWN)), Case(NODE)),
    "topology-hidden": (
        Case(changed(linked("SYS"), container=VIRTUAL.container)),
        Case(linked("SYS")),
    ),
    "no-switch": (Case(linked("PHB", "SYS")), Case(linked("PIX", "SYS"))),
    "switch-shared": (Case(linked("PIX", "SYS")), Case(NODE)),
    "switch-paired": (Case(NODE), Case(linked("PIX"))),
    "temperature-unknown": (Case(with_gpus(NODE, limits=GpuLimits())), Case(NODE)),
    "temperature-high": (
        Case(with_gpus(NODE, 4, limits=GpuLimits(temperature_margin_c=4))),
        Case(with_gpus(NODE, 4, limits=GpuLimits(temperature_margin_c=5))),
    ),
    "temperature-good": (
        Case(with_gpus(NODE, limits=GpuLimits(temperature_slowdown_c=90), temperature_c=60)),
        Case(with_gpus(NODE, limits=GpuLimits(temperature_slowdown_c=90), temperature_c=86)),
    ),
    "throttled-by-heat": (Case(with_gpus(NODE, 3, throttle_reasons=("hw_thermal_slowdown",))), Case(NODE)),
    "throttled-by-power": (Case(with_gpus(NODE, 3, throttle_reasons=("hw_slowdown",))), Case(NODE)),
    "throttling-unknown": (Case(with_gpus(NODE, 0, throttle_reasons=UNKNOWN)), Case(NODE)),
    "not-throttled": (Case(NODE), Case(with_gpus(NODE, 3, throttle_reasons=("hw_slowdown",)))),
    "nics-unknown": (Case(changed(NODE, nics=UNKNOWN)), Case(NODE)),
    "no-nic": (Case(changed(NODE, nics=())), Case(NODE)),
    "rails-unknown": (Case(with_nics(NODE, rate_gbps=UNKNOWN)), Case(NODE)),
    "rails-down": (Case(with_nics(NODE, "mlx5_4", state="DOWN")), Case(NODE)),
    "rail-rate": (Case(NAMELESS), Case(NODE)),
    "rail-rate-low": (Case(with_nics(NODE, rate_gbps=200.0)), Case(NODE)),
    "rail-rate-usual": (Case(NODE), Case(with_nics(NODE, rate_gbps=200.0))),
    "rails-uneven": (Case(changed(NODE, nics=NODE.nics[:3])), Case(NODE)),  # type: ignore[index]
    "nic-near": (Case(NODE), Case(changed(NODE, links=()))),
    "nic-far": (
        Case(changed(NODE, links=tuple(Link(a=f"GPU{g}", b="mlx5_0", kind="NODE") for g in range(8)))),
        Case(NODE),
    ),
    "gpu-memory": (Case(NODE), Case(BARE_BOX)),
    "gpu-memory-unknown": (Case(with_gpus(NAMELESS, memory_bytes=UNKNOWN)), Case(NODE)),
    "host-memory-unknown": (Case(with_memory(UNKNOWN)), Case(NODE)),
    "host-memory-small": (Case(with_memory(955 * GIB)), Case(with_memory(956 * GIB))),
    "host-memory-enough": (Case(with_memory(956 * GIB)), Case(with_memory(955 * GIB))),
    "cores-unknown": (Case(with_part(NODE, "cpu", physical_cores=UNKNOWN)), Case(NODE)),
    "cores-few": (
        Case(with_part(NODE, "cpu", physical_cores=47)),
        Case(with_part(NODE, "cpu", physical_cores=48)),
    ),
    "cores-enough": (
        Case(with_part(NODE, "cpu", physical_cores=48)),
        Case(with_part(NODE, "cpu", physical_cores=47)),
    ),
}

SMALL_JOB = {"need_gib": 16.0}
DIVIDED = with_gpus(
    NODE,
    mig_enabled=True,
    mig_pending=True,
    mig_devices=(MigDevice(profile="3g.40gb", uuid="MIG-1"), MigDevice(profile="3g.40gb", uuid="MIG-2")),
)

MIG: dict[str, tuple[Case, Case]] = {
    "no-gpu": (Case(BARE_BOX), Case(NODE)),
    "gpus-unknown": (Case(BLANK), Case(NODE)),
    "other-accelerators": (Case(MI300X), Case(NODE)),
    "not-supported": (Case(of_model("NVIDIA L40S")), Case(NODE)),
    "model-unknown": (Case(NAMELESS), Case(NODE)),
    "profiles-unknown": (Case(of_model("NVIDIA A100-SXM-64GB")), Case(NODE)),
    "profile": (Case(NODE), Case(of_model("NVIDIA L40S"))),
    "state-unknown": (Case(with_gpus(NODE, mig_enabled=UNKNOWN)), Case(NODE)),
    "state-on": (Case(DIVIDED), Case(NODE)),
    "state-off": (Case(NODE), Case(DIVIDED)),
    "state-pending": (Case(with_gpus(NODE, mig_pending=True)), Case(NODE)),
    "need-unknown": (Case(NODE), Case(NODE, SMALL_JOB)),
    "instances-exist": (Case(DIVIDED, SMALL_JOB), Case(NODE, SMALL_JOB)),
    "partition": (Case(NODE, SMALL_JOB), Case(NODE, {"need_gib": 40.0})),
    "partition-faster": (Case(NODE, SMALL_JOB), Case(NODE, {"need_gib": 40.0})),
    "partition-tight": (Case(NODE, {"model": "gpt2-medium"}), Case(NODE, {"model": "gpt2"})),
    "whole-gpu": (Case(NODE, {"need_gib": 40.0}), Case(NODE, {"need_gib": 39.0})),
    "need-too-large": (Case(NODE, {"need_gib": 80.0}), Case(NODE, {"need_gib": 79.0})),
    "limit-one-instance": (Case(NODE), Case(of_model("NVIDIA L40S"))),
    "limit-no-peers": (Case(NODE), Case(of_model("NVIDIA L40S"))),
    "limit-not-kept": (Case(NODE), Case(of_model("NVIDIA L40S"))),
    "reset-needed": (Case(of_model("NVIDIA A100-SXM4-80GB")), Case(NODE)),
}


def variable(name: str, value: str, origin: str = "environment") -> MachineFacts:
    return changed(NODE, environment=(EnvironmentVariable(name=name, value=value, origin=origin),))


QUIET_VIRTUAL = changed(VIRTUAL, environment=())
AZURE = with_part(QUIET_VIRTUAL, "cloud", provider="azure")
TOPOLOGY = changed(variable("NCCL_TOPO_FILE", "/opt/topo.xml"), container=VIRTUAL.container)
UNCONTAINED = with_part(NODE, "software", container_toolkit_version=None)

CONTAINER: dict[str, tuple[Case, Case]] = {
    "other-accelerators": (Case(AMD_ONLY), Case(NODE)),
    "accelerators-unsupported": (Case(GAUDI), Case(NODE)),
    "no-gpu": (Case(BARE_BOX), Case(NODE)),
    "gpus-unknown": (Case(BLANK), Case(NODE)),
    "gpus-all": (Case(NODE), Case(MI300X)),
    "gpu-mig": (Case(DIVIDED), Case(NODE)),
    "mig-unknown": (Case(with_gpus(DIVIDED, mig_devices=UNKNOWN)), Case(DIVIDED)),
    "toolkit-missing": (Case(UNCONTAINED), Case(NODE)),
    "toolkit-unknown": (
        Case(with_part(NODE, "software", container_toolkit_version=UNKNOWN)),
        Case(UNCONTAINED),
    ),
    "toolkit-present": (
        Case(with_part(NODE, "software", container_toolkit_version="1.17.8")),
        Case(UNCONTAINED),
    ),
    "shm": (Case(NODE), Case(NODE)),
    "stack": (Case(NODE), Case(NODE)),
    "numa": (Case(NODE), Case(BARE_BOX)),
    "rdma": (Case(NODE), Case(BARE_BOX)),
    "rdma-unknown": (Case(BLANK), Case(NODE)),
    "efa": (Case(with_nics(NODE, device_type="efa")), Case(NODE)),
    "no-rdma": (Case(BARE_BOX), Case(NODE)),
    "lxd-rdma-device": (
        Case(with_part(NODE, "container", rdma_devices=("uverbs0", "rdma_cm", "by-path"))),
        Case(with_part(NODE, "container", rdma_devices=("by-path",))),
    ),
    "lxd-rdma-unknown": (
        Case(with_part(NODE, "container", rdma_devices=UNKNOWN)),
        Case(with_part(NODE, "container", rdma_devices=())),
    ),
    "lxd-roce": (Case(NODE), Case(changed(NODE, nics=NODE.nics[:8]))),  # type: ignore[index]
    "network-host": (Case(NODE), Case(BLANK)),
    "network-unknown": (Case(BLANK), Case(NODE)),
    "gdrcopy": (
        Case(with_part(NODE, "software", modules=("gdrdrv",))),
        Case(with_part(NODE, "software", modules=())),
    ),
    "imex": (
        Case(with_part(NODE, "software", imex_channels=1)),
        Case(with_part(NODE, "software", imex_channels=0)),
    ),
    "imex-unknown": (
        Case(with_part(of_model("NVIDIA GB200"), "software", imex_channels=UNKNOWN)),
        Case(with_part(NODE, "software", imex_channels=UNKNOWN)),
    ),
    "nccl-conf": (
        Case(variable("NCCL_DEBUG", "WARN", "/etc/nccl.conf")),
        Case(variable("NCCL_DEBUG", "WARN")),
    ),
    "topology-file": (Case(TOPOLOGY), Case(QUIET_VIRTUAL)),
    "topology-azure": (Case(AZURE), Case(TOPOLOGY)),
    "topology-unknown": (Case(QUIET_VIRTUAL), Case(AZURE)),
    "inside-container": (Case(with_part(NODE, "container", runtime="docker")), Case(NODE)),
    "privileged": (Case(NODE), Case(NODE)),
}
ALWAYS = ("shm", "stack", "privileged")
"""Rows of containers that fire on every machine."""

TWO_NODES = (
    NumaNode(index=0, cpus="0-55,112-167", memory_bytes=1024 * GIB, is_gpu_memory=False),
    NumaNode(index=1, cpus="56-111,168-223", memory_bytes=1024 * GIB, is_gpu_memory=False),
)
NUMA = with_part(changed(NODE, numa_nodes=TWO_NODES), "cpu", threads_per_core=2, logical_cpus=224)
ONE_NUMA = changed(NUMA, numa_nodes=TWO_NODES[:1])
FOUR = tuple(
    NumaNode(index=index, cpus=f"{16 * index}-{16 * index + 15}", memory_bytes=256 * GIB)
    for index in range(4)
)
GRACE = (*TWO_NODES, *(NumaNode(index=index, cpus="", is_gpu_memory=True) for index in range(2, 10)))
NO_THREADS = with_part(NUMA, "cpu", threads_per_core=UNKNOWN, physical_cores=UNKNOWN)
BLANK_MEMORY = changed(
    NUMA, numa_nodes=(TWO_NODES[0], msgspec.structs.replace(TWO_NODES[1], memory_bytes=UNKNOWN))
)

KUBELET: dict[str, tuple[Case, Case]] = {
    "numa-unknown": (Case(BLANK), Case(NUMA)),
    "api": (Case(NUMA), Case(BLANK)),
    "cpu-static": (Case(NUMA), Case(BLANK)),
    "cpu-full-cores": (Case(NUMA), Case(with_part(NUMA, "cpu", threads_per_core=1))),
    "threads-unknown": (Case(NO_THREADS), Case(NUMA)),
    "reserved-cpus": (Case(NUMA), Case(NO_THREADS)),
    "reserved-unknown": (Case(NO_THREADS), Case(NUMA)),
    "one-node": (Case(ONE_NUMA), Case(NUMA)),
    "single-node": (Case(with_gpus(NUMA, numa_node=1)), Case(NUMA)),
    "best-effort": (Case(NUMA), Case(with_gpus(NUMA, numa_node=1))),
    "gpus-unknown": (Case(changed(NUMA, gpus=UNKNOWN)), Case(NUMA)),
    "no-gpu": (Case(changed(NUMA, gpus=())), Case(NUMA)),
    "scope": (Case(NUMA), Case(ONE_NUMA)),
    "closest": (Case(changed(NUMA, numa_nodes=FOUR)), Case(NUMA)),
    "many-nodes": (Case(changed(NUMA, numa_nodes=GRACE)), Case(NUMA)),
    "memory-static": (Case(NUMA), Case(BLANK_MEMORY)),
    "memory-none": (Case(changed(NUMA, numa_nodes=GRACE)), Case(NUMA)),
    "memory-unknown": (Case(BLANK_MEMORY), Case(NUMA)),
    "apply": (Case(NUMA), Case(BLANK)),
    "pods": (Case(NUMA), Case(BLANK)),
    "virtual": (Case(changed(NUMA, container=VIRTUAL.container)), Case(NUMA)),
}

ROCE = changed(
    NODE,
    nics=tuple(
        storage_port(
            index,
            rate_gbps=400.0,
            netdev=f"eth{index}",
            mtu=4096,
            traffic_class=0,
            gids=(Gid(index=3, gid="00", kind="RoCE v2", address="10.0.0.1"),),
        )
        for index in range(8)
    ),
    environment=(),
)
EFA = with_nics(ROCE, device_type="efa")
STATED = {"dscp": 26, "priority": 3}


def roce_with(name: str, value: str) -> MachineFacts:
    return changed(ROCE, environment=variable(name, value).environment)


NETWORK: dict[str, tuple[Case, Case]] = {
    "one-machine": (Case(ROCE, {"nodes": 1}), Case(ROCE, {"nodes": 2})),
    "nics-unknown": (Case(BLANK), Case(NODE)),
    "mode-unknown": (Case(with_nics(NODE, link_layer=UNKNOWN)), Case(NODE)),
    "ports-unknown": (Case(with_nics(NODE, state=UNKNOWN, netdev_up=UNKNOWN)), Case(NODE)),
    "no-port-up": (Case(with_nics(NODE, state="DOWN", netdev_up=False)), Case(NODE)),
    "infiniband": (Case(NODE), Case(ROCE)),
    "efa": (Case(EFA), Case(ROCE)),
    "plain-ethernet": (Case(BARE_BOX), Case(ROCE)),
    "roce-lossless": (Case(ROCE), Case(NODE)),
    "dscp-stated": (Case(ROCE, STATED), Case(ROCE)),
    "dscp-forced": (Case(with_nics(ROCE, traffic_class=106)), Case(ROCE)),
    "dscp-environment": (Case(roce_with("NCCL_IB_TC", "106")), Case(ROCE)),
    "dscp-differs": (Case(with_nics(ROCE, "mlx5_1", traffic_class=106)), Case(ROCE)),
    "dscp-mismatch": (
        Case(roce_with("NCCL_IB_TC", "41"), STATED),
        Case(roce_with("NCCL_IB_TC", "106"), STATED),
    ),
    "dscp-invalid": (Case(roce_with("NCCL_IB_TC", "300")), Case(roce_with("NCCL_IB_TC", "106"))),
    "dscp-unknown": (Case(ROCE), Case(ROCE, STATED)),
    "host-mlx": (Case(ROCE), Case(with_nics(ROCE, netdev=UNKNOWN))),
    "host-other": (
        Case(changed(ROCE, nics=(storage_port(0, name="bnxt_re0", device_type="bnxt_re", netdev="eth0"),))),
        Case(ROCE),
    ),
    "netdev-unknown": (Case(with_nics(ROCE, netdev=UNKNOWN)), Case(ROCE)),
    "counters": (Case(ROCE), Case(NODE)),
    "mtu-small": (Case(with_nics(ROCE, mtu=1024)), Case(ROCE)),
    "mtu-unknown": (Case(with_nics(ROCE, mtu=UNKNOWN)), Case(ROCE)),
    "mtu-full": (Case(ROCE), Case(with_nics(ROCE, mtu=1024))),
    "gids-missing": (Case(with_nics(ROCE, gids=())), Case(ROCE)),
}

CASES: dict[Subject, dict[str, tuple[Case, Case]]] = {
    "hardware": HARDWARE,
    "mig": MIG,
    "container": CONTAINER,
    "kubelet": KUBELET,
    "network": NETWORK,
}
