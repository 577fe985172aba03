"""A machine is the same cluster whether it comes from facts or is stated in words."""

from __future__ import annotations

import pytest

from assistant.usecases.probe import probe_machine
from probes.catalogue.hardware import load_catalogue
from probes.collect.collecting import CollectOptions
from probes.facts import Link, MachineFacts
from probes.sources.choose import open_source
from recipes.machine.cluster_records import Cluster
from recipes.machine.from_facts import cluster_from_facts
from recipes.machine.from_words import MachineWords, cluster_from_words
from tests.support.machines import h100, h100_node

CATALOGUE = load_catalogue()
NODES = 4
SAME = (
    "device",
    "gpu",
    "architecture",
    "fabric",
    "transport",
    "nodes",
    "ranks_per_node",
    "flops_per_s",
    "peak_flops_per_s",
    "memory_bandwidth_bytes_per_s",
    "intra_bus_bandwidth_bytes_per_s",
    "intra_latency_s",
    "inter_latency_s",
    "has_bf16",
)


def catalogue_machine(name: str) -> MachineFacts:
    return list(probe_machine(open_source(machine=name), CollectOptions()))[-1].result


def same(one: Cluster, other: Cluster) -> None:
    for field in SAME:
        assert getattr(one, field) == getattr(other, field), field
    assert one.inter_bus_bandwidth_bytes_per_s is not None
    assert other.inter_bus_bandwidth_bytes_per_s is not None
    network = pytest.approx(other.inter_bus_bandwidth_bytes_per_s.value)
    assert one.inter_bus_bandwidth_bytes_per_s.value == network


@pytest.mark.parametrize(
    ("machine", "gpu", "network"),
    [
        ("dgx-h100", "H100", ""),
        ("dgx-h200", "H200", ""),
        ("dgx-b200", "B200", ""),
        ("dgx-a100", "A100-SXM-80GB", ""),
        ("p4d", "A100-SXM-40GB", "4x 100 Gb/s EFA"),
    ],
)
def test_parts_and_a_catalogue_machine_are_one_cluster(machine: str, gpu: str, network: str) -> None:
    facts = catalogue_machine(machine)
    probed = cluster_from_facts(facts, (), CATALOGUE, nodes=NODES)
    stated = MachineWords(gpu=gpu, gpus=NODES * len(facts.gpus), gpus_per_node=len(facts.gpus), inter=network)
    same(probed, cluster_from_words(stated, CATALOGUE))


def test_the_links_of_a_board_without_a_switch_all_carry_a_ring() -> None:
    """Four A100 with four NVLinks to each other: a ring over them uses all twelve links."""
    gpus = tuple(h100(n, name="NVIDIA A100-SXM4-80GB", compute_capability="8.0") for n in range(4))
    links = tuple(
        Link(a=f"GPU{a}", b=f"GPU{b}", kind="NVLINK", nvlink_count=4)
        for a in range(4)
        for b in range(a + 1, 4)
    )
    probed = cluster_from_facts(h100_node(gpus=gpus, links=links), (), CATALOGUE)
    stated = cluster_from_words(
        MachineWords(gpu="A100-SXM-80GB", gpus=4, gpus_per_node=4, intra="NVLink"), CATALOGUE
    )
    assert (probed.fabric, stated.fabric) == ("nvlink", "nvlink")
    assert probed.intra_bus_bandwidth_bytes_per_s == stated.intra_bus_bandwidth_bytes_per_s
    assert "12 links" in probed.intra_bus_bandwidth_bytes_per_s.source
    half = cluster_from_facts(h100_node(gpus=gpus, links=links), (), CATALOGUE, ranks_per_node=2)
    assert "4 links" in half.intra_bus_bandwidth_bytes_per_s.source


def test_a_machine_without_its_gpu_in_the_catalogue_needs_its_rates() -> None:
    stated = MachineWords(
        gpu="Future 9000", gpus=16, memory_gb=64.0, peak_tflops=640.0, bandwidth_gb_per_s=3200.0
    )
    cluster = cluster_from_words(stated, CATALOGUE)
    assert (cluster.gpu, cluster.nodes, cluster.peak_flops_per_s["bf16"].value) == ("", 2, 640e12)
