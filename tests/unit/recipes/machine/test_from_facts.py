"""Test the sources of a cluster's figures: measured if possible, else from the catalogue, else unknown."""

from __future__ import annotations

import msgspec
import pytest

from probes.base.errors import UsageError
from probes.base.record import NOT_RECORDED, Unknown
from probes.base.units import GIB
from probes.catalogue.hardware import Catalogue, load_catalogue
from probes.facts import Cpu, Gpu, Interface, MachineFacts, Memory, NumaNode
from probes.facts.measurements import Measurement
from recipes.machine.from_facts import cluster_from_facts, has_bf16, network_of
from recipes.machine.ranks import default_ranks
from recipes.machine.scaled_rates import with_node_links
from recipes.predict.speed.collectives import Group, collective_time_s
from tests.support.machines import A100_PCIE, CATALOGUE, cpu_box, h100, h100_node, ndr_port


def measured(
    metric: str, value: float, subject: str = "CPU rank 0", bench: str = "x", **parameters
) -> Measurement:
    return Measurement(
        bench_id=bench,
        subject=subject,
        metric=metric,
        unit="",
        samples=(value, value * 1.02, value * 0.98),
        parameters=parameters,
    )


def test_a_known_node_has_catalogue_figures():
    cluster = cluster_from_facts(h100_node(), (), CATALOGUE, nodes=4)
    assert (cluster.device, cluster.world_size, cluster.has_bf16) == ("cuda", 32, True)
    assert cluster.flops_per_s["bf16"].value == pytest.approx(0.78 * 989e12)
    assert cluster.peak_flops_per_s["bf16"].value == 989e12
    assert cluster.memory_bandwidth_bytes_per_s.value == pytest.approx(3.35e12)
    assert cluster.intra_bus_bandwidth_bytes_per_s.value == pytest.approx(0.82 * 450e9)
    assert cluster.inter_bus_bandwidth_bytes_per_s.value == pytest.approx(8 * 50e9 * 0.9)
    assert 78 * GIB < cluster.memory_bytes_per_rank.value < 79.65 * GIB
    assert not cluster.warnings


def test_one_node_has_no_network():
    cluster = cluster_from_facts(h100_node(), (), CATALOGUE)
    assert cluster.inter_bus_bandwidth_bytes_per_s is None


def test_measurements_replace_the_catalogue_and_the_slowest_gpu_counts():
    measurements = (
        measured("gemm_flops_per_s", 700e12, "GPU0", dtype="bf16", m=8192, n=8192, k=8192),
        measured("gemm_flops_per_s", 500e12, "GPU0", dtype="bf16", m=512, n=512, k=512),
        measured("gemm_flops_per_s", 650e12, "GPU1", dtype="bf16", m=8192, n=8192, k=8192),
        measured("memory_bandwidth_bytes_per_s", 2.6e12, "GPU0", direction="device_to_device"),
        measured("memory_bandwidth_bytes_per_s", 55e9, "GPU0", direction="host_to_device"),
        measured(
            "bus_bandwidth_bytes_per_s",
            470e9,
            "8 ranks",
            "collectives",
            bytes=2**30,
            world_size=8,
            backend="nccl",
        ),
        measured(
            "bus_bandwidth_bytes_per_s",
            20e9,
            "8 ranks",
            "collectives",
            bytes=2**20,
            world_size=8,
            backend="nccl",
        ),
        measured(
            "bus_bandwidth_bytes_per_s",
            300e9,
            "2 ranks",
            "collectives",
            bytes=2**30,
            world_size=2,
            backend="nccl",
        ),
        measured(
            "collective_time_s", 28e-6, "8 ranks", "collectives", bytes=1024, world_size=8, backend="nccl"
        ),
    )
    cluster = cluster_from_facts(h100_node(), measurements, CATALOGUE)
    assert cluster.flops_per_s["bf16"].value == 650e12
    assert cluster.flops_per_s["bf16"].basis == "measured"
    assert cluster.memory_bandwidth_bytes_per_s.value == 2.6e12
    assert cluster.intra_bus_bandwidth_bytes_per_s.value == 470e9
    assert cluster.intra_latency_s.value == pytest.approx(2e-6)


def test_measurements_of_other_parts_are_not_taken_for_those_of_the_gpus():
    """Host memory, CPU products, triads and other collectives have metrics of the same names."""
    beside = (
        measured("gemm_flops_per_s", 2e12, "CPU", "cpu-gemm", dtype="bf16", m=2048, n=2048, k=2048),
        measured("memory_bandwidth_bytes_per_s", 2e11, "NUMA node 0", "host-memory", operation="copy"),
        measured("memory_bandwidth_bytes_per_s", 2.9e12, "GPU0", "memory-copy", operation="triad"),
        measured(
            "bus_bandwidth_bytes_per_s", 20e9, "8 ranks", "isolation", bytes=2**30, world_size=8, layer="nic"
        ),
        measured(
            "bus_bandwidth_bytes_per_s",
            600e9,
            "8 ranks",
            "collectives",
            collective="all_to_all",
            bytes=2**30,
            world_size=8,
        ),
    )
    assert cluster_from_facts(h100_node(), beside, CATALOGUE) == cluster_from_facts(
        h100_node(), (), CATALOGUE
    )


def test_a_slow_copy_to_the_host_bounds_what_pcie_can_carry():
    facts = h100_node(gpus=tuple(h100(n) for n in range(2)), links=())
    copies = tuple(
        measured(
            "memory_bandwidth_bytes_per_s", rate, f"GPU{n}", "host-device", direction=direction, pinned=pinned
        )
        for n, rate in ((0, 55e9), (1, 12e9))
        for direction in ("host_to_device", "device_to_host")
        for pinned in (True, False)
    )
    figure = cluster_from_facts(facts, copies, CATALOGUE).intra_bus_bandwidth_bytes_per_s
    assert (figure.value, figure.basis) == (12e9, "measured")
    # Copies that are as fast as the slot leave the figure of the model as it is.
    assert (
        cluster_from_facts(facts, copies[:4], CATALOGUE).intra_bus_bandwidth_bytes_per_s.basis == "modelled"
    )


def all_gather(size: int, seconds: float, ranks: int = 8) -> Measurement:
    name = f"{ranks} ranks"
    return measured(
        "collective_time_s",
        seconds,
        name,
        "collectives",
        collective="all_gather",
        bytes=size,
        world_size=ranks,
    )


def test_a_collective_that_was_measured_costs_what_its_fit_says():
    sizes = [4**power * 1024 for power in range(8)]
    cluster = cluster_from_facts(
        h100_node(), tuple(all_gather(size, 50e-6 + size / 100e9) for size in sizes), CATALOGUE
    )
    node = Group(ranks=8, nodes=1)
    assert collective_time_s("all_gather", 2**20, node, cluster) == pytest.approx(
        50e-6 + 2**20 / 100e9, rel=1e-3
    )
    assert collective_time_s("all_gather", 2**20, node, with_node_links(cluster, 2.0)) == pytest.approx(
        50e-6 + 2**20 / 200e9, rel=1e-3
    )
    # Another collective, part of the ranks, and more nodes are modelled as before.
    plain = cluster_from_facts(h100_node(), (), CATALOGUE)
    for collective, group in (("all_reduce", node), ("all_gather", Group(ranks=4, nodes=1))):
        assert collective_time_s(collective, 2**20, group, cluster) == collective_time_s(
            collective, 2**20, group, plain
        )
    two = [
        cluster_from_facts(h100_node(), of, CATALOGUE, nodes=2)
        for of in (tuple(all_gather(n, 1.0) for n in sizes), ())
    ]
    assert len({collective_time_s("all_gather", 2**20, Group(ranks=16, nodes=2), item) for item in two}) == 1


def test_a_fit_that_misses_its_own_points_or_has_other_ranks_is_not_used():
    sizes = [4**power * 1024 for power in range(8)]
    wild = tuple(all_gather(size, 1e-3 * (1 + 9 * (power % 2))) for power, size in enumerate(sizes))
    assert cluster_from_facts(h100_node(), wild, CATALOGUE).collective_fits == {}
    fewer = tuple(all_gather(size, 50e-6 + size / 100e9, ranks=4) for size in sizes)
    assert cluster_from_facts(h100_node(), fewer, CATALOGUE).collective_fits == {}


def test_an_unknown_gpu_has_memory_and_no_rates():
    facts = h100_node(gpus=tuple(h100(n, name="NVIDIA Future 9000") for n in range(8)))
    cluster = cluster_from_facts(facts, (), CATALOGUE)
    assert cluster.memory_bytes_per_rank is not None
    assert not cluster.flops_per_s
    assert cluster.memory_bandwidth_bytes_per_s is None
    assert any("Future 9000" in warning for warning in cluster.warnings)


def test_mixed_gpus_have_the_smallest_memory_and_a_warning():
    other = h100(7, name=A100_PCIE.driver_name, memory_bytes=40 * GIB)
    cluster = cluster_from_facts(h100_node(gpus=(*h100_node().gpus[:7], other)), (), CATALOGUE)
    assert cluster.memory_bytes_per_rank.value < 40 * GIB
    assert any("different kinds" in warning for warning in cluster.warnings)


def test_gpus_in_mig_mode_are_left_out():
    gpus = tuple(h100(n, mig_enabled=n == 0) for n in range(8))
    cluster = cluster_from_facts(h100_node(gpus=gpus), (), CATALOGUE)
    assert cluster.ranks_per_node == 7
    assert any("MIG" in warning for warning in cluster.warnings)
    cpu = cluster_from_facts(
        h100_node(gpus=tuple(h100(n, mig_enabled=True) for n in range(8))), (), CATALOGUE
    )
    assert cpu.device == "cpu"
    assert any("MIG" in warning for warning in cpu.warnings)


def test_memory_per_rank_is_unknown_if_that_of_one_gpu_is_unknown():
    gpus = (h100(0), h100(1, memory_bytes=NOT_RECORDED))
    assert cluster_from_facts(h100_node(gpus=gpus), (), CATALOGUE).memory_bytes_per_rank is None


def test_pcie_boxes_use_the_slowest_slot():
    gpus = tuple(h100(n) for n in range(2))
    facts = h100_node(gpus=gpus, links=())
    cluster = cluster_from_facts(facts, (), CATALOGUE)
    assert cluster.intra_bus_bandwidth_bytes_per_s.value == pytest.approx(0.63 * 63e9, rel=0.01)


def test_a_cpu_rank_has_its_share_of_the_memory_limit():
    facts = MachineFacts(
        gpus=(), memory=Memory(total_bytes=64 * GIB, available_bytes=32 * GIB, limit_bytes=8 * GIB)
    )
    cluster = cluster_from_facts(facts, (), Catalogue(), ranks_per_node=4)
    assert (cluster.device, cluster.memory_bytes_per_rank.value) == ("cpu", 2 * GIB)
    assert cluster_from_facts(MachineFacts(gpus=()), (), Catalogue()).memory_bytes_per_rank is None


def test_a_cpu_takes_bf16_only_where_it_is_measured_faster():
    fp32 = measured("gemm_flops_per_s", 50e9, dtype="fp32", m=1, n=1, k=1)
    slow = measured("gemm_flops_per_s", 5e9, dtype="bf16", m=1, n=1, k=1)
    fast = measured("gemm_flops_per_s", 200e9, dtype="bf16", m=1, n=1, k=1)
    assert not cluster_from_facts(cpu_box(), (fp32, slow), Catalogue()).has_bf16
    assert cluster_from_facts(cpu_box(), (fp32, fast), Catalogue()).has_bf16
    assert not cluster_from_facts(cpu_box(), (), Catalogue()).has_bf16


@pytest.mark.parametrize(
    ("capability", "has"), [("8.0", True), ("7.5", False), ("10.0", True), ("", False), ("x.y", False)]
)
def test_bf16_needs_compute_capability_8(capability, has):
    gpus = (h100(0, name="Other", compute_capability=capability),)
    assert cluster_from_facts(h100_node(gpus=gpus), (), Catalogue()).has_bf16 is has


@pytest.mark.parametrize("choices", [{"nodes": 0}, {"ranks_per_node": 0}, {"ranks_per_node": 9}])
def test_impossible_sizes_are_refused(choices):
    with pytest.raises(UsageError):
        cluster_from_facts(h100_node(), (), CATALOGUE, **choices)


def test_facts_that_know_nothing_still_make_a_cluster():
    cluster = cluster_from_facts(MachineFacts(), (), Catalogue(), nodes=2)
    assert cluster.device == "cpu"
    assert cluster.warnings


def test_a_wide_box_without_gpus_gets_a_rank_per_numa_node():
    nodes = tuple(NumaNode(index=n) for n in range(8))
    assert default_ranks(MachineFacts(gpus=(), numa_nodes=nodes, cpu=Cpu(allowed_cpus=64))) == 8
    assert default_ranks(MachineFacts(gpus=(), numa_nodes=nodes, cpu=Cpu(allowed_cpus=1))) == 1
    assert default_ranks(MachineFacts(gpus=(Gpu(index=0),))) == 1


def test_measured_steps_become_anchors_and_broken_ones_do_not():
    good = measured(
        "step_time_s", 0.7, "2 ranks", "train-step", model="rigtune-mini", strategy="ddp", micro_batch=8,
        sequence_length=256, precision="fp32", world_size=2,
    )  # fmt: skip
    broken = msgspec.structs.replace(good, parameters={"model": "rigtune-mini"})
    empty = msgspec.structs.replace(good, samples=())
    cluster = cluster_from_facts(cpu_box(), (good, broken, empty), Catalogue())
    assert [anchor.micro_batch for anchor in cluster.anchors] == [8]


def _ports(*rates: float | Unknown, **changes: object) -> MachineFacts:
    ports = tuple(ndr_port(index, rate_gbps=rate, **changes) for index, rate in enumerate(rates))
    return h100_node(nics=ports)


def _interface(speed_gbps: float | Unknown) -> MachineFacts:
    facts = h100_node(nics=())
    face = Interface(
        name="ens3",
        up=True,
        speed_gbps=speed_gbps,
        addresses=("10.0.0.7/24",),
        is_default_route=True,
    )
    return msgspec.structs.replace(facts, interfaces=(face,))


@pytest.mark.parametrize(
    ("facts", "transport", "gigabytes_per_s", "uses_tcp", "source"),
    [
        (_ports(400.0, 400.0), "infiniband", 100.0, False, "2 x 400 Gb/s RDMA x 0.9"),
        (_ports(100.0, link_layer="Ethernet"), "roce", 12.5, False, "1 x 100 Gb/s RDMA x 0.9"),
        (_ports(100.0, link_layer="Ethernet", device_type="efa"), "efa", 12.5, False, "1 x 100 Gb/s RDMA"),
        (_ports(400.0, NOT_RECORDED), "unknown", None, False, ""),
        (_ports(400.0, link_layer=NOT_RECORDED), "unknown", 50.0, False, "1 x 400 Gb/s RDMA"),
        (h100_node(nics=NOT_RECORDED), "unknown", None, False, ""),
        (_interface(25.0), "ethernet", 3.125, True, "TCP over ens3, 25 Gb/s x"),
        (_interface(0.0), "ethernet", None, False, ""),
        (_interface(NOT_RECORDED), "ethernet", None, False, ""),
    ],
)
def test_the_network_is_that_of_all_ports_or_of_one_interface(
    facts: MachineFacts, transport: str, gigabytes_per_s: float | None, uses_tcp: bool, source: str
):
    network = network_of(facts)
    assert (network.transport, network.uses_tcp) == (transport, uses_tcp)
    rate = network.line_rate_bytes_per_s
    assert (None if rate is None else rate / 1e9) == gigabytes_per_s
    assert network.source.startswith(source)


@pytest.mark.parametrize(
    ("name", "has"), [("NVIDIA H100 80GB HBM3", True), ("Tesla V100-SXM2-32GB", False), ("Other", False)]
)
def test_bf16_of_a_gpu_without_a_stated_capability_is_that_of_its_model(name: str, has: bool):
    gpu = Gpu(index=0, name=name, compute_capability=NOT_RECORDED)
    assert has_bf16(gpu, load_catalogue()) is has
    assert not has_bf16(Gpu(index=0), load_catalogue())
