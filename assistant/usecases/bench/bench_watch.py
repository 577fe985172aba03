"""Record the conditions of a measurement: clocks, temperatures, power, and other users of GPUs and CPUs."""

import contextlib
import os
import re
import statistics
import time
from collections.abc import Mapping

import psutil

from probes.base.record import Record, items_of, known
from probes.facts import MachineFacts
from probes.facts.measurements import BUSY_SHARE, Parameter
from probes.reading.nvml.device import Device
from probes.sources.base import Source
from recipes.machine.ranks import training_gpus

_GPU_PERIOD_S = 0.5
"""Seconds between two readings of the GPUs; NVML's figures are means over up to a second."""
_CPU_PERIOD_S = 2.0
"""Seconds between two readings of the CPUs; each reading opens a file of every CPU."""
_SENSORS = ("coretemp", "k10temp", "zenpower")
"""Linux drivers of the sensors in CPUs of Intel and AMD (kernel documentation, hwmon)."""
_LEAST_WATCH_S = 0.2
"""Shortest time over which a share is computed, because the kernel counts in clock ticks of 10 ms."""
_CLOCK_SM, _TEMPERATURE_GPU = 1, 0
"""Values of nvmlClockType_t and nvmlTemperatureSensors_t (nvml.h)."""
_IDLE = "gpu_idle"
_GPU_NAME = re.compile(r"GPU\d+")


class GpuMoment(Record, kw_only=True):
    """One GPU at one moment; None for values that NVML does not report."""

    sm_clock_hz: float | None
    temperature_c: float | None
    power_w: float | None
    throttle_reasons: tuple[str, ...]


class CpuWatch:
    """Record the conditions of the CPUs; values that the kernel does not report are left out.

    Use a new object for each request. Call `tick` while the request runs, and `conditions` at its end.
    """

    def __init__(self) -> None:
        self._clocks_hz: list[float] = []
        self._temperatures_c: list[float] = []
        self._next_s = 0.0

    def tick(self) -> None:
        """Read clocks and temperatures, at most every two seconds."""
        if time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + _CPU_PERIOD_S
        # Some containers and virtual machines report no clocks and no temperatures.
        with contextlib.suppress(OSError, NotImplementedError, AttributeError, ValueError):
            frequency = psutil.cpu_freq()
            if frequency is not None and frequency.current > 0:
                self._clocks_hz.append(frequency.current * 1e6)
        with contextlib.suppress(OSError, NotImplementedError, AttributeError, ValueError):
            sensors = psutil.sensors_temperatures()
            self._temperatures_c += [
                sensor.current for name in _SENSORS for sensor in sensors.get(name, ()) if sensor.current > 0
            ]

    def conditions(self) -> dict[str, Parameter]:
        """Return the median of the mean clock of all CPUs, and the highest temperature."""
        values: dict[str, Parameter] = {}
        if self._clocks_hz:
            values["cpu_clock_hz"] = round(statistics.median(self._clocks_hz), -6)
        if self._temperatures_c:
            values["cpu_temperature_c"] = max(self._temperatures_c)
        return values


class Watch:
    """The conditions of this machine; `begin` and `end` enclose a request, and `tick` is called in between.

    The CPU time of others is the total that the kernel counts, minus idle time, interrupts (most of them
    serve the measurement), and the time of this process and its descendants. The total includes the time that
    a hypervisor gave to other virtual machines (steal).
    """

    def __init__(self, facts: MachineFacts, source: Source | None = None) -> None:
        """Prepare to watch; `source` answers queries to NVML, and is None if there are no GPUs to watch."""
        self._source = source
        gpus = training_gpus(facts) if source is not None else ()
        self._gpus = {f"GPU{gpu.index}": gpu.index for gpu in gpus}
        self.names = {gpu.uuid: f"GPU{gpu.index}" for gpu in gpus if known(gpu.uuid)}
        """Names such as `GPU3` of the watched GPUs, by UUID."""
        self._mark = _CpuTimes.now()
        self._before: float | None = None
        self.others_cpu_share: float | None = None
        """Share of all CPUs that others used during the last request; None if the request was too short."""
        self._load_average = os.getloadavg()[0]
        self._moments: dict[str, list[GpuMoment]] = {}
        self._cpu = CpuWatch()
        self._next_gpu_s = 0.0
        self.strangers: dict[str, set[str]] = {}
        """Processes of others that used each GPU during the request, such as `python 4711`, by GPU."""

    def begin(self) -> None:
        """Begin a request, and compute the share of the CPUs that others used since the last request."""
        now = _CpuTimes.now()
        self._before = now.others_since(
            self._mark, self._before if self.others_cpu_share is None else self.others_cpu_share
        )
        self._mark, self.others_cpu_share = now, None
        self._load_average = os.getloadavg()[0]
        self._moments, self.strangers, self._next_gpu_s = {}, {}, 0.0
        self._cpu = CpuWatch()

    def tick(self) -> None:
        """Read the CPUs, and the GPUs at most every half second."""
        self._cpu.tick()
        if self._source is None or not self._gpus or time.monotonic() < self._next_gpu_s:
            return
        self._next_gpu_s = time.monotonic() + _GPU_PERIOD_S
        ours: set[int] | None = None
        first = next(iter(self._gpus.values()))
        for name, index in self._gpus.items():
            if index != first:
                self._source.expect(index, first)
            device = Device(self._source, index)
            self._moments.setdefault(name, []).append(_moment(device))
            processes = device.processes()
            if known(processes) and processes:
                ours = _our_processes() if ours is None else ours
                # In a container processes have other ids, so the ids that NVML reports may not exist here.
                others = [p for p in processes if p.pid not in ours and psutil.pid_exists(p.pid)]
                if others:
                    names = {f"{p.name if known(p.name) else 'process'} {p.pid}" for p in others}
                    self.strangers.setdefault(name, set()).update(names)

    def end(self) -> None:
        """End a request, after all its processes have ended."""
        now = _CpuTimes.now()
        self.others_cpu_share = now.others_since(self._mark, None)
        self._mark = now

    def conditions(self, subject: str, used_gpus: frozenset[str]) -> dict[str, Parameter]:
        """Return the conditions of a measurement of `subject`.

        The conditions belong to the GPUs that the subject names. If it names no GPU, they belong to all GPUs
        that the request used.
        """
        values: dict[str, Parameter] = {"load_average_before": self._load_average, **self._cpu.conditions()}
        if self._before is not None:
            values["others_cpu_share_before"] = round(self._before, 3)
        if self.others_cpu_share is not None:
            values["others_cpu_share"] = round(self.others_cpu_share, 3)
        gpus = frozenset(_GPU_NAME.findall(subject)) & self._gpus.keys() or used_gpus
        strangers = [
            f"{gpu}: {', '.join(sorted(self.strangers[gpu]))}" for gpu in sorted(gpus & self.strangers.keys())
        ]
        if strangers:
            values["gpu_shared_with"] = "; ".join(strangers)
        if self.others_cpu_share is not None or strangers:
            values["host_busy"] = bool(strangers) or (self.others_cpu_share or 0.0) > BUSY_SHARE
        return {
            **values,
            **gpu_conditions([moment for gpu in sorted(gpus) for moment in self._moments.get(gpu, ())]),
        }


def gpu_conditions(moments: list[GpuMoment]) -> Mapping[str, Parameter]:
    """Return median and lowest clock, highest temperature and power, and the reasons for lower clocks.

    Moments at which the GPU was idle are left out, unless the GPU was idle at all moments.
    """
    busy = [moment for moment in moments if _IDLE not in moment.throttle_reasons] or moments
    clocks_hz = [moment.sm_clock_hz for moment in busy if moment.sm_clock_hz is not None]
    values: dict[str, Parameter | None] = {
        "sm_clock_hz": statistics.median(clocks_hz) if clocks_hz else None,
        "sm_clock_min_hz": min(clocks_hz, default=None),
        "temperature_c": max((m.temperature_c for m in busy if m.temperature_c is not None), default=None),
        "power_w": max((m.power_w for m in busy if m.power_w is not None), default=None),
        "throttle_reasons": ", ".join(sorted({r for m in busy for r in m.throttle_reasons} - {_IDLE}))
        or None,
    }
    return {name: value for name, value in values.items() if value is not None}


def _moment(device: Device) -> GpuMoment:
    clock_mhz = device.whole("nvmlDeviceGetClockInfo", _CLOCK_SM)
    temperature_c = device.whole("nvmlDeviceGetTemperature", _TEMPERATURE_GPU)
    power_w = device.watts("nvmlDeviceGetPowerUsage")
    return GpuMoment(
        sm_clock_hz=clock_mhz * 1e6 if known(clock_mhz) else None,
        temperature_c=float(temperature_c) if known(temperature_c) else None,
        power_w=power_w if known(power_w) else None,
        throttle_reasons=items_of(device.throttle_reasons()),
    )


def _our_processes() -> set[int]:
    try:
        return {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
    except psutil.Error:
        return {os.getpid()}


def _our_cpu_s() -> float:
    """Return the CPU seconds of this process, its descendants and their ended children."""
    total_s = sum(os.times()[:4])
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            total_s += sum(process.cpu_times()[:4])
    return total_s


class _CpuTimes(Record, kw_only=True):
    """CPU time in seconds since the start of the machine, or of this process."""

    moment_s: float
    total: float
    busy: float
    ours: float

    @classmethod
    def now(cls) -> "_CpuTimes":
        times = psutil.cpu_times()._asdict()
        # The kernel includes the time of guests in user, and of niced guests in nice (proc_stat(5)).
        total = sum(seconds for name, seconds in times.items() if name not in ("guest", "guest_nice"))
        not_busy = sum(times.get(name, 0.0) for name in ("idle", "iowait", "irq", "softirq"))
        return cls(moment_s=time.monotonic(), total=total, busy=total - not_busy, ours=_our_cpu_s())

    def others_since(self, before: "_CpuTimes", unknown: float | None) -> float | None:
        """Return the share of all CPU time that others used since `before`.

        Return `unknown` if the time in between is too short to measure a share.
        """
        total = self.total - before.total
        if self.moment_s - before.moment_s < _LEAST_WATCH_S or total <= 0:
            return unknown
        return min(1.0, max(0.0, (self.busy - before.busy - (self.ours - before.ours)) / total))
