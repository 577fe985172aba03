"""Latencies of collectives, hop by hop, and bytes on the wire, against values computed by hand."""

from __future__ import annotations

import msgspec
import pytest

from probes.catalogue.hardware import load_catalogue
from recipes.machine.cluster_records import Cluster
from recipes.machine.from_words import MachineWords, cluster_from_words
from recipes.predict.parameters import parameter
from recipes.predict.speed.collectives import Collective, Group, algorithms
from tests.support.clusters import cpu_cluster, figure, h100_cluster, measured

HOP, NETWORK_HOP = 1e-4, 1e-3
PEER = parameter("collective.peer_s")
"""Seconds that each peer outside of a rank's own NVLink domain adds to an all-to-all."""


def processors(nodes: int, ranks: int) -> Cluster:
    """Return a cluster of CPU ranks, which need no kernel launch and whose links were measured."""
    cluster = cpu_cluster(ranks=ranks, intra_latency_s=measured(HOP))
    return msgspec.structs.replace(
        cluster,
        nodes=nodes,
        inter_bus_bandwidth_bytes_per_s=measured(1e9),
        inter_latency_s=measured(NETWORK_HOP),
    )


def latencies(collective: Collective, cluster: Cluster) -> dict[str, float]:
    group = Group(ranks=cluster.world_size, nodes=cluster.nodes)
    by_algorithm = algorithms(collective, group, cluster)
    assert isinstance(by_algorithm, tuple)
    return {model.name: model.latency_s for model in by_algorithm}


ONE_NODE = {
    "all_reduce": {"ring": 6 * HOP, "tree": 6 * HOP},
    "all_gather": {"ring": 3 * HOP},
    "reduce_scatter": {"ring": 3 * HOP},
    "all_to_all": {"exchange": 3 * HOP},
    "broadcast": {"ring": 3 * HOP},
    "sendrecv": {"message": 2 * HOP},
}
"""Latencies of four ranks of a node. A ring takes three hops, an all-reduce twice as many, and an exchange
1 + log2(4).
"""
FOUR_NODES = {
    "all_reduce": {"ring": 6 * NETWORK_HOP, "tree": 4 * NETWORK_HOP},
    "all_gather": {"ring": 3 * NETWORK_HOP, "pat": 2 * NETWORK_HOP},
    "reduce_scatter": {"ring": 3 * NETWORK_HOP, "pat": 2 * NETWORK_HOP},
    "all_to_all": {"exchange": 3 * NETWORK_HOP + 3 * PEER},
    "broadcast": {"ring": 3 * NETWORK_HOP},
    "sendrecv": {"message": NETWORK_HOP},
}
"""One rank on each of four nodes: a tree climbs log2(4) levels up and down."""
TWO_BY_TWO = {
    "all_reduce": {"ring": 4 * HOP + 2 * NETWORK_HOP, "tree": 2 * HOP + 2 * NETWORK_HOP},
    "all_gather": {"ring": 2 * HOP + NETWORK_HOP},
    "reduce_scatter": {"ring": 2 * HOP + NETWORK_HOP},
    "all_to_all": {"exchange": 2 * HOP + 2 * NETWORK_HOP + 2 * PEER},
    "broadcast": {"ring": 2 * HOP + NETWORK_HOP},
    "sendrecv": {"message": NETWORK_HOP},
}


@pytest.mark.parametrize(
    ("nodes", "ranks", "expected"), [(1, 4, ONE_NODE), (4, 1, FOUR_NODES), (2, 2, TWO_BY_TWO)]
)
@pytest.mark.parametrize("collective", ONE_NODE)
def test_latency_is_the_hops_that_a_message_takes(
    collective: Collective, nodes: int, ranks: int, expected: dict[str, dict[str, float]]
) -> None:
    assert latencies(collective, processors(nodes, ranks)) == pytest.approx(expected[collective])


@pytest.mark.parametrize(
    ("collective", "wire"),
    [
        ("all_reduce", 2 * 3 / 4),
        ("all_gather", 3 / 4),
        ("reduce_scatter", 3 / 4),
        ("broadcast", 1.0),
    ],
)
def test_every_byte_goes_over_the_ring_as_often_as_nccl_counts(collective: Collective, wire: float) -> None:
    cluster = processors(1, 4)
    by_algorithm = algorithms(collective, Group(ranks=4, nodes=1), cluster)
    assert isinstance(by_algorithm, tuple)
    # Beside its wire time, a rank of a gather copies its own quarter.
    own = (
        parameter("collective.copied_share") / 4 if "gather" in collective or "scatter" in collective else 0.0
    )
    assert by_algorithm[0].wire_s_per_byte * 1.2e9 == pytest.approx(wire + own)


@pytest.mark.parametrize("fabric", ["nvswitch", "pcie"])
def test_a_gpu_pays_a_launch_and_the_hops_of_its_fabric(fabric: str) -> None:
    cluster = h100_cluster(ranks=4, fabric=fabric, architecture="ampere")
    keys = (f"{fabric}-ampere", fabric)
    launch, hop = parameter("collective.launch_s", *keys), parameter("collective.hop_s", *keys)
    assert latencies("all_gather", cluster) == pytest.approx({"ring": launch + 3 * hop})
    assert latencies("all_to_all", cluster) == pytest.approx({"exchange": launch + 3 * hop})
    assert latencies("sendrecv", cluster) == pytest.approx({"message": launch + 2 * hop})


def test_the_network_of_gpus_has_the_hop_of_its_transport() -> None:
    cluster = h100_cluster(2, 1, transport="efa", fabric="pcie", architecture="ada")
    launch = parameter("collective.launch_s", "pcie")
    hop = parameter("collective.network_hop_s", "efa")
    assert latencies("all_gather", cluster) == pytest.approx({"ring": launch + hop})
    assert hop > parameter("collective.network_hop_s")


def test_hops_of_described_machines_are_those_of_nccls_table() -> None:
    # NVIDIA/nccl src/graph/tuning.cc, hwLatencies: LL128 over NVLink 1.9 us, over PCIe 2.5 us, network 14 us
    catalogue = load_catalogue()
    links = cluster_from_words(MachineWords(gpu="H100-SXM-80GB", gpus=16, gpus_per_node=8), catalogue)
    slots = cluster_from_words(MachineWords(gpu="L40S", gpus=16, gpus_per_node=8, intra="PCIe"), catalogue)
    assert links.intra_latency_s is not None
    assert slots.intra_latency_s is not None
    assert links.inter_latency_s is not None
    assert (links.intra_latency_s.value, slots.intra_latency_s.value) == (1.9e-6, 2.5e-6)
    assert links.inter_latency_s.value == 14e-6


def test_a_measured_hop_replaces_that_of_the_fabric_and_includes_the_launch() -> None:
    cluster = h100_cluster(ranks=4, fabric="pcie", architecture="ada", intra_latency_s=measured(HOP))
    assert latencies("all_gather", cluster) == pytest.approx({"ring": 3 * HOP})
    modelled = h100_cluster(ranks=4, fabric="pcie", architecture="ada", intra_latency_s=figure(HOP))
    assert latencies("all_gather", modelled)["ring"] < HOP
