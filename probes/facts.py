"""What a machine is. Every leaf is a value or an `Unknown`; an empty tuple means "there are none".

Field names are the JSON contract of `rigtune probe --format json`.
"""

from __future__ import annotations

from typing import Literal

from probes.record import NOT_RECORDED, EvidenceRef, Record, Unknown

SCHEMA_VERSION = 1

LinkKind = Literal["NVLINK", "PIX", "PXB", "PHB", "NODE", "SYS"]
"""NVLINK, or the PCIe distance: one switch, several switches, host bridge, one NUMA node, across NUMA nodes."""


class PcieLink(Record, kw_only=True):
    """The trained and the possible PCIe link of a device."""

    generation: int | Unknown = NOT_RECORDED
    generation_max: int | Unknown = NOT_RECORDED
    width: int | Unknown = NOT_RECORDED
    width_max: int | Unknown = NOT_RECORDED


class NvLink(Record, kw_only=True):
    """One NVLink port of a GPU."""

    index: int
    active: bool | Unknown
    bandwidth_bytes_per_s: float | Unknown = NOT_RECORDED
    """One direction."""
    remote: str | Unknown = NOT_RECORDED
    """`switch`, or the PCI bus id of the GPU at the other end."""


class GpuProcess(Record, kw_only=True):
    """A process that computes on a GPU. Programs that only draw are not listed."""

    pid: int
    name: str | Unknown = NOT_RECORDED
    memory_bytes: int | Unknown = NOT_RECORDED


class Gpu(Record, kw_only=True):
    """One GPU as the driver shows it."""

    index: int
    name: str | Unknown = NOT_RECORDED
    uuid: str | Unknown = NOT_RECORDED
    memory_bytes: int | Unknown = NOT_RECORDED
    memory_used_bytes: int | Unknown = NOT_RECORDED
    pci_bus_id: str | Unknown = NOT_RECORDED
    """Lower case with a four-digit domain, as in sysfs: `0000:1b:00.0`."""
    driver_version: str | Unknown = NOT_RECORDED
    vbios_version: str | Unknown = NOT_RECORDED
    compute_capability: str | Unknown = NOT_RECORDED
    pcie: PcieLink = PcieLink()
    numa_node: int | Unknown | None = NOT_RECORDED
    """None where the platform states none (-1 in sysfs)."""
    cpu_affinity: str | Unknown = NOT_RECORDED
    """CPU list as the kernel writes it: `0-51,104-155`."""
    nvlinks: tuple[NvLink, ...] | Unknown = NOT_RECORDED
    fabric_state: str | Unknown = NOT_RECORDED
    """`completed`, `in progress`, `not started` or `not supported`."""
    persistence_mode: bool | Unknown = NOT_RECORDED
    compute_mode: str | Unknown = NOT_RECORDED
    """`default`, `exclusive process` or `prohibited`."""
    mig_enabled: bool | Unknown = NOT_RECORDED
    ecc_enabled: bool | Unknown = NOT_RECORDED
    ecc_corrected_volatile: int | Unknown = NOT_RECORDED
    ecc_uncorrected_volatile: int | Unknown = NOT_RECORDED
    row_remap_pending: bool | Unknown = NOT_RECORDED
    row_remap_failed: bool | Unknown = NOT_RECORDED
    temperature_c: int | Unknown = NOT_RECORDED
    power_w: float | Unknown = NOT_RECORDED
    power_limit_w: float | Unknown = NOT_RECORDED
    power_limit_default_w: float | Unknown = NOT_RECORDED
    sm_clock_mhz: int | Unknown = NOT_RECORDED
    sm_clock_max_mhz: int | Unknown = NOT_RECORDED
    throttle_reasons: tuple[str, ...] | Unknown = NOT_RECORDED
    """Active clock event reasons by NVML's names in lower case: `sw_power_cap`, `hw_thermal_slowdown` ..."""
    utilization_percent: int | Unknown = NOT_RECORDED
    processes: tuple[GpuProcess, ...] | Unknown = NOT_RECORDED
    evidence: tuple[EvidenceRef, ...] = ()


class Nic(Record, kw_only=True):
    """One port of an RDMA device (InfiniBand, RoCE, EFA)."""

    name: str
    port: int = 1
    link_layer: str | Unknown = NOT_RECORDED
    """`InfiniBand` or `Ethernet`."""
    state: str | Unknown = NOT_RECORDED
    """Logical state in upper case: `ACTIVE`, `INIT`, `ARMED`, `DOWN`."""
    physical_state: str | Unknown = NOT_RECORDED
    """`LinkUp`, `Polling`, `Disabled` ..."""
    rate_gbps: float | Unknown = NOT_RECORDED
    device_type: str | Unknown = NOT_RECORDED
    firmware_version: str | Unknown = NOT_RECORDED
    pci_bus_id: str | Unknown = NOT_RECORDED
    numa_node: int | Unknown | None = NOT_RECORDED
    pcie: PcieLink = PcieLink()
    netdev: str | Unknown | None = NOT_RECORDED
    evidence: tuple[EvidenceRef, ...] = ()


class Interface(Record, kw_only=True):
    """A network interface of the kernel."""

    name: str
    up: bool | Unknown = NOT_RECORDED
    speed_gbps: float | Unknown = NOT_RECORDED
    mtu: int | Unknown = NOT_RECORDED
    addresses: tuple[str, ...] | Unknown = NOT_RECORDED
    is_virtual: bool | Unknown = NOT_RECORDED
    is_default_route: bool | Unknown = NOT_RECORDED
    evidence: tuple[EvidenceRef, ...] = ()


class Link(Record, kw_only=True):
    """How two devices (GPU0, mlx5_0) reach each other."""

    a: str
    b: str
    kind: LinkKind | Unknown
    nvlink_count: int | None = None
    evidence: tuple[EvidenceRef, ...] = ()


class Cpu(Record, kw_only=True):
    """The processors of the machine, and what of them this process may use."""

    model: str | Unknown = NOT_RECORDED
    architecture: str | Unknown = NOT_RECORDED
    sockets: int | Unknown = NOT_RECORDED
    physical_cores: int | Unknown = NOT_RECORDED
    logical_cpus: int | Unknown = NOT_RECORDED
    allowed_cpus: int | Unknown = NOT_RECORDED
    """CPUs in this process's affinity mask or cgroup."""
    governor: str | Unknown = NOT_RECORDED
    flags: tuple[str, ...] | Unknown = NOT_RECORDED
    """Only those that matter for training: avx2, avx512f, avx512_bf16, amx_bf16, sve ..."""
    evidence: tuple[EvidenceRef, ...] = ()


class NumaNode(Record, kw_only=True):
    """One NUMA node."""

    index: int
    cpus: str | Unknown = NOT_RECORDED
    memory_bytes: int | Unknown = NOT_RECORDED


class Memory(Record, kw_only=True):
    """Host memory."""

    total_bytes: int | Unknown = NOT_RECORDED
    available_bytes: int | Unknown = NOT_RECORDED
    limit_bytes: int | Unknown | None = NOT_RECORDED
    """The cgroup's limit; None where there is none."""
    swap_total_bytes: int | Unknown = NOT_RECORDED
    evidence: tuple[EvidenceRef, ...] = ()


Limit = int | Literal["unlimited"] | Unknown


class Limits(Record, kw_only=True):
    """Soft limits of the process that rigtune runs in, and the shared memory it sees."""

    memlock_bytes: Limit = NOT_RECORDED
    nofile: Limit = NOT_RECORDED
    stack_bytes: Limit = NOT_RECORDED
    shm_bytes: int | Unknown = NOT_RECORDED
    shm_free_bytes: int | Unknown = NOT_RECORDED
    evidence: tuple[EvidenceRef, ...] = ()


class Software(Record, kw_only=True):
    """Versions that decide what can run. None means "looked for and not installed"."""

    operating_system: str | Unknown = NOT_RECORDED
    kernel: str | Unknown = NOT_RECORDED
    driver_version: str | Unknown | None = NOT_RECORDED
    driver_open_module: bool | Unknown = NOT_RECORDED
    cuda_driver_version: str | Unknown = NOT_RECORDED
    """The newest CUDA that the driver supports: `12.8`."""
    cuda_toolkit_version: str | Unknown | None = NOT_RECORDED
    nccl_version: str | Unknown | None = NOT_RECORDED
    """NCCL installed for the whole system; torch usually brings its own."""
    mpi_version: str | Unknown | None = NOT_RECORDED
    slurm_version: str | Unknown | None = NOT_RECORDED
    fabric_manager: str | Unknown | None = NOT_RECORDED
    """`active`, `inactive` ...; None where the service is not installed."""
    peermem_loaded: bool | Unknown = NOT_RECORDED
    """The nvidia_peermem module."""
    evidence: tuple[EvidenceRef, ...] = ()


class TrainingPython(Record, kw_only=True):
    """The interpreter that training runs in, read from its files without starting it."""

    path: str | Unknown | None = NOT_RECORDED
    """None where no candidate has torch."""
    found_by: str = ""
    """`--python`, `VIRTUAL_ENV`, `CONDA_PREFIX`, `./.venv`, `rigtune's own` or `PATH`."""
    python_version: str | Unknown = NOT_RECORDED
    torch_version: str | Unknown | None = NOT_RECORDED
    torch_cuda_version: str | Unknown | None = NOT_RECORDED
    """CUDA that torch was built for; None for a build without."""
    nccl_version: str | Unknown | None = NOT_RECORDED
    """The NCCL that torch brings."""
    evidence: tuple[EvidenceRef, ...] = ()


class Filesystem(Record, kw_only=True):
    """A mounted filesystem that a job may use."""

    mount: str
    device: str | Unknown = NOT_RECORDED
    kind: str | Unknown = NOT_RECORDED
    total_bytes: int | Unknown = NOT_RECORDED
    free_bytes: int | Unknown = NOT_RECORDED
    evidence: tuple[EvidenceRef, ...] = ()


class Container(Record, kw_only=True):
    """What this process runs in. `runtime` is None on a host."""

    runtime: str | Unknown | None = NOT_RECORDED
    """`docker`, `podman`, `kubernetes`, `enroot`, `lxc`, `wsl` ..."""
    virtualization: str | Unknown | None = NOT_RECORDED
    """Hypervisor, None on bare metal."""
    evidence: tuple[EvidenceRef, ...] = ()


class Cloud(Record, kw_only=True):
    """The provider and machine type; None outside a known cloud."""

    provider: str | Unknown | None = NOT_RECORDED
    machine_type: str | Unknown | None = NOT_RECORDED
    evidence: tuple[EvidenceRef, ...] = ()


class Scheduler(Record, kw_only=True):
    """The batch system around this process. `kind` is None outside a job."""

    kind: str | Unknown | None = NOT_RECORDED
    job_id: str | Unknown | None = NOT_RECORDED
    node_count: int | Unknown | None = NOT_RECORDED
    evidence: tuple[EvidenceRef, ...] = ()


class MachineFacts(Record, kw_only=True):
    """Everything that the collectors learned about one machine."""

    schema_version: int = SCHEMA_VERSION
    hostname: str | Unknown = NOT_RECORDED
    source: str = ""
    """Title of the source: live, a recording, a catalogue machine."""
    gpus: tuple[Gpu, ...] | Unknown = NOT_RECORDED
    pci_gpus: tuple[str, ...] | Unknown = NOT_RECORDED
    """Bus ids of the NVIDIA GPUs on the PCI bus, whether or not a driver answers for them."""
    nics: tuple[Nic, ...] | Unknown = NOT_RECORDED
    links: tuple[Link, ...] | Unknown = NOT_RECORDED
    interfaces: tuple[Interface, ...] | Unknown = NOT_RECORDED
    cpu: Cpu = Cpu()
    numa_nodes: tuple[NumaNode, ...] | Unknown = NOT_RECORDED
    memory: Memory = Memory()
    limits: Limits = Limits()
    software: Software = Software()
    training: TrainingPython = TrainingPython()
    storage: tuple[Filesystem, ...] | Unknown = NOT_RECORDED
    container: Container = Container()
    cloud: Cloud = Cloud()
    scheduler: Scheduler = Scheduler()
