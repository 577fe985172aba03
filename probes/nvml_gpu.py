"""One GPU by NVML and sysfs."""

from __future__ import annotations

from collections.abc import Sequence

from probes.evidence import file_ref, nvml_ref
from probes.facts import Gpu, GpuProcess, PcieLink
from probes.nvidia import nvlinks
from probes.parsers.pci import link_width
from probes.pci import DEVICES, cpu_affinity, numa_node
from probes.record import EvidenceRef, Reason, Unknown
from probes.sources.base import NvmlValue, Source, read_text

_CLOCK_SM = 1
_TEMPERATURE_GPU = 0
_CORRECTED, _UNCORRECTED = 0, 1
_VOLATILE = 0
_COMPUTE_MODES = {0: "default", 1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}
_FABRIC_STATES = {0: "not supported", 1: "not started", 2: "in progress", 3: "completed"}
_EVENT_REASONS = {
    0x1: "gpu_idle",
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
"""These tables and numbers: nvml.h of NVML 13 (nvmlClocksEventReasons, nvmlComputeMode_t, NVML_GPU_FABRIC_STATE_*)."""


def read_gpu(source: Source, index: int, bus_ids: Sequence[str | Unknown], driver_version: str | Unknown) -> Gpu:
    """Everything that NVML says about device `index`, and its place from sysfs. `bus_ids` are those of all GPUs."""
    device = _Device(source, index)
    address = bus_ids[index]
    memory = device.ask("nvmlDeviceGetMemoryInfo")
    remapped = device.ask("nvmlDeviceGetRemappedRows")
    return Gpu(
        index=index,
        name=device.text("nvmlDeviceGetName"),
        uuid=device.text("nvmlDeviceGetUUID"),
        memory_bytes=_whole(_member(memory, "total")),
        memory_used_bytes=_whole(_member(memory, "used")),
        pci_bus_id=address,
        driver_version=driver_version,
        vbios_version=device.text("nvmlDeviceGetVbiosVersion"),
        compute_capability=device.compute_capability(),
        pcie=PcieLink(
            generation=device.whole("nvmlDeviceGetCurrPcieLinkGeneration"),
            generation_max=device.whole("nvmlDeviceGetMaxPcieLinkGeneration"),
            width=device.lanes("nvmlDeviceGetCurrPcieLinkWidth"),
            width_max=device.lanes("nvmlDeviceGetMaxPcieLinkWidth"),
        ),
        numa_node=numa_node(source, address),
        cpu_affinity=cpu_affinity(source, address),
        nvlinks=nvlinks(source, index, bus_ids),
        fabric_state=_named(_member(device.ask("nvmlDeviceGetGpuFabricInfo"), "state"), _FABRIC_STATES),
        persistence_mode=_flag(device.ask("nvmlDeviceGetPersistenceMode")),
        compute_mode=_named(device.ask("nvmlDeviceGetComputeMode"), _COMPUTE_MODES),
        mig_enabled=_flag(_item(device.ask("nvmlDeviceGetMigMode"), 0)),
        ecc_enabled=_flag(_item(device.ask("nvmlDeviceGetEccMode"), 0)),
        ecc_corrected_volatile=device.whole("nvmlDeviceGetTotalEccErrors", _CORRECTED, _VOLATILE),
        ecc_uncorrected_volatile=device.whole("nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _VOLATILE),
        row_remap_pending=_flag(_item(remapped, 2)),
        row_remap_failed=_flag(_item(remapped, 3)),
        temperature_c=device.whole("nvmlDeviceGetTemperature", _TEMPERATURE_GPU),
        power_w=device.watts("nvmlDeviceGetPowerUsage"),
        power_limit_w=device.watts("nvmlDeviceGetEnforcedPowerLimit"),
        power_limit_default_w=device.watts("nvmlDeviceGetPowerManagementDefaultLimit"),
        sm_clock_mhz=device.whole("nvmlDeviceGetClockInfo", _CLOCK_SM),
        sm_clock_max_mhz=device.whole("nvmlDeviceGetMaxClockInfo", _CLOCK_SM),
        throttle_reasons=device.throttle_reasons(),
        utilization_percent=_whole(_member(device.ask("nvmlDeviceGetUtilizationRates"), "gpu")),
        processes=device.processes(),
        evidence=_evidence(index, address),
    )


def _evidence(index: int, address: str | Unknown) -> tuple[EvidenceRef, ...]:
    asked = nvml_ref(f"nvmlDeviceGet*({index})")
    return (asked,) if isinstance(address, Unknown) else (asked, file_ref(f"{DEVICES}/{address}"))


class _Device:
    """NVML's answers about one device, each as a value of the wanted type or Unknown."""

    def __init__(self, source: Source, index: int) -> None:
        self._source = source
        self._index = index

    def ask(self, call: str, *args: int) -> NvmlValue | Unknown:
        return self._source.nvml(call, self._index, *args)

    def text(self, call: str) -> str | Unknown:
        value = self.ask(call)
        if isinstance(value, Unknown):
            return value
        return value if isinstance(value, str) and value else _odd(call, value)

    def whole(self, call: str, *args: int) -> int | Unknown:
        return _whole(self.ask(call, *args))

    def lanes(self, call: str) -> int | Unknown:
        width = self.whole(call)
        return width if isinstance(width, Unknown) else link_width(str(width))

    def watts(self, call: str) -> float | Unknown:
        milliwatts = self.whole(call)
        return milliwatts if isinstance(milliwatts, Unknown) else milliwatts / 1000

    def compute_capability(self) -> str | Unknown:
        pair = self.ask("nvmlDeviceGetCudaComputeCapability")
        major, minor = _whole(_item(pair, 0)), _whole(_item(pair, 1))
        if isinstance(major, Unknown):
            return major
        return minor if isinstance(minor, Unknown) else f"{major}.{minor}"

    def throttle_reasons(self) -> tuple[str, ...] | Unknown:
        """Drivers before 535 know the call by its old name only."""
        mask = self.whole("nvmlDeviceGetCurrentClocksEventReasons")
        if isinstance(mask, Unknown):
            mask = self.whole("nvmlDeviceGetCurrentClocksThrottleReasons")
        if isinstance(mask, Unknown):
            return mask
        return tuple(name for bit, name in _EVENT_REASONS.items() if mask & bit)

    def processes(self) -> tuple[GpuProcess, ...] | Unknown:
        running = self.ask("nvmlDeviceGetComputeRunningProcesses")
        if isinstance(running, Unknown):
            return running
        if not isinstance(running, list):
            return _odd("nvmlDeviceGetComputeRunningProcesses", running)
        return tuple(self._process(entry) for entry in running if isinstance(_member(entry, "pid"), int))

    def _process(self, entry: NvmlValue) -> GpuProcess:
        pid = _member(entry, "pid")
        number = pid if isinstance(pid, int) else 0
        return GpuProcess(
            pid=number,
            name=read_text(self._source, f"/proc/{number}/comm"),
            memory_bytes=_whole(_member(entry, "usedGpuMemory")),
        )


def _odd(what: str, value: object) -> Unknown:
    return Unknown(Reason.UNPARSABLE, f"{what}: {str(value)[:60]!r}")


def _member(value: NvmlValue | Unknown, name: str) -> NvmlValue | Unknown:
    if isinstance(value, Unknown):
        return value
    return value[name] if isinstance(value, dict) and name in value else _odd(name, value)


def _item(value: NvmlValue | Unknown, position: int) -> NvmlValue | Unknown:
    if isinstance(value, Unknown):
        return value
    return value[position] if isinstance(value, list) and position < len(value) else _odd(f"item {position}", value)


def _whole(value: NvmlValue | Unknown) -> int | Unknown:
    """NVML writes None for a number that it keeps to itself (the memory of another container's process)."""
    if isinstance(value, Unknown):
        return value
    if value is None:
        return Unknown(Reason.NOT_SUPPORTED, "NVML does not say")
    return value if isinstance(value, int) and not isinstance(value, bool) else _odd("number", value)


def _flag(value: NvmlValue | Unknown) -> bool | Unknown:
    number = _whole(value)
    return number if isinstance(number, Unknown) else number != 0


def _named(value: NvmlValue | Unknown, names: dict[int, str]) -> str | Unknown:
    number = _whole(value)
    return number if isinstance(number, Unknown) else names.get(number, _odd("state", number))
