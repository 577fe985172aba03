"""Record clocks and temperature of the CPUs while something is measured."""

from __future__ import annotations

import contextlib
import statistics
import time

import psutil

from probes.facts.measurements import Parameter

_PERIOD_S = 2.0
"""Seconds between two readings; each reads a file of every CPU."""
_SENSORS = ("coretemp", "k10temp", "zenpower")
"""Linux drivers of the sensors in CPUs of Intel and AMD (kernel documentation, hwmon)."""


class CpuWatch:
    """Record the conditions of the CPUs; values that the kernel does not report are left out.

    Call `begin` at the start of a request and `tick` while it runs, then `conditions`.
    """

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self._clocks_hz: list[float] = []
        self._temperatures_c: list[float] = []
        self._next_s = 0.0

    def tick(self) -> None:
        """Read clocks and temperatures, at most every two seconds."""
        if time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + _PERIOD_S
        # Some containers and virtual machines have nothing to read.
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
