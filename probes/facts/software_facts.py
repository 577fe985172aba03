"""Facts of the software: driver, libraries, services, the training interpreter, container, cloud, batch
system.
"""

from __future__ import annotations

from probes.base.record import NOT_RECORDED, EvidenceRef, Record, Unknown
from probes.facts.named import State


class Library(Record, kw_only=True):
    """A shared library that the loader finds."""

    path: str
    version: str | Unknown = NOT_RECORDED
    found_by: str = ""
    """`LD_PRELOAD`, `LD_LIBRARY_PATH` or `system`."""


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
    driver_library_version: str | Unknown | None = NOT_RECORDED
    """Of the library in user space; it must equal the module's."""
    fabric_manager_version: str | Unknown | None = NOT_RECORDED
    gdrcopy_version: str | Unknown | None = NOT_RECORDED
    ofed_version: str | Unknown | None = NOT_RECORDED
    dcgm_version: str | Unknown | None = NOT_RECORDED
    libfabric_version: str | Unknown | None = NOT_RECORDED
    container_toolkit_version: str | Unknown | None = NOT_RECORDED
    modules: tuple[str, ...] | Unknown = NOT_RECORDED
    """Loaded kernel modules, with underscores: those of NVIDIA, RDMA, EFA and their helpers."""
    services: tuple[State, ...] | Unknown = NOT_RECORDED
    """State by unit for the services that matter: `active`, `inactive`, `failed`; absent units are left
    out.
    """
    imex: str | Unknown | None = NOT_RECORDED
    """State of the IMEX domain: `UP`, `DOWN`, `DEGRADED`; None where IMEX is not installed."""
    imex_channels: int | Unknown = NOT_RECORDED
    """Channel devices that this process sees."""
    nccl_plugins: tuple[str, ...] | Unknown = NOT_RECORDED
    """Network and tuner plugins that NCCL would find, by path."""
    nccl_libraries: tuple[Library, ...] | Unknown = NOT_RECORDED
    """Every libnccl that the loader would find by itself, in the order in which it looks."""
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
    refused: tuple[str, ...] | Unknown = NOT_RECORDED
    """Interpreters that others could have written, with the reason and what to do. They come before `path` in
    the order.
    """
    evidence: tuple[EvidenceRef, ...] = ()


class Container(Record, kw_only=True):
    """What this process runs in. `runtime` is None on a host."""

    runtime: str | Unknown | None = NOT_RECORDED
    """`docker`, `podman`, `kubernetes`, `enroot`, `lxc`, `wsl` ..."""
    virtualization: str | Unknown | None = NOT_RECORDED
    """Hypervisor, None on bare metal."""
    capabilities: tuple[str, ...] | Unknown = NOT_RECORDED
    """Effective ones, in lower case without `cap_`: `ipc_lock`, `sys_nice` ..."""
    seccomp: bool | Unknown = NOT_RECORDED
    rdma_devices: tuple[str, ...] | Unknown = NOT_RECORDED
    """Names in /dev/infiniband."""
    nvidia_devices: tuple[str, ...] | Unknown = NOT_RECORDED
    """Names in /dev that begin with nvidia."""
    annotations: tuple[State, ...] | Unknown = NOT_RECORDED
    """Signs of a proxy that intercepts traffic (Istio, Linkerd)."""
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
    version: str | Unknown | None = NOT_RECORDED
    settings: tuple[State, ...] | Unknown = NOT_RECORDED
    """Settings of the batch system that decide about GPUs, CPUs and limits: `ProctrackType`,
    `PropagateResourceLimits` ...
    """
    gpus_of_node: int | Unknown | None = NOT_RECORDED
    """GPUs that the scheduler believes this node to have."""
    evidence: tuple[EvidenceRef, ...] = ()


class EnvironmentVariable(Record, kw_only=True):
    """A variable that steers training, and who sets it."""

    name: str
    value: str
    origin: str
    """`environment`, or the configuration file that sets it: `/etc/nccl.conf`."""
    is_effective: bool = True
    """False where another origin of higher rank sets it too."""
    evidence: tuple[EvidenceRef, ...] = ()
