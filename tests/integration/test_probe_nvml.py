"""The live collectors over a real pynvml and a library that acts out a machine."""

from __future__ import annotations

from collections.abc import Callable

from probes.collect import gpu, topology
from probes.collecting import CollectOptions, assemble, gather
from probes.facts import MachineFacts
from probes.record import Reason, Unknown
from probes.registry import PROBES
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
    nvml_standin("gpu_count = 2\nerror = nvmlDeviceGetMemoryInfo 15 1\nerror = nvmlDeviceGetNvLinkState 15 1\n")
    facts = probed()
    assert isinstance(facts.gpus, tuple)
    good, lost = facts.gpus
    assert isinstance(good.memory_bytes, int)
    assert isinstance(lost.memory_bytes, Unknown)
    assert lost.memory_bytes.reason is Reason.ERROR
    assert isinstance(lost.nvlinks, Unknown)
    assert isinstance(facts.links, tuple)
    assert all(link.kind != "NVLINK" for link in facts.links)
