"""Record the conditions of a measurement: GPU clocks and limits, and other users of GPUs and CPUs."""

from __future__ import annotations

import contextlib
import os
import re
import statistics
import time
from collections.abc import Mapping

import psutil

from assistant.usecases.bench.bench_cpu_watch import CpuWatch
from probes.base.record import Record, known
from probes.facts import MachineFacts
from probes.facts.measurements import BUSY_SHARE, Parameter
from probes.reading.nvml.device import Device
from probes.sources.base import Source
from recipes.machine.ranks import training_gpus

_GPU_PERIOD_S = 0.5
"""Seconds between two readings; NVML's figures are means over up to a second."""
_LEAST_WATCH_S = 0.2
"""Shortest time to compute a share from: the kernel counts in clock ticks of 10 ms."""
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


class Watch:
    """Watch this machine; `begin` and `end` enclose a request, and `tick` is called in between.

    CPU time is the kernel's: everything but idle time and interrupts (which mostly serve the measurement),
    less the time of this process and its descendants. Time that a hypervisor gave to others (steal) counts as
    theirs.
    """

    def __init__(self, facts: MachineFacts, source: Source | None = None) -> None:
        """`source` answers NVML's questions; None if there are no GPUs to watch."""
        self._source = source
        gpus = training_gpus(facts) if source is not None else ()
        self._gpus = {f"GPU{gpu.index}": gpu.index for gpu in gpus}
        self._names = {gpu.uuid: f"GPU{gpu.index}" for gpu in gpus if known(gpu.uuid)}
        self._mark = _CpuTimes.now()
        self._before: float | None = None
        self._during: float | None = None
        self._load_average = os.getloadavg()[0]
        self._moments: dict[str, list[GpuMoment]] = {}
        self._cpu = CpuWatch()
        self._next_gpu_s = 0.0
        self.strangers: dict[str, set[str]] = {}
        """Processes of others that used each GPU during the request, such as `python 4711`."""

    @property
    def others_cpu_share(self) -> float | None:
        """Share of all CPUs that others used during the last request; None if it was too short."""
        return self._during

    def begin(self) -> None:
        """Begin a request; the time since the last request ended, or since the start, counts as before it."""
        now = _CpuTimes.now()
        self._before = now.others_since(self._mark, self._before if self._during is None else self._during)
        self._mark, self._during = now, None
        self._load_average = os.getloadavg()[0]
        self._moments, self.strangers, self._next_gpu_s = {}, {}, 0.0
        self._cpu.begin()

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
                # Process ids of another PID namespace are useless here: a container sees its own processes
                # under other ids.
                others = [p for p in processes if p.pid not in ours and psutil.pid_exists(p.pid)]
                if others:
                    names = {f"{p.name if known(p.name) else 'process'} {p.pid}" for p in others}
                    self.strangers.setdefault(name, set()).update(names)

    def end(self) -> None:
        """End a request, after all its processes have ended."""
        now = _CpuTimes.now()
        self._during = now.others_since(self._mark, None)
        self._mark = now

    def name_of(self, uuid: str) -> str:
        """Return `GPU3` for the UUID that the driver reports; empty for a GPU that is not watched."""
        return self._names.get(uuid, "")

    def conditions(self, subject: str, used_gpus: frozenset[str]) -> dict[str, Parameter]:
        """Return the conditions of a measurement of `subject`.

        They cover the GPUs that it names, or if it names none, those that the request used.
        """
        values: dict[str, Parameter] = {"load_average_before": self._load_average, **self._cpu.conditions()}
        if self._before is not None:
            values["others_cpu_share_before"] = round(self._before, 3)
        if self._during is not None:
            values["others_cpu_share"] = round(self._during, 3)
        gpus = frozenset(_GPU_NAME.findall(subject)) & self._gpus.keys() or used_gpus
        strangers = [
            f"{gpu}: {', '.join(sorted(self.strangers[gpu]))}" for gpu in sorted(gpus & self.strangers.keys())
        ]
        if strangers:
            values["gpu_shared_with"] = "; ".join(strangers)
        if self._during is not None or strangers:
            values["host_busy"] = bool(strangers) or (self._during or 0.0) > BUSY_SHARE
        return {
            **values,
            **gpu_conditions([moment for gpu in sorted(gpus) for moment in self._moments.get(gpu, ())]),
        }


def gpu_conditions(moments: list[GpuMoment]) -> Mapping[str, Parameter]:
    """Return median and lowest clock, highest temperature and power, and all reasons for lower clocks.

    Moments at which the GPU was idle do not count.
    """
    busy = [moment for moment in moments if _IDLE not in moment.throttle_reasons] or moments
    values: dict[str, Parameter] = {}
    clocks_hz = [moment.sm_clock_hz for moment in busy if moment.sm_clock_hz is not None]
    if clocks_hz:
        values |= {"sm_clock_hz": statistics.median(clocks_hz), "sm_clock_min_hz": min(clocks_hz)}
    temperatures_c = [moment.temperature_c for moment in busy if moment.temperature_c is not None]
    if temperatures_c:
        values["temperature_c"] = max(temperatures_c)
    powers_w = [moment.power_w for moment in busy if moment.power_w is not None]
    if powers_w:
        values["power_w"] = max(powers_w)
    reasons = sorted({reason for moment in busy for reason in moment.throttle_reasons} - {_IDLE})
    if reasons:
        values["throttle_reasons"] = ", ".join(reasons)
    return values


def _moment(device: Device) -> GpuMoment:
    clock_mhz = device.whole("nvmlDeviceGetClockInfo", _CLOCK_SM)
    temperature_c = device.whole("nvmlDeviceGetTemperature", _TEMPERATURE_GPU)
    power_w, reasons = device.watts("nvmlDeviceGetPowerUsage"), device.throttle_reasons()
    return GpuMoment(
        sm_clock_hz=clock_mhz * 1e6 if known(clock_mhz) else None,
        temperature_c=float(temperature_c) if known(temperature_c) else None,
        power_w=power_w if known(power_w) else None,
        throttle_reasons=reasons if known(reasons) else (),
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
    def now(cls) -> _CpuTimes:
        times = psutil.cpu_times()._asdict()
        # The kernel counts guests and niced guests in user and nice too (proc_stat(5)).
        total = sum(seconds for name, seconds in times.items() if name not in ("guest", "guest_nice"))
        not_busy = sum(times.get(name, 0.0) for name in ("idle", "iowait", "irq", "softirq"))
        return cls(moment_s=time.monotonic(), total=total, busy=total - not_busy, ours=_our_cpu_s())

    def others_since(self, before: _CpuTimes, unknown: float | None) -> float | None:
        """Return the share of all CPU time that others used since `before`.

        Return `unknown` if the time in between is too short to measure a share.
        """
        total = self.total - before.total
        if self.moment_s - before.moment_s < _LEAST_WATCH_S or total <= 0:
            return unknown
        return min(1.0, max(0.0, (self.busy - before.busy - (self.ours - before.ours)) / total))
