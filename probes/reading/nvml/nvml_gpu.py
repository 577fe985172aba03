"""Read a GPU from NVML and sysfs, with the health of its memory, limits, fabric and NVLinks.

Field ids and constants come from nvml.h, NVML 13.
"""

from collections.abc import Sequence

import msgspec

from probes.base.record import (
    NOT_RECORDED,
    Reason,
    Unknown,
    file_ref,
    first_unknown,
    items_of,
    map_known,
    nvml_ref,
    quoted,
)
from probes.facts import Count, Fabric, Gpu, GpuLimits, GpuMemoryHealth, NvLink, PcieLink, counts
from probes.parsers.nvidia_smi.nvidia_words import RECOVERY_ACTIONS, VIRTUALIZATION_MODES, fabric_health
from probes.reading.nvidia import nvlinks
from probes.reading.nvml.device import Device, flag, item, member, named, watts, whole_of
from probes.reading.pci import DEVICES, cpu_affinity, numa_node
from probes.sources.base import NvmlValue, Source

_ECC_CORRECTED_AGGREGATE, _ECC_UNCORRECTED_AGGREGATE = 5, 6
_RETIRED_SINGLE, _RETIRED_DOUBLE, _RETIRED_PENDING = 29, 30, 31
_MEMORY_TEMPERATURE = 82
_PCIE_REPLAYS = 94
_POWER_MAX, _POWER_REQUESTED = 188, 192
_SHUTDOWN, _SLOWDOWN, _GPU_MAX = 193, 194, 196
_RESET, _DRAIN, _RECOVERY = 226, 227, 230
_VIOLATIONS = {
    74: "sw_power_cap",
    76: "sync_boost",
    269: "sw_thermal_slowdown",
    270: "hw_thermal_slowdown",
    271: "hw_power_brake_slowdown",
}
"""Clock event reason whose total time each field counts, in nanoseconds."""
_FIELDS = (
    _ECC_CORRECTED_AGGREGATE,
    _ECC_UNCORRECTED_AGGREGATE,
    _RETIRED_SINGLE,
    _RETIRED_DOUBLE,
    _RETIRED_PENDING,
    _MEMORY_TEMPERATURE,
    _PCIE_REPLAYS,
    _POWER_MAX,
    _POWER_REQUESTED,
    _SHUTDOWN,
    _SLOWDOWN,
    _GPU_MAX,
    _RESET,
    _DRAIN,
    _RECOVERY,
    *_VIOLATIONS,
)
"""Fields that one call reads of each GPU."""

_BANKS = ("max", "high", "partial", "low", "none")
_LINK_COUNTERS = {161: "replay_errors", 162: "recovery_errors", 163: "crc_errors"}
"""NVML_FI_DEV_NVLINK_ERROR_DL_*; the scope is the number of the link."""
_SCOPE_SHIFT = 16
"""The same number as in `probes/sources/nvml_child.py`."""
_CLOCK_GRAPHICS, _CLOCK_MEMORY = 0, 2
_THRESHOLD_SHUTDOWN, _THRESHOLD_SLOWDOWN, _THRESHOLD_MEMORY, _THRESHOLD_GPU = 0, 1, 2, 3
_UNCORRECTED, _VOLATILE, _AGGREGATE, _SRAM = 1, 0, 1, 7
_SUCCESS = 0
_CLOCK_SM = 1
_TEMPERATURE_GPU = 0
_CORRECTED = 0
_COMPUTE_MODES = {0: "default", 1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}
_FABRIC_STATES = {0: "not supported", 1: "not started", 2: "in progress", 3: "completed"}
_CORRUPTED = "corrupted"
_NO_INSTANCES = Unknown(Reason.NOT_SUPPORTED, "NVML returns the instances only as handles")
_NOT_STATED = Unknown(Reason.NOT_SUPPORTED, "GPUs with a thermal margin report no such temperature")


def read_gpu(
    source: Source, index: int, bus_ids: Sequence[str | Unknown], driver_version: str | Unknown
) -> Gpu:
    """Return the values of NVML about device `index` that rigtune uses, and its place from sysfs.

    `bus_ids` are the addresses of all GPUs.
    """
    device = Device(source, index)
    address = bus_ids[index]
    memory = device.ask("nvmlDeviceGetMemoryInfo")
    remapped = device.ask("nvmlDeviceGetRemappedRows")
    mig, ecc = device.ask("nvmlDeviceGetMigMode"), device.ask("nvmlDeviceGetEccMode")
    fields = device.fields(*_FIELDS)
    net = device.fabric_info()
    places = [nvml_ref(f"nvmlDeviceGet*({index})")]
    places += [] if isinstance(address, Unknown) else [file_ref(f"{DEVICES}/{address}")]
    gpu = Gpu(
        index=index,
        name=device.text("nvmlDeviceGetName"),
        uuid=device.text("nvmlDeviceGetUUID"),
        serial=device.text("nvmlDeviceGetSerial"),
        memory_bytes=whole_of(member(memory, "total")),
        memory_used_bytes=whole_of(member(memory, "used")),
        pci_bus_id=address,
        pci_device_id=_device_id(member(device.ask("nvmlDeviceGetPciInfo"), "pciDeviceId")),
        driver_version=driver_version,
        vbios_version=device.text("nvmlDeviceGetVbiosVersion"),
        gsp_firmware_version=device.text("nvmlDeviceGetGspFirmwareVersion"),
        inforom_version=device.text("nvmlDeviceGetInforomImageVersion"),
        inforom_valid=_inforom_valid(device.ask("nvmlDeviceGetInforomConfigurationChecksum")),
        compute_capability=device.compute_capability(),
        pcie=PcieLink(
            generation=device.whole("nvmlDeviceGetCurrPcieLinkGeneration"),
            generation_max=device.whole("nvmlDeviceGetMaxPcieLinkGeneration"),
            width=device.lanes("nvmlDeviceGetCurrPcieLinkWidth"),
            width_max=device.lanes("nvmlDeviceGetMaxPcieLinkWidth"),
        ),
        pcie_replays=fields[_PCIE_REPLAYS],
        numa_node=numa_node(source, address),
        cpu_affinity=cpu_affinity(source, address),
        nvlinks=_with_errors(device, nvlinks(source, index, bus_ids)),
        fabric_state=named(member(net, "state"), _FABRIC_STATES),
        fabric=_fabric(net),
        recovery_action=_recovery_action(fields),
        virtualization=named(device.ask("nvmlDeviceGetVirtualizationMode"), VIRTUALIZATION_MODES),
        persistence_mode=flag(device.ask("nvmlDeviceGetPersistenceMode")),
        compute_mode=named(device.ask("nvmlDeviceGetComputeMode"), _COMPUTE_MODES),
        confidential_compute=flag(member(source.nvml("nvmlSystemGetConfComputeState"), "ccFeature")),
        mig_enabled=flag(item(mig, 0)),
        mig_pending=flag(item(mig, 1)),
        mig_devices=() if item(mig, 0) == 0 else _NO_INSTANCES,
        ecc_enabled=flag(item(ecc, 0)),
        ecc_corrected_volatile=device.whole("nvmlDeviceGetTotalEccErrors", _CORRECTED, _VOLATILE),
        ecc_uncorrected_volatile=device.whole("nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _VOLATILE),
        row_remap_pending=flag(item(remapped, 2)),
        row_remap_failed=flag(item(remapped, 3)),
        memory_health=_memory_health(device, fields, ecc, remapped),
        temperature_c=device.whole("nvmlDeviceGetTemperature", _TEMPERATURE_GPU),
        power_w=device.watts("nvmlDeviceGetPowerUsage"),
        power_limit_w=device.watts("nvmlDeviceGetEnforcedPowerLimit"),
        power_limit_default_w=device.watts("nvmlDeviceGetPowerManagementDefaultLimit"),
        sm_clock_mhz=device.whole("nvmlDeviceGetClockInfo", _CLOCK_SM),
        sm_clock_max_mhz=device.whole("nvmlDeviceGetMaxClockInfo", _CLOCK_SM),
        throttle_reasons=device.throttle_reasons(),
        limits=_limits(device, fields),
        utilization_percent=whole_of(member(device.ask("nvmlDeviceGetUtilizationRates"), "gpu")),
        processes=device.processes(),
        evidence=tuple(places),
    )
    # A device that hung in an earlier call does not answer this last call either.
    last = device.ask("nvmlDeviceGetMinorNumber")
    if isinstance(last, Unknown) and last.reason is Reason.TIMEOUT:
        return msgspec.structs.replace(gpu, hung_call=last.detail)
    return gpu


def _device_id(number: NvmlValue | Unknown) -> str | Unknown:
    """Return `10de:2330` for 0x233010DE."""
    return map_known(whole_of(number), lambda value: f"{value & 0xFFFF:04x}:{value >> 16 & 0xFFFF:04x}")


def _inforom_valid(checksum: NvmlValue | Unknown) -> bool | Unknown:
    """Return False if NVML reports a corrupted InfoROM, and True if it returns a checksum."""
    if isinstance(checksum, Unknown):
        return False if _CORRUPTED in checksum.detail.lower() else checksum
    return True


def _memory_health(
    device: Device, fields: dict[int, int | Unknown], ecc: NvmlValue | Unknown, remapped: NvmlValue | Unknown
) -> GpuMemoryHealth:
    """Return error counts, spare rows and retired pages of the GPU's memory."""
    sram = device.ask("nvmlDeviceGetSramEccErrorStatus")
    return GpuMemoryHealth(
        ecc_pending=flag(item(ecc, 1)),
        corrected_aggregate=fields[_ECC_CORRECTED_AGGREGATE],
        uncorrected_aggregate=fields[_ECC_UNCORRECTED_AGGREGATE],
        sram_uncorrected_volatile=_sram(device, sram, "volatile", _VOLATILE),
        sram_uncorrected_aggregate=_sram(device, sram, "aggregate", _AGGREGATE),
        sram_threshold_exceeded=flag(member(sram, "bThresholdExceeded")),
        remapped_rows_corrected=whole_of(item(remapped, 0)),
        remapped_rows_uncorrected=whole_of(item(remapped, 1)),
        remap_banks=_banks(device.ask("nvmlDeviceGetRowRemapperHistogram")),
        retired_pages_single_bit=fields[_RETIRED_SINGLE],
        retired_pages_double_bit=fields[_RETIRED_DOUBLE],
        retired_pages_pending=flag(fields[_RETIRED_PENDING]),
    )


def _sram(device: Device, status: NvmlValue | Unknown, period: str, counter: int) -> int | Unknown:
    """Return the uncorrectable SRAM errors; drivers before 550 have one counter for both kinds."""
    parity = whole_of(member(status, f"{period}UncParity"))
    secded = whole_of(member(status, f"{period}UncSecDed"))
    if isinstance(parity, Unknown) or isinstance(secded, Unknown):
        return device.whole("nvmlDeviceGetMemoryErrorCounter", _UNCORRECTED, counter, _SRAM)
    return parity + secded


def _banks(histogram: NvmlValue | Unknown) -> tuple[Count, ...] | Unknown:
    banks = {name: whole_of(member(histogram, name)) for name in _BANKS}
    return first_unknown(*banks.values()) or _known_counts(banks)


def _known_counts(values: dict[str, int | Unknown]) -> tuple[Count, ...]:
    return counts({name: value for name, value in values.items() if not isinstance(value, Unknown)})


def _limits(device: Device, fields: dict[int, int | Unknown]) -> GpuLimits:
    """Return temperatures, power limits and clocks, and for how long each limit reduced the clocks.

    For GPUs that report a thermal margin (T.Limit), the temperature limits are values of this margin, because
    absolute temperatures are misleading.
    """
    margin = device.whole("nvmlDeviceGetMarginTemperature")
    state = device.whole("nvmlDeviceGetPerformanceState")
    has_margin = not isinstance(margin, Unknown) and not isinstance(fields[_SLOWDOWN], Unknown)
    return GpuLimits(
        temperature_margin_c=margin,
        temperature_slowdown_c=fields[_SLOWDOWN] if has_margin else device.threshold(_THRESHOLD_SLOWDOWN),
        temperature_shutdown_c=fields[_SHUTDOWN] if has_margin else device.threshold(_THRESHOLD_SHUTDOWN),
        temperature_max_operating_c=fields[_GPU_MAX] if has_margin else device.threshold(_THRESHOLD_GPU),
        memory_temperature_c=fields[_MEMORY_TEMPERATURE],
        memory_temperature_max_c=_NOT_STATED if has_margin else device.threshold(_THRESHOLD_MEMORY),
        power_limit_requested_w=watts(fields[_POWER_REQUESTED]),
        power_limit_max_w=watts(fields[_POWER_MAX]),
        memory_clock_mhz=device.whole("nvmlDeviceGetClockInfo", _CLOCK_MEMORY),
        memory_clock_max_mhz=device.whole("nvmlDeviceGetMaxClockInfo", _CLOCK_MEMORY),
        application_sm_clock_mhz=device.whole("nvmlDeviceGetApplicationsClock", _CLOCK_GRAPHICS),
        application_sm_clock_default_mhz=device.whole(
            "nvmlDeviceGetDefaultApplicationsClock", _CLOCK_GRAPHICS
        ),
        performance_state=map_known(state, lambda number: f"P{number}"),
        fan_percent=device.whole("nvmlDeviceGetFanSpeed"),
        violations_us=_violations(fields),
    )


def _violations(fields: dict[int, int | Unknown]) -> tuple[Count, ...] | Unknown:
    times_us = {
        name: map_known(fields[id_], lambda time_ns: time_ns // 1000) for id_, name in _VIOLATIONS.items()
    }
    return _known_counts(times_us) or first_unknown(*times_us.values()) or NOT_RECORDED


def _recovery_action(fields: dict[int, int | Unknown]) -> str | Unknown:
    """Return the action that the driver requests; drivers 535 to 560 have two flags instead."""
    action = fields[_RECOVERY]
    if not isinstance(action, Unknown):
        return RECOVERY_ACTIONS.get(action, f"action {action}")
    reset, drain = fields[_RESET], fields[_DRAIN]
    if isinstance(reset, Unknown):
        return action
    if reset:
        return "gpu reset"
    return "drain and reset" if not isinstance(drain, Unknown) and drain else "none"


def _fabric(info: NvmlValue | Unknown) -> Fabric:
    """Return the state of the NVLink fabric; a driver without the newer call reports no health."""
    status = whole_of(member(info, "status"))
    mask = whole_of(member(info, "healthMask"))
    if isinstance(info, dict) and "healthMask" not in info:
        mask = Unknown(Reason.NOT_SUPPORTED, "this driver reports no health")
    return Fabric(
        status=map_known(status, lambda code: "success" if code == _SUCCESS else f"error {code}"),
        clique_id=whole_of(member(info, "cliqueId")),
        cluster_uuid=_uuid(member(info, "clusterUuid")),
        health=map_known(mask, fabric_health),
    )


def _uuid(numbers: NvmlValue | Unknown) -> str | Unknown:
    if isinstance(numbers, Unknown):
        return numbers
    if not isinstance(numbers, list) or len(numbers) != 16:
        return Unknown(Reason.UNPARSABLE, f"clusterUuid: {quoted(str(numbers))}")
    digits = "".join(
        f"{number:02x}" if isinstance(number, int) and 0 <= number < 256 else "00" for number in numbers
    )
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _with_errors(device: Device, links: tuple[NvLink, ...] | Unknown) -> tuple[NvLink, ...] | Unknown:
    """Return `links` with their error counters, read in one call for the links that are up."""
    up = [link.index for link in items_of(links) if link.active is True]
    if isinstance(links, Unknown) or not up:
        return links
    ids = {(link, name): id_ + (link << _SCOPE_SHIFT) for link in up for id_, name in _LINK_COUNTERS.items()}
    values = device.fields(*ids.values())
    return tuple(
        msgspec.structs.replace(
            link, **{name: values[ids[link.index, name]] for name in _LINK_COUNTERS.values()}
        )
        if link.index in up
        else link
        for link in links
    )
