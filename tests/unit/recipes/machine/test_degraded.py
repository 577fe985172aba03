"""Parts of a machine that are slow or missing lower the rates of a plan, and are named in its warnings."""

from __future__ import annotations

import msgspec
import pytest

from assistant.usecases.plan import PlanRequest, plan_workload
from probes.catalogue.hardware import load_catalogue
from probes.facts import PcieLink
from recipes.machine.from_facts import cluster_from_facts
from tests.support.machines import CATALOGUE, h100_node, healthy_link, ndr_port, with_gpus, with_nics

HALF = PcieLink(generation=5, generation_max=5, width=8, width_max=16)
EIGHTH = PcieLink(generation=5, generation_max=5, width=2, width_max=16)
LINKS = tuple(healthy_link(index) for index in range(18))


def _replaced(count, **changes):
    return tuple(msgspec.structs.replace(link, **changes) if link.index < count else link for link in LINKS)


def _without_nvlink(facts, gpu):
    links = tuple(
        msgspec.structs.replace(link, kind="SYS", nvlink_count=None)
        if gpu in (link.a, link.b) and link.kind == "NVLINK"
        else link
        for link in facts.links
    )
    return msgspec.structs.replace(facts, links=links)


CASES = {
    "a GPU with a quarter of the lanes that a port needs": (
        with_gpus(h100_node(), 3, pcie=EIGHTH), "GPU3 with 2 of 16 PCIe lanes", None, 8 * 7.876 / 50 / 8
    ),
    "a GPU at half its lanes, which still carry a port": (
        with_gpus(h100_node(), 3, pcie=HALF), "GPU3 with 8 of 16 PCIe lanes", None, 8 * 31.504 / 50 / 8
    ),
    "a port at half its lanes": (
        with_nics(h100_node(), "mlx5_2", pcie=HALF), "mlx5_2 with 8 of 16 PCIe lanes", None, 31.504 / 50
    ),
    "a port that is down": (
        with_nics(h100_node(), "mlx5_2", state="DOWN", physical_state="Polling", netdev_up=False),
        "mlx5_2 is down: the plan uses 7 of 8 training ports", None, 7 / 8
    ),
    "a port that runs slower": (
        with_nics(h100_node(), "mlx5_2", rate_gbps=100.0),
        "mlx5_2 runs at 100 instead of 400 Gb/s: the plan uses 7 of 8 training ports", None, 7 / 8
    ),
    "three NVLinks that are down": (
        with_gpus(h100_node(), 5, nvlinks=_replaced(3, active=False)),
        "GPU5 with only 15 of 18 NVLinks up", 15 / 18, None
    ),
    "NVLinks at half their rate": (
        with_gpus(h100_node(), 5, nvlinks=_replaced(18, bandwidth_bytes_per_s=12.5e9)),
        "GPU5 with NVLinks at 12.5 GB/s instead of 25 GB/s", 0.5, None
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_slow_part_lowers_the_rate_and_is_named(name):
    facts, words, links, network = CASES[name]
    usual = cluster_from_facts(h100_node(), (), CATALOGUE, nodes=2)
    cluster = cluster_from_facts(facts, (), CATALOGUE, nodes=2)
    (warning,) = cluster.warnings
    assert warning.startswith(words)
    rates = (
        cluster.intra_bus_bandwidth_bytes_per_s.value / usual.intra_bus_bandwidth_bytes_per_s.value,
        cluster.inter_bus_bandwidth_bytes_per_s.value / usual.inter_bus_bandwidth_bytes_per_s.value,
    )
    assert rates == pytest.approx((links or 1.0, network or 1.0), rel=0.01)


@pytest.mark.parametrize("dead", ["matrix", "links"])
def test_a_gpu_without_nvlink_makes_the_ring_use_pcie(dead):
    facts = h100_node()
    if dead == "matrix":
        facts = _without_nvlink(facts, "GPU2")
    else:
        facts = with_gpus(facts, 2, nvlinks=_replaced(18, active=False))
    cluster = cluster_from_facts(facts, (), load_catalogue())
    assert cluster.fabric == "pcie"
    assert cluster.intra_bus_bandwidth_bytes_per_s.value < 100e9
    (warning,) = cluster.warnings
    assert "the plan uses PCIe between the GPUs" in warning


def test_a_machine_with_17_of_18_links_has_a_switch_all_the_same():
    facts = h100_node()
    links = tuple(
        msgspec.structs.replace(link, nvlink_count=17) if link.kind == "NVLINK" else link
        for link in facts.links
    )
    assert cluster_from_facts(msgspec.structs.replace(facts, links=links), (), CATALOGUE).fabric == "nvswitch"


def test_a_healthy_machine_has_no_warning_and_ports_do_not_matter_on_one_node():
    assert not cluster_from_facts(h100_node(), (), CATALOGUE, nodes=4).warnings
    down = with_nics(h100_node(), "mlx5_2", state="DOWN", physical_state="Polling", netdev_up=False)
    assert not cluster_from_facts(down, (), CATALOGUE, nodes=1).warnings


def test_all_ports_down_are_named():
    facts = h100_node(nics=tuple(ndr_port(index, state="DOWN", netdev_up=False) for index in range(8)))
    (warning,) = cluster_from_facts(facts, (), CATALOGUE, nodes=2).warnings
    assert "are down: the plan uses TCP" in warning


def test_the_plan_shows_what_is_slow():
    facts = with_gpus(h100_node(), 5, nvlinks=_replaced(3, active=False))
    *_, event = plan_workload(facts, (), PlanRequest(model="llama-3-8b"))
    assert any("GPU5 with only 15 of 18 NVLinks up" in warning for warning in event.result.warnings)
