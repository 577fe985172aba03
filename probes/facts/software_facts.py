"""Facts of the software: driver, libraries, services, interpreter, container, cloud, batch system."""

from probes.base.record import NOT_RECORDED, EvidenceRef, Record, Unknown
from probes.facts.named import State


class Library(Record, kw_only=True):
    """A shared library that the loader selects."""

    path: str
    version: str | Unknown = NOT_RECORDED
    found_by: str = ""
    """Origin: `LD_PRELOAD`, `LD_LIBRARY_PATH` or `system`."""


class Software(Record, kw_only=True):
    """Versions of installed software; None means that rigtune looked for the software and it is not
    installed.
    """

    operating_system: str | Unknown = NOT_RECORDED
    kernel: str | Unknown = NOT_RECORDED
    driver_version: str | Unknown | None = NOT_RECORDED
    driver_open_module: bool | Unknown = NOT_RECORDED
    cuda_driver_version: str | Unknown = NOT_RECORDED
    """The newest CUDA that the driver supports: `12.8`."""
    cuda_toolkit_version: str | Unknown | None = NOT_RECORDED
    nccl_version: str | Unknown | None = NOT_RECORDED
    """NCCL that is installed for the whole system; torch usually contains its own NCCL."""
    mpi_version: str | Unknown | None = NOT_RECORDED
    slurm_version: str | Unknown | None = NOT_RECORDED
    fabric_manager: str | Unknown | None = NOT_RECORDED
    """State of the service: `active`, `inactive` ...; None if not installed."""
    peermem_loaded: bool | Unknown = NOT_RECORDED
    """True if the nvidia_peermem module is loaded."""
    driver_library_version: str | Unknown | None = NOT_RECORDED
    """Version of the library in user space, which must equal the version of the module."""
    fabric_manager_version: str | Unknown | None = NOT_RECORDED
    gdrcopy_version: str | Unknown | None = NOT_RECORDED
    ofed_version: str | Unknown | None = NOT_RECORDED
    dcgm_version: str | Unknown | None = NOT_RECORDED
    libfabric_version: str | Unknown | None = NOT_RECORDED
    container_toolkit_version: str | Unknown | None = NOT_RECORDED
    modules: tuple[str, ...] | Unknown = NOT_RECORDED
    """Loaded kernel modules of NVIDIA, RDMA, EFA and their helpers, with underscores."""
    services: tuple[State, ...] | Unknown = NOT_RECORDED
    """State of each relevant systemd unit: `active`, `inactive`, `failed`; absent units are left out."""
    imex: str | Unknown | None = NOT_RECORDED
    """State of the IMEX domain: `UP`, `DOWN`, `DEGRADED`; None if IMEX is not installed."""
    imex_channels: int | Unknown = NOT_RECORDED
    """Channel devices that are visible to this process."""
    nccl_plugins: tuple[str, ...] | Unknown = NOT_RECORDED
    """Paths of the network and tuner plugins that NCCL would load."""
    nccl_network: str | Unknown = NOT_RECORDED
    """Network that NCCL chose in a job, from a log of this machine: `IB`, `Socket`, `AWS Libfabric`."""
    nccl_libraries: tuple[Library, ...] | Unknown = NOT_RECORDED
    """Every libnccl on the loader's search path, in search order."""
    evidence: tuple[EvidenceRef, ...] = ()


class TrainingPython(Record, kw_only=True):
    """The interpreter for training. Its properties are read from files, without starting it."""

    path: str | Unknown | None = NOT_RECORDED
    """Path of the interpreter; None if no candidate has torch."""
    found_by: str = ""
    """Origin: `--python`, `VIRTUAL_ENV`, `CONDA_PREFIX`, `./.venv`, `rigtune's own` or `PATH`."""
    python_version: str | Unknown = NOT_RECORDED
    torch_version: str | Unknown | None = NOT_RECORDED
    torch_cuda_version: str | Unknown | None = NOT_RECORDED
    """CUDA version that torch was built for; None for a build without CUDA."""
    nccl_version: str | Unknown | None = NOT_RECORDED
    """The NCCL that is part of torch."""
    refused: tuple[str, ...] | Unknown = NOT_RECORDED
    """Candidates before `path` that are not safe to start, for example because other users can write them.

    Each entry contains the reason and the fix.
    """
    evidence: tuple[EvidenceRef, ...] = ()


class Container(Record, kw_only=True):
    """The container or virtual machine around this process. `runtime` is None on a host."""

    runtime: str | Unknown | None = NOT_RECORDED
    """Runtime: `docker`, `podman`, `kubernetes`, `enroot`, `lxc`, `wsl` ..."""
    virtualization: str | Unknown | None = NOT_RECORDED
    """Hypervisor; None on bare metal."""
    capabilities: tuple[str, ...] | Unknown = NOT_RECORDED
    """Effective capabilities, in lower case without `cap_`: `ipc_lock`, `sys_nice` ..."""
    seccomp: bool | Unknown = NOT_RECORDED
    rdma_devices: tuple[str, ...] | Unknown = NOT_RECORDED
    """Names in /dev/infiniband."""
    nvidia_devices: tuple[str, ...] | Unknown = NOT_RECORDED
    """Names in /dev that begin with nvidia."""
    annotations: tuple[State, ...] | Unknown = NOT_RECORDED
    """Evidence of a proxy that intercepts traffic (Istio, Linkerd)."""
    evidence: tuple[EvidenceRef, ...] = ()


class Cloud(Record, kw_only=True):
    """The provider and machine type; None outside a known cloud."""

    provider: str | Unknown | None = NOT_RECORDED
    machine_type: str | Unknown | None = NOT_RECORDED
    files: tuple[str, ...] | Unknown = NOT_RECORDED
    """Paths of the cloud's NCCL plugins and topology files that exist."""
    evidence: tuple[EvidenceRef, ...] = ()


class Scheduler(Record, kw_only=True):
    """The batch system around this process. `kind` is None outside a job."""

    kind: str | Unknown | None = NOT_RECORDED
    job_id: str | Unknown | None = NOT_RECORDED
    node_count: int | Unknown | None = NOT_RECORDED
    version: str | Unknown | None = NOT_RECORDED
    settings: tuple[State, ...] | Unknown = NOT_RECORDED
    """Settings of the batch system that affect GPUs, CPUs and limits, such as `ProctrackType`."""
    gpus_of_node: int | Unknown | None = NOT_RECORDED
    """Number of GPUs that the scheduler assumes for this node."""
    evidence: tuple[EvidenceRef, ...] = ()


class EnvironmentVariable(Record, kw_only=True):
    """A variable that affects training, and its origin."""

    name: str
    value: str
    origin: str
    """Origin: `environment`, or the configuration file: `/etc/nccl.conf`."""
    is_effective: bool = True
    """False if an origin with higher priority sets the variable too."""
    evidence: tuple[EvidenceRef, ...] = ()
