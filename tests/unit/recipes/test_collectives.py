"""Collective times against nccl-tests, and the traps of the field."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.record import Unknown
from recipes.collectives import Group, bus_bandwidth_bytes_per_s, collective_time_s, latency_s, wire_bytes
from tests.support.clusters import figure, h100_cluster

KINDS = st.sampled_from(["all_reduce", "all_gather", "reduce_scatter"])


def test_wire_bytes_are_those_of_nccl_tests():
    assert wire_bytes("all_reduce", 800, 8) == 1400
    assert wire_bytes("all_gather", 800, 8) == 700


@pytest.mark.parametrize(
    ("collective", "size_bytes", "measured_us"),
    [
        # nccl-tests on 8 x H100 and 8 x H200, ring
        ("all_gather", 2**24, 71.1),
        ("all_gather", 2**26, 213.9),
        ("all_gather", 2**28, 747.1),
        ("reduce_scatter", 2**28, 760.0),
    ],
)
def test_one_node_follows_nccl_tests(collective, size_bytes, measured_us):
    time = collective_time_s(collective, size_bytes, Group(ranks=8, nodes=1), h100_cluster())
    assert time * 1e6 == pytest.approx(measured_us, rel=0.25)


def test_four_nodes_follow_nccl_tests():
    # 4 x 8 H200 with 3200 Gb/s per node: 365 GB/s bus bandwidth at 16 GiB (stas00/ml-engineering)
    time = collective_time_s("all_reduce", 2**34, Group(ranks=32, nodes=4), h100_cluster(nodes=4))
    assert wire_bytes("all_reduce", 2**34, 32) / time == pytest.approx(365e9, rel=0.1)


def test_a_group_with_one_rank_per_node_gets_one_port():
    cluster = h100_cluster(nodes=8)
    alone = bus_bandwidth_bytes_per_s(Group(ranks=8, nodes=8), cluster)
    full = bus_bandwidth_bytes_per_s(Group(ranks=64, nodes=8), cluster)
    assert full == 360e9
    assert alone == pytest.approx(full / 8)


def test_an_all_reduce_over_many_nodes_has_logarithmic_latency():
    few = latency_s("all_reduce", Group(ranks=64, nodes=8), h100_cluster(nodes=8))
    many = latency_s("all_reduce", Group(ranks=4096, nodes=512), h100_cluster(nodes=512))
    assert many < 4 * few


@given(KINDS, st.floats(1, 1e12), st.integers(1, 10), st.integers(0, 7))
def test_time_grows_with_bytes_and_is_at_least_the_wire(collective, size_bytes, power, extra):
    nodes = 2 ** (power - 1)
    cluster = h100_cluster(nodes=nodes, ranks=1 + extra)
    group = Group(ranks=cluster.world_size, nodes=nodes)
    time = collective_time_s(collective, size_bytes, group, cluster)
    if group.ranks == 1:
        assert time == 0
        return
    assert collective_time_s(collective, 2 * size_bytes, group, cluster) > time
    assert time > wire_bytes(collective, size_bytes, group.ranks) / bus_bandwidth_bytes_per_s(group, cluster)


@pytest.mark.parametrize("missing", ["intra_bus_bandwidth_bytes_per_s", "intra_latency_s"])
def test_an_unknown_link_has_no_time(missing):
    cluster = msgspec.structs.replace(h100_cluster(), **{missing: None})
    assert isinstance(collective_time_s("all_reduce", 1e6, Group(ranks=8, nodes=1), cluster), Unknown)


def test_an_unknown_network_has_no_time():
    cluster = h100_cluster(nodes=2, inter_bus_bandwidth_bytes_per_s=None)
    assert isinstance(collective_time_s("all_gather", 1e6, Group(ranks=16, nodes=2), cluster), Unknown)
    slow = h100_cluster(nodes=2, inter_bus_bandwidth_bytes_per_s=figure(1e9))
    assert collective_time_s("all_gather", 1e9, Group(ranks=16, nodes=2), slow) > 0.9
