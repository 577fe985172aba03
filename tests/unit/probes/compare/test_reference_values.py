"""Test which measurements have a reference, and its value for the ports and links of the machine."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from probes.base.record import NOT_RECORDED
from probes.catalogue.hardware import load_catalogue
from probes.compare.reference_rows import load_bench_references
from probes.compare.reference_values import (
    Reference,
    host_copy_rate,
    model_of,
    only_model,
    peer_copy_rate,
    reference_of,
    ring_rate,
)
from probes.facts import Gpu, Link, MachineFacts, PcieLink
from probes.facts.measurements import Measurement
from probes.judging.findings import Evidence
from tests.support.machines import h100, h100_node, with_gpus, with_nics
from tests.support.measured import collective, copies, gemm, host_copies, measured, peer_copies

CATALOGUE = load_catalogue()
NODE = h100_node()
ROWS = load_bench_references()
PORT_BYTES_PER_S = 50e9
"""400 Gb/s, the rate of a port of the node."""
MIB_PER_GIB = 1024


def evidence(facts: MachineFacts = NODE) -> Evidence:
    return Evidence(facts=facts, catalogue=CATALOGUE)


def reference(entry: Measurement, facts: MachineFacts = NODE) -> Reference | None:
    return reference_of(evidence(facts), entry)


def changed(entry: Measurement, **parameters: Any) -> Measurement:
    """Return the measurement with some parameters replaced, or removed if the new value is None."""
    kept = {name: value for name, value in (entry.parameters | parameters).items() if value is not None}
    return msgspec.structs.replace(entry, parameters=kept)


GEMM = gemm(700.0)[0]
ATTENTION = measured(
    "attention",
    "attention_flops_per_s",
    "GPU0",
    3e14,
    **{"pass": "forward"},
    dtype="bf16",
    head_dim=128,
    sequence_length=4096,
)
HOST_COPY = host_copies(50.0)[0]
COPY = copies(2500.0)[0]
PEER = peer_copies({(0, 1): 300.0})[0]
ALL_REDUCE = collective((MIB_PER_GIB, 400.0))[0]
NIC_ONLY = collective((64, 40.0), layers="nic")[0]
ACROSS = collective((MIB_PER_GIB, 300.0), ranks=16, nodes=2)[0]
OF_GLOO = collective((MIB_PER_GIB, 400.0), backend="gloo")[0]


@pytest.mark.parametrize(
    ("entry", "has_reference"),
    [
        (GEMM, True),
        (changed(GEMM, m=4096, n=4096, k=4096), True),
        (changed(GEMM, k=4095), False),
        (changed(GEMM, m=None), False),
        (changed(GEMM, dtype=None), False),
        (changed(GEMM, dtype="int4"), False),
        (msgspec.structs.replace(GEMM, subject="GPU8"), False),
        (msgspec.structs.replace(GEMM, subject="CPU rank 0"), False),
        (ATTENTION, True),
        (changed(ATTENTION, dtype="fp16"), True),
        (changed(ATTENTION, dtype="fp32"), False),
        (changed(ATTENTION, head_dim=96), False),
        (changed(ATTENTION, head_dim=None), False),
        (changed(ATTENTION, sequence_length=4095), False),
        (changed(ATTENTION, sequence_length=None), False),
        (changed(ATTENTION, **{"pass": "sideways"}), False),
        (msgspec.structs.replace(ATTENTION, subject="GPU8"), False),
        (COPY, True),
        (changed(COPY, direction=None), True),
        (changed(COPY, direction="sideways"), False),
        (HOST_COPY, True),
        (changed(HOST_COPY, direction="device_to_host"), True),
        (changed(HOST_COPY, pinned=False), False),
        (changed(HOST_COPY, near=False), False),
        (changed(HOST_COPY, near=None), True),
        (changed(HOST_COPY, concurrent=True), False),
        (PEER, True),
        (changed(PEER, direction="both"), False),
        (msgspec.structs.replace(PEER, subject="GPU0"), False),
        (ALL_REDUCE, True),
        (changed(ALL_REDUCE, layers="nvlink"), True),
        (changed(ALL_REDUCE, layers="host-memory"), False),
        (changed(ALL_REDUCE, backend=None), True),
        (OF_GLOO, False),
        (changed(ALL_REDUCE, collective="gather"), False),
        (changed(ALL_REDUCE, bytes=None), False),
        (changed(ALL_REDUCE, world_size=None), False),
        (changed(ALL_REDUCE, collective=None), False),
        (changed(ALL_REDUCE, nodes=1), True),
        (NIC_ONLY, True),
        (changed(NIC_ONLY, bytes=64 * 2**20 - 1), False),
        (changed(NIC_ONLY, bytes=None), False),
        (changed(NIC_ONLY, world_size=None), False),
        (changed(NIC_ONLY, world_size=9), False),
        (ACROSS, True),
        (changed(ACROSS, bytes=2**30 - 1), False),
        (changed(ACROSS, bytes=None), False),
        (changed(ACROSS, collective="broadcast"), False),
        (changed(ACROSS, collective=None), False),
        (measured("noise-scale", "noise_scale_sequences", "8 ranks", 1.0), False),
    ],
)
def test_a_measurement_has_a_reference_only_for_the_published_case(
    entry: Measurement, has_reference: bool
) -> None:
    assert (reference(entry) is not None) is has_reference


def test_copies_of_other_benchmarks_count_only_if_one_rank_copies_at_a_time() -> None:
    def of(bench: str, ranks: int) -> Reference | None:
        entry = msgspec.structs.replace(HOST_COPY, bench_id=bench, conditions={"concurrent_ranks": ranks})
        return reference(entry)

    assert of("host-device", 8) is not None
    assert of("memory-copy", 1) is not None
    assert of("memory-copy", 2) is None
    assert reference(msgspec.structs.replace(HOST_COPY, bench_id="memory-copy")) is not None


def test_a_mig_slice_has_no_reference() -> None:
    assert reference(GEMM, with_gpus(NODE, 0, mig_enabled=True)) is None
    assert reference(GEMM, with_gpus(NODE, 0, mig_enabled=NOT_RECORDED)) is not None


def test_an_all_reduce_over_nics_is_expected_to_reach_a_share_of_the_slowest_port() -> None:
    full = reference(NIC_ONLY)
    assert full is not None
    assert full.value == pytest.approx(PORT_BYTES_PER_S * ROWS.nic_only.fraction)
    assert "400 Gb/s" in full.words
    assert reference(NIC_ONLY, with_nics(NODE, state="DOWN")) is None
    assert reference(NIC_ONLY, with_nics(NODE, "mlx5_3", rate_gbps=NOT_RECORDED)) is None


def test_collectives_across_machines_are_expected_to_reach_a_share_of_all_ports() -> None:
    (row,) = (row for row in ROWS.across_nodes if row.collective == "all_reduce")
    full = reference(ACROSS)
    assert full is not None
    assert full.value == pytest.approx(8 * PORT_BYTES_PER_S * row.fraction)
    assert "8 ports with 3200 Gb/s in total" in full.words
    fewer = reference(ACROSS, with_nics(NODE, "mlx5_1", state="DOWN"))
    assert fewer is not None
    assert fewer.value == pytest.approx(7 * PORT_BYTES_PER_S * row.fraction)
    assert reference(ACROSS, with_nics(NODE, state="DOWN")) is None


def test_a_ring_is_the_fallback_of_the_reduction_in_the_switch() -> None:
    both = reference(collective((8 * MIB_PER_GIB, 400.0))[0])
    assert both is not None
    assert both.fallback is not None
    assert "NVLS" in both.words
    assert "ring" in both.fallback.words
    assert both.fallback.value < both.value
    # NVLS exists since NCCL 2.17: with an older version only the ring remains.
    old = reference(collective((8 * MIB_PER_GIB, 400.0), conditions={"nccl_version": "2.16.5"})[0])
    assert old is not None
    assert (old.fallback, old.value) == (None, both.fallback.value)


@pytest.mark.parametrize(
    ("pcie", "rate", "words"),
    [
        (PcieLink(generation_max=4, width=16, width_max=16), 25e9, "PCIe 4 x16"),
        (PcieLink(generation_max=4, width=4, width_max=16), 6.25e9, "PCIe 4 x4"),
        (PcieLink(generation_max=4, width=16, width_max=8), 12.5e9, "PCIe 4 x8"),
        (PcieLink(generation_max=6, width=16), 55e9, "PCIe 5 x16"),
        (PcieLink(), 55e9, "PCIe 5 x16"),
        (PcieLink(generation_max=2, width=16), None, ""),
    ],
)
def test_the_slower_of_slot_and_gpu_limits_copies(pcie: PcieLink, rate: float | None, words: str) -> None:
    """PCIe 5 with 16 lanes is the link of an H100."""
    expected = host_copy_rate(Gpu(index=0, pcie=pcie), CATALOGUE.gpu("h100-sxm"))
    assert (expected and expected.rate, expected.words if expected else "") == (rate, words)


def test_without_a_known_link_there_is_no_rate() -> None:
    assert host_copy_rate(None, CATALOGUE.gpu("h100-sxm")) is None
    assert host_copy_rate(Gpu(index=0), None) is None
    assert host_copy_rate(Gpu(index=0, pcie=PcieLink(generation_max=5)), None) is None
    assert host_copy_rate(Gpu(index=0, pcie=PcieLink(width=16)), None) is None


@pytest.mark.parametrize(
    ("links", "rate"),
    [
        ((Link(a="GPU1", b="GPU0", kind="NVLINK", nvlink_count=4),), 4 * 20.6e9),
        ((Link(a="GPU0", b="GPU1", kind="NVLINK", nvlink_count=18),), 18 * 20.6e9),
        ((Link(a="GPU0", b="GPU1", kind="SYS"),), None),
        ((Link(a="GPU0", b="GPU2", kind="NVLINK", nvlink_count=4),), 18 * 20.6e9),
        ((), 18 * 20.6e9),
    ],
)
def test_copies_between_gpus_use_the_nvlinks_of_the_pair(links: tuple[Link, ...], rate: float | None) -> None:
    model = CATALOGUE.gpu("h100-sxm")
    expected = peer_copy_rate(h100_node(links=links), "GPU0", "GPU1", [model, model])
    assert (expected.rate if expected else None) == (rate if rate is None else pytest.approx(rate))
    assert peer_copy_rate(h100_node(links=links), "GPU0", "GPU1", [model, None]) is None
    assert peer_copy_rate(h100_node(links=links), "GPU0", "GPU1", []) is None


def test_gpus_with_bridges_have_links_only_between_stated_pairs() -> None:
    bridged = CATALOGUE.gpu("h100-nvl")
    assert bridged is not None
    assert bridged.nvlink_bridge
    assert peer_copy_rate(h100_node(links=()), "GPU0", "GPU1", [bridged, bridged]) is None
    linked = h100_node(links=(Link(a="GPU0", b="GPU1", kind="NVLINK", nvlink_count=12),))
    expected = peer_copy_rate(linked, "GPU0", "GPU1", [bridged, bridged])
    assert expected is not None
    assert expected.rate == pytest.approx(12 * 20.6e9)


def test_a_ring_needs_the_whole_board_of_one_known_model() -> None:
    assert ring_rate(evidence(), 8, 1) is not None
    assert ring_rate(evidence(), 7, 1) is None
    assert ring_rate(evidence(), 8, None) is None
    assert ring_rate(evidence(h100_node(gpus=NOT_RECORDED)), 8, 1) is None
    assert ring_rate(evidence(with_gpus(NODE, 3, name="NVIDIA A100-SXM4-80GB")), 8, 1) is None
    assert ring_rate(evidence(with_gpus(NODE, name="NVIDIA L40S")), 8, 1) is None


def test_the_model_of_a_machine_is_that_of_all_its_gpus() -> None:
    model = only_model(evidence())
    assert model is not None
    assert model.id == "h100-sxm"
    assert only_model(evidence(with_gpus(NODE, 5, name="NVIDIA L40S"))) is None
    assert only_model(evidence(h100_node(gpus=()))) is None
    assert only_model(evidence(with_gpus(NODE, name=NOT_RECORDED))) is None


def test_a_gpu_without_a_known_name_is_recognised_by_its_pci_id() -> None:
    # 2330 is the device id of the H100 SXM in the PCI ID repository.
    row = model_of(h100(0, name=NOT_RECORDED, pci_device_id="10de:2330"), CATALOGUE)
    assert row is not None
    assert row.id == "h100-sxm"
    assert model_of(h100(0, name="a name that no row has", pci_device_id=NOT_RECORDED), CATALOGUE) is None
    assert model_of(None, CATALOGUE) is None
