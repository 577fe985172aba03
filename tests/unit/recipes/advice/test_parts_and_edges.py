"""Parts that a user states, and advice beside the limits at which it changes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from probes.base.errors import UsageError
from probes.base.record import Reason, Unknown, items_of
from probes.base.units import GIB
from probes.catalogue.hardware import load_catalogue
from probes.facts import Cpu, Gid, Link, MachineFacts, MigDevice, Nic, PcieLink
from recipes.advice.advice_lines import Subject
from recipes.advice.hardware_plan import planned_hardware, remarks_on
from recipes.advice.machine_parts import PartsList, described_machine, parts_of, processor_of
from tests.support.advice_cases import (
    AMD_ONLY,
    BLANK,
    BOX,
    DIVIDED,
    FOUR,
    GAUDI,
    MI300X,
    NAMELESS,
    NODE,
    NUMA,
    ROCE,
    UNKNOWN,
    VIRTUAL,
    advised,
    changed,
    ids,
    linked,
    parts,
    pcie,
    roce_with,
    variable,
)
from tests.support.machines import with_gpus, with_nics, with_part

CATALOGUE = load_catalogue()


def texts(subject: Subject, facts: MachineFacts, line: str, **question: Any) -> str:
    """Return the text and the fact of the line with this id."""
    (found,) = (each for each in advised(subject, facts, **question).lines if each.id == line)
    return f"{found.text} {found.fact}"


@pytest.mark.parametrize(
    ("network", "layer", "device", "count", "rate"),
    [
        ("8x400G IB", "InfiniBand", None, 8, 400.0),
        ("4x200G RoCE", "Ethernet", None, 4, 200.0),
        ("4x400G EFA", "Ethernet", "efa", 4, 400.0),
        ("1x100G IB", "InfiniBand", None, 1, 100.0),
    ],
)
def test_ports_in_words_have_their_number_rate_and_kind(
    network: str, layer: str, device: str | None, count: int, rate: float
) -> None:
    nics = items_of(parts(network=network).nics)
    assert [nic.name for nic in nics] == [f"port{index}" for index in range(count)]
    assert [nic.rate_gbps for nic in nics] == pytest.approx([rate] * count)
    assert {nic.link_layer for nic in nics} == {layer}
    assert {nic.state for nic in nics} == {"ACTIVE"}
    assert {None if isinstance(nic.device_type, Unknown) else nic.device_type for nic in nics} == {device}


def test_ports_without_rdma_are_no_ports_for_training() -> None:
    assert parts(network="2x25G Ethernet").nics == ()


def test_a_list_of_parts_has_what_was_stated_and_nothing_else() -> None:
    facts = parts(cpu="EPYC 9654", sockets=2, memory_gib=512)
    assert (facts.cpu, facts.memory.total_bytes) == (Cpu(model="EPYC 9654", sockets=2), 512 * GIB)
    assert [gpu.index for gpu in items_of(facts.gpus)] == [0, 1, 2, 3]
    blank = parts()
    assert isinstance(blank.cpu.model, Unknown)
    assert isinstance(blank.nics, Unknown)
    assert isinstance(blank.links, Unknown)
    assert not isinstance(NODE.cpu.model, Unknown)
    assert described_machine(NODE, PartsList(), CATALOGUE) == NODE


@pytest.mark.parametrize(
    ("facts", "stated", "words"),
    [
        (BLANK, {}, "a list of parts has no GPU"),
        (NODE, {"gpus": 8}, "--gpus without --gpu"),
        (BLANK, {"gpu": "H100-PCIE", "gpus": 0}, "--gpus 0 is not a possible number"),
        (BLANK, {"gpu": "H100-PCIE", "gpus": -1}, "--gpus -1 is not a possible number"),
        (BLANK, {"gpu": "H100-PCIE", "gpus": 10**6}, "is not a possible number"),
        (BLANK, {"gpu": "H100-PCIE", "cpu": "Z80"}, "--cpu 'Z80' is no processor"),
        (BLANK, {"gpu": "H100-PCIE", "network": "fast"}, "--network 'fast' names no rate"),
        (NODE, {"cpu": "EPYC 9654"}, "--cpu, but the machine that was read"),
        (NODE, {"memory_gib": 5.0}, "--memory, but the machine that was read"),
        (NODE, {"network": "8x400G IB"}, "--network, but the machine that was read"),
    ],
)
def test_impossible_parts_are_refused(facts: MachineFacts, stated: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        described_machine(facts, PartsList(**stated), CATALOGUE)


def test_one_gpu_is_a_possible_number() -> None:
    facts = described_machine(BLANK, PartsList(gpu="H100-PCIE", gpus=1), CATALOGUE)
    assert len(items_of(facts.gpus)) == 1


@pytest.mark.parametrize(
    ("model", "power_w", "lanes"),
    [
        ("AMD EPYC 9654 96-Core Processor", 360, (128, 160)),
        (" epyc 9654 ", 360, (128, 160)),
        ("AMD EPYC 9999 Processor", None, None),
        ("AMD EPYC 9124 16-Core Processor", None, (128, 160)),
        ("Neoverse-V2", None, None),
    ],
)
def test_a_processor_is_found_by_the_model_that_the_kernel_prints(
    model: str, power_w: float | None, lanes: tuple[int, int] | None
) -> None:
    processor = processor_of(model)
    assert (processor is None) == (lanes is None)
    if processor is not None:
        assert (processor[1], (processor[0].lanes, processor[0].lanes_of_two)) == (power_w, lanes)


@pytest.mark.parametrize(
    ("facts", "maker", "words"),
    [
        (NODE, "nvidia", "8 x NVIDIA H100 80GB HBM3"),
        (MI300X, "amd", "1 x AMD Instinct MI300X"),
        (AMD_ONLY, "amd", "AMD Instinct MI300X"),
        (GAUDI, "other", "Gaudi 3"),
        (BLANK, "nvidia", ""),
        (with_gpus(NODE, 0, name=UNKNOWN), "nvidia", "1 x GPU of unknown model, 7 x NVIDIA H100"),
    ],
)
def test_the_maker_follows_the_gpus_or_else_the_accelerators(
    facts: MachineFacts, maker: str, words: str
) -> None:
    parts = parts_of(facts, CATALOGUE)
    assert parts.maker == maker
    assert words in parts.accelerators


@pytest.mark.parametrize(
    ("machine", "is_virtual"),
    [(NODE, False), (VIRTUAL, True), (with_gpus(NODE, 3, virtualization="pass-through"), True)],
)
def test_a_gpu_that_is_passed_through_shows_a_virtual_machine(
    machine: MachineFacts, is_virtual: bool
) -> None:
    assert parts_of(machine, CATALOGUE).is_virtual is is_virtual


def test_the_power_of_the_supplies_comes_from_the_user_first() -> None:
    facts = with_part(NODE, "power", supply_capacity_w=13200.0)
    assert parts_of(facts, CATALOGUE).supplies_w == 13200.0
    assert parts_of(facts, CATALOGUE, 5000.0).supplies_w == 5000.0
    assert parts_of(facts, CATALOGUE, 0.0).supplies_w == 0.0


PHB = {"a": "GPU0", "b": "mlx5_0"}


@pytest.mark.parametrize(
    ("facts", "present", "absent"),
    [
        # 4 GPUs and 4 ports with 16 lanes each need the 128 lanes of one EPYC; a fifth port needs more.
        (parts(cpu="EPYC 9654", network="4x200G RoCE"), "lanes-enough", "lanes-short"),
        (parts(cpu="EPYC 9654", network="5x200G RoCE"), "lanes-short", "lanes-enough"),
        (parts(cpu="EPYC 9654", sockets=2, network="6x200G RoCE"), "lanes-enough", "lanes-short"),
        (parts(cpu="EPYC 9654", sockets=2, network="7x200G RoCE"), "lanes-short", "lanes-enough"),
        (with_gpus(NODE, 0, pcie=pcie(width=15)), "gpu-link-narrow", "gpu-slot-narrow"),
        (with_gpus(NODE, 0, pcie=pcie(width_max=UNKNOWN)), "gpu-link-unknown", "gpu-link-narrow"),
        (with_gpus(NODE, 0, pcie=pcie(width=UNKNOWN)), "gpu-link-unknown", "gpu-link-narrow"),
        (with_gpus(NAMELESS, pcie=pcie(width=8, width_max=8)), "gpu-link-full", "gpu-slot-narrow"),
        (with_gpus(NAMELESS, pcie=pcie(generation_max=3)), "gpu-link-full", "gpu-slot-slow"),
        (with_gpus(NODE, pcie=pcie(generation_max=UNKNOWN)), "gpu-link-full", "gpu-slot-slow"),
        (with_nics(NODE, pcie=pcie(width=UNKNOWN)), "nic-link-unknown", "nic-link-full"),
        (with_nics(NODE, pcie=pcie(width_max=UNKNOWN)), "nic-link-unknown", "nic-link-full"),
        (with_nics(NODE, pcie=pcie(generation=UNKNOWN), rate_gbps=400.0), "nic-link-full", "nic-slot-slow"),
        (
            with_nics(NODE, pcie=pcie(generation=UNKNOWN, generation_max=4), rate_gbps=400.0),
            "nic-slot-slow",
            "nic-link-full",
        ),
        (with_nics(NODE, pcie=pcie(generation=4), rate_gbps=UNKNOWN), "nic-link-full", "nic-slot-slow"),
        # A single GPU shares nothing, so no link is missing.
        (changed(NODE, gpus=items_of(NODE.gpus)[:1], links=()), "gpu-memory", "switches-unknown"),
        (changed(NODE, gpus=items_of(NODE.gpus)[:2], links=()), "switches-unknown", "switch-paired"),
        (changed(NODE, links=(Link(kind="PIX", **PHB),)), "switch-paired", "switch-shared"),
        (changed(NODE, links=(Link(kind="PXB", **PHB),)), "switch-paired", "no-switch"),
        (changed(NODE, links=(Link(kind="PHB", **PHB),)), "no-switch", "switch-paired"),
        (changed(NODE, links=(Link(kind=UNKNOWN, **PHB),)), "switches-unknown", "no-switch"),
        (changed(NODE, links=(Link(kind="PIX", a="mlx5_0", b="mlx5_1"),)), "switches-unknown", "no-switch"),
        (changed(NODE, links=(Link(kind="NVLINK", a="GPU0", b="GPU1"),)), "switches-unknown", "no-switch"),
        (linked("PIX"), "switch-shared", "switch-paired"),
        (changed(NODE, nics=items_of(NODE.nics)[:1]), "rail-rate-low", "rails-uneven"),
        (changed(NODE, nics=items_of(NODE.nics)[:4]), "rail-rate-low", "rails-uneven"),
        (changed(NODE, nics=items_of(NODE.nics)[:7]), "rails-uneven", "rail-rate-usual"),
        (changed(NODE, gpus=items_of(NODE.gpus)[:4]), "rail-rate-usual", "rails-uneven"),
    ],
)
def test_links_lanes_and_rails_at_their_limits(facts: MachineFacts, present: str, absent: str) -> None:
    lines = ids("hardware", facts)
    assert present in lines
    assert absent not in lines


def test_what_a_slot_carries_is_named() -> None:
    text = texts("hardware", with_nics(NODE, pcie=pcie(generation=4)), "nic-slot-slow")
    assert "PCIe 4 x16 carries 252 Gb/s" in text
    assert "400 Gb/s" in text
    assert "50 Gb/s" in texts("hardware", changed(NODE, nics=items_of(NODE.nics)[:1]), "rail-rate-low")


def test_devices_behind_one_switch_are_one_group() -> None:
    pairs = (("GPU0", "GPU1"), ("GPU1", "mlx5_0"), ("GPU2", "mlx5_1"), ("mlx5_0", "GPU3"))
    facts = changed(NODE, links=tuple(Link(a=a, b=b, kind="PIX") for a, b in pairs))
    shared = texts("hardware", facts, "switch-shared")
    assert all(name in shared for name in ("GPU0", "mlx5_0", "3"))
    assert "mlx5_1" not in shared
    assert "mlx5_1" in texts("hardware", facts, "switch-paired")


SMALL = {"need_gib": 16.0}


@pytest.mark.parametrize(
    ("facts", "question", "line", "words"),
    [
        (with_gpus(NODE, 2, mig_pending=True), {}, "state-pending", "2"),
        (with_gpus(NODE, 2, mig_enabled=UNKNOWN), {}, "state-unknown", "no such tool"),
        (DIVIDED, {}, "state-on", "2 x 3g.40gb on GPU0"),
        (with_gpus(DIVIDED, 1, mig_devices=()), {}, "state-on", "none on GPU1"),
        (
            with_gpus(DIVIDED, 1, mig_devices=UNKNOWN),
            {},
            "state-on",
            "unknown on GPU1 (tool missing",
        ),
        (NODE, SMALL, "partition", "32"),  # four instances on each of eight GPUs
        (NODE, {"need_gib": 80.0}, "need-too-large", "80"),
        (NAMELESS, {}, "model-unknown", "no such tool"),
    ],
)
def test_mig_states_and_partitions_are_named(
    facts: MachineFacts, question: dict[str, Any], line: str, words: str
) -> None:
    assert words in texts("mig", facts, line, **question)


def test_instances_exist_only_where_some_were_created() -> None:
    empty = with_gpus(DIVIDED, mig_devices=())
    assert "instances-exist" not in ids("mig", empty, **SMALL)
    one = with_gpus(empty, 5, mig_devices=(MigDevice(profile="3g.40gb", uuid="MIG-1"),))
    assert "GPU5" in texts("mig", one, "instances-exist", **SMALL)


@pytest.mark.parametrize(
    ("facts", "line", "words"),
    [
        (with_nics(NODE, link_layer="Token Ring"), "mode-unknown", "the unusual value Token Ring"),
        (with_nics(NODE, link_layer=UNKNOWN), "mode-unknown", "no such tool"),
        (roce_with("NCCL_IB_TC", "0"), "dscp-environment", "0"),
        (roce_with("NCCL_IB_TC", "255"), "dscp-environment", "255"),
        (roce_with("NCCL_IB_TC", "256"), "dscp-invalid", "256"),
        (roce_with("NCCL_IB_TC", "1" * 10), "dscp-invalid", "1" * 10),
        (roce_with("NCCL_IB_TC", "-1"), "dscp-invalid", "-1"),
        (with_nics(ROCE, traffic_class=255), "dscp-forced", "255"),
        (with_nics(ROCE, "mlx5_1", gids=()), "gids-missing", "mlx5_1"),
        (
            with_nics(ROCE, gids=(Gid(index=1, gid="00", kind="RoCE v1", address="10.0.0.1"),)),
            "gids-missing",
            "mlx5_0",
        ),
        (with_nics(ROCE, "mlx5_1", netdev="eth\n0"), "netdev-unknown", "control characters"),
        (with_nics(ROCE, "mlx5_1", netdev=None), "netdev-unknown", "the device has no interface"),
        (with_nics(ROCE, "mlx5_1", netdev=UNKNOWN), "netdev-unknown", "no such tool"),
    ],
)
def test_conditions_of_the_network_are_named(facts: MachineFacts, line: str, words: str) -> None:
    assert words in texts("network", facts, line)


@pytest.mark.parametrize(
    ("stated", "line"), [({"dscp": 26, "priority": 3}, "dscp-mismatch"), ({"dscp": 10, "priority": 3}, "")]
)
def test_a_variable_with_another_dscp_than_stated_is_named(stated: dict[str, int], line: str) -> None:
    facts = roce_with("NCCL_IB_TC", "41")  # 41 is DSCP 10 with an ECN bit
    assert ("dscp-mismatch" in ids("network", facts, **stated)) == bool(line)


@pytest.mark.parametrize(
    ("gpu", "words"),
    [
        ("GeForce RTX 4090", True),
        ("GeForce RTX 3090", False),
        ("L40S", False),
    ],
)
def test_only_geforce_boards_since_ada_lack_peer_access(gpu: str, words: bool) -> None:
    model = CATALOGUE.gpu(f"NVIDIA {gpu}")
    assert model is not None
    remarks = " ".join(remarks_on(BLANK, planned_hardware(model, 2)))
    assert ("no peer-to-peer" in remarks) is words


def test_slots_narrower_than_the_gpu_are_remarked() -> None:
    model = CATALOGUE.gpu("NVIDIA H100 80GB HBM3")
    assert model is not None
    hardware = planned_hardware(model, 8)
    narrow = with_gpus(NODE, 2, pcie=PcieLink(width=8, width_max=8))
    assert any("narrower than x16: GPU2 x8" in each for each in remarks_on(narrow, hardware))
    assert not any("narrower" in each for each in remarks_on(NODE, hardware))


def kubelet(**cpu: Any) -> set[str]:
    return ids("kubelet", with_part(NUMA, "cpu", **cpu))


@pytest.mark.parametrize(
    ("logical", "physical", "line"),
    [
        (224, 112, "reserved-cpus"),
        (225, 112, "threads-unknown"),
        (112, 224, "threads-unknown"),
        (224, 0, "threads-unknown"),
        (UNKNOWN, 112, "threads-unknown"),
        (224, UNKNOWN, "threads-unknown"),
    ],
)
def test_threads_of_a_core_are_divided_if_they_are_not_reported(
    logical: int | Unknown, physical: int | Unknown, line: str
) -> None:
    assert line in kubelet(threads_per_core=UNKNOWN, logical_cpus=logical, physical_cores=physical)


def test_more_than_two_nodes_choose_the_closest() -> None:
    assert "closest" not in ids("kubelet", NUMA)
    assert "closest" in ids("kubelet", changed(NUMA, numa_nodes=FOUR[:3]))
    assert "scope" in ids("kubelet", changed(NUMA, numa_nodes=FOUR[:2]))


def test_the_first_instance_names_the_container_device() -> None:
    (line,) = (each for each in advised("container", DIVIDED).lines if each.id == "gpu-mig")
    documents = " ".join(each.text for each in advised("container", DIVIDED).documents)
    assert "16" in line.text + line.fact  # two instances on each of eight GPUs
    assert "nvidia.com/gpu=0:0" in documents or "MIG-1" in documents


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        (with_gpus(DIVIDED, pci_bus_id=UNKNOWN), "mig-unknown"),
        (with_gpus(DIVIDED, mig_devices=(MigDevice(profile="3g.40gb", uuid=UNKNOWN),)), "mig-unknown"),
        (changed(BOX, nics=UNKNOWN), "rdma-unknown"),
        (changed(NODE, nics=()), "no-rdma"),
        (changed(NODE, nics=(Nic(name="mlx5_0", link_layer="InfiniBand"),)), "rdma"),
        (changed(variable("A", "b"), container=NODE.container), "privileged"),
    ],
)
def test_conditions_of_a_container_are_named(facts: MachineFacts, line: str) -> None:
    assert line in ids("container", facts)


def test_an_absence_is_distinguished_from_a_failure_to_look() -> None:
    missing = Unknown(Reason.PERMISSION, "no access")
    assert "no access" in texts("container", changed(NODE, nics=missing), "rdma-unknown")
    assert "no-nic" in ids("hardware", changed(NODE, nics=()))


@pytest.mark.parametrize(
    ("facts", "question", "words"),
    [
        (roce_with("NCCL_IB_TC", "41"), {"dscp": 26, "priority": 3}, "--dscp"),
        (
            changed(with_nics(ROCE, traffic_class=106), environment=variable("NCCL_IB_TC", "41").environment),
            {},
            "nics[].traffic_class",
        ),
    ],
)
def test_the_class_that_differs_from_the_variable_is_named(
    facts: MachineFacts, question: dict[str, Any], words: str
) -> None:
    assert words in texts("network", facts, "dscp-mismatch", **question)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"name": "roce0", "device_type": "MT4129"}, "host-mlx"),
        ({"name": "roce0", "device_type": UNKNOWN}, "host-other"),
        ({"name": "mlx5_0", "device_type": UNKNOWN}, "host-mlx"),
        ({"name": "bnxt_re0", "device_type": "bnxt_re"}, "host-other"),
    ],
)
def test_cards_of_mellanox_have_commands_of_their_own(changes: dict[str, Any], line: str) -> None:
    port = msgspec.structs.replace(items_of(ROCE.nics)[0], **changes)
    lines = ids("network", changed(ROCE, nics=(port,)))
    assert {each for each in lines if each.startswith("host-")} == {line}


def test_one_gpu_may_have_one_port() -> None:
    facts = described_machine(BLANK, PartsList(gpu="H100-PCIE", gpus=1, network="400G IB"), CATALOGUE)
    assert [nic.rate_gbps for nic in items_of(facts.nics)] == pytest.approx([400.0])
