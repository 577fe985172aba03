"""Test the record of the CPUs' clocks and temperature, as far as the kernel reports them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from assistant.usecases.bench.bench_cpu_watch import CpuWatch


@pytest.fixture
def watch(monkeypatch):
    monkeypatch.setattr("assistant.usecases.bench.bench_cpu_watch._PERIOD_S", 0.0)
    return CpuWatch()


def test_median_clock_and_highest_temperature_are_those_of_the_request(watch, monkeypatch):
    clocks = iter([800.0, 3100.0, 3000.0, 2000.0])
    heat = {
        "coretemp": [SimpleNamespace(current=60.0), SimpleNamespace(current=91.0)],
        "nvme": [SimpleNamespace(current=99.0)],
    }
    monkeypatch.setattr("psutil.cpu_freq", lambda: SimpleNamespace(current=next(clocks)))
    monkeypatch.setattr("psutil.sensors_temperatures", lambda: heat, raising=False)
    watch.tick()
    watch.begin()  # the 800 MHz were before
    for _ in range(3):
        watch.tick()
    assert watch.conditions() == {"cpu_clock_hz": 3000e6, "cpu_temperature_c": 91.0}


@pytest.mark.parametrize(
    "silence", [lambda: None, lambda: (_ for _ in ()).throw(FileNotFoundError("cpufreq"))]
)
def test_a_kernel_that_reports_nothing_leaves_nothing(watch, monkeypatch, silence):
    monkeypatch.setattr("psutil.cpu_freq", silence)
    monkeypatch.setattr("psutil.sensors_temperatures", dict, raising=False)
    watch.tick()
    assert watch.conditions() == {}
