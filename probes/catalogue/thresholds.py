"""The limits that checks hold facts against. Each is a data row with its source and date; none is a literal
in code.
"""

from __future__ import annotations

import functools

import msgspec

from probes.base.record import EvidenceRef, StrictRecord
from probes.base.rows import read_rows
from probes.base.versions import numbers_of


class Cited(StrictRecord, kw_only=True):
    """A row that says who states it and when it was read."""

    source: str
    date: str

    @property
    def ref(self) -> EvidenceRef:
        return EvidenceRef(source="rule", key=self.source, detail=self.date)


class Number(Cited, kw_only=True):
    """A limit; the unit is in the name of the field that holds it."""

    value: float


class Version(Cited, kw_only=True):
    """A version from which on, or up to which, something holds."""

    value: str


class Names(Cited, kw_only=True):
    """A list of names that a check treats alike."""

    value: tuple[str, ...]


class ThrottleReason(Cited, kw_only=True):
    """A clock event reason that costs training speed. Reasons without a row are normal operation."""

    name: str
    severe: bool
    """True where hardware protects itself; False where the driver lowers clocks in a controlled way."""
    meaning: str
    remedy: str


class ViolationLimit(Cited, kw_only=True):
    """How many seconds a cause may have held the clocks down since the driver was loaded."""

    name: str
    """As in `GpuLimits.violations_us`."""
    value: float
    meaning: str


class CudaDriver(Cited, kw_only=True):
    """The oldest driver that runs programs built for a CUDA major version."""

    cuda_major: int
    driver: str


class CudaArchitecture(Cited, kw_only=True):
    """The CUDA versions whose compilers know a GPU architecture."""

    compute_capability: str
    """`7.5`, or a major version alone for all of its minors."""
    cuda_first: str
    cuda_last: str | None = None
    """The last major version of CUDA with it; None while it is supported."""


class CounterLimit(Cited, kw_only=True):
    """How much a port's counter may show. Counters run since the driver was loaded or they were cleared, so
    that small numbers are history.
    """

    name: str
    """Of sysfs."""
    value: int


class NcclArchitecture(Cited, kw_only=True):
    """The first NCCL with support for a GPU architecture."""

    compute_capability: str
    """The major version: `9`."""
    nccl: str


class NcclFault(Cited, kw_only=True):
    """Versions of NCCL with a fault that ends or hangs jobs, both included."""

    first: str
    last: str
    meaning: str


class Thresholds(StrictRecord, kw_only=True):
    """All limits, by name."""

    memlock_minimum_bytes: Number
    memlock_recommended_bytes: Number
    shm_minimum_bytes: Number
    shm_recommended_bytes: Number
    nofile_minimum: Number
    nofile_recommended: Number
    disk_used_warn_fraction: Number
    disk_used_fail_fraction: Number
    gpu_memory_in_use_bytes: Number
    pcie_width_minimum_fraction: Number
    pcie_replays_most: Number
    pcie_correctable_errors_most: Number
    pcie_read_request_minimum_bytes: Number
    pcie_read_request_rate_gbps: Number
    arm_passthrough_kernel: Version
    nvlink_rate_minimum_fraction: Number
    nvlink_counter_end: Number
    geforce_peer_access_fixed: Version
    nccl_stack_fixed: Version
    nccl_mig_fixed: Version
    dma_buf_kernel: Version
    machine_checks_corrected_maximum: Number
    read_only_filesystems: Names
    close_link_kinds: Names
    throttle_reasons: tuple[ThrottleReason, ...]
    gpu_memory_full_fraction: Number
    gpu_memory_peer_fraction: Number
    ecc_corrected_most: Number
    sram_uncorrected_most: Number
    rows_remapped_most: Number
    retired_pages_warn: Number
    retired_pages_most: Number
    temperature_margin_warn_c: Number
    temperature_plausible_c: Number
    temperature_spread_c: Number
    equal_load_fraction: Number
    fan_needed_c: Number
    application_clock_drift_mhz: Number
    idle_utilization_percent: Number
    idle_power_fraction: Number
    spinning_sm_percent: Number
    spinning_memory_percent: Number
    violation_limits: tuple[ViolationLimit, ...]
    raw_bit_error_rate: Number
    effective_bit_error_rate: Number
    rdma_mtu_minimum_bytes: Number
    carrier_changes: Number
    link_downs_logged: Number
    port_counters: tuple[CounterLimit, ...]
    cuda_drivers: tuple[CudaDriver, ...]
    cuda_architectures: tuple[CudaArchitecture, ...]
    process_limit_minimum: Number
    port_range_minimum: Number
    somaxconn_minimum: Number
    uptime_minimum_s: Number
    zombies_maximum: Number
    free_blocks_minimum: Number
    memory_available_minimum_fraction: Number
    memory_errors_corrected_per_day: Number
    numa_memory_spread: Number
    host_power_per_socket_w: Number
    nccl_architectures: tuple[NcclArchitecture, ...]
    nccl_faults: tuple[NcclFault, ...]
    nccl_sockets_most: Number
    cuda_connections_architecture: Version
    roce_headers_bytes: Number
    measured_fail_fraction: Number
    measured_warn_fraction: Number
    peer_difference_fraction: Number
    earlier_difference_fraction: Number
    sustained_drop_fraction: Number
    scaling_warn_fraction: Number

    def cuda_driver(self, cuda_version: str) -> CudaDriver | None:
        """The driver row for a CUDA version such as `12.4`."""
        major = numbers_of(cuda_version)[:1]
        return next((row for row in self.cuda_drivers if (row.cuda_major,) == major), None)

    def cuda_architecture(self, compute_capability: str) -> CudaArchitecture | None:
        """The row for `9.0`: an exact one before one for the major version."""
        major = compute_capability.partition(".")[0]
        rows = {row.compute_capability: row for row in self.cuda_architectures}
        return rows.get(compute_capability) or rows.get(major)


@functools.lru_cache(maxsize=1)
def load_thresholds() -> Thresholds:
    """The rows shipped with rigtune, from `probes/data/thresholds.toml`."""
    return msgspec.convert(read_rows("thresholds"), Thresholds)
