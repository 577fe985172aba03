"""Test catalogue machines with the real collectors: only the facts of the model are known."""

from __future__ import annotations

from collections import Counter

import pytest

from probes.base.record import NOT_RECORDED, Unknown
from probes.catalogue.hardware import load_catalogue
from probes.collect.collecting import CollectOptions, assemble, gather
from probes.facts import MachineFacts
from probes.sources.catalogue import gpu_of_nic, lay_out
from probes.sources.choose import open_source

CATALOGUE = load_catalogue()


def _facts(machine_id: str) -> MachineFacts:
    source = open_source(machine=machine_id)
    return assemble(source.title, gather(source, CollectOptions()))


def _kinds(facts: MachineFacts, a: str, b: str) -> Counter[tuple[object, object]]:
    assert not isinstance(facts.links, Unknown)
    return Counter(
        (link.kind, link.nvlink_count)
        for link in facts.links
        if link.a.startswith(a) and link.b.startswith(b)
    )


@pytest.mark.parametrize("machine", CATALOGUE.machines, ids=lambda row: row.id)
def test_the_facts_are_those_of_the_row(machine):
    gpu = CATALOGUE.gpu(machine.gpu)
    facts = _facts(machine.id)
    assert facts.source == f"catalogue machine {machine.id}"
    assert len(facts.gpus) == machine.gpu_count
    for gpu_facts in facts.gpus:
        assert CATALOGUE.gpu(gpu_facts.name) == gpu
        assert gpu_facts.memory_bytes == gpu.memory_bytes
        assert gpu_facts.compute_capability == gpu.compute_capability
        assert gpu_facts.driver_version == machine.driver_version
        assert gpu_facts.pcie.generation == gpu_facts.pcie.generation_max == gpu.pcie_generation
        assert len(gpu_facts.nvlinks) == machine.nvlink_count
        assert all(link.active is True for link in gpu_facts.nvlinks)
        assert all(
            link.bandwidth_bytes_per_s == pytest.approx(gpu.nvlink_bandwidth_bytes_per_s, rel=0.01)
            for link in gpu_facts.nvlinks
        )
        assert gpu_facts.numa_node in range(machine.numa_nodes)
    assert len(
        {gpu_facts.pci_bus_id for gpu_facts in facts.gpus} | {nic.pci_bus_id for nic in facts.nics}
    ) == (machine.gpu_count + machine.nic_count)
    assert [(nic.state, nic.physical_state, nic.rate_gbps) for nic in facts.nics] == [
        ("ACTIVE", "LinkUp", machine.nic_rate_gbps)
    ] * machine.nic_count
    assert {nic.device_type for nic in facts.nics} <= {machine.nic_type}
    assert facts.cpu.model == machine.cpu_model
    assert facts.cpu.architecture == machine.architecture
    assert facts.cpu.sockets == machine.sockets
    assert facts.cpu.physical_cores == machine.sockets * machine.cores_per_socket
    assert facts.cpu.logical_cpus == facts.cpu.physical_cores * machine.threads_per_core
    assert set(facts.cpu.flags) == set(machine.cpu_flags)
    assert facts.memory.total_bytes == machine.memory_bytes
    assert len(facts.numa_nodes) == machine.numa_nodes
    assert facts.software.cuda_driver_version == machine.cuda_driver_version
    assert facts.software.operating_system == machine.operating_system
    assert all(not isinstance(link.kind, Unknown) for link in facts.links)


@pytest.mark.parametrize("machine", CATALOGUE.machines, ids=lambda row: row.id)
def test_facts_that_differ_between_machines_of_a_model_are_unknown(machine):
    facts = _facts(machine.id)
    assert facts.hostname == NOT_RECORDED
    assert facts.limits.memlock_bytes == NOT_RECORDED
    assert isinstance(facts.memory.available_bytes, Unknown)
    for gpu in facts.gpus:
        for value in (
            gpu.uuid,
            gpu.temperature_c,
            gpu.power_w,
            gpu.processes,
            gpu.mig_enabled,
            gpu.throttle_reasons,
            gpu.vbios_version,
        ):
            assert value == NOT_RECORDED
        assert isinstance(gpu.memory_used_bytes, Unknown)


def test_dgx_h100_has_one_near_nic_per_gpu():
    facts = _facts("dgx-h100")
    assert _kinds(facts, "GPU", "GPU") == {("NVLINK", 18): 28}
    assert _kinds(facts, "GPU", "mlx5") == {("PIX", None): 8, ("NODE", None): 24, ("SYS", None): 32}
    near = {(link.a, link.b) for link in facts.links if link.kind == "PIX"}
    assert near == {(f"GPU{index}", f"mlx5_{index}") for index in range(8)}
    assert [gpu.cpu_affinity for gpu in facts.gpus] == ["0-55,112-167"] * 4 + ["56-111,168-223"] * 4
    assert facts.cloud.provider is None


def test_dgx_a100_shows_the_matrix_of_the_real_one():
    facts = _facts("dgx-a100")
    assert [gpu.numa_node for gpu in facts.gpus] == [3, 3, 1, 1, 7, 7, 5, 5]
    assert facts.gpus[0].cpu_affinity == "48-63,176-191"
    assert _kinds(facts, "GPU", "mlx5") == {("PXB", None): 16, ("SYS", None): 48}


def test_pcie_machines_have_no_nvlink():
    assert _kinds(_facts("l40s-pcie-8"), "GPU", "GPU") == {
        ("PIX", None): 4,
        ("PHB", None): 8,
        ("SYS", None): 16,
    }
    facts = _facts("rtx4090-2")
    assert _kinds(facts, "GPU", "GPU") == {("PHB", None): 1}
    assert facts.nics == ()


def test_bridged_cards_are_linked_in_pairs():
    assert _kinds(_facts("a100-pcie-4"), "GPU", "GPU") == {("NVLINK", 12): 2, ("SYS", None): 4}


def test_a_cloud_machine_is_recognised_as_such():
    facts = _facts("p5")
    assert (facts.cloud.provider, facts.cloud.machine_type) == ("aws", "p5.48xlarge")
    assert _kinds(facts, "GPU", "rdmap")["PIX", None] == 32
    assert {nic.device_type for nic in facts.nics} == {"efa"}


@pytest.mark.parametrize("machine", CATALOGUE.machines, ids=lambda row: row.id)
def test_every_device_has_a_place_of_its_own(machine):
    layout = lay_out(machine)
    places = (*layout.gpus, *layout.nics, layout.ethernet)
    assert len({place.address for place in places}) == len(places)
    for index, nic in enumerate(layout.nics):
        assert nic.numa_node == layout.gpus[gpu_of_nic(machine, index)].numa_node
