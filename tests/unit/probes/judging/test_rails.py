"""Check which ports carry training on machines as they are wired."""

from __future__ import annotations

from probes.base.record import NOT_RECORDED
from probes.compare.slow_causes import of_network
from probes.facts import Link, Nic
from probes.judging.findings import Evidence
from probes.judging.policies.learning import learned_policy
from probes.judging.rails import Rails, training_rails
from tests.support.machines import CATALOGUE, h100_node, ndr_port, storage_port, with_nics


def names(nics: tuple[Nic, ...]) -> list[str]:
    return [nic.name for nic in nics]


def rails_of(*nics: Nic, links: tuple[Link, ...] | None = None) -> Rails:
    return training_rails(h100_node(nics=nics, links=NOT_RECORDED if links is None else links))


def test_infiniband_beside_a_bond_for_storage() -> None:
    rails = rails_of(*(ndr_port(n) for n in range(8)), storage_port(8, name="mlx5_bond_0", rate_gbps=200.0))
    assert names(rails.active) == [f"mlx5_{n}" for n in range(8)]
    assert names(rails.others) == ["mlx5_bond_0"]


def test_storage_port_of_the_same_type_is_reported_by_its_place() -> None:
    node = with_nics(h100_node(), "mlx5_8", link_layer="InfiniBand", rate_gbps=400.0, device_type="MT4129")
    assert names(training_rails(node).others) == ["mlx5_8"]


def test_roce_rails_are_the_ports_with_most_bandwidth_together() -> None:
    front = [storage_port(n) for n in range(4)]
    rails = rails_of(*front, *(ndr_port(n, link_layer="Ethernet") for n in range(4, 12)))
    assert names(rails.active) == [f"mlx5_{n}" for n in range(4, 12)]


def test_port_that_is_off_belongs_to_the_rails_of_its_type() -> None:
    off = {"state": "DOWN", "physical_state": "Disabled", "rate_gbps": 40.0}
    rails = rails_of(*(ndr_port(n) for n in range(6)), ndr_port(6, **off), storage_port(7, **off))
    assert names(rails.down) == ["mlx5_6"]
    assert names(rails.others) == ["mlx5_7"]


def test_unused_second_ports_are_no_rails_and_used_ones_are() -> None:
    first = [ndr_port(n, name=f"mlx5_{2 * n}", pci_bus_id=f"0000:1{n}:00.0") for n in range(2)]
    second = [ndr_port(n, name=f"mlx5_{2 * n + 1}", pci_bus_id=f"0000:1{n}:00.1") for n in range(2)]
    down = ndr_port(1, name="mlx5_3", pci_bus_id="0000:11:00.1", state="DOWN")
    assert names(rails_of(*first, down).down) == []
    assert names(rails_of(*first, second[0], down).down) == ["mlx5_3"]


def test_all_down_means_all_are_missing() -> None:
    rails = rails_of(ndr_port(0, state="DOWN"), ndr_port(1, state="INIT"))
    assert (rails.active, names(rails.down)) == ((), ["mlx5_0", "mlx5_1"])


def test_no_ports() -> None:
    assert rails_of() == Rails()
    assert training_rails(h100_node(nics=NOT_RECORDED)) == Rails()


def test_a_port_of_unknown_state_is_no_reason_for_slow_nccl() -> None:
    unread = with_nics(h100_node(), "mlx5_3", state=NOT_RECORDED, netdev_up=NOT_RECORDED)
    assert of_network(Evidence(facts=unread, catalogue=CATALOGUE)) is None
    down = of_network(Evidence(facts=with_nics(h100_node(), "mlx5_3", state="DOWN"), catalogue=CATALOGUE))
    assert down is not None
    assert down.words == "mlx5_3 is not up"


def test_a_policy_learns_no_count_of_ports_from_unknown_states() -> None:
    unread = with_nics(h100_node(), state=NOT_RECORDED, netdev_up=NOT_RECORDED)
    assert (
        learned_policy(unread, CATALOGUE).nic.count,
        learned_policy(h100_node(), CATALOGUE).nic.count,
    ) == (None, 8)
