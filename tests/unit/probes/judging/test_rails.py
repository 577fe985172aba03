"""Test which ports carry training on machines with different ports, cards and links."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from probes.base.record import NOT_RECORDED, Unknown
from probes.compare.slow_causes import of_network
from probes.facts import Interface, Link, Nic
from probes.judging.findings import Evidence
from probes.judging.policies.learning import learned_policy
from probes.judging.rails import (
    Rails,
    candidate_interfaces,
    default_interface,
    is_down,
    is_up,
    meeting_interface,
    training_ports,
    training_rails,
)
from tests.support.machines import CATALOGUE, h100_node, ndr_port, storage_port, with_nics


def names(nics: tuple[Nic, ...]) -> list[str]:
    return [nic.name for nic in nics]


def rails_of(*nics: Nic, links: tuple[Link, ...] | None = None) -> Rails:
    return training_rails(h100_node(nics=nics, links=NOT_RECORDED if links is None else links))


def test_infiniband_beside_a_bond_for_storage() -> None:
    rails = rails_of(*(ndr_port(n) for n in range(8)), storage_port(8, name="mlx5_bond_0", rate_gbps=200.0))
    assert names(rails.active) == [f"mlx5_{n}" for n in range(8)]
    assert names(rails.others) == ["mlx5_bond_0"]


def test_storage_port_of_the_same_type_is_recognised_by_its_place() -> None:
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


def test_without_an_active_port_all_ports_count_as_down() -> None:
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


def test_a_bond_or_a_dpu_carries_training_only_without_plain_ports() -> None:
    plain, bond = ndr_port(0), ndr_port(1, name="mlx5_bond_0")
    by_netdev = ndr_port(2, netdev="bond0")
    assert names(rails_of(plain, bond).active) == ["mlx5_0"]
    assert names(rails_of(bond).active) == ["mlx5_bond_0"]
    assert names(rails_of(plain, by_netdev).active) == ["mlx5_0"]
    assert names(rails_of(plain, bond, by_netdev).active) == ["mlx5_0", "mlx5_bond_0", "mlx5_2"]


def test_infiniband_wins_if_two_groups_have_the_same_rate() -> None:
    ethernet = [ndr_port(n, link_layer="Ethernet") for n in range(2)]
    infiniband = [ndr_port(n) for n in (2, 3)]
    assert names(rails_of(*ethernet, *infiniband).active) == ["mlx5_2", "mlx5_3"]
    # One port more gives the group more rate than the other, whatever its kind.
    third = ndr_port(4, link_layer="Ethernet")
    assert names(rails_of(*ethernet, *infiniband, third).active) == ["mlx5_0", "mlx5_1", "mlx5_4"]
    # Two ports of 200 Gb/s have the rate of one port of 400 Gb/s; the faster port is the fabric.
    slow = [ndr_port(n, rate_gbps=200.0) for n in range(2)]
    assert names(rails_of(*slow, ndr_port(2)).active) == ["mlx5_2"]


@pytest.mark.parametrize(
    ("state", "netdev_up", "up", "down"),
    [
        ("ACTIVE", False, True, False),
        ("DOWN", True, False, True),
        (NOT_RECORDED, True, True, False),
        (NOT_RECORDED, False, False, True),
        (NOT_RECORDED, NOT_RECORDED, False, False),
        (NOT_RECORDED, None, False, False),
    ],
)
def test_the_interface_counts_if_the_state_of_the_port_is_unknown(
    state: Any, netdev_up: Any, up: bool, down: bool
) -> None:
    nic = ndr_port(0, state=state, netdev_up=netdev_up)
    assert (is_up(nic), is_down(nic)) == (up, down)


def test_ports_whose_purpose_is_doubtful_are_unknown() -> None:
    def training(*nics: Nic) -> list[str] | str:
        ports = training_ports(h100_node(nics=nics, links=NOT_RECORDED))
        return ports.detail if isinstance(ports, Unknown) else names(ports)

    blank = ndr_port(2, rate_gbps=NOT_RECORDED)
    assert training(ndr_port(0), ndr_port(1)) == ["mlx5_0", "mlx5_1"]
    assert training(blank) == ["mlx5_2"]
    assert training(ndr_port(0), blank) == "the rate or the link layer of mlx5_2"
    assert training(ndr_port(0), ndr_port(1, link_layer=NOT_RECORDED)).endswith("of mlx5_1")  # type: ignore[union-attr]
    assert training(ndr_port(0), ndr_port(1, state=NOT_RECORDED, netdev_up=NOT_RECORDED)) == (
        "the state of mlx5_1"
    )
    assert training() == []
    assert isinstance(training_ports(h100_node(nics=NOT_RECORDED)), Unknown)


def test_a_slower_port_of_the_same_kind_is_a_slow_rail() -> None:
    rails = rails_of(ndr_port(0), ndr_port(1), ndr_port(2, rate_gbps=200.0))
    assert (names(rails.active), names(rails.slower)) == (["mlx5_0", "mlx5_1"], ["mlx5_2"])
    other = rails_of(ndr_port(0), ndr_port(1), ndr_port(2, rate_gbps=200.0, device_type="MT4125"))
    assert (names(other.slower), names(other.others)) == ([], ["mlx5_2"])
    unknown = rails_of(ndr_port(0), ndr_port(1), ndr_port(2, rate_gbps=200.0, device_type=NOT_RECORDED))
    assert (names(unknown.slower), names(unknown.others)) == ([], ["mlx5_2"])


def interface(name: str, **changes: Any) -> Interface:
    usual = Interface(name=name, up=True, bond=None, addresses=("10.0.0.1/24",), is_default_route=False)
    return msgspec.structs.replace(usual, **changes)


@pytest.mark.parametrize(
    ("candidate", "leads"),
    [
        (interface("eth0"), True),
        (interface("eth0", up=False), False),
        (interface("eth0", up=NOT_RECORDED), False),
        (interface("eth0", bond="bond0"), False),
        (interface("eth0", bond=NOT_RECORDED), True),
        (interface("lo"), False),
        (interface("docker0"), False),
        (interface("eth0", addresses=("fe80::1/64",)), False),
        (interface("eth0", addresses=("FE80::1/64", "10.0.0.1/24")), True),
        (interface("eth0", addresses=()), False),
        (interface("eth0", addresses=NOT_RECORDED), True),
    ],
)
def test_an_interface_leads_to_a_network(candidate: Interface, leads: bool) -> None:
    facts = h100_node(interfaces=(candidate,))
    assert candidate_interfaces(facts) == ((candidate,) if leads else ())
    assert (meeting_interface(facts) is not None) is leads


def test_ranks_meet_over_the_only_interface_or_over_the_default_route() -> None:
    first, second = interface("eth0"), interface("eth1")
    route, other_route = (interface(name, is_default_route=True) for name in ("eth2", "eth3"))

    def meeting(*interfaces: Interface) -> str:
        chosen = meeting_interface(h100_node(interfaces=interfaces))
        return "" if chosen is None else chosen.name

    assert meeting() == ""
    assert meeting(first) == "eth0"
    assert meeting(first, second) == ""
    assert meeting(first, second, route) == "eth2"
    assert meeting(first, route, other_route) == ""
    assert default_interface(h100_node(interfaces=(first,))) is None
    assert isinstance(candidate_interfaces(h100_node(interfaces=NOT_RECORDED)), Unknown)
