"""Test the machine of a case: rates of its GPU, links and network, from the case or the usual ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.catalogue.hardware import load_catalogue
from recipes.cases.case import Case, CaseError, cluster_of_case
from recipes.machine.cluster_records import Cluster

CATALOGUE = load_catalogue()


def cluster(gpu: str, gpus: int = 8, **said: object) -> Cluster:
    return cluster_of_case(Case(case_id="one", gpu=gpu, **said), gpus, CATALOGUE)  # type: ignore[arg-type]


def value(figure) -> float:
    assert figure is not None
    return figure.value


def test_an_h100_node_is_that_of_its_reference_design():
    machine = cluster("H100-SXM-80GB", 64)
    assert (machine.nodes, machine.ranks_per_node, machine.fabric, machine.domain_ranks) == (
        8,
        8,
        "nvswitch",
        None,
    )
    assert value(machine.peak_flops_per_s["bf16"]) == pytest.approx(989e12, rel=0.01)
    assert value(machine.peak_flops_per_s["mxfp8"]) == value(machine.peak_flops_per_s["fp8"])
    assert "nvfp4" not in machine.peak_flops_per_s
    assert value(machine.intra_bus_bandwidth_bytes_per_s) == pytest.approx(367.6e9)
    assert value(machine.inter_bus_bandwidth_bytes_per_s) == pytest.approx(400e9 * 0.9)
    assert machine.transport == "infiniband"
    assert machine.has_bf16


def test_blackwell_racks_have_a_domain_and_four_bit_rates():
    machine = cluster("GB200", 128)
    assert (machine.nodes, machine.ranks_per_node, machine.domain_ranks) == (32, 4, 72)
    assert value(machine.peak_flops_per_s["nvfp4"]) > 1.9 * value(machine.peak_flops_per_s["fp8"])
    assert cluster("GB200", 128, interconnect_intra="NVLink5 NVL36").domain_ranks == 36


def test_a_gpu_without_bf16_and_tf32_computes_in_what_it_has():
    machine = cluster("V100-SXM2-16GB")
    assert not machine.has_bf16
    assert "bf16" not in machine.peak_flops_per_s
    assert value(machine.peak_flops_per_s["tf32"]) == value(machine.peak_flops_per_s["fp32"])
    assert value(cluster("GTX 1080 Ti").peak_flops_per_s["fp16"]) == value(
        cluster("GTX 1080 Ti").peak_flops_per_s["fp32"]
    )


def test_the_stated_network_counts_before_the_usual_one():
    usual, stated = (
        cluster("A100-SXM-80GB", 16),
        cluster("A100-SXM-80GB", 16, interconnect_inter="4x 100 Gb/s EFA"),
    )
    assert value(usual.inter_bus_bandwidth_bytes_per_s) == pytest.approx(200e9 * 0.9)
    assert value(stated.inter_bus_bandwidth_bytes_per_s) == pytest.approx(50e9 * 0.9)
    assert stated.transport == "efa"
    assert "stated" in stated.inter_bus_bandwidth_bytes_per_s.source  # type: ignore[union-attr]


def test_a_generation_alone_is_that_of_the_usual_ports():
    network = value(cluster("H100-SXM-80GB", 16, interconnect_inter="HDR").inter_bus_bandwidth_bytes_per_s)
    assert network == pytest.approx(200e9 * 0.9)


def test_plain_ethernet_is_no_compute_network():
    machine = cluster("H100-SXM-80GB", 16, interconnect_inter="Ethernet")
    assert machine.transport == "ethernet"
    assert value(machine.inter_bus_bandwidth_bytes_per_s) <= 12.5e9
    assert "Ethernet" in machine.inter_bus_bandwidth_bytes_per_s.source  # type: ignore[union-attr]
    roce = cluster("H100-SXM-80GB", 16, interconnect_inter="RoCE")
    assert value(roce.inter_bus_bandwidth_bytes_per_s) > 100e9


@given(st.integers(1, 32), st.sampled_from([1, 10, 25, 100, 200, 400, 800]))
def test_more_ports_do_not_lift_what_a_node_sends_over_sockets(ports: int, gbps: int) -> None:
    """Processors copy each byte of TCP; RDMA needs no copies (nccl issues 450 and 1447)."""
    words = f"{ports}x{gbps}G Ethernet"
    tcp = value(
        cluster(
            "H100-SXM-80GB", 16, interconnect_inter=f"{words} without RDMA"
        ).inter_bus_bandwidth_bytes_per_s
    )
    rdma = value(
        cluster("H100-SXM-80GB", 16, interconnect_inter=f"{words}, RoCE").inter_bus_bandwidth_bytes_per_s
    )
    assert tcp == pytest.approx(min(ports * gbps / 8 * 1e9 * 0.6, 7.5e9))
    assert tcp < rdma


@pytest.mark.parametrize(("per_node", "gbps"), [(1, 400), (2, 800), (3, 1200), (8, 3200)])
@pytest.mark.parametrize("words", ["", "NDR"])
def test_a_smaller_node_has_fewer_ports(per_node: int, gbps: int, words: str) -> None:
    machine = cluster("H100-SXM-80GB", 2 * per_node, gpus_per_node=per_node, interconnect_inter=words)
    assert value(machine.inter_bus_bandwidth_bytes_per_s) == pytest.approx(gbps / 8 * 1e9 * 0.9)


def test_gpus_of_a_part_of_a_node_send_no_more_than_their_slots_carry():
    machine = cluster("H100-SXM-80GB", 2, gpus_per_node=1, interconnect_inter="8x 400 Gb/s InfiniBand")
    assert (machine.nodes, machine.ranks_per_node) == (2, 1)
    assert value(machine.inter_bus_bandwidth_bytes_per_s) <= 64e9
    whole = cluster("H100-SXM-80GB", 16, interconnect_inter="8x 400 Gb/s InfiniBand")
    assert value(whole.inter_bus_bandwidth_bytes_per_s) == pytest.approx(400e9 * 0.9)


@pytest.mark.parametrize(
    ("gpu", "per_node", "intra", "fabric"),
    [
        ("A100-SXM-80GB", 8, "PCIe 4.0", "nvswitch"),
        ("A100-SXM-80GB", 4, "NVLink 3.0 600GB/s", "nvlink"),
        ("A100-SXM-80GB", 4, "NVSwitch", "nvswitch"),
        ("A100-PCIe-80GB", 4, "NVLINK BRIDGE", "pcie"),
        ("A100-PCIe-80GB", 2, "NVLINK BRIDGE", "nvlink"),
        ("A100-PCIe-80GB", 8, "", "pcie"),
        ("H200-NVL-141GB", 4, "4-way NVIDIA NVLINK bridge", "nvlink"),
        ("V100-SXM2-32GB", 8, "NVLink2 hybrid cube mesh", "nvlink"),
        ("V100-SXM3-32GB", 16, "", "nvswitch"),
        ("RTX3090", 2, "", "pcie"),
        ("MI300X", 8, "", "xgmi"),
        ("MI300X", 8, "None", "xgmi"),
    ],
)
def test_the_fabric_of_a_node_follows_from_its_gpus_and_links(gpu, per_node, intra, fabric):
    assert cluster(gpu, per_node, gpus_per_node=per_node, interconnect_intra=intra).fabric == fabric


def test_an_older_slot_slows_a_card():
    fast, slow = cluster("L40S", 4), cluster("L40S", 4, interconnect_intra="PCIe Gen3 x16")
    assert value(slow.intra_bus_bandwidth_bytes_per_s) == pytest.approx(
        value(fast.intra_bus_bandwidth_bytes_per_s) / 2, rel=0.01
    )


def test_a_part_of_a_mesh_has_a_part_of_its_links():
    rates = [value(cluster("V100-SXM2-32GB", ranks).intra_bus_bandwidth_bytes_per_s) for ranks in (2, 4, 8)]
    assert rates[0] < rates[1] < rates[2]
    whole = cluster("A100-SXM-80GB", 4, gpus_per_node=4, interconnect_intra="NVLink")
    assert value(whole.intra_bus_bandwidth_bytes_per_s) > 0.7 * 300e9


def test_a_stated_memory_counts_only_if_it_is_more_than_a_rounding():
    usual = value(cluster("GB300").memory_bytes_per_rank)
    assert value(cluster("GB300", gpu_mem_gb=278.0).memory_bytes_per_rank) == usual
    assert value(cluster("RTX4090", gpu_mem_gb=48.0).memory_bytes_per_rank) == pytest.approx(
        2 * value(cluster("RTX4090").memory_bytes_per_rank), rel=0.01
    )
    assert value(cluster("MI250X", gpu_mem_gb=128.0).memory_bytes_per_rank) == value(
        cluster("MI250X").memory_bytes_per_rank
    )


def test_a_gpu_that_only_the_case_describes():
    described = {"gpu_peak_tflops": 640.0, "gpu_memory_bandwidth_gb_per_s": 3200.0, "gpu_mem_gb": 64.0}
    machine = cluster("Ascend 910C", 16, **described)
    assert value(machine.peak_flops_per_s["bf16"]) == 640e12
    assert value(machine.memory_bandwidth_bytes_per_s) == 3200e9
    assert machine.world_size == 16
    with pytest.raises(
        CaseError,
        match="'Ascend 910C' is not in the catalogue: give gpu_memory_bandwidth_gb_per_s, gpu_mem_gb",
    ):
        cluster("Ascend 910C", gpu_peak_tflops=640.0)
    with pytest.raises(CaseError, match="gpu is blank"):
        cluster("", **described)


@given(
    st.sampled_from([row.id for row in CATALOGUE.gpus]),
    st.integers(1, 20000),
    st.one_of(st.none(), st.integers(1, 72)),
    st.sampled_from(["", "NVLink", "PCIe", "NVSwitch", "Infinity Fabric", "pci express 9"]),
    st.sampled_from(["", "InfiniBand", "10 GbE", "8x NDR 400 Gb/s", "0 Gb/s"]),
)
def test_every_gpu_in_any_number_is_a_whole_machine(gpu, gpus, per_node, intra, inter):
    machine = cluster(gpu, gpus, gpus_per_node=per_node, interconnect_intra=intra, interconnect_inter=inter)
    assert machine.gpu == gpu
    assert machine.nodes * machine.ranks_per_node >= gpus > (machine.nodes - 1) * machine.ranks_per_node
    network = (machine.inter_bus_bandwidth_bytes_per_s, machine.inter_latency_s)
    if machine.nodes == 1:
        assert network == (None, None)
        network = ()
    for figure in (
        machine.memory_bytes_per_rank,
        machine.memory_bandwidth_bytes_per_s,
        machine.intra_bus_bandwidth_bytes_per_s,
        machine.intra_latency_s,
        *network,
    ):
        assert value(figure) > 0
    assert {"fp32", "fp16", "tf32"} <= set(machine.peak_flops_per_s)
