"""Test the conditions of a measurement: GPUs with a simulated NVML, CPU time of this machine's kernel."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from assistant.usecases.bench.bench_watch import CpuWatch, Watch, _CpuTimes
from probes.facts import Gpu, MachineFacts
from tests.support.fake_source import FakeSource

FACTS = MachineFacts(gpus=tuple(Gpu(index=index, uuid=f"GPU-{index}") for index in (0, 1)))
SPIN = "import time\nwhile time.process_time() < 0.35: pass"


class Nvml:
    """Simulate two GPUs: the second is hot and throttled. `pids` use the first."""

    def __init__(self) -> None:
        self.idle = True
        self.pids: list[int] = []

    def __call__(self, call: str, *args: int):
        second = bool(args) and args[0] == 1
        reasons = 0x1 if self.idle else 0x44 if second else 0
        return {
            "nvmlDeviceGetClockInfo": 345 if self.idle else 1200 if second else 1980,
            "nvmlDeviceGetTemperature": 30 if self.idle else 88 if second else 60,
            "nvmlDeviceGetPowerUsage": 70_000 if self.idle else 700_000,
            "nvmlDeviceGetCurrentClocksEventReasons": reasons,
            "nvmlDeviceGetComputeRunningProcesses": [
                {"pid": pid, "usedGpuMemory": 1} for pid in self.pids if not second
            ],
        }[call]


@pytest.fixture
def nvml():
    return Nvml()


@pytest.fixture
def watch(nvml, monkeypatch):
    monkeypatch.setattr("assistant.usecases.bench.bench_watch._GPU_PERIOD_S", 0.0)
    return Watch(FACTS, FakeSource(nvml=nvml))


def watched(watch, nvml):
    watch.begin()
    for nvml.idle in (True, False, False):
        watch.tick()
    watch.end()


def test_each_gpu_has_its_own_clocks_and_limits_of_the_time_it_worked(watch, nvml):
    watched(watch, nvml)
    first, second = (watch.conditions(f"GPU{index}", frozenset()) for index in (0, 1))
    assert (first["sm_clock_hz"], first["temperature_c"], first["power_w"]) == (1980e6, 60, 700)
    assert "throttle_reasons" not in first
    assert (second["sm_clock_hz"], second["throttle_reasons"]) == (
        1200e6,
        "hw_thermal_slowdown, sw_power_cap",
    )


def test_a_measurement_on_several_gpus_has_their_worst_conditions(watch, nvml):
    watched(watch, nvml)
    both = watch.conditions("2 ranks", frozenset(("GPU0", "GPU1")))
    assert (both["sm_clock_min_hz"], both["temperature_c"]) == (1200e6, 88)
    assert "sm_clock_hz" not in watch.conditions("CPU", frozenset())


def test_strangers_on_a_gpu_are_named_and_our_own_processes_are_not(watch, nvml):
    nvml.pids = [os.getpid(), os.getppid(), 2**22 + 7]
    watched(watch, nvml)
    assert watch.strangers.keys() == {"GPU0"}
    assert [name.split()[-1] for name in watch.strangers["GPU0"]] == [str(os.getppid())]
    first, second = (watch.conditions(f"GPU{index}", frozenset()) for index in (0, 1))
    assert first["host_busy"] is True
    assert str(os.getppid()) in first["gpu_shared_with"]
    assert "gpu_shared_with" not in second
    watched(watch, Nvml())
    nvml.pids = []
    watched(watch, nvml)
    assert watch.strangers == {}


def test_cpu_time_that_is_not_ours_is_others(monkeypatch):
    def moment(moment_s: float, busy: float, ours: float) -> _CpuTimes:
        return _CpuTimes(moment_s=moment_s, total=4 * moment_s, busy=busy, ours=ours)

    moments = iter(
        [moment(0, 0, 0), moment(10, 4, 0), moment(20, 40, 30), moment(20.1, 40, 30), moment(30, 40.4, 39)]
    )
    monkeypatch.setattr(_CpuTimes, "now", lambda: next(moments))
    watch = Watch(MachineFacts())
    rows = []
    for _ in range(2):
        watch.begin()
        watch.end()
        rows.append(watch.conditions("CPU", frozenset()))
    assert [
        (seen["others_cpu_share_before"], seen["others_cpu_share"], seen["host_busy"]) for seen in rows
    ] == [
        (0.1, 0.15, True),
        (0.15, 0.0, False),  # nothing could be seen in between
    ]


def test_the_time_of_processes_that_we_waited_for_is_ours():
    before = _CpuTimes.now()
    subprocess.run((sys.executable, "-c", SPIN), check=True)
    after = _CpuTimes.now()
    assert after.ours - before.ours >= 0.3
    assert after.busy - before.busy >= 0.2
    assert after.total > before.total


@pytest.mark.parametrize(("share", "busy"), [(0.05, False), (0.5, True)])
def test_a_host_is_busy_from_a_tenth_on(monkeypatch, share, busy):
    monkeypatch.setattr("assistant.usecases.bench.bench_watch._CpuTimes.others_since", lambda *_: share)
    watch = Watch(MachineFacts())
    watch.begin()
    watch.end()
    assert watch.conditions("CPU", frozenset())["host_busy"] is busy


@pytest.fixture
def cpu_watch(monkeypatch):
    monkeypatch.setattr("assistant.usecases.bench.bench_watch._CPU_PERIOD_S", 0.0)
    return CpuWatch()


def test_the_cpus_have_their_median_clock_and_highest_temperature(cpu_watch, monkeypatch):
    clocks = iter([3100.0, 3000.0, 2000.0])
    heat = {
        "coretemp": [SimpleNamespace(current=60.0), SimpleNamespace(current=91.0)],
        "nvme": [SimpleNamespace(current=99.0)],
    }
    monkeypatch.setattr("psutil.cpu_freq", lambda: SimpleNamespace(current=next(clocks)))
    monkeypatch.setattr("psutil.sensors_temperatures", lambda: heat, raising=False)
    for _ in range(3):
        cpu_watch.tick()
    assert cpu_watch.conditions() == {"cpu_clock_hz": 3000e6, "cpu_temperature_c": 91.0}


@pytest.mark.parametrize(
    "silence", [lambda: None, lambda: (_ for _ in ()).throw(FileNotFoundError("cpufreq"))]
)
def test_a_kernel_that_reports_nothing_leaves_nothing(cpu_watch, monkeypatch, silence):
    monkeypatch.setattr("psutil.cpu_freq", silence)
    monkeypatch.setattr("psutil.sensors_temperatures", dict, raising=False)
    cpu_watch.tick()
    assert cpu_watch.conditions() == {}
