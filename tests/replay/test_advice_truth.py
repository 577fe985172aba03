"""Test the advice on recorded machines of several kinds against the known facts of each recording."""

from __future__ import annotations

import functools

import pytest

from probes.collect.collecting import CollectOptions, assemble, gather
from probes.facts import MachineFacts
from probes.sources.loose import open_loose
from recipes.advice.advice_lines import Subject
from tests.support.advice_cases import CASES, advised
from tests.support.recordings import MACHINES, needs_recordings

pytestmark = needs_recordings

RECORDINGS: dict[str, tuple[str, ...]] = {
    "DGX H100 with InfiniBand": ("ib/sysfs-h100-8xndr400-bond0.json",),
    "H100 node with its NUMA map": (
        "topo_m/h100-8x-6nic-cgroup-affinity.txt",
        "hwloc/lscpu-h100-8x-xeon8468.txt",
        "hwloc/numactl-h-h100-8x-xeon8468.txt",
    ),
    "A100 PCIe": ("nccl_topo/azure-nc48v4-topo.xml",),
    "consumer GPU": (
        "nvsmi_text/q-rtx4080super-linux-595.71.05-idle.txt",
        "topo_m/rtx4080super-linux-595.71.05.txt",
    ),
    "virtual machine with A100": (
        "pci/lspci-a100-vm-8x-hdr100.txt",
        "ib/ibstat-a100-vm-8x-hdr100.txt",
        "topo_m/a100-vm-8x-hdr100-clipped-cells.txt",
    ),
    "RoCE": ("ib/ibstat-h100-roce-8x400-4x100-active.txt",),
    "XE9680": ("pci/lspci-vvv-dell-xe9680-h100-8x-cx7-roce.txt",),
    "AMD": ("nccl_topo/amd-rccl-topo_8p_940.xml",),
    "processors only": ("hwloc/sysfs-4numa-intel-pcilocality-ib.json",),
    "MIG is on": (
        "nvsmi_text/q-h100-sxm-mig-590.48.01-idle.txt",
        "nvsmi_text/list-h100-sxm-mig-590.48.01.txt",
        "topo_m/h100-sxm-mig-590.48.01.txt",
    ),
    "power brake": ("nvsmi_text/h100-8x-hw-power-brake-slowdown.txt",),
    "cloud instance with a T4": ("nvsmi_xml/tesla-t4-telegraf.xml",),
    "GB200 tray": ("topo_m/gb200-4x-8nic-gpu-numa-id.txt", "nvsmi_text/gb200-4x-table-580.126.09.txt"),
}

TRUTH: list[tuple[str, Subject, str, str]] = [
    ("DGX H100 with InfiniBand", "network", "infiniband", "mlx5_0-1, mlx5_4-9: InfiniBand"),
    ("H100 node with its NUMA map", "kubelet", "reserved-cpus", "kubelet: 0-1."),
    ("H100 node with its NUMA map", "kubelet", "best-effort", "GPU0-3 on node 0; GPU4-7 on node 1"),
    ("H100 node with its NUMA map", "hardware", "cores-enough", "96 physical cores for 8 GPUs"),
    ("A100 PCIe", "hardware", "board-heat", "0.60 kW together"),
    ("A100 PCIe", "kubelet", "best-effort", "GPU0 on node 0; GPU1 on node 1"),
    (
        "A100 PCIe",
        "mig",
        "profile",
        "of each instance): 7 x 1g.10gb (1/7, 9.6 GiB)",
    ),
    ("consumer GPU", "hardware", "board-heat", "0.32 kW"),
    ("consumer GPU", "hardware", "gpu-link-full", "GPU0: PCIe 4 x16"),
    ("consumer GPU", "mig", "not-supported", "RTX 4080 SUPER does not support MIG"),
    ("virtual machine with A100", "hardware", "no-switch", "(PHB)"),
    ("virtual machine with A100", "network", "infiniband", "mlx5_0-7"),
    ("RoCE", "network", "roce-lossless", "RoCE over Ethernet"),
    ("RoCE", "network", "dscp-unknown", "ask its owner"),
    ("XE9680", "hardware", "gpu-link-full", "GPU0-7: PCIe 5 x16"),
    ("XE9680", "hardware", "switch-paired", "0000:3c:00.0, GPU1"),
    ("AMD", "container", "other-accelerators", "8 x AMD Instinct MI300X"),
    ("AMD", "mig", "other-accelerators", "MIG is a feature of NVIDIA"),
    ("AMD", "hardware", "gpu-link-unknown", "amd-smi"),
    ("processors only", "container", "no-gpu", "no GPU"),
    ("processors only", "kubelet", "closest", "4 nodes"),
    ("processors only", "network", "infiniband", "qib0"),
    ("MIG is on", "mig", "state-on", "1 x 3g.40gb, 1 x 2g.20gb, 2 x 1g.10gb on GPU0"),
    ("MIG is on", "container", "gpu-mig", "(Podman: 0:0)"),
    ("MIG is on", "hardware", "supplies-of-host", "virtual machine"),
    ("power brake", "hardware", "throttled-by-power", "hw_power_brake_slowdown"),
    ("cloud instance with a T4", "hardware", "gpu-link-of-host", "PCIe 3 x8 of x16"),
    ("GB200 tray", "container", "imex-unknown", "IMEX"),
    ("GB200 tray", "hardware", "no-switch", "(SYS)"),
]
"""Words that a line of advice must contain, because a person read the fact in the recording."""

ABSENT: list[tuple[str, Subject, str]] = [
    ("cloud instance with a T4", "hardware", "gpu-link-narrow"),
    ("AMD", "container", "gpus-all"),
    ("AMD", "container", "toolkit-unknown"),
    ("MIG is on", "hardware", "supplies-unknown"),
    ("DGX H100 with InfiniBand", "network", "roce-lossless"),
    ("RoCE", "network", "infiniband"),
    ("consumer GPU", "hardware", "switches-unknown"),
]
"""Lines of advice that would be wrong for a machine."""


@functools.cache
def facts_of(name: str) -> MachineFacts:
    source = open_loose([(path, (MACHINES / path).read_bytes()) for path in RECORDINGS[name]])
    return assemble(source.title, gather(source, CollectOptions(ask_interpreters=False)))


@pytest.mark.parametrize(("name", "subject", "row", "words"), TRUTH)
def test_advice_states_what_is_true(name: str, subject: Subject, row: str, words: str) -> None:
    lines = [line for line in advised(subject, facts_of(name)).lines if line.id == row]
    assert any(words in line.text for line in lines), lines


@pytest.mark.parametrize(("name", "subject", "row"), ABSENT)
def test_advice_states_nothing_wrong(name: str, subject: Subject, row: str) -> None:
    assert row not in {line.id for line in advised(subject, facts_of(name)).lines}


@pytest.mark.parametrize("name", RECORDINGS)
@pytest.mark.parametrize("subject", CASES)
def test_every_line_has_a_fact_and_a_source(name: str, subject: Subject) -> None:
    for line in advised(subject, facts_of(name)).lines:
        assert all((line.text, line.fact, line.source, line.date))
