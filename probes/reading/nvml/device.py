"""Read NVML's answers about a device, each as a value of the requested type or Unknown."""

from probes.base.record import Reason, Unknown, known, map_both, map_known, quoted
from probes.facts import GpuProcess
from probes.parsers.nvidia_smi.nvidia_words import event_reasons
from probes.parsers.topology.pci_addresses import link_width
from probes.sources.base import NvmlValue, Source, read_text

_NO_FUNCTION = "function not found"
_VALUE_MEMBERS = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}
"""Member of nvmlValue_t for each nvmlValueType_t (nvml.h of NVML 13)."""
_NO_SUCH_FIELD = (2, 3, 13)
"""NVML_ERROR_INVALID_ARGUMENT, NOT_SUPPORTED, FUNCTION_NOT_FOUND.

An older driver returns the first of these codes for a field that the driver does not know.
"""


class Device:
    """NVML's answers about a device, each as a value of the requested type or Unknown."""

    def __init__(self, source: Source, index: int) -> None:
        self._source = source
        self._index = index

    def ask(self, call: str, *args: int) -> NvmlValue | Unknown:
        """Return NVML's answer; Unknown (not supported) if the driver is older than the call."""
        answer = self._source.nvml(call, self._index, *args)
        if (
            isinstance(answer, Unknown)
            and answer.reason is Reason.TOOL_MISSING
            and _NO_FUNCTION in answer.detail.lower()
        ):
            return Unknown(Reason.NOT_SUPPORTED, answer.detail)
        return answer

    def text(self, call: str) -> str | Unknown:
        value = self.ask(call)
        return value if isinstance(value, str | Unknown) and value else odd(call, value)

    def whole(self, call: str, *args: int) -> int | Unknown:
        return whole_of(self.ask(call, *args))

    def lanes(self, call: str) -> int | Unknown:
        return map_known(self.whole(call), lambda width: link_width(str(width)))

    def watts(self, call: str) -> float | Unknown:
        return watts(self.whole(call))

    def compute_capability(self) -> str | Unknown:
        pair = self.ask("nvmlDeviceGetCudaComputeCapability")
        return map_both(
            whole_of(item(pair, 0)), whole_of(item(pair, 1)), lambda major, minor: f"{major}.{minor}"
        )

    def threshold(self, kind: int) -> int | Unknown:
        """Return the temperature limit with the number `kind` in nvmlTemperatureThresholds_t."""
        return self.whole("nvmlDeviceGetTemperatureThreshold", kind)

    def fabric_info(self) -> NvmlValue | Unknown:
        """Return the fabric info; drivers before 550 have only the older call, without the health mask."""
        info = self.ask("nvmlDeviceGetGpuFabricInfoV")
        return info if known(info) else self.ask("nvmlDeviceGetGpuFabricInfo")

    def throttle_reasons(self) -> tuple[str, ...] | Unknown:
        """Return the active reasons for reduced clocks.

        Drivers before 535 have only the call with the old name.
        """
        mask = self.whole("nvmlDeviceGetCurrentClocksEventReasons")
        if isinstance(mask, Unknown):
            mask = self.whole("nvmlDeviceGetCurrentClocksThrottleReasons")
        return map_known(mask, event_reasons)

    def fields(self, *ids: int) -> dict[int, int | Unknown]:
        """Return field values by their ids, read in one call; a field with an error code is Unknown."""
        answer = self.ask("nvmlDeviceGetFieldValues", *ids)
        if isinstance(answer, Unknown):
            return dict.fromkeys(ids, answer)
        values = answer if isinstance(answer, list) else []
        return {
            id_: _field(values[place]) if place < len(values) else odd("field", id_)
            for place, id_ in enumerate(ids)
        }

    def processes(self) -> tuple[GpuProcess, ...] | Unknown:
        running = self.ask("nvmlDeviceGetComputeRunningProcesses")
        if isinstance(running, Unknown):
            return running
        if not isinstance(running, list):
            return odd("nvmlDeviceGetComputeRunningProcesses", running)
        return tuple(self._process(entry) for entry in running if isinstance(member(entry, "pid"), int))

    def _process(self, entry: NvmlValue) -> GpuProcess:
        pid = member(entry, "pid")
        number = pid if isinstance(pid, int) else 0
        return GpuProcess(
            pid=number,
            name=read_text(self._source, f"/proc/{number}/comm"),
            memory_bytes=whole_of(member(entry, "usedGpuMemory")),
        )


def _field(entry: NvmlValue) -> int | Unknown:
    code, kind = member(entry, "nvmlReturn"), member(entry, "valueType")
    if code == 0 and isinstance(kind, int):
        return whole_of(member(member(entry, "value"), _VALUE_MEMBERS.get(kind, "ullVal")))
    reason = Reason.NOT_SUPPORTED if code in _NO_SUCH_FIELD else Reason.ERROR
    return Unknown(reason, f"NVML field: error {code}")


def odd(what: str, value: object) -> Unknown:
    return Unknown(Reason.UNPARSABLE, f"{what}: {quoted(str(value))}")


def member(value: NvmlValue | Unknown, name: str) -> NvmlValue | Unknown:
    if isinstance(value, dict) and name in value:
        return value[name]
    return value if isinstance(value, Unknown) else odd(name, value)


def item(value: NvmlValue | Unknown, position: int) -> NvmlValue | Unknown:
    if isinstance(value, list) and position < len(value):
        return value[position]
    return value if isinstance(value, Unknown) else odd(f"item {position}", value)


def whole_of(value: NvmlValue | Unknown) -> int | Unknown:
    """Return `value` if it is a whole number; Unknown for any other value.

    NVML hides some numbers with None (the memory of another container's process).
    """
    if isinstance(value, Unknown):
        return value
    if value is None:
        return Unknown(Reason.NOT_SUPPORTED, "NVML does not report it")
    return value if isinstance(value, int) and not isinstance(value, bool) else odd("number", value)


def watts(milliwatts: int | Unknown) -> float | Unknown:
    return map_known(milliwatts, lambda milliwatts: milliwatts / 1000)


def flag(value: NvmlValue | Unknown) -> bool | Unknown:
    return map_known(whole_of(value), lambda number: number != 0)


def named(value: NvmlValue | Unknown, names: dict[int, str]) -> str | Unknown:
    return map_known(whole_of(value), lambda number: names.get(number, odd("state", number)))
