"""Test the map of GPUs to NICs and CPUs on many topologies."""

from __future__ import annotations

import msgspec
import pytest

from probes.base.record import NOT_RECORDED, Reason, Unknown, to_json
from probes.facts import Gpu, Link, LinkKind, MachineFacts, Nic, NumaNode
from probes.judging.affinity import Affinity, affinity_of, report_of
from probes.judging.rails import roles_of
from tests.support.machines import cpu_box, h100_node, ndr_port, with_gpus, with_nics

SMALL = MachineFacts(numa_nodes=(NumaNode(index=0, cpus="0-31"), NumaNode(index=1, cpus="32-63")))


def links(rows: dict[int, str], names: str = "mlx5_") -> tuple[Link, ...]:
    """Return links from their kinds by GPU, with one word for each NIC: `{0: "PIX SYS"}`."""
    return tuple(
        Link(a=f"GPU{gpu}", b=f"{names}{nic}", kind=msgspec.convert(kind, LinkKind))
        for gpu, kinds in rows.items()
        for nic, kind in enumerate(kinds.split())
    )


def machine(
    rows: dict[int, str], nodes: tuple[int | Unknown | None, ...] = (), nics: tuple[Nic, ...] | None = None
) -> MachineFacts:
    """Return GPUs with these distances to InfiniBand ports that are up and whose NUMA nodes are unknown."""
    ports = (
        nics
        if nics is not None
        else tuple(ndr_port(index, numa_node=NOT_RECORDED) for index in range(len(rows[0].split())))
    )
    places = nodes or (NOT_RECORDED,) * len(rows)
    gpus = tuple(Gpu(index=index, numa_node=node) for index, node in enumerate(places))
    return msgspec.structs.replace(SMALL, gpus=gpus, nics=ports, links=links(rows))


def mapped(facts: MachineFacts) -> list[Affinity]:
    affinities = affinity_of(facts)
    assert isinstance(affinities, tuple)
    return list(affinities)


def nics_of(facts: MachineFacts) -> list[list[int] | Unknown]:
    """Return the numbers of the ports, by GPU."""
    return [
        entry.nics if isinstance(entry.nics, Unknown) else [int(nic.rpartition("_")[2]) for nic in entry.nics]
        for entry in mapped(facts)
    ]


def test_a_node_with_a_port_for_each_gpu() -> None:
    entries = mapped(h100_node())
    assert [(entry.gpu, entry.nics, entry.kind) for entry in entries] == [
        (f"GPU{index}", (f"mlx5_{index}",), "PIX") for index in range(8)
    ]
    assert [entry.numa_node for entry in entries] == [0] * 4 + [1] * 4
    assert entries[0].cpus == "0-55,112-167"


@pytest.mark.parametrize(
    ("rows", "given"),
    [
        ({0: "PIX", 1: "PIX"}, [[0], [0]]),
        ({0: "PXB PXB", 1: "PXB PXB"}, [[0], [1]]),
        ({0: "PHB PHB PHB PHB", 1: "PHB PHB PHB PHB"}, [[0, 1], [2, 3]]),
        ({0: "PHB PHB PHB", 1: "PHB PHB PHB"}, [[0, 1], [2]]),
        (dict.fromkeys(range(4), "PHB PHB"), [[0], [0], [1], [1]]),
        ({0: "PIX PXB", 1: "PXB PIX", 2: "PXB PXB"}, [[0], [1], [0]]),
        ({0: "PHB NODE", 1: "NODE NODE"}, [[0], [1]]),
        ({0: "SYS", 1: "NODE"}, [[0], [0]]),
    ],
)
def test_nearest_first_then_evenly(rows: dict[int, str], given: list[list[int]]) -> None:
    assert nics_of(machine(rows)) == given


def test_ports_are_dealt_in_the_order_that_people_count_in() -> None:
    assert nics_of(machine({index: " ".join(["PHB"] * 12) for index in range(12)})) == [
        [index] for index in range(12)
    ]


def test_ports_of_the_same_numa_node_are_preferred_at_equal_distance() -> None:
    far = tuple(ndr_port(index, numa_node=1 - index // 2) for index in range(4))
    facts = machine({0: "SYS SYS SYS SYS", 1: "SYS SYS SYS SYS"}, nodes=(0, 1), nics=far)
    assert nics_of(facts) == [[2, 3], [0, 1]]
    assert "same NUMA node" in mapped(facts)[0].why


def test_a_port_below_the_switch_of_a_gpu_is_on_its_numa_node() -> None:
    facts = machine({0: "PIX NODE", 1: "NODE PIX", 2: "NODE NODE", 3: "NODE NODE"}, nodes=(0, 1, 0, 1))
    assert nics_of(facts) == [[0], [1], [0], [1]]


def test_a_virtual_machine_without_locality_implies_no_numa_node() -> None:
    assert nics_of(machine({0: "PHB PHB", 1: "PHB PHB"}, nodes=(0, 1))) == [[0], [1]]


def test_ports_that_are_equally_far_from_everything_are_no_ground_for_a_choice() -> None:
    facts = machine({0: "SYS SYS", 1: "SYS SYS"}, nodes=(0, 1))
    assert all(isinstance(nics, Unknown) and "equally far" in nics.detail for nics in nics_of(facts))
    assert [entry.kind for entry in mapped(facts)] == ["SYS", "SYS"]


def test_ports_for_storage_are_no_choice() -> None:
    facts = h100_node()
    assert isinstance(facts.links, tuple)
    nearer = tuple(
        msgspec.structs.replace(link, kind="PIX") if (link.a, link.b) == ("GPU0", "mlx5_8") else link
        for link in facts.links
    )
    assert nics_of(msgspec.structs.replace(facts, links=nearer))[0] == [0]


def test_a_port_that_is_down_is_named_and_not_chosen() -> None:
    entry = mapped(with_nics(h100_node(), "mlx5_5", state="DOWN"))[5]
    assert entry.nics == ("mlx5_4",)
    assert entry.why.startswith("nearest training port (NODE)")
    assert "mlx5_5 is down" in entry.why


def test_no_port_is_known_to_be_none() -> None:
    entry = mapped(msgspec.structs.replace(h100_node(), nics=()))[0]
    assert (entry.nics, entry.kind, entry.why) == ((), None, "no RDMA device")
    down = mapped(with_nics(h100_node(), state="DOWN"))[0]
    assert down.nics == ()
    assert "down" in down.why


def test_a_pasted_matrix_alone() -> None:
    """Check that ports without a state are taken from below a GPU's switch.

    Storage ports are mostly elsewhere.
    """
    matrix = links({0: "PIX NODE SYS", 1: "NODE PIX SYS"}, names="NIC")
    facts = MachineFacts(
        gpus=(Gpu(index=0, cpu_affinity="0-15"), Gpu(index=1, cpu_affinity="")), links=matrix
    )
    first, second = mapped(facts)
    assert (first.nics, second.nics) == (("NIC0",), ("NIC1",))
    assert first.cpus == "0-15"
    assert isinstance(second.cpus, Unknown)
    assert second.cpus.reason is Reason.PERMISSION


def test_ports_by_numa_node_alone() -> None:
    facts = msgspec.structs.replace(h100_node(), links=NOT_RECORDED)
    assert nics_of(facts) == [[0], [1], [2], [3], [4], [5], [6], [7]]
    assert isinstance(mapped(facts)[0].kind, Unknown)


def test_unknown_facts_give_an_unknown_affinity() -> None:
    assert affinity_of(MachineFacts()) is NOT_RECORDED
    assert affinity_of(cpu_box()) == ()
    entry = mapped(MachineFacts(gpus=(Gpu(index=0),)))[0]
    assert all(isinstance(value, Unknown) for value in (entry.nics, entry.kind, entry.cpus, entry.numa_node))


def test_cpus_of_the_numa_node_where_no_source_lists_those_of_the_gpu() -> None:
    facts = machine({0: "PIX", 1: "PIX"}, nodes=(1, None))
    first, second = mapped(facts)
    assert (first.cpus, first.numa_node) == ("32-63", 1)
    assert isinstance(second.cpus, Unknown)
    assert isinstance(second.numa_node, Unknown)
    assert second.numa_node.reason is Reason.NOT_SUPPORTED


def test_the_numa_node_that_holds_the_cpus_of_the_gpu() -> None:
    facts = with_gpus(machine({0: "PIX"}), cpu_affinity="40-47")
    assert mapped(facts)[0].numa_node == 1
    wide = with_gpus(machine({0: "PIX"}), cpu_affinity="0-63")
    assert isinstance(mapped(wide)[0].numa_node, Unknown)
    narrow = msgspec.structs.replace(machine({0: "PIX"}), numa_nodes=(NumaNode(index=3, cpus="0-31"),))
    assert mapped(narrow)[0].numa_node == 3


def test_every_port_has_a_role() -> None:
    facts = h100_node()
    assert isinstance(facts.nics, tuple)
    bond = ndr_port(9, name="mlx5_bond_0", link_layer="Ethernet", rate_gbps=100.0)
    unused = ndr_port(10, link_layer="Ethernet", state="DOWN", rate_gbps=10.0, device_type="MT4125")
    slow = with_nics(
        msgspec.structs.replace(facts, nics=(*facts.nics, bond, unused)), "mlx5_3", rate_gbps=200.0
    )
    roles = roles_of(with_nics(slow, "mlx5_5", state="DOWN"))
    assert isinstance(roles, dict)
    assert roles == {
        **{(f"mlx5_{index}", 1): "rail" for index in (0, 1, 2, 4, 6, 7)},
        ("mlx5_3", 1): "slow rail",
        ("mlx5_5", 1): "rail, down",
        ("mlx5_8", 1): "side",
        ("mlx5_bond_0", 1): "bond",
        ("mlx5_10", 1): "unused",
    }
    assert roles_of(cpu_box()) == {}
    assert isinstance(roles_of(with_nics(facts, state=NOT_RECORDED, netdev_up=NOT_RECORDED)), Unknown)


def test_the_report_is_the_facts_and_what_follows() -> None:
    facts = h100_node()
    report, plain = msgspec.json.decode(to_json(report_of(facts))), msgspec.json.decode(to_json(facts))
    assert {name: report[name] for name in plain} == plain
    assert set(report) - set(plain) == {"affinity", "nic_roles"}
    assert report["affinity"][0]["nics"] == ["mlx5_0"]
    assert {"name": "mlx5_8", "value": "side"} in report["nic_roles"]


@pytest.mark.parametrize(
    ("kinds", "node"), [("PIX", 1), ("PXB", 1), ("PHB", 1), ("NODE", None), ("SYS", None)]
)
def test_a_port_is_on_the_node_of_a_gpu_below_the_same_host_bridge(kinds: str, node: int | None) -> None:
    """The first port is on the node of both GPUs only if its distance to GPU0 implies this."""
    facts = machine({0: f"{kinds} SYS", 1: "SYS SYS"}, nodes=(1, 1))
    second = mapped(facts)[1]
    assert (second.nics == ("mlx5_0",)) is (node is not None)
    assert isinstance(second.nics, Unknown) is (node is None)


def test_links_between_gpus_and_between_ports_assign_nothing() -> None:
    between = (Link(a="GPU0", b="GPU1", kind="PIX"), Link(a="NIC0", b="NIC1", kind="PIX"))
    facts = MachineFacts(gpus=(Gpu(index=0), Gpu(index=1)), links=between)
    assert all(isinstance(entry.nics, Unknown) for entry in mapped(facts))
    turned = MachineFacts(gpus=(Gpu(index=0),), links=(Link(a="NIC0", b="GPU0", kind="PIX"), *between))
    assert mapped(turned)[0].nics == ("NIC0",)


def test_ports_of_a_matrix_that_are_near_no_gpu_are_all_candidates() -> None:
    facts = MachineFacts(gpus=(Gpu(index=0), Gpu(index=1)), links=links({0: "PHB SYS", 1: "SYS PHB"}, "NIC"))
    assert [entry.nics for entry in mapped(facts)] == [("NIC0",), ("NIC1",)]


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ({0: "PIX SYS", 1: "SYS PIX"}, "nearest training port (PIX)"),
        ({0: "PIX", 1: "PIX"}, "nearest training port (PIX), the same for GPU0-1"),
        ({0: "PXB PXB", 1: "PXB PXB"}, "nearest training port (PXB), shared among GPU0-1"),
        ({0: "PXB PXB"}, "nearest training port (PXB)"),
    ],
)
def test_the_reason_states_with_which_gpus_a_port_is_shared(rows: dict[int, str], why: str) -> None:
    assert mapped(machine(rows))[0].why == why


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        # GPU0 is on node 0; all four ports are at distance NODE, and these are their NUMA nodes.
        ((0, 0, 0, 0), "nearest training port (NODE)"),
        ((0, 1, 1, 1), "nearest training port (NODE) of the same NUMA node"),
        ((1, 1, 1, 1), "nearest training port (NODE)"),
    ],
)
def test_the_numa_node_is_a_reason_only_if_it_narrows_the_choice(nodes: tuple[int, ...], why: str) -> None:
    ports = tuple(ndr_port(index, numa_node=node) for index, node in enumerate(nodes))
    assert mapped(machine({0: "NODE NODE NODE NODE"}, nodes=(0,), nics=ports))[0].why == why


def test_a_port_that_is_down_is_named_only_if_it_is_nearer() -> None:
    ports = (ndr_port(0), ndr_port(1, state="DOWN"), ndr_port(2, state="DOWN"))
    entries = mapped(machine({0: "PXB PIX PXB", 1: "PXB PXB SYS"}, nics=ports))
    assert ", as mlx5_1 is down" in entries[0].why
    assert "down" not in entries[1].why


def test_a_single_far_port_is_used_and_several_are_no_choice() -> None:
    assert nics_of(machine({0: "SYS", 1: "SYS"}, nodes=(0, 1))) == [[0], [0]]
    assert isinstance(nics_of(machine({0: "SYS SYS"}, nodes=(0,)))[0], Unknown)


@pytest.mark.parametrize(
    ("gpus", "ports", "given"),
    [
        (1, 3, [[0, 1, 2]]),
        (2, 5, [[0, 1, 2], [3, 4]]),
        (3, 4, [[0, 1], [2], [3]]),
        (4, 4, [[0], [1], [2], [3]]),
        (4, 3, [[0], [0], [1], [2]]),
        (5, 2, [[0], [0], [0], [1], [1]]),
    ],
)
def test_equally_near_ports_are_dealt_evenly(gpus: int, ports: int, given: list[list[int]]) -> None:
    assert nics_of(machine(dict.fromkeys(range(gpus), " ".join(["PHB"] * ports)))) == given


def test_names_with_and_without_numbers_are_in_natural_order() -> None:
    names = ("mlx5_10", "mlx5_2", "mlx5", "bond", "x99999999999")
    ports = tuple(ndr_port(0, name=name, device_type="MT4129") for name in names)
    facts = machine({0: "PHB"}, nics=ports)
    near = tuple(Link(a="GPU0", b=name, kind="PHB") for name in names)
    nics = mapped(msgspec.structs.replace(facts, links=near))[0].nics
    assert isinstance(nics, tuple)
    assert [name for name in nics if name.startswith("mlx5")] == ["mlx5", "mlx5_2", "mlx5_10"]


def test_the_numa_node_of_a_gpu_follows_from_all_its_cpus() -> None:
    same = with_gpus(machine({0: "PIX"}), cpu_affinity="32-63")
    assert mapped(same)[0].numa_node == 1
    none = with_gpus(machine({0: "PIX"}), cpu_affinity="")
    assert isinstance(mapped(none)[0].numa_node, Unknown)
