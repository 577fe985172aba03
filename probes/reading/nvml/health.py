"""Read a GPU's health from NVML: memory, limits, fabric, NVLink errors.

Field ids are those of nvml.h, NVML 13.
"""

from __future__ import annotations

import msgspec

from probes.base.record import NOT_RECORDED, Reason, Unknown, first_unknown, map_known
from probes.facts import Count, Fabric, GpuLimits, GpuMemoryHealth, NvLink
from probes.parsers.nvidia_smi.nvidia_words import RECOVERY_ACTIONS, fabric_health
from probes.reading.nvml.device import Device, flag, item, member, whole_of
from probes.sources.base import NvmlValue

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
"""Reason for each field; values are in nanoseconds."""
FIELDS = (
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
"""Equal to the value in `probes/sources/nvml_child.py`."""
_CLOCK_GRAPHICS, _CLOCK_MEMORY = 0, 2
_THRESHOLD_SHUTDOWN, _THRESHOLD_SLOWDOWN, _THRESHOLD_MEMORY, _THRESHOLD_GPU = 0, 1, 2, 3
_UNCORRECTED, _VOLATILE, _AGGREGATE, _SRAM = 1, 0, 1, 7
_SUCCESS = 0


def memory_health(
    device: Device, fields: dict[int, int | Unknown], ecc: NvmlValue | Unknown, remapped: NvmlValue | Unknown
) -> GpuMemoryHealth:
    """Return error counts over the board's life, spare rows and retired pages."""
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
        retired_pages_pending=_boolean(fields[_RETIRED_PENDING]),
    )


def _boolean(value: int | Unknown) -> bool | Unknown:
    return map_known(value, lambda value: value != 0)


def _sram(device: Device, status: NvmlValue | Unknown, period: str, counter: int) -> int | Unknown:
    """Return the uncorrectable SRAM errors; drivers before 550 have one counter for both kinds."""
    parity, secded = (
        whole_of(member(status, f"{period}UncParity")),
        whole_of(member(status, f"{period}UncSecDed")),
    )
    if isinstance(parity, Unknown) or isinstance(secded, Unknown):
        return device.whole("nvmlDeviceGetMemoryErrorCounter", _UNCORRECTED, counter, _SRAM)
    return parity + secded


def _banks(histogram: NvmlValue | Unknown) -> tuple[Count, ...] | Unknown:
    counters: list[Count] = []
    for name in _BANKS:
        value = whole_of(member(histogram, name))
        if isinstance(value, Unknown):
            return value
        counters.append(Count(name=name, value=value))
    return tuple(counters)


def limits(device: Device, fields: dict[int, int | Unknown]) -> GpuLimits:
    """Return the limits of the clocks.

    GPUs with a margin are not asked for absolute temperatures, which are misleading there.
    """
    margin = device.whole("nvmlDeviceGetMarginTemperature")
    has_margin = not isinstance(margin, Unknown) and not isinstance(fields[_SLOWDOWN], Unknown)
    return GpuLimits(
        temperature_margin_c=margin,
        temperature_slowdown_c=fields[_SLOWDOWN] if has_margin else device.threshold(_THRESHOLD_SLOWDOWN),
        temperature_shutdown_c=fields[_SHUTDOWN] if has_margin else device.threshold(_THRESHOLD_SHUTDOWN),
        temperature_max_operating_c=fields[_GPU_MAX] if has_margin else device.threshold(_THRESHOLD_GPU),
        memory_temperature_c=fields[_MEMORY_TEMPERATURE],
        memory_temperature_max_c=NOT_STATED if has_margin else device.threshold(_THRESHOLD_MEMORY),
        power_limit_requested_w=_watts(fields[_POWER_REQUESTED]),
        power_limit_max_w=_watts(fields[_POWER_MAX]),
        memory_clock_mhz=device.whole("nvmlDeviceGetClockInfo", _CLOCK_MEMORY),
        memory_clock_max_mhz=device.whole("nvmlDeviceGetMaxClockInfo", _CLOCK_MEMORY),
        application_sm_clock_mhz=device.whole("nvmlDeviceGetApplicationsClock", _CLOCK_GRAPHICS),
        application_sm_clock_default_mhz=device.whole(
            "nvmlDeviceGetDefaultApplicationsClock", _CLOCK_GRAPHICS
        ),
        performance_state=_state(device.whole("nvmlDeviceGetPerformanceState")),
        fan_percent=device.whole("nvmlDeviceGetFanSpeed"),
        violations_us=_violations(fields),
    )


NOT_STATED = Unknown(Reason.NOT_SUPPORTED, "GPUs with a thermal margin state no such temperature")


def _watts(milliwatts: int | Unknown) -> float | Unknown:
    return map_known(milliwatts, lambda milliwatts: milliwatts / 1000)


def _state(number: int | Unknown) -> str | Unknown:
    return map_known(number, lambda number: f"P{number}")


def _violations(fields: dict[int, int | Unknown]) -> tuple[Count, ...] | Unknown:
    values = {name: fields[id_] for id_, name in _VIOLATIONS.items()}
    known = tuple(
        Count(name=name, value=value // 1000)
        for name, value in values.items()
        if not isinstance(value, Unknown)
    )
    return known or first_unknown(*values.values()) or NOT_RECORDED


def recovery_action(fields: dict[int, int | Unknown]) -> str | Unknown:
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


def fabric(info: NvmlValue | Unknown) -> Fabric:
    """Return the state of the NVLink fabric; a driver without the newer call states no health."""
    status = whole_of(member(info, "status"))
    has_mask = isinstance(info, Unknown) or (isinstance(info, dict) and "healthMask" in info)
    mask = (
        whole_of(member(info, "healthMask"))
        if has_mask
        else Unknown(Reason.NOT_SUPPORTED, "this driver states no health")
    )
    return Fabric(
        status=status
        if isinstance(status, Unknown)
        else "success"
        if status == _SUCCESS
        else f"error {status}",
        clique_id=whole_of(member(info, "cliqueId")),
        cluster_uuid=_uuid(member(info, "clusterUuid")),
        health=map_known(mask, fabric_health),
    )


def _uuid(numbers: NvmlValue | Unknown) -> str | Unknown:
    if isinstance(numbers, Unknown):
        return numbers
    if not isinstance(numbers, list) or len(numbers) != 16:
        return Unknown(Reason.UNPARSABLE, f"clusterUuid: {str(numbers)[:60]!r}")
    digits = "".join(
        f"{number:02x}" if isinstance(number, int) and 0 <= number < 256 else "00" for number in numbers
    )
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def link_errors(device: Device, links: tuple[NvLink, ...] | Unknown) -> tuple[NvLink, ...] | Unknown:
    """Return `links` with their error counters, read in one call for the links that are up."""
    up = [] if isinstance(links, Unknown) else [link.index for link in links if link.active is True]
    if isinstance(links, Unknown) or not up:
        return links
    ids = {(link, name): id_ + (link << _SCOPE_SHIFT) for link in up for id_, name in _LINK_COUNTERS.items()}
    values = device.fields(*ids.values())
    return tuple(
        msgspec.structs.replace(
            link,
            replay_errors=values[ids[link.index, "replay_errors"]],
            recovery_errors=values[ids[link.index, "recovery_errors"]],
            crc_errors=values[ids[link.index, "crc_errors"]],
        )
        if link.index in up
        else link
        for link in links
    )
