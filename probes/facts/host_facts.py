"""Facts of the host: processors, memory, kernel settings, limits, storage."""

from typing import Literal

from probes.base.record import (
    NOT_RECORDED,
    EvidenceRef,
    Reason,
    Record,
    Unknown,
    known,
    map_both,
    map_known,
    value_or,
)


class Cpu(Record, kw_only=True):
    """The processors of the machine, and the part that this process may use."""

    model: str | Unknown = NOT_RECORDED
    architecture: str | Unknown = NOT_RECORDED
    sockets: int | Unknown = NOT_RECORDED
    physical_cores: int | Unknown = NOT_RECORDED
    logical_cpus: int | Unknown = NOT_RECORDED
    allowed_cpus: int | Unknown = NOT_RECORDED
    """CPUs in this process's affinity mask or cgroup."""
    governor: str | Unknown = NOT_RECORDED
    flags: tuple[str, ...] | Unknown = NOT_RECORDED
    """Flags that matter for training: avx2, avx512f, avx512_bf16, amx_bf16, sve ..."""
    threads_per_core: int | Unknown = NOT_RECORDED
    virtualization_flag: bool | Unknown = NOT_RECORDED
    """True if the processor reports a hypervisor."""
    max_mhz: float | Unknown = NOT_RECORDED
    evidence: tuple[EvidenceRef, ...] = ()


class NumaNode(Record, kw_only=True):
    """A NUMA node."""

    index: int
    cpus: str | Unknown = NOT_RECORDED
    memory_bytes: int | Unknown = NOT_RECORDED
    memory_free_bytes: int | Unknown = NOT_RECORDED
    distances: tuple[int, ...] | Unknown = NOT_RECORDED
    """Distance to each node in the order of the nodes, as the firmware states it; the distance to the node
    itself is 10.
    """
    is_gpu_memory: bool | Unknown = NOT_RECORDED
    """True for memory of a GPU that the kernel shows as a NUMA node."""

    @property
    def can_hold_ranks(self) -> bool:
        """Return False for nodes without CPUs, such as CXL memory, and for nodes of GPU memory."""
        return self.cpus != "" and self.is_gpu_memory is not True


class Memory(Record, kw_only=True):
    """Host memory."""

    total_bytes: int | Unknown = NOT_RECORDED
    available_bytes: int | Unknown = NOT_RECORDED
    limit_bytes: int | Unknown | None = NOT_RECORDED
    """Limit of the cgroup; None if there is no limit."""
    swap_total_bytes: int | Unknown = NOT_RECORDED
    hugepages_total: int | Unknown = NOT_RECORDED
    hugepage_bytes: int | Unknown = NOT_RECORDED
    evidence: tuple[EvidenceRef, ...] = ()

    @property
    def available_fraction(self) -> float | Unknown:
        """Share of the memory that is available."""
        no_total = Unknown(Reason.UNPARSABLE, "a total of 0")
        return map_both(
            self.total_bytes,
            self.available_bytes,
            lambda total, available: available / total if total > 0 else no_total,
        )


CALLER = "of the calling process"
Limit = int | Literal["unlimited"] | Unknown


class Limits(Record, kw_only=True):
    """Soft limits of the process in which rigtune runs, limits of a job, and the shared memory."""

    memlock_bytes: Limit = NOT_RECORDED
    nofile: Limit = NOT_RECORDED
    stack_bytes: Limit = NOT_RECORDED
    shm_bytes: int | Unknown = NOT_RECORDED
    shm_free_bytes: int | Unknown = NOT_RECORDED
    processes: Limit = NOT_RECORDED
    core_bytes: Limit = NOT_RECORDED
    job_memlock_bytes: Limit = NOT_RECORDED
    """Limit of locked memory of a job; unknown if only the limit of this process is known."""
    job_nofile: Limit = NOT_RECORDED
    """Limit of open files of a job; unknown if only the limit of this process is known."""
    job_limits_owner: str | Unknown = NOT_RECORDED
    """The process from which a job inherits its limits: `of slurmd, process 812`."""
    evidence: tuple[EvidenceRef, ...] = ()

    @property
    def memlock_for_training(self) -> Limit:
        """Return the limit of locked memory of a job, or that of this process if the job's is unknown."""
        return self.job_memlock_bytes if known(self.job_memlock_bytes) else self.memlock_bytes

    @property
    def nofile_for_training(self) -> Limit:
        """Return the limit of open files of a job, or that of this process if the job's is unknown."""
        return self.job_nofile if known(self.job_nofile) else self.nofile

    @property
    def memlock_owner(self) -> str:
        """Return the process whose limit `memlock_for_training` returns."""
        return value_or(self.job_limits_owner, CALLER) if known(self.job_memlock_bytes) else CALLER

    @property
    def nofile_owner(self) -> str:
        """Return the process whose limit `nofile_for_training` returns."""
        return value_or(self.job_limits_owner, CALLER) if known(self.job_nofile) else CALLER


class Filesystem(Record, kw_only=True):
    """A mounted filesystem that a job may use."""

    mount: str
    device: str | Unknown = NOT_RECORDED
    kind: str | Unknown = NOT_RECORDED
    total_bytes: int | Unknown = NOT_RECORDED
    free_bytes: int | Unknown = NOT_RECORDED
    read_only: bool | Unknown = NOT_RECORDED
    """True if mounted read-only; the kernel remounts a damaged filesystem read-only."""
    evidence: tuple[EvidenceRef, ...] = ()

    @property
    def used_fraction(self) -> float | Unknown:
        """Share of the space that is in use; 0 for a filesystem without space."""
        return map_both(
            self.total_bytes, self.free_bytes, lambda total, free: 1 - free / total if total > 0 else 0.0
        )


class Dmi(Record, kw_only=True):
    """The firmware's description of the machine."""

    system_vendor: str | Unknown = NOT_RECORDED
    product_name: str | Unknown = NOT_RECORDED
    board_name: str | Unknown = NOT_RECORDED
    bios_version: str | Unknown = NOT_RECORDED
    bmc_version: str | Unknown = NOT_RECORDED
    """Firmware of the management controller (BMC): `1.43`."""
    evidence: tuple[EvidenceRef, ...] = ()


_DAY_S = 86400.0


class Sysctl(Record, kw_only=True):
    """A setting of the kernel."""

    name: str
    """Name of the setting, for example `net.core.somaxconn`."""
    value: int | str | Unknown = NOT_RECORDED
    """A whole number, or the text with single blanks."""


class Kernel(Record, kw_only=True):
    """Settings and counters of the kernel."""

    command_line: str | Unknown = NOT_RECORDED
    iommu: str | Unknown = NOT_RECORDED
    """Mode of the IOMMU: `off`, `passthrough` or `translated`."""
    numa_balancing: bool | Unknown = NOT_RECORDED
    transparent_hugepages: str | Unknown = NOT_RECORDED
    """Mode: `always`, `madvise` or `never`."""
    clocksource: str | Unknown = NOT_RECORDED
    uptime_s: float | Unknown = NOT_RECORDED
    free_blocks_1mib: int | Unknown = NOT_RECORDED
    """Number of free blocks of 1 MiB and more in the zone Normal (orders 8 and up with pages of 4 KiB)."""
    memory_errors_corrected: int | Unknown = NOT_RECORDED
    memory_errors_uncorrected: int | Unknown = NOT_RECORDED
    """Errors that the memory controllers could not correct (EDAC), since boot."""
    zombie_processes: int | Unknown = NOT_RECORDED
    blocked_processes: tuple[str, ...] | Unknown = NOT_RECORDED
    """Names of processes in uninterruptible sleep that belong to the GPU driver or to training."""
    load_average: float | Unknown = NOT_RECORDED
    """Load average over one minute."""
    local_port_first: int | Unknown = NOT_RECORDED
    local_port_last: int | Unknown = NOT_RECORDED
    somaxconn: int | Unknown = NOT_RECORDED
    file_max: int | Unknown = NOT_RECORDED
    remove_ipc: bool | Unknown = NOT_RECORDED
    """True if systemd-logind removes the shared memory of a user who logs out."""
    sysctls: tuple[Sysctl, ...] | Unknown = NOT_RECORDED
    """Other settings that are named by data rows of checks or by the policy."""
    evidence: tuple[EvidenceRef, ...] = ()

    @property
    def local_ports(self) -> int | Unknown:
        """Number of ports that a program may use for its connections."""
        return map_both(self.local_port_first, self.local_port_last, lambda first, last: last - first + 1)

    @property
    def memory_errors_corrected_per_day(self) -> float | Unknown:
        """Corrected errors of memory controllers per day since boot.

        During the first day, and if the uptime is unknown, this is the total number of errors.
        """
        days = max(1.0, value_or(self.uptime_s, 0.0) / _DAY_S)
        return map_known(self.memory_errors_corrected, lambda errors: errors / days)


class Clock(Record, kw_only=True):
    """The daemon that synchronises the clock."""

    daemon: str | Unknown | None = NOT_RECORDED
    """Name: `chronyd`, `ntpd`, `systemd-timesyncd` ...; None if no such daemon runs."""
    synchronized: bool | Unknown = NOT_RECORDED
    evidence: tuple[EvidenceRef, ...] = ()


class Naming(Record, kw_only=True):
    """The addresses that belong to the host's own name."""

    addresses: tuple[str, ...] | Unknown = NOT_RECORDED
    """Addresses to which this machine resolves the name.

    If all of them are loopback addresses, other nodes cannot reach this node by its name.
    """
    evidence: tuple[EvidenceRef, ...] = ()


class Power(Record, kw_only=True):
    """Power and alarms that the management controller reports; the firmware states the supplies' capacity."""

    system_w: float | Unknown = NOT_RECORDED
    supply_capacity_w: float | Unknown = NOT_RECORDED
    failed_supplies: tuple[str, ...] | Unknown = NOT_RECORDED
    sensor_alarms: tuple[str, ...] | Unknown = NOT_RECORDED
    """Names of sensors beyond a critical limit."""
    evidence: tuple[EvidenceRef, ...] = ()
