"""Small machines as facts: a healthy 8 x H100 node, and a machine without GPUs.

Tests take one of them and change what they need.
"""

from __future__ import annotations

from typing import Any

import msgspec

from probes.base.record import EvidenceRef, Reason, Unknown
from probes.base.units import GIB
from probes.catalogue.hardware import Catalogue, GpuModel
from probes.facts import (
    Cloud,
    Container,
    Cpu,
    Fabric,
    Filesystem,
    Gid,
    Gpu,
    GpuLimits,
    GpuMemoryHealth,
    Interface,
    Limits,
    Link,
    MachineFacts,
    Memory,
    Naming,
    Nic,
    NumaNode,
    NvLink,
    PciDevice,
    PcieLink,
    PeerAccess,
    Scheduler,
    Software,
    TrainingPython,
    counts,
    states,
)
from probes.judging.findings import Evidence
from tests.support.healthy_host import CLOCK, KERNEL, POWER
from tests.support.machines_pci import healthy_tree

H100 = GpuModel(
    id="h100-sxm",
    title="H100 SXM 80 GB",
    checked=True,
    driver_name="NVIDIA H100 80GB HBM3",
    form="sxm",
    architecture="hopper",
    compute_capability="9.0",
    memory_bytes=80 * GIB,
    peak_flops_per_s={"bf16": 989e12},
    memory_bandwidth_bytes_per_s=3.35e12,
    nvlink_count=18,
    nvlink_bandwidth_bytes_per_s=25e9,
    pcie_generation=5,
    source="test",
    date="2026-01",
)
A100_PCIE = msgspec.structs.replace(
    H100,
    id="a100-pcie",
    title="A100 PCIe",
    driver_name="NVIDIA A100 80GB PCIe",
    nvlink_count=12,
    nvlink_bridge=True,
)
L40S = msgspec.structs.replace(
    H100, id="l40s", title="L40S", driver_name="NVIDIA L40S", form="", nvlink_count=0
)
A800 = msgspec.structs.replace(
    H100, id="a800-sxm", title="A800 SXM", driver_name="NVIDIA A800-SXM4-80GB", nvlink_count=8
)
CATALOGUE = Catalogue(gpus=(H100, A100_PCIE, A800, L40S))


NO_RETIREMENT = Unknown(Reason.NOT_SUPPORTED, "[N/A]")
"""Retired pages of GPUs since Ampere, which remap rows instead of retiring pages."""


def healthy_link(index: int) -> NvLink:
    """Return an NVLink that is up and has counted no error."""
    return NvLink(
        index=index,
        active=True,
        bandwidth_bytes_per_s=26.562e9,
        remote="switch",
        replay_errors=0,
        recovery_errors=0,
        crc_errors=0,
    )


def h100(index: int, **changes: Any) -> Gpu:
    """Return GPU `index` of the healthy node."""
    bus = ("19", "3b", "4c", "5d", "9b", "bb", "cb", "db")[index % 8]
    gpu = Gpu(
        index=index,
        name="NVIDIA H100 80GB HBM3",
        uuid=f"GPU-{index:08d}",
        serial=f"16500000000{index:02d}",
        memory_bytes=81559 * 2**20,
        memory_used_bytes=4 * 2**20,
        pci_bus_id=f"0000:{bus}:00.0",
        driver_version="550.54.15",
        vbios_version="96.00.89.00.01",
        gsp_firmware_version="550.54.15",
        inforom_version="G520.0200.00.05",
        inforom_valid=True,
        compute_capability="9.0",
        pcie=PcieLink(generation=5, generation_max=5, width=16, width_max=16),
        pcie_replays=0,
        numa_node=index // 4,
        cpu_affinity="0-55,112-167" if index < 4 else "56-111,168-223",
        nvlinks=tuple(healthy_link(n) for n in range(18)),
        fabric_state="completed",
        fabric=Fabric(
            status="success", clique_id=0, cluster_uuid="00000000-0000-0000-0000-000000000000", health=()
        ),
        recovery_action="none",
        virtualization="none",
        persistence_mode=True,
        compute_mode="default",
        confidential_compute=False,
        mig_enabled=False,
        mig_pending=False,
        mig_devices=(),
        ecc_enabled=True,
        ecc_corrected_volatile=0,
        ecc_uncorrected_volatile=0,
        row_remap_pending=False,
        row_remap_failed=False,
        memory_health=GpuMemoryHealth(
            ecc_pending=True,
            corrected_aggregate=0,
            uncorrected_aggregate=0,
            sram_uncorrected_volatile=0,
            sram_uncorrected_aggregate=0,
            sram_threshold_exceeded=False,
            remapped_rows_corrected=0,
            remapped_rows_uncorrected=0,
            remap_banks=counts({"max": 3200, "high": 0, "partial": 0, "low": 0, "none": 0}),
            retired_pages_single_bit=NO_RETIREMENT,
            retired_pages_double_bit=NO_RETIREMENT,
            retired_pages_pending=NO_RETIREMENT,
        ),
        temperature_c=31,
        power_w=70.0,
        power_limit_w=700.0,
        power_limit_default_w=700.0,
        sm_clock_mhz=345,
        sm_clock_max_mhz=1980,
        throttle_reasons=("gpu_idle",),
        limits=GpuLimits(
            temperature_margin_c=56,
            temperature_slowdown_c=-2,
            memory_temperature_c=40,
            memory_temperature_max_c=95,
            application_sm_clock_mhz=1980,
            application_sm_clock_default_mhz=1980,
            performance_state="P0",
            fan_percent=Unknown(Reason.NOT_SUPPORTED, "[N/A]"),
            violations_us=counts(
                {"sw_power_cap": 4_000_000, "sw_thermal_slowdown": 0, "hw_thermal_slowdown": 0}
            ),
        ),
        utilization_percent=0,
        processes=(),
        evidence=(EvidenceRef(source="command", key="nvidia-smi -q -x"),),
    )
    return msgspec.structs.replace(gpu, **changes)


PORT_COUNTERS = (
    "symbol_error",
    "link_error_recovery",
    "link_downed",
    "port_rcv_errors",
    "port_xmit_discards",
    "rnr_nak_retry_err",
)


def ndr_port(index: int, **changes: Any) -> Nic:
    """Return InfiniBand port `index` of the healthy node."""
    nic = Nic(
        name=f"mlx5_{index}",
        link_layer="InfiniBand",
        state="ACTIVE",
        physical_state="LinkUp",
        rate_gbps=400.0,
        lanes=4,
        speed="NDR",
        device_type="MT4129",
        firmware_version="28.39.1002",
        board_id="MT_0000000838",
        node_guid=f"946d:ae03:0012:{index:04x}",
        port_guid=f"946d:ae03:0012:{index:04x}",
        lid=10 + index,
        sm_lid=1,
        mtu=4096,
        mtu_max=4096,
        gids=(Gid(index=0, gid=f"fe80:0000:0000:0000:946d:ae03:0012:{index:04x}", kind="IB"),),
        pkeys=("0xffff",),
        counters=counts(dict.fromkeys(PORT_COUNTERS, 0)),
        pre_fec_bit_error_rate=1e-8,
        bit_error_rate=0.0,
        advice=None,
        pci_bus_id=f"0000:{0x1A + 16 * index:02x}:00.0",
        numa_node=index // 4,
        pcie=PcieLink(generation=5, generation_max=5, width=16, width_max=16),
        netdev=f"ibs{index}",
        netdev_up=True,
        has_verbs_device=True,
        is_virtual_function=False,
        evidence=(EvidenceRef(source="file", key=f"/sys/class/infiniband/mlx5_{index}/ports/1/state"),),
    )
    return msgspec.structs.replace(nic, **changes)


def storage_port(index: int, **changes: Any) -> Nic:
    """Return an Ethernet port for storage."""
    own = {"link_layer": "Ethernet", "rate_gbps": 100.0, "device_type": "MT4125", "board_id": "MT_0000000359"}
    roce = {"traffic_class": 0, "counters": counts(dict.fromkeys((*PORT_COUNTERS, "roce_slow_restart"), 0))}
    return ndr_port(index, **{**own, **roce, **changes})


def h100_node(**changes: Any) -> MachineFacts:
    """Return a healthy node with eight H100, eight NDR ports and a storage port; `changes` replace fields."""
    gpus = tuple(h100(index) for index in range(8))
    pairs = [(a, b) for a in range(8) for b in range(a + 1, 8)]
    between = [Link(a=f"GPU{a}", b=f"GPU{b}", kind="NVLINK", nvlink_count=18) for a, b in pairs]
    rails = [Link(a=f"GPU{g}", b=f"mlx5_{n}", kind=_distance(g, n)) for g in range(8) for n in range(8)]
    storage = [Link(a=f"GPU{g}", b="mlx5_8", kind="NODE" if g < 4 else "SYS") for g in range(8)]
    facts = MachineFacts(
        hostname="node17",
        source="live",
        gpus=gpus,
        pci_gpus=tuple(str(gpu.pci_bus_id) for gpu in gpus),
        accelerators=(),
        pci_devices=(
            *healthy_tree(
                tuple(str(gpu.pci_bus_id) for gpu in gpus),
                tuple(str(ndr_port(index).pci_bus_id) for index in range(9)),
            ),
            *(PciDevice(bus_id=f"0000:{0x83 + index:02x}:00.0", kind="nvswitch") for index in range(4)),
        ),
        nics=(*(ndr_port(index) for index in range(8)), storage_port(8)),
        links=(*between, *rails, *storage),
        peer_access=tuple(
            PeerAccess(a=f"GPU{a}", b=f"GPU{b}", capability="read", status="OK") for a, b in pairs
        ),
        diagnoses=(),
        tool_results=(),
        interfaces=(
            Interface(
                name="eno1",
                up=True,
                speed_gbps=25.0,
                mtu=1500,
                addresses=("10.1.0.17",),
                is_virtual=False,
                is_default_route=True,
                bond=None,
                bond_members=None,
                carrier_changes=2,
            ),
            Interface(
                name="docker0",
                up=False,
                addresses=("172.17.0.1",),
                is_virtual=True,
                is_default_route=False,
                bond=None,
                bond_members=None,
                carrier_changes=2,
            ),
        ),
        naming=Naming(addresses=("10.1.0.17",)),
        fabric_ports=(),
        fabric_switches=(),
        cpu=Cpu(
            model="Intel(R) Xeon(R) Platinum 8480C",
            architecture="x86_64",
            sockets=2,
            physical_cores=112,
            logical_cpus=224,
            allowed_cpus=224,
            governor="performance",
            flags=("avx512f", "amx_bf16"),
        ),
        numa_nodes=(
            NumaNode(index=0, cpus="0-55,112-167", memory_bytes=1007 * GIB),
            NumaNode(index=1, cpus="56-111,168-223", memory_bytes=1008 * GIB),
        ),
        memory=Memory(
            total_bytes=2015 * GIB, available_bytes=1990 * GIB, limit_bytes=None, swap_total_bytes=0
        ),
        kernel=KERNEL,
        clock=CLOCK,
        power=POWER,
        environment=(),
        limits=Limits(
            memlock_bytes="unlimited",
            nofile=1048576,
            stack_bytes=8 * 2**20,
            shm_bytes=1007 * GIB,
            shm_free_bytes=1007 * GIB,
            processes=8252000,
            core_bytes=0,
            evidence=(EvidenceRef(source="file", key="/proc/self/limits"),),
        ),
        software=Software(
            operating_system="Ubuntu 22.04.4 LTS",
            kernel="5.15.0-91-generic",
            driver_version="550.54.15",
            driver_open_module=True,
            driver_library_version="550.54.15",
            cuda_driver_version="12.4",
            cuda_toolkit_version="12.4",
            nccl_version=None,
            mpi_version="4.1.2",
            slurm_version=None,
            fabric_manager="active",
            fabric_manager_version="550.54.15",
            imex=None,
            peermem_loaded=False,
            modules=("ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib", "nvidia", "nvidia_uvm"),
            services=states({"nvidia-fabricmanager": "active", "nvidia-persistenced": "active"}),
            nccl_plugins=(),
            nccl_libraries=(),
        ),
        training=TrainingPython(
            path="/opt/train/bin/python",
            found_by="--python",
            python_version="3.11.9",
            torch_version="2.6.0+cu124",
            torch_cuda_version="12.4",
            nccl_version="2.21.5",
        ),
        storage=(
            Filesystem(
                mount="/",
                device="/dev/nvme0n1p2",
                kind="ext4",
                total_bytes=1800 * GIB,
                free_bytes=1200 * GIB,
                read_only=False,
            ),
            Filesystem(
                mount="/raid",
                device="/dev/md0",
                kind="xfs",
                total_bytes=28000 * GIB,
                free_bytes=20000 * GIB,
                read_only=False,
            ),
        ),
        container=Container(
            runtime=None,
            virtualization=None,
            annotations=(),
            nvidia_devices=("nvidia-uvm", "nvidiactl", *(f"nvidia{index}" for index in range(8))),
        ),
        cloud=Cloud(provider=None, machine_type=None),
        scheduler=Scheduler(
            kind=None, job_id=None, node_count=None, version=None, settings=(), gpus_of_node=None
        ),
        events=(),
        logs=("kernel-log", "nccl-log", "fabric-manager-log"),
    )
    return msgspec.structs.replace(facts, **changes)


def cpu_box(**changes: Any) -> MachineFacts:
    """Return a healthy virtual machine without GPU and RDMA."""
    facts = msgspec.structs.replace(
        h100_node(),
        hostname="laptop",
        gpus=(),
        pci_gpus=(),
        pci_devices=(),
        nics=(),
        links=(),
        cpu=Cpu(
            model="AMD EPYC 7R13",
            architecture="x86_64",
            sockets=1,
            physical_cores=2,
            logical_cpus=4,
            allowed_cpus=4,
            governor="performance",
            flags=("avx2",),
        ),
        numa_nodes=(NumaNode(index=0, cpus="0-3"),),
        memory=Memory(total_bytes=15 * GIB, available_bytes=12 * GIB, limit_bytes=None, swap_total_bytes=0),
        software=Software(
            operating_system="Debian GNU/Linux 12", kernel="6.1.0", driver_version=None, nccl_version=None
        ),
        training=TrainingPython(
            path="/opt/train/bin/python",
            found_by="--python",
            python_version="3.11.9",
            torch_version="2.6.0+cpu",
            torch_cuda_version=None,
            nccl_version=None,
        ),
        container=Container(runtime=None, virtualization="kvm", annotations=()),
    )
    return msgspec.structs.replace(facts, **changes)


def evidence_of(facts: MachineFacts, catalogue: Catalogue = CATALOGUE) -> Evidence:
    return Evidence(facts=facts, catalogue=catalogue)


def with_gpus(facts: MachineFacts, *indexes: int, **changes: Any) -> MachineFacts:
    """Return `facts` with `changes` on the GPUs at `indexes`, or on all of them."""
    assert isinstance(facts.gpus, tuple)
    chosen = indexes or tuple(gpu.index for gpu in facts.gpus)
    gpus = tuple(
        msgspec.structs.replace(gpu, **changes) if gpu.index in chosen else gpu for gpu in facts.gpus
    )
    return msgspec.structs.replace(facts, gpus=gpus)


def with_nics(facts: MachineFacts, *names: str, **changes: Any) -> MachineFacts:
    """Return `facts` with `changes` on the ports called `names`, or on all of them."""
    assert isinstance(facts.nics, tuple)
    chosen = names or tuple(nic.name for nic in facts.nics)
    nics = tuple(msgspec.structs.replace(nic, **changes) if nic.name in chosen else nic for nic in facts.nics)
    return msgspec.structs.replace(facts, nics=nics)


def with_part(facts: MachineFacts, part: str, **changes: Any) -> MachineFacts:
    """Return `facts` with `changes` in one of its records: `limits`, `cpu`, `software`, `training` ..."""
    return msgspec.structs.replace(facts, **{part: msgspec.structs.replace(getattr(facts, part), **changes)})


def _distance(gpu: int, nic: int) -> str:
    if gpu == nic:
        return "PIX"
    return "NODE" if gpu // 4 == nic // 4 else "SYS"
