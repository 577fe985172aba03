"""Table of the places from which each field of a `Gpu` is read; it is shared by nvidia-smi's XML, text and
CSV.

Drivers 418 to 610 use these names; they were collected from recorded outputs. A field is read from the first
of its places that contains a value.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from probes.base.record import NOT_RECORDED, Reason, Unknown
from probes.facts import Fabric, Gpu, GpuLimits, GpuMemoryHealth, PcieLink
from probes.parsers.nvidia_smi.nvidia_words import (
    Reader,
    bus_id,
    compute_mode,
    counted,
    device_id,
    flag,
    is_positive_memory,
    measured,
    memory_bytes,
    printed,
    recovery_action,
    reset_flag,
    switch,
    validity,
    width,
    words,
)

Lookup = Callable[[str], str | None]
"""Function that returns the text at a path or in a column; None if there is no text."""


class FieldRow(NamedTuple):
    """A field of `Gpu` (`limits.fan_percent` for a nested record), its reader, and its places."""

    field: str
    read: Reader
    paths: tuple[str, ...]
    """Paths in XML and text, as `Tree` writes them."""
    columns: tuple[str, ...]
    """Columns of --query-gpu."""


def _row(field: str, read: Reader, paths: str, columns: str = "") -> FieldRow:
    return FieldRow(field, read, tuple(paths.split()), tuple(columns.split()))


_CELSIUS, _WATT, _MHZ, _PERCENT, _COUNT = counted("C"), measured("W"), counted("MHz"), counted("%"), counted()
_POWER = ("gpu_power_readings", "power_readings", "gpu_power_readings/gpu_ceiling_power_limit")
"""Sections that contain power readings, depending on the driver's version."""


def _power(*names: str) -> str:
    return " ".join(f"{section}/{name}" for name in names for section in _POWER)


FIELDS: tuple[FieldRow, ...] = (
    _row("name", printed, "product_name", "name gpu_name"),
    _row("uuid", printed, "uuid gpu_uuid", "uuid gpu_uuid"),
    _row("serial", printed, "serial serial_number", "serial gpu_serial"),
    _row("memory_bytes", memory_bytes, "fb_memory_usage/total", "memory.total"),
    _row("memory_used_bytes", memory_bytes, "fb_memory_usage/used", "memory.used"),
    _row("pci_bus_id", bus_id, "id pci/pci_bus_id pci/bus_id", "pci.bus_id gpu_bus_id"),
    _row("pci_device_id", device_id, "pci/pci_device_id pci/device_id", "pci.device_id"),
    _row("driver_version", printed, "", "driver_version kmd_version driver"),
    _row("vbios_version", printed, "vbios_version", "vbios_version"),
    _row("gsp_firmware_version", printed, "gsp_firmware_version"),
    _row(
        "inforom_version",
        printed,
        "inforom_version/img_version inforom_version/image_version",
        "inforom.img inforom.image",
    ),
    _row("inforom_valid", validity, "", "inforom.checksum_validation"),
    _row("compute_capability", printed, "", "compute_cap"),
    _row(
        "pcie.generation",
        _COUNT,
        "pci/pci_gpu_link_info/pcie_gen/current_link_gen pci/gpu_link_info/pcie_generation/current",
        "pcie.link.gen.current pcie.link.gen.gpucurrent",
    ),
    _row(
        "pcie.generation_max",
        _COUNT,
        "pci/pci_gpu_link_info/pcie_gen/max_link_gen pci/gpu_link_info/pcie_generation/max",
        "pcie.link.gen.max",
    ),
    _row(
        "pcie.width",
        width,
        "pci/pci_gpu_link_info/link_widths/current_link_width pci/gpu_link_info/link_width/current",
        "pcie.link.width.current",
    ),
    _row(
        "pcie.width_max",
        width,
        "pci/pci_gpu_link_info/link_widths/max_link_width pci/gpu_link_info/link_width/max",
        "pcie.link.width.max",
    ),
    _row("pcie_replays", _COUNT, "pci/replay_counter pci/replays_since_reset"),
    _row("fabric_state", words, "fabric/state", "fabric.state"),
    _row("fabric.status", words, "fabric/status", "fabric.status"),
    _row("fabric.clique_id", _COUNT, "fabric/cliqueid", "fabric.cliqueid"),
    _row("fabric.cluster_uuid", words, "fabric/clusteruuid", "fabric.clusteruuid"),
    _row("recovery_action", recovery_action, "gpu_recovery_action", "gpu_recovery_action"),
    _row("virtualization", words, "gpu_virtualization_mode/virtualization_mode"),
    _row("persistence_mode", switch, "persistence_mode", "persistence_mode"),
    _row("compute_mode", compute_mode, "compute_mode", "compute_mode"),
    _row(
        "confidential_compute",
        is_positive_memory,
        "cc_protected_memory_usage/total conf_compute_protected_memory_usage/total",
        "protected_memory.total",
    ),
    _row("mig_enabled", switch, "mig_mode/current_mig mig_mode/current", "mig.mode.current"),
    _row("mig_pending", switch, "mig_mode/pending_mig mig_mode/pending", "mig.mode.pending"),
    _row("ecc_enabled", switch, "ecc_mode/current_ecc ecc_mode/current", "ecc.mode.current"),
    _row("memory_health.ecc_pending", switch, "ecc_mode/pending_ecc ecc_mode/pending", "ecc.mode.pending"),
    _row("ecc_corrected_volatile", _COUNT, "", "ecc.errors.corrected.volatile.total"),
    _row("ecc_uncorrected_volatile", _COUNT, "", "ecc.errors.uncorrected.volatile.total"),
    _row("memory_health.corrected_aggregate", _COUNT, "", "ecc.errors.corrected.aggregate.total"),
    _row("memory_health.uncorrected_aggregate", _COUNT, "", "ecc.errors.uncorrected.aggregate.total"),
    _row("memory_health.sram_uncorrected_volatile", _COUNT, "", "ecc.errors.uncorrected.volatile.sram"),
    _row("memory_health.sram_uncorrected_aggregate", _COUNT, "", "ecc.errors.uncorrected.aggregate.sram"),
    _row(
        "memory_health.sram_threshold_exceeded",
        switch,
        "ecc_errors/aggregate/sram_threshold_exceeded",
        "ecc.errors.uncorrected.aggregate.sram.thresholdexceeded",
    ),
    _row("memory_health.unrepairable", switch, "ecc_errors/unrepairable_memory"),
    _row(
        "row_remap_pending",
        flag,
        "remapped_rows/remapped_row_pending remapped_rows/pending",
        "remapped_rows.pending",
    ),
    _row(
        "row_remap_failed",
        flag,
        "remapped_rows/remapped_row_failure remapped_rows/remapping_failure_occurred",
        "remapped_rows.failure",
    ),
    _row(
        "memory_health.remapped_rows_corrected",
        _COUNT,
        "remapped_rows/remapped_row_corr remapped_rows/correctable_error",
        "remapped_rows.correctable",
    ),
    _row(
        "memory_health.remapped_rows_uncorrected",
        _COUNT,
        "remapped_rows/remapped_row_unc remapped_rows/uncorrectable_error",
        "remapped_rows.uncorrectable",
    ),
    _row(
        "memory_health.retired_pages_single_bit",
        _COUNT,
        "retired_pages/multiple_single_bit_retirement/retired_count retired_pages/single_bit_ecc",
        "retired_pages.single_bit_ecc.count retired_pages.sbe",
    ),
    _row(
        "memory_health.retired_pages_double_bit",
        _COUNT,
        "retired_pages/double_bit_retirement/retired_count retired_pages/double_bit_ecc",
        "retired_pages.double_bit.count retired_pages.dbe",
    ),
    _row(
        "memory_health.retired_pages_pending",
        flag,
        "retired_pages/pending_retirement retired_pages/pending_blacklist"
        " retired_pages/pending_page_blacklist",
        "retired_pages.pending",
    ),
    _row("temperature_c", _CELSIUS, "temperature/gpu_temp temperature/gpu_current_temp", "temperature.gpu"),
    _row(
        "power_w",
        _WATT,
        _power("power_draw", "instant_power_draw", "instantaneous_power_draw", "average_power_draw"),
        "power.draw.instant power.draw power.draw.average",
    ),
    _row(
        "power_limit_w",
        _WATT,
        _power("current_power_limit", "enforced_power_limit", "power_limit"),
        "enforced.power.limit power.limit",
    ),
    _row("power_limit_default_w", _WATT, _power("default_power_limit"), "power.default_limit"),
    _row("limits.power_limit_requested_w", _WATT, _power("requested_power_limit"), "power.limit"),
    _row("limits.power_limit_max_w", _WATT, _power("max_power_limit"), "power.max_limit"),
    _row("sm_clock_mhz", _MHZ, "clocks/sm_clock clocks/sm", "clocks.current.sm clocks.sm"),
    _row("sm_clock_max_mhz", _MHZ, "max_clocks/sm_clock max_clocks/sm", "clocks.max.sm"),
    _row(
        "limits.memory_clock_mhz", _MHZ, "clocks/mem_clock clocks/memory", "clocks.current.memory clocks.mem"
    ),
    _row(
        "limits.memory_clock_max_mhz",
        _MHZ,
        "max_clocks/mem_clock max_clocks/memory",
        "clocks.max.memory clocks.max.mem",
    ),
    _row(
        "limits.application_sm_clock_mhz",
        _MHZ,
        "applications_clocks/graphics_clock applications_clocks/graphics",
        "clocks.applications.graphics clocks.applications.gr",
    ),
    _row(
        "limits.application_sm_clock_default_mhz",
        _MHZ,
        "default_applications_clocks/graphics_clock default_applications_clocks/graphics",
        "clocks.default_applications.graphics clocks.default_applications.gr",
    ),
    _row("limits.performance_state", printed, "performance_state", "pstate"),
    _row("limits.fan_percent", _PERCENT, "fan_speed", "fan.speed"),
    _row(
        "limits.temperature_margin_c",
        _CELSIUS,
        "temperature/gpu_temp_tlimit temperature/gpu_t_limit_temp temperature/gpu_current_t_limit_temp",
        "temperature.gpu.tlimit",
    ),
    _row(
        "limits.temperature_slowdown_c",
        _CELSIUS,
        "temperature/gpu_temp_slow_tlimit_threshold temperature/gpu_slowdown_t_limit_temp"
        " temperature/gpu_temp_slow_threshold temperature/gpu_slowdown_temp",
    ),
    _row(
        "limits.temperature_shutdown_c",
        _CELSIUS,
        "temperature/gpu_temp_max_tlimit_threshold temperature/gpu_shutdown_t_limit_temp"
        " temperature/gpu_temp_max_threshold temperature/gpu_shutdown_temp",
    ),
    _row(
        "limits.temperature_max_operating_c",
        _CELSIUS,
        "temperature/gpu_temp_max_gpu_tlimit_threshold temperature/gpu_max_operating_t_limit_temp"
        " temperature/gpu_temp_max_gpu_threshold temperature/gpu_max_operating_temp",
    ),
    _row(
        "limits.memory_temperature_c",
        _CELSIUS,
        "temperature/memory_temp temperature/memory_current_temp",
        "temperature.memory",
    ),
    _row(
        "limits.memory_temperature_max_c",
        _CELSIUS,
        "temperature/gpu_temp_max_mem_threshold temperature/memory_max_operating_temp",
    ),
    _row("utilization_percent", _PERCENT, "utilization/gpu_util utilization/gpu", "utilization.gpu"),
)

RESET_FLAGS: tuple[FieldRow, ...] = (
    _row("reset", reset_flag, "gpu_reset_status/reset_required"),
    _row("drain", reset_flag, "gpu_reset_status/drain_and_reset_recommended"),
)
"""Flags that drivers 535 to 560 printed in place of a recovery action."""

_PARTS: dict[str, type[Any]] = {
    "pcie": PcieLink,
    "fabric": Fabric,
    "memory_health": GpuMemoryHealth,
    "limits": GpuLimits,
}
"""Type by field name of each record nested in a `Gpu`."""


def read_field(row: FieldRow, places: Iterable[str], look: Lookup) -> object:
    """Return the first value at `places`; if there is none, the reason why the first existing place has no
    value.
    """
    failure = NOT_RECORDED
    for place in places:
        value = row.read(text, place) if (text := look(place)) is not None else NOT_RECORDED
        if not isinstance(value, Unknown):
            return value
        if failure.reason is Reason.NOT_RECORDED and value is not NOT_RECORDED:
            failure = value
    return failure


def gpu_of(index: int, values: dict[str, object]) -> Gpu:
    """Return a `Gpu` with the given fields; `limits.fan_percent` is a field of a nested record."""
    parts: dict[str, dict[str, object]] = {name: {} for name in _PARTS}
    own: dict[str, object] = {}
    for name, value in values.items():
        part, _, leaf = name.rpartition(".")
        (parts[part] if part else own)[leaf] = value
    records = {name: kind(**parts[name]) for name, kind in _PARTS.items()}
    return msgspec.structs.replace(Gpu(index=index), **own, **records)
