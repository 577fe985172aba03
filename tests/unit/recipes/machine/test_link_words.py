"""Test how descriptions of links and networks in tables are read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipes.machine.link_words import domain_of, fabric_of, inter_bandwidth_of, ports_of, transport_of

GBPS = 1e9 / 8


@pytest.mark.parametrize(
    ("text", "gpus_per_node", "gbps", "transport"),
    [
        ("EFA 3200 Gb/s per node", 8, 3200, "efa"),
        ("GPUDirect-TCPXO 8x200 Gb/s per node", 8, 1600, "tcpxo"),
        ("RoCE 1600 Gb/s per node", 8, 1600, "roce"),
        ("RDMA 400 Gb/s per GPU", 8, 3200, "roce"),
        ("RDMA 400 Gb/s per GPU", 4, 1600, "roce"),
        ("8x HDR InfiniBand 200 Gb/s per node (Selene)", 8, 1600, "infiniband"),
        ("4x ConnectX-7 IB NDR 400Gb/s", 4, 1600, "infiniband"),
        ("RoCE cluster network (8x2x200 Gb/s)", 8, 3200, "roce"),
        ("2x EDR InfiniBand per node", 6, 200, "infiniband"),
        ("8 × 400GbE RoCE", 8, 3200, "roce"),
        ("8x400G", 8, 3200, "unknown"),
        ("3.2 Tb/s EFA", 8, 3200, "efa"),
        ("InfiniBand HDR100", 4, 100, "infiniband"),
        ("2 x 25 GB/s", 8, 400, "unknown"),
        # roles: the compute network counts, storage and management do not
        (
            "Storage: 2x ConnectX-6 IB HDR 200Gb/sec, Management: 1x Ethernet 100Gb/Sec, "
            "Compute: 8x ConnectX-6 IB HDR 200",
            8,
            1600,
            "infiniband",
        ),
        (
            "Storage&Compute: 4x ConnectX-7 IB NDR 400Gb/s, Management: 25Gb/s Ethernet NIC",
            8,
            1600,
            "infiniband",
        ),
        ("1x Ethernet 40Gb/Sec, 8x ConnectX-6 IB HDR 200Gb/Sec", 8, 1600, "infiniband"),
        ("BF3 200Gbps for NS and 2xBF3 400Gbps for EW", 4, 800, "roce"),
        ("Management: 1x Ethernet 10GB/Sec", 8, None, "unknown"),
        # one port that can do either rate
        ("BCM57414 NetXtreme-E 10Gb/25Gb RDMA Ethernet Controller", 8, 25, "roce"),
        ("Gig Ethernet", 8, 1, "ethernet"),
        # a negated transport
        ("8x400G Ethernet without RDMA", 8, 3200, "ethernet"),
        ("8x400G, no RDMA", 8, 3200, "ethernet"),
        ("25 GbE, non-RDMA", 8, 25, "ethernet"),
        ("8x200G RoCE, no InfiniBand", 8, 1600, "roce"),
        ("Intel X710 2x10GbE SFP+", 8, 20, "ethernet"),
        # rates in words, rates below 1 Gb/s, and counts after the kind of network
        ("10 gigabit ethernet", 8, 10, "ethernet"),
        ("10-Gigabit Ethernet", 8, 10, "ethernet"),
        ("WAN 100 Mbit", 8, 0.1, "ethernet"),
        ("100 Mbps", 8, 0.1, "unknown"),
        ("400G IB x8", 8, 3200, "infiniband"),
        ("200 Gb/s HDR InfiniBand x 4", 4, 800, "infiniband"),
        ("NetXtreme BCM5719 Gigabit Ethernet PCIe 4x1Gb", 8, 4, "ethernet"),
        # a kind without a rate, and rates that are not the network's
        ("Ethernet, Infiniband", 8, None, "infiniband"),
        ("ROCE2; Data bandwidth for GPU-PCIe: 504 GB/s; PCIe-NIC: 500 GB/s", 8, None, "roce"),
        ("Quantum-X800 InfiniBand", 4, None, "infiniband"),
        ("none (one node)", 8, None, "unknown"),
        ("", 8, None, "unknown"),
    ],
)
def test_the_network_of_a_node(text, gpus_per_node, gbps, transport):
    assert inter_bandwidth_of(text, gpus_per_node) == (None if gbps is None else pytest.approx(gbps * GBPS))
    assert transport_of(text) == transport


@pytest.mark.parametrize(
    ("text", "ports", "gbps"),
    [
        ("NDR", 8, 3200),
        ("InfiniBand HDR", 8, 1600),
        ("Slingshot-11", 4, 800),
        ("2x NDR", 8, 800),
        # A rate equal to that of the named port counts for each port; another rate, or one per node, is the
        # whole.
        ("InfiniBand NDR 400 Gb/s", 4, 1600),
        ("HDR 200Gb/s InfiniBand", 8, 1600),
        ("InfiniBand NDR 800 Gb/s", 4, 800),
        ("InfiniBand NDR 400 Gb/s per node", 4, 400),
        ("1x NDR InfiniBand 400 Gb/s", 4, 400),
        ("Gigabit Ethernet", 8, 1),
    ],
)
def test_a_generation_alone_is_that_of_every_usual_port(text, ports, gbps):
    assert inter_bandwidth_of(text, 8, ports) == pytest.approx(gbps * GBPS)


@pytest.mark.parametrize(
    ("text", "fabric"),
    [
        ("NVLink4 NVSwitch", "nvswitch"),
        ("NVLink/NVSwitch", "nvswitch"),
        ("NVL72 NVLink5", "nvswitch"),
        ("NVLink 400 GB/s (H800)", "nvlink"),
        ("NVLINK 600 GB/s + PCIe Gen5", "nvlink"),
        ("XGMI", "xgmi"),
        ("Infinity Fabric Link", "xgmi"),
        ("PCIe gen4 x16", "pcie"),
        ("N/A", None),
        ("", None),
    ],
)
def test_the_links_of_a_node(text, fabric):
    assert fabric_of(text) == fabric


def test_a_domain_is_named_by_its_gpus():
    assert domain_of("NVLink5 NVL72") == 72
    assert domain_of("NVL8") is None, "that ends with the node"
    assert domain_of("NVLink4 NVSwitch") is None


@given(st.text(max_size=80), st.integers(1, 16))
def test_any_text_is_read(text, gpus_per_node):
    bandwidth = inter_bandwidth_of(text, gpus_per_node)
    assert bandwidth is None or bandwidth > 0
    assert transport_of(text)
    assert domain_of(text) != 0
    assert fabric_of(text) in {None, "nvswitch", "nvlink", "xgmi", "pcie"}


@given(
    st.integers(1, 16),
    st.integers(1, 1600),
    st.sampled_from(["Gb/s", "Gbps", " Gb/Sec", "GbE", " Gbit/s", "G"]),
)
def test_count_times_rate_in_any_unit(count, rate, unit):
    assert inter_bandwidth_of(f"{count}x {rate}{unit} NIC", 8) == pytest.approx(count * rate * GBPS)


@pytest.mark.parametrize(
    ("text", "ports"),
    [
        ("8x400G IB", 8),
        ("RoCE cluster network (8x2x200 Gb/s)", 16),
        ("4 x 200G RoCE, 2 x 100G storage", 4),
        ("100G Ethernet", 1),
        ("8x200G RoCE, 2x100G Ethernet", 8),
        ("", 1),
        ("0x200G", 1),
    ],
)
def test_ports_of_a_network(text: str, ports: int) -> None:
    assert ports_of(text) == ports
