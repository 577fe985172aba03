"""Facts of a GPU. Every field is a value or an `Unknown`; an empty tuple means "there are none"."""

from probes.base.record import NOT_RECORDED, EvidenceRef, Record, Unknown, value_or
from probes.facts.named import Count

UNNUMBERED = -1
"""Index of a GPU in a text that does not number GPUs as NVML does; the collector replaces this value."""


class PcieLink(Record, kw_only=True):
    """The present PCIe link of a device, and the fastest link that is possible."""

    generation: int | Unknown = NOT_RECORDED
    """Current generation. Checks judge the generation only under load, because an idle GPU lowers it."""
    generation_max: int | Unknown = NOT_RECORDED
    width: int | Unknown = NOT_RECORDED
    width_max: int | Unknown = NOT_RECORDED


class NvLink(Record, kw_only=True):
    """An NVLink port of a GPU. Error counters begin when the driver is loaded."""

    index: int
    """Port number.

    `UNNUMBERED` if a text describes several ports without numbers ("all links are inactive").
    """
    active: bool | Unknown
    bandwidth_bytes_per_s: float | Unknown = NOT_RECORDED
    """Bandwidth in one direction."""
    remote: str | Unknown = NOT_RECORDED
    """The other end: `switch`, or the PCI bus id of a GPU."""
    disabled: bool | Unknown = NOT_RECORDED
    """True if the link was disabled on purpose (`X` in dcgmi); False for a link that is down for other
    reasons.
    """
    replay_errors: int | Unknown = NOT_RECORDED
    recovery_errors: int | Unknown = NOT_RECORDED
    crc_errors: int | Unknown = NOT_RECORDED


class GpuProcess(Record, kw_only=True):
    """A process that computes on a GPU. Programs that only use graphics are not listed."""

    pid: int
    name: str | Unknown = NOT_RECORDED
    memory_bytes: int | Unknown = NOT_RECORDED
    sm_percent: int | Unknown = NOT_RECORDED
    """Share of the time with a running kernel, from `nvidia-smi pmon`."""
    memory_percent: int | Unknown = NOT_RECORDED
    """Share of the time with memory traffic, from `nvidia-smi pmon`."""


class MigDevice(Record, kw_only=True):
    """A MIG slice of a GPU."""

    profile: str | Unknown = NOT_RECORDED
    """Profile name: `3g.40gb`, `1c.3g.40gb`."""
    uuid: str | Unknown = NOT_RECORDED
    memory_bytes: int | Unknown = NOT_RECORDED


class Fabric(Record, kw_only=True):
    """A GPU's view of the NVLink fabric behind its switches."""

    status: str | Unknown = NOT_RECORDED
    """Result of the registration: `success`, or the driver's error text."""
    clique_id: int | Unknown = NOT_RECORDED
    cluster_uuid: str | Unknown = NOT_RECORDED
    health: tuple[str, ...] | Unknown = NOT_RECORDED
    """Raised flags of the health mask; empty if no flag is raised.

    The flags are `degraded_bandwidth`, `route_recovery`, `route_unhealthy`, `access_timeout` and
    `incorrect_configuration`.
    """


class GpuMemoryHealth(Record, kw_only=True):
    """Error counts and repairs of GPU memory.

    `volatile` counts begin when the driver is loaded; `aggregate` counts cover the life of the board.
    """

    ecc_pending: bool | Unknown = NOT_RECORDED
    """The ECC mode after the next reset."""
    corrected_aggregate: int | Unknown = NOT_RECORDED
    uncorrected_aggregate: int | Unknown = NOT_RECORDED
    sram_uncorrected_volatile: int | Unknown = NOT_RECORDED
    sram_uncorrected_aggregate: int | Unknown = NOT_RECORDED
    sram_threshold_exceeded: bool | Unknown = NOT_RECORDED
    """True if the driver reports that the board needs to be replaced."""
    remapped_rows_corrected: int | Unknown = NOT_RECORDED
    remapped_rows_uncorrected: int | Unknown = NOT_RECORDED
    remap_banks: tuple[Count, ...] | Unknown = NOT_RECORDED
    """Number of memory banks by the spare rows that remain: `max`, `high`, `partial`, `low`, `none`."""
    retired_pages_single_bit: int | Unknown = NOT_RECORDED
    retired_pages_double_bit: int | Unknown = NOT_RECORDED
    retired_pages_pending: bool | Unknown = NOT_RECORDED
    repair_pending: bool | Unknown = NOT_RECORDED
    """True if a memory channel or a TPC is repaired at the next reset; drivers from 580 on."""
    unrepairable: bool | Unknown = NOT_RECORDED
    """True if the driver reports that memory is beyond repair; drivers from 590 on."""

    @property
    def retired_pages(self) -> int:
        """Number of retired pages; an unknown count is added as 0."""
        return value_or(self.retired_pages_single_bit, 0) + value_or(self.retired_pages_double_bit, 0)


class GpuLimits(Record, kw_only=True):
    """Limits that may reduce the clocks of a GPU, and the current values."""

    temperature_margin_c: int | Unknown = NOT_RECORDED
    """T.Limit, on Hopper and newer: degrees that remain until the clocks are reduced."""
    temperature_slowdown_c: int | Unknown = NOT_RECORDED
    """Temperature at which clocks are reduced.

    On GPUs that report T.Limit, the value of T.Limit at this point (-2).
    """
    temperature_shutdown_c: int | Unknown = NOT_RECORDED
    temperature_max_operating_c: int | Unknown = NOT_RECORDED
    memory_temperature_c: int | Unknown = NOT_RECORDED
    memory_temperature_max_c: int | Unknown = NOT_RECORDED
    power_limit_requested_w: float | Unknown = NOT_RECORDED
    power_limit_max_w: float | Unknown = NOT_RECORDED
    memory_clock_mhz: int | Unknown = NOT_RECORDED
    memory_clock_max_mhz: int | Unknown = NOT_RECORDED
    application_sm_clock_mhz: int | Unknown = NOT_RECORDED
    application_sm_clock_default_mhz: int | Unknown = NOT_RECORDED
    performance_state: str | Unknown = NOT_RECORDED
    """Performance state, from `P0` (fastest) to `P12`."""
    fan_percent: int | Unknown = NOT_RECORDED
    """Fan speed.

    The value is Unknown (error) if the sensor fails, and Unknown (not supported) on boards that the server
    cools.
    """
    violations_us: tuple[Count, ...] | Unknown = NOT_RECORDED
    """Time during which clocks were reduced since the driver was loaded, by NVML's reason in lower case."""


class Gpu(Record, kw_only=True):
    """A GPU as the driver reports it."""

    index: int
    name: str | Unknown = NOT_RECORDED
    uuid: str | Unknown = NOT_RECORDED
    serial: str | Unknown = NOT_RECORDED
    memory_bytes: int | Unknown = NOT_RECORDED
    memory_used_bytes: int | Unknown = NOT_RECORDED
    pci_bus_id: str | Unknown = NOT_RECORDED
    """Address in lower case with a four-digit domain, like in sysfs: `0000:1b:00.0`."""
    pci_device_id: str | Unknown = NOT_RECORDED
    """Vendor and device in lower case hex: `10de:2330`."""
    driver_version: str | Unknown = NOT_RECORDED
    hung_call: str | None = None
    """Description of the driver call that did not return for this GPU; None if every call returned."""
    vbios_version: str | Unknown = NOT_RECORDED
    gsp_firmware_version: str | Unknown = NOT_RECORDED
    inforom_version: str | Unknown = NOT_RECORDED
    inforom_valid: bool | Unknown = NOT_RECORDED
    compute_capability: str | Unknown = NOT_RECORDED
    pcie: PcieLink = PcieLink()
    pcie_replays: int | Unknown = NOT_RECORDED
    numa_node: int | Unknown | None = NOT_RECORDED
    """NUMA node; None if the platform reports no node (-1 in sysfs)."""
    cpu_affinity: str | Unknown = NOT_RECORDED
    """CPU list in the kernel's notation: `0-51,104-155`."""
    nvlinks: tuple[NvLink, ...] | Unknown = NOT_RECORDED
    fabric_state: str | Unknown = NOT_RECORDED
    """Fabric state: `completed`, `in progress`, `not started` or `not supported`."""
    fabric: Fabric = Fabric()
    recovery_action: str | Unknown = NOT_RECORDED
    """Action that the driver requests: `none`, `gpu reset`, `node reboot`, `drain p2p`, `drain and reset` ...
    """
    virtualization: str | Unknown = NOT_RECORDED
    """Virtualization mode: `none`, `pass-through`, `vgpu` ..."""
    persistence_mode: bool | Unknown = NOT_RECORDED
    compute_mode: str | Unknown = NOT_RECORDED
    """Compute mode: `default`, `exclusive process` or `prohibited`."""
    confidential_compute: bool | Unknown = NOT_RECORDED
    mig_enabled: bool | Unknown = NOT_RECORDED
    mig_pending: bool | Unknown = NOT_RECORDED
    """The MIG mode after the next reset."""
    mig_devices: tuple[MigDevice, ...] | Unknown = NOT_RECORDED
    mig_profiles: tuple[MigDevice, ...] | Unknown = NOT_RECORDED
    """MIG profiles that the model supports, from a description of the model."""
    ecc_enabled: bool | Unknown = NOT_RECORDED
    ecc_corrected_volatile: int | Unknown = NOT_RECORDED
    ecc_uncorrected_volatile: int | Unknown = NOT_RECORDED
    row_remap_pending: bool | Unknown = NOT_RECORDED
    row_remap_failed: bool | Unknown = NOT_RECORDED
    memory_health: GpuMemoryHealth = GpuMemoryHealth()
    temperature_c: int | Unknown = NOT_RECORDED
    power_w: float | Unknown = NOT_RECORDED
    power_limit_w: float | Unknown = NOT_RECORDED
    power_limit_default_w: float | Unknown = NOT_RECORDED
    sm_clock_mhz: int | Unknown = NOT_RECORDED
    sm_clock_max_mhz: int | Unknown = NOT_RECORDED
    throttle_reasons: tuple[str, ...] | Unknown = NOT_RECORDED
    """Active clock event reasons by NVML's names in lower case: `sw_power_cap`, `hw_thermal_slowdown` ..."""
    limits: GpuLimits = GpuLimits()
    utilization_percent: int | Unknown = NOT_RECORDED
    processes: tuple[GpuProcess, ...] | Unknown = NOT_RECORDED
    failed_queries: tuple[str, ...] | Unknown = NOT_RECORDED
    """Queries, by nvidia-smi's names, that the driver answered with an error such as `GPU is lost`."""
    evidence: tuple[EvidenceRef, ...] = ()
