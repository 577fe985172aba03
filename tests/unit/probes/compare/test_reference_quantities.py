"""Test references, limits and rates with bounds that do not come from their rows.

Bounds are the line rate of a link, the peak of a GPU, or a published limit. Most wrong factors of two cross
one of them.
"""

from __future__ import annotations

import msgspec
import pytest

from probes.base.record import NOT_RECORDED
from probes.catalogue.hardware import GpuModel, load_catalogue
from probes.compare.comparing import is_sound
from probes.compare.reference_rows import load_bench_references, load_references
from probes.compare.reference_values import host_copy_rate, peer_copy_rate, ring_rate, status_of
from probes.compare.slow_causes import of_collective
from probes.compare.slow_parts import collapse_of, slow_layer
from probes.facts import Gpu, PcieLink
from probes.judging.findings import Evidence, Status
from tests.support.machines import CATALOGUE, evidence_of, h100_node
from tests.support.measured import measured, peer_copies

ROWS = load_bench_references()
LINKS = load_references()
MODELS = {model.id: model for model in load_catalogue().gpus}
PCIE_RAW_BYTES_PER_S = {3: 15.8e9, 4: 31.5e9, 5: 63.0e9}
"""Line rate of 16 lanes after encoding (PCI Express Base Specification 6.0, table of link rates)."""


def nvlink_rate(model: GpuModel) -> float:
    return model.nvlink_bandwidth_bytes_per_s * model.nvlink_count


@pytest.mark.parametrize("row", ROWS.gemm, ids=lambda row: f"{row.gpus[0]} {row.dtypes[0]}")
def test_products_reach_a_plausible_share_of_the_peak(row) -> None:
    for gpu in row.gpus:
        for dtype in row.dtypes:
            assert 0.44 < row.value / MODELS[gpu].peak_flops_per_s[dtype] < 0.85


@pytest.mark.parametrize("row", ROWS.attention, ids=lambda row: f"{row.gpus[0]} {row.phase}")
def test_attention_reaches_a_plausible_share_of_the_peak(row) -> None:
    for gpu in row.gpus:
        assert 0.2 < row.value / MODELS[gpu].peak_flops_per_s["bf16"] < 0.5
    assert (row.head_dimension, row.least_sequence) == (128, 4096)


@pytest.mark.parametrize("row", ROWS.collective, ids=lambda row: f"{row.gpus[0]} {row.ranks} {row.bytes}")
def test_collectives_reach_a_plausible_share_of_their_links(row) -> None:
    """NVLS may exceed the rate of the links, because the switch reduces; a ring may not."""
    for gpu in row.gpus:
        model = MODELS[gpu]
        if model.nvlink_count:
            line_rate, least = nvlink_rate(model), 0.35 if model.nvlink_bridge else 0.49
            most = 1.1 if row.algorithm == "NVLS" else 0.85
        else:
            line_rate = PCIE_RAW_BYTES_PER_S[model.pcie_generation]
            least, most = (0.37, 0.72) if row.ranks == 2 else (0.28, 0.57)
        for name, rate in row.rates.items():
            assert least < rate / line_rate < most, name


SMALLEST_MESSAGES_MIB = {
    ("a100-sxm4-40gb", 8, "ring"): {512, 8192},
    ("h100-sxm", 2, "ring"): {512},
    ("h200-sxm", 2, ""): {512},
    ("h100-sxm", 4, "ring"): {512, 8192},
    ("h100-sxm", 5, "NVLS"): {8192},
    ("h100-sxm", 5, "ring"): {8192},
    ("h100-sxm", 6, "NVLS"): {8192},
    ("h100-sxm", 6, "ring"): {8192},
    ("h100-sxm", 7, "NVLS"): {8192},
    ("h100-sxm", 7, "ring"): {8192},
    ("h100-sxm", 8, "NVLS"): {128, 512, 1024, 4096},
    ("h100-sxm", 8, "ring"): {128, 512, 1024, 8192},
    ("h800-sxm", 8, "NVLS"): {4096},
    ("h800-sxm", 8, "ring"): {4096},
    ("h100-nvl", 2, "ring"): {8192},
    ("h100-pcie", 2, "ring"): {8192},
    ("b200", 4, "ring"): {512},
    ("b200", 5, "ring"): {8192},
    ("b200", 6, "NVLS"): {8192},
    ("b200", 7, "NVLS"): {8192},
    ("b200", 8, "NVLS"): {8192},
    ("b200", 6, "ring"): {8192},
    ("b200", 7, "ring"): {8192},
    ("b200", 8, "ring"): {8192},
    ("b200", 8, ""): {512},
    ("l40s", 2, ""): {64},
    ("rtx-pro-6000-server", 2, ""): {64},
    ("rtx-pro-6000-server", 8, ""): {512},
    ("rtx-5090", 4, ""): {1024},
    ("rtx-5090", 8, ""): {1024},
}
"""Smallest messages of the published measurements by first GPU, ranks and algorithm."""


def test_collectives_have_references_from_the_measured_sizes_on() -> None:
    sizes: dict[tuple[str, int, str], set[int]] = {}
    for row in ROWS.collective:
        sizes.setdefault((row.gpus[0], row.ranks, row.algorithm), set()).add(row.bytes >> 20)
    assert sizes == SMALLEST_MESSAGES_MIB


def test_networks_reach_less_than_their_line_rate() -> None:
    fractions = [*(row.fraction for row in ROWS.across_nodes), ROWS.nic_only.fraction, LINKS.network.fraction]
    assert all(0.5 < fraction < 1 for fraction in fractions)
    assert LINKS.network.fraction == pytest.approx(384 / 400)
    assert {row.bytes for row in ROWS.across_nodes} == {2**30}
    assert ROWS.nic_only.bytes == 64 * 2**20
    assert ROWS.gemm_shapes.least_dimension == 4096


def test_rdma_takes_microseconds() -> None:
    """5 us on x86 and 9 us on Grace are the published limits of ib_write_lat for small messages."""
    assert LINKS.network.latency_s == pytest.approx(9e-6)
    assert LINKS.network.latency_largest_bytes == 64
    assert (LINKS.saturating.network_bytes, LINKS.saturating.collective_bytes) == (64 * 2**10, 2**30)


@pytest.mark.parametrize("generation", [3, 4, 5])
@pytest.mark.parametrize("width", [8, 16])
def test_host_copies_use_most_of_the_pcie_link(generation: int, width: int) -> None:
    gpu = Gpu(index=0, pcie=PcieLink(generation_max=generation, width=width, width_max=16))
    expected = host_copy_rate(gpu, None)
    assert expected is not None
    assert 0.7 < expected.rate / (PCIE_RAW_BYTES_PER_S[generation] * width / 16) < 0.95
    assert expected.words == f"PCIe {generation} x{width}"


@pytest.mark.parametrize("gpu", ["v100-sxm2-32gb", "a100-sxm4-80gb", "h100-sxm", "b200"])
def test_peer_copies_use_most_of_all_nvlinks(gpu: str) -> None:
    model = MODELS[gpu]
    row = LINKS.nvlink_rate(model)
    assert row is not None
    assert 0.75 < row.rate / model.nvlink_bandwidth_bytes_per_s < 0.9


@pytest.mark.parametrize(("gpu", "switches"), [("a100-sxm4-80gb", 6), ("h100-sxm", 4), ("h200-sxm", 4)])
def test_boards_have_their_published_number_of_switches(gpu: str, switches: int) -> None:
    """NVIDIA's documents state six NVSwitches for HGX A100 and four for HGX H100."""
    board = LINKS.board(MODELS[gpu], 8)
    assert board is not None
    assert board.count == switches


@pytest.mark.parametrize(("count", "is_board"), [(4, False), (5, True), (8, True)])
def test_all_links_join_each_pair_from_five_gpus_on(count: int, is_board: bool) -> None:
    """Machines with four GPUs have a mesh without switches."""
    gpus = h100_node().gpus
    assert isinstance(gpus, tuple)
    facts = h100_node(gpus=gpus[:count], links=NOT_RECORDED)
    expected = peer_copy_rate(facts, "GPU0", "GPU1", [MODELS["h100-sxm"]] * 2)
    assert (expected is not None) is is_board
    if expected is not None:
        assert expected.rate == pytest.approx(18 * 20.6e9)


@pytest.mark.parametrize(("count", "has_reference"), [(7, False), (8, True)])
def test_a_ring_has_a_reference_for_the_whole_board(count: int, has_reference: bool) -> None:
    gpus = h100_node().gpus
    assert isinstance(gpus, tuple)
    evidence = Evidence(facts=h100_node(gpus=gpus[:count]), catalogue=CATALOGUE)
    assert (ring_rate(evidence, count, 1) is not None) is has_reference
    assert ring_rate(evidence, count, 2) is None


@pytest.mark.parametrize(
    ("share", "status"),
    [(0.74, Status.FAIL), (0.76, Status.WARN), (0.89, Status.WARN), (0.91, Status.PASS)],
)
def test_three_quarters_fail_and_nine_tenths_pass(share: float, status: Status) -> None:
    assert status_of(share, evidence_of(h100_node()).thresholds) is status


@pytest.mark.parametrize(
    ("share", "collapses", "fails"),
    [(0.49, True, True), (0.51, True, False), (0.74, True, False), (0.76, False, False)],
)
def test_a_rate_collapses_below_three_quarters_and_fails_below_half(
    share: float, collapses: bool, fails: bool
) -> None:
    collapse = collapse_of([(4 * 2**20, 100.0, "peak"), (2**30, 100.0 * share, "low")])
    assert (collapse is not None) is collapses
    assert (collapse is not None and collapse.fails) is fails


def test_messages_below_four_mib_are_latencies() -> None:
    assert collapse_of([(4 * 2**20 - 1, 100.0, "a"), (2**30, 10.0, "b")]) is None
    assert collapse_of([(4 * 2**20, 100.0, "a"), (2**30, 10.0, "b")]) is not None


@pytest.mark.parametrize(("share", "slow"), [(0.89, ("nvlink",)), (0.91, ())])
def test_a_layer_is_slow_below_nine_tenths_of_its_reference(share: float, slow: tuple[str, ...]) -> None:
    assert slow_layer({"nvlink": share * 1e11}, {"nvlink": 1e11}).slow == slow


@pytest.mark.parametrize(
    ("median", "is_comparable"), [(1e-31, False), (1e-29, True), (1e29, True), (1e31, False)]
)
def test_medians_that_no_clock_gives_are_not_compared(median: float, is_comparable: bool) -> None:
    assert is_sound(measured("gemm", "gemm_flops_per_s", "GPU0", median)) is is_comparable


@pytest.mark.parametrize(("pairs", "explains"), [(4, True), (5, False)])
def test_up_to_four_slow_pairs_explain_a_slow_collective(pairs: int, explains: bool) -> None:
    ends = [(0, 1), (2, 3), (4, 5), (6, 7), (1, 2), (3, 4), (5, 6)]
    rates = {pair: 100.0 if number < pairs else 370.0 for number, pair in enumerate(ends)}
    evidence = msgspec.structs.replace(evidence_of(h100_node()), measurements=tuple(peer_copies(rates)))
    cause = of_collective(evidence)
    assert (cause is not None and "copies of" in cause.words) is explains
