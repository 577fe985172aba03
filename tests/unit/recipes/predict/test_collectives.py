"""Test collective times: against published measurements, for monotonicity, and in special cases."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from probes.base.record import Unknown
from recipes.predict.speed.collectives import (
    COLLECTIVES,
    Group,
    algorithms,
    collective_time_s,
    unknown_link,
    wire_bytes,
)
from tests.support.clusters import cpu_cluster, figure, h100_cluster

KINDS = st.sampled_from(COLLECTIVES)
FABRICS = st.sampled_from(
    [("nvswitch", "hopper"), ("nvswitch", "ampere"), ("pcie", "ada"), ("xgmi", "cdna3"), ("unknown", "")]
)
SIZES = st.floats(1, 1e12)
NODE = Group(ranks=8, nodes=1)
RATES = ("intra_bus_bandwidth_bytes_per_s", "inter_bus_bandwidth_bytes_per_s")


def hopper(nodes: int = 1, ranks: int = 8, **changes):
    return h100_cluster(nodes, ranks, fabric="nvswitch", architecture="hopper", **changes)


@st.composite
def clusters(draw):
    """Return machines of many kinds, with up to 16 ranks a node and 1024 nodes."""
    fabric, architecture = draw(FABRICS)
    cluster = h100_cluster(
        2 ** draw(st.integers(0, 10)),
        draw(st.integers(1, 16)),
        fabric=fabric,
        architecture=architecture,
        transport=draw(st.sampled_from(["infiniband", "efa", "ethernet", "unknown"])),
        **{rate: figure(draw(st.floats(1e8, 1e12))) for rate in RATES},
    )
    if draw(st.booleans()):
        cluster = msgspec.structs.replace(
            cluster, domain_ranks=cluster.ranks_per_node * draw(st.integers(1, 18))
        )
    return cluster


@st.composite
def groups(draw, cluster):
    """Return ranks on some of the nodes, equally many on each."""
    nodes = draw(st.integers(1, cluster.nodes))
    return Group(ranks=nodes * draw(st.integers(1, cluster.ranks_per_node)), nodes=nodes)


def test_wire_bytes_are_those_of_nccl_tests():
    assert wire_bytes("all_reduce", 800, 8) == 1400
    assert wire_bytes("all_gather", 800, 8) == 700
    assert wire_bytes("all_to_all", 800, 8) == 700
    assert wire_bytes("broadcast", 800, 8) == 800


@pytest.mark.parametrize(
    ("collective", "size_bytes", "measured_us"),
    [
        # nccl-tests on 8 x H100 and 8 x H200
        ("all_gather", 2**24, 71.1),
        ("all_gather", 2**26, 213.9),
        ("all_gather", 2**28, 747.1),
        ("reduce_scatter", 2**28, 760.0),
        ("all_to_all", 2**26, 212.8),
        # NVLS
        ("all_reduce", 2**26, 320.2),
        ("all_reduce", 2**30, 4029.4),
        ("all_reduce", 2**11, 17.1),
    ],
)
def test_one_node_follows_nccl_tests(collective, size_bytes, measured_us):
    time = collective_time_s(collective, size_bytes, NODE, hopper())
    assert time * 1e6 == pytest.approx(measured_us, rel=0.15)


def test_four_nodes_follow_nccl_tests():
    # 4 x 8 H200 with 3200 Gb/s per node: 365 GB/s bus bandwidth at 16 GiB (stas00/ml-engineering)
    time = collective_time_s("all_reduce", 2**34, Group(ranks=32, nodes=4), hopper(nodes=4))
    assert wire_bytes("all_reduce", 2**34, 32) / time == pytest.approx(365e9, rel=0.1)


def test_reduction_in_the_switches_of_two_nodes_halves_the_traffic_between_them():
    # 2 x 8 H100 over EFA and over RoCE: 487 and 471 GB/s at 16 GiB, above the 400 GB/s of the node's network
    time = collective_time_s("all_reduce", 2**34, Group(ranks=16, nodes=2), hopper(nodes=2))
    assert wire_bytes("all_reduce", 2**34, 16) / time == pytest.approx(480e9, rel=0.1)


def test_the_switch_does_not_add_up_on_an_a100():
    candidates = algorithms("all_reduce", NODE, h100_cluster(fabric="nvswitch", architecture="ampere"))
    assert {item.name for item in candidates} == {"ring", "tree"}


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_a_group_with_one_rank_per_node_gets_one_port(collective):
    cluster = hopper(nodes=8)
    time = collective_time_s(collective, 1e11, Group(ranks=8, nodes=8), cluster)
    assert wire_bytes(collective, 1e11, 8) / time == pytest.approx(360e9 / 8, rel=0.2)


def test_an_nvlink_domain_spans_nodes_without_the_network():
    changes = {"inter_bus_bandwidth_bytes_per_s": None, "inter_latency_s": None}
    cluster = h100_cluster(18, 4, fabric="nvswitch", architecture="blackwell", domain_ranks=72, **changes)
    inside = collective_time_s("all_gather", 1e9, Group(ranks=72, nodes=18), cluster)
    assert wire_bytes("all_gather", 1e9, 72) / inside > 300e9
    beyond = msgspec.structs.replace(cluster, nodes=36)
    assert isinstance(unknown_link(Group(ranks=144, nodes=36), beyond), Unknown)


def test_an_all_reduce_over_many_nodes_has_logarithmic_latency():
    few = collective_time_s("all_reduce", 8, Group(ranks=64, nodes=8), hopper(nodes=8))
    many = collective_time_s("all_reduce", 8, Group(ranks=4096, nodes=512), hopper(nodes=512))
    assert many < 4 * few


@given(KINDS, SIZES, st.floats(1.0, 1e6), st.data())
def test_a_larger_message_is_never_faster(collective, size_bytes, factor, data):
    cluster = data.draw(clusters())
    group = data.draw(groups(cluster))
    assume(group.ranks > 1)
    time = collective_time_s(collective, size_bytes, group, cluster)
    assert time > 0
    assert collective_time_s(collective, factor * size_bytes, group, cluster) >= time


@given(KINDS, SIZES, st.data())
def test_a_little_more_takes_a_little_longer(collective, size_bytes, data):
    cluster = data.draw(clusters())
    group = data.draw(groups(cluster))
    assume(group.ranks > 1)
    time = collective_time_s(collective, size_bytes, group, cluster)
    assert collective_time_s(collective, 1.001 * size_bytes, group, cluster) == pytest.approx(
        time, rel=0.0011
    )


@given(KINDS, SIZES, st.sampled_from(RATES), st.floats(1.0, 100.0), st.data())
def test_a_faster_link_never_slows_a_collective(collective, size_bytes, rate, factor, data):
    cluster = data.draw(clusters())
    group = data.draw(groups(cluster))
    assume(group.ranks > 1)
    faster = msgspec.structs.replace(cluster, **{rate: figure(getattr(cluster, rate).value * factor)})
    time = collective_time_s(collective, size_bytes, group, cluster)
    assert collective_time_s(collective, size_bytes, group, faster) <= time * (1 + 1e-12)


@given(st.sampled_from(["all_gather", "reduce_scatter", "broadcast"]), SIZES, st.data())
def test_more_nodes_are_never_faster(collective, size_bytes, data):
    # This does not hold for an all-reduce in the switch, where each rank adds up a smaller part.
    cluster = msgspec.structs.replace(data.draw(clusters()), domain_ranks=None)
    group = data.draw(groups(cluster))
    assume(group.ranks > 1)
    wider = Group(ranks=2 * group.ranks, nodes=2 * group.nodes)
    time = collective_time_s(collective, size_bytes, group, cluster)
    assert collective_time_s(collective, size_bytes, wider, cluster) >= time * (1 - 1e-12)


@given(KINDS, SIZES, st.integers(2, 15))
def test_more_ranks_of_a_node_are_never_faster_without_a_switch_that_adds_up(collective, size_bytes, ranks):
    cluster = h100_cluster(ranks=16, fabric="pcie", architecture="ada")
    time = collective_time_s(collective, size_bytes, Group(ranks=ranks, nodes=1), cluster)
    assert collective_time_s(collective, size_bytes, Group(ranks=ranks + 1, nodes=1), cluster) >= time


@given(KINDS, SIZES)
def test_a_collective_of_one_rank_takes_no_time(collective, size_bytes):
    assert collective_time_s(collective, size_bytes, Group(ranks=1, nodes=1), hopper()) == 0


def test_a_measured_all_reduce_bandwidth_is_met_whatever_the_algorithm():
    measured = figure(478e9)
    cluster = hopper(intra_bus_bandwidth_bytes_per_s=msgspec.structs.replace(measured, basis="measured"))
    time = collective_time_s("all_reduce", 2**36, NODE, cluster)
    assert wire_bytes("all_reduce", 2**36, 8) / time == pytest.approx(478e9, rel=0.02)
    ring = wire_bytes("all_gather", 2**36, 8) / collective_time_s("all_gather", 2**36, NODE, cluster)
    assert 320e9 < ring < 400e9


def test_a_measured_latency_slows_small_messages():
    measured = msgspec.structs.replace(figure(50e-6), basis="measured")
    slow = hopper(intra_latency_s=measured)
    assert collective_time_s("all_reduce", 8, NODE, slow) > 10 * collective_time_s(
        "all_reduce", 8, NODE, hopper()
    )


def test_ranks_of_a_cpu_pay_no_launch():
    cluster = cpu_cluster(intra_latency_s=figure(1e-6))
    assert collective_time_s("all_reduce", 8, Group(ranks=2, nodes=1), cluster) < 5e-6


@pytest.mark.parametrize("missing", ["intra_bus_bandwidth_bytes_per_s", "intra_latency_s"])
def test_an_unknown_link_has_no_time(missing):
    cluster = msgspec.structs.replace(h100_cluster(), **{missing: None})
    assert isinstance(unknown_link(NODE, cluster), Unknown)


def test_an_unknown_network_has_no_time():
    cluster = h100_cluster(nodes=2, inter_bus_bandwidth_bytes_per_s=None)
    assert isinstance(unknown_link(Group(ranks=16, nodes=2), cluster), Unknown)
    slow = h100_cluster(nodes=2, inter_bus_bandwidth_bytes_per_s=figure(1e9))
    assert collective_time_s("all_gather", 1e9, Group(ranks=16, nodes=2), slow) > 0.9
