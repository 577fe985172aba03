"""Test the live collectors with the real pynvml and a library that plays the driver of a machine."""

from __future__ import annotations

from collections.abc import Callable

from probes.base.record import Reason, Unknown
from probes.collect import gpu, topology
from probes.collect.collecting import CollectOptions, assemble, gather
from probes.collect.collector_table import PROBES
from probes.facts import MachineFacts
from probes.sources.live import LiveSource

NvmlStandin = Callable[[str], dict[str, str]]
ROWS = tuple(row for row in PROBES if row.module in (gpu.__name__, topology.__name__))


def probed() -> MachineFacts:
    with LiveSource() as source:
        return assemble(source.title, gather(source, CollectOptions(), ROWS))


def test_eight_gpus_on_switches(nvml_standin: NvmlStandin) -> None:
    nvml_standin("gpu_count = 8\ngpu3.temperature_c = 77\n")
    facts = probed()
    assert isinstance(facts.gpus, tuple)
    assert isinstance(facts.links, tuple)
    assert [gpu.index for gpu in facts.gpus] == list(range(8))
    assert facts.gpus[3].temperature_c == 77
    assert {(link.kind, link.nvlink_count) for link in facts.links} == {("NVLINK", 18)}
    assert len(facts.links) == 28


def test_one_gpu_is_lost(nvml_standin: NvmlStandin) -> None:
    nvml_standin(
        "gpu_count = 2\nerror = nvmlDeviceGetMemoryInfo 15 1\nerror = nvmlDeviceGetNvLinkState 15 1\n"
    )
    facts = probed()
    assert isinstance(facts.gpus, tuple)
    good, lost = facts.gpus
    assert isinstance(good.memory_bytes, int)
    assert isinstance(lost.memory_bytes, Unknown)
    assert lost.memory_bytes.reason is Reason.ERROR
    assert isinstance(lost.nvlinks, Unknown)
    assert isinstance(facts.links, tuple)
    assert all(link.kind != "NVLINK" for link in facts.links)


def test_health_by_field_values(nvml_standin: NvmlStandin) -> None:
    nvml_standin(
        "gpu_count = 2\ngpu1.field230 = 2\ngpu1.field270 = 5000000000\ngpu1.sram_uncorrected = "
        "5\ngpu1.field162 = 3\n"
    )
    facts = probed()
    assert isinstance(facts.gpus, tuple)
    good, bad = facts.gpus
    assert (good.recovery_action, bad.recovery_action) == ("none", "node reboot")
    assert (good.limits.temperature_margin_c, good.limits.temperature_slowdown_c) == (53, -2)
    assert isinstance(bad.limits.violations_us, tuple)
    assert {count.name: count.value for count in bad.limits.violations_us}["hw_thermal_slowdown"] == 5_000_000
    assert (good.memory_health.sram_uncorrected_aggregate, bad.memory_health.sram_uncorrected_aggregate) == (
        0,
        5,
    )
    assert isinstance(bad.nvlinks, tuple)
    assert {(link.replay_errors, link.recovery_errors) for link in bad.nvlinks} == {(0, 3)}
    assert (good.inforom_valid, good.confidential_compute, good.pci_device_id) == (True, False, "10de:2330")


def test_a_driver_without_the_newer_calls(nvml_standin: NvmlStandin) -> None:
    missing = (
        "nvmlDeviceGetFieldValues",
        "nvmlDeviceGetMarginTemperature",
        "nvmlDeviceGetSramEccErrorStatus",
    )
    nvml_standin("gpu_count = 1\n" + "".join(f"error = {call} 13\n" for call in missing))
    facts = probed()
    assert isinstance(facts.gpus, tuple)
    (gpu,) = facts.gpus
    assert isinstance(gpu.recovery_action, Unknown)
    assert gpu.recovery_action.reason is Reason.NOT_SUPPORTED
    assert gpu.limits.temperature_slowdown_c == 90
    assert isinstance(gpu.memory_health.sram_threshold_exceeded, Unknown)
