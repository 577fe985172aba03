"""Test that recorded outputs of network tools are recognised, read as the index states, and judged rightly.

The recordings are outside the project, in the folder that RIGTUNE_SHARED names.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import pytest

from probes.base.record import Unknown
from probes.catalogue.hardware import load_catalogue
from probes.catalogue.text_kinds import KINDS
from probes.collect.collecting import CollectOptions, assemble, gather
from probes.collect.collector_table import PROBES
from probes.facts import FabricPort, FabricSwitch, Interface, MachineFacts, Nic
from probes.facts.named import count_of, state_of
from probes.judging.check_table import CHECKS
from probes.judging.findings import Evidence, Finding, Status
from probes.judging.policies.selection import missing
from probes.sources.loose import open_loose
from tests.support.recordings import MACHINES, index, needs_recordings

pytestmark = needs_recordings

ASKED = frozenset({"hostname", "infiniband", "interfaces", "fabric", "environment"})


class Truth(NamedTuple):
    """Expected result of one file: its kinds, its facts, and the checks that must report a problem."""

    kinds: tuple[str, ...]
    facts: dict[str, Callable[[MachineFacts], bool]] = {}
    problems: frozenset[str] = frozenset()


def nics(facts: MachineFacts) -> dict[str, Nic]:
    assert isinstance(facts.nics, tuple)
    return {nic.name if nic.port == 1 else f"{nic.name}:{nic.port}": nic for nic in facts.nics}


def ports(facts: MachineFacts) -> tuple[FabricPort, ...]:
    assert isinstance(facts.fabric_ports, tuple)
    return facts.fabric_ports


def switch(facts: MachineFacts) -> FabricSwitch:
    assert isinstance(facts.fabric_switches, tuple)
    (one,) = facts.fabric_switches
    return one


def interfaces(facts: MachineFacts) -> dict[str, Interface]:
    assert isinstance(facts.interfaces, tuple)
    return {one.name: one for one in facts.interfaces}


def rates(expected: dict[tuple[object, object], int]) -> dict[str, Callable[[MachineFacts], bool]]:
    """Return a test of the number of ports by state and rate; a device that has vanished has neither."""
    return {
        "states and rates": lambda facts: (
            Counter(
                (nic.state, nic.rate_gbps)
                for nic in nics(facts).values()
                if not isinstance(nic.state, Unknown)
            )
            == expected
        )
    }


def counted(nic: Nic, name: str) -> int | None:
    assert isinstance(nic.counters, tuple)
    return count_of(nic.counters, name)


def speeds(expected: dict[object, int]) -> Callable[[MachineFacts], bool]:
    return lambda facts: (
        Counter(port.speed for port in ports(facts) if isinstance(port.speed, str)) == expected
    )


def fw(version: str) -> Callable[[MachineFacts], bool]:
    return lambda facts: {nic.firmware_version for nic in nics(facts).values()} == {version}


FRONT = {
    "members of front0": lambda facts: interfaces(facts)["front0"].bond_members == ("enp97s0f0", "enp225s0f0")
}
HDR8 = rates({("ACTIVE", 200.0): 8})

TRUTHS: dict[str, Truth] = {
    "eth-learn-good.json": Truth(
        ("interfaces",),
        FRONT
        | {
            "up": lambda facts: interfaces(facts)["front0"].up is True,
            "mtu": lambda facts: interfaces(facts)["enp97s0f0"].mtu == 9192,
            "LLDP": lambda facts: str(interfaces(facts)["enp225s0f0"].neighbour).startswith("rscfee4001"),
        },
    ),
    "eth-learn-degraded-intf.json": Truth(("interfaces",), FRONT, frozenset({"interface-speed"})),
    "eth-learn-down-intf.json": Truth(
        ("interfaces",),
        {"down": lambda facts: interfaces(facts)["enp225s0f0"].up is False},
        frozenset({"interface-state"}),
    ),
    "eth-learn-missing-intf.json": Truth(
        ("interfaces",),
        {"missing": lambda facts: isinstance(interfaces(facts)["enp225s0f0"].up, Unknown)},
        frozenset({"interface-state"}),
    ),
    "eth-learn-mtu-bad.json": Truth(
        ("interfaces",),
        {"mtu": lambda facts: interfaces(facts)["enp97s0f0"].mtu == 1500},
        frozenset({"interface-mtu"}),
    ),
    "eth-learn-nic-swap.json": Truth(
        ("interfaces",),
        {"bond without members": lambda facts: interfaces(facts)["front0"].bond_members == ()},
        frozenset({"interface-state", "interface-cabling"}),
    ),
    "fi_info-aws-p5-efa-rdmap79s0.txt": Truth(
        ("fi-info",),
        {
            "rate": lambda facts: nics(facts)["rdmap79s0"].rate_gbps == 100.0,
            "up": lambda facts: nics(facts)["rdmap79s0"].state == "ACTIVE",
            "bus": lambda facts: nics(facts)["rdmap79s0"].pci_bus_id == "0000:4f:00.0",
            "mtu": lambda facts: nics(facts)["rdmap79s0"].mtu == 8760,
            "EFA": lambda facts: nics(facts)["rdmap79s0"].device_type == "efa",
        },
    ),
    "ibdev2netdev-h100-roce-12dev.txt": Truth(
        ("ibdev2netdev",),
        {
            "12 devices": lambda facts: len(nics(facts)) == 12,
            "bond": lambda facts: (
                [nics(facts)[name].netdev for name in ("mlx5_3", "mlx5_9")] == ["bond0", "bond0"]
            ),
            "down": lambda facts: (
                {name for name, nic in nics(facts).items() if nic.netdev_up is False} == {"mlx5_4", "mlx5_10"}
            ),
        },
    ),
    "iblinkinfo-4x-v100-edr-on-hdr-switch.txt": Truth(
        ("iblinkinfo",), {"speeds": speeds({"EDR": 7, "HDR": 1})}
    ),
    "ibnetdiscover-azure-ndv4-fattree.txt": Truth(
        ("ibnetdiscover",), {"all HDR": lambda facts: {port.speed for port in ports(facts)} == {"HDR"}}
    ),
    "ibnetdiscover-gb200-single-ca-no-fabric.txt": Truth(
        ("ibnetdiscover",),
        {"alone": lambda facts: [port.peer for port in ports(facts)] == [None]},
        frozenset({"fabric-isolation"}),
    ),
    "ibnetdiscover-ndr-dgx-fabric-large.txt": Truth(
        ("ibnetdiscover",),
        {
            "all NDR": lambda facts: {port.speed for port in ports(facts)} == {"NDR"},
            "hundreds of hosts' ports": lambda facts: (
                sum(port.node_kind == "host" for port in ports(facts)) > 100
            ),
        },
    ),
    "ibnetdiscover-p-2ca-edr.txt": Truth(
        ("ibnetdiscover",),
        {
            "hosts": lambda facts: (
                {port.node for port in ports(facts) if port.node_kind == "host"}
                == {f"{n} HCA-1" for n in ("o0001", "o0002", "p0001")}
            )
        },
        frozenset({"fabric-links"}),
    ),
    "ibnetdiscover-p-variant2.txt": Truth(
        ("ibnetdiscover",), {"ports": lambda facts: len(ports(facts)) == 6}
    ),
    "ibnetdiscover-p-variant3.txt": Truth(
        ("ibnetdiscover",), {"ports": lambda facts: len(ports(facts)) == 1}
    ),
    "ibstat-a100-1eth200-8xhdr200.txt": Truth(
        ("ibstat",),
        rates({("ACTIVE", 200.0): 9})
        | {
            "one Ethernet": lambda facts: (
                [name for name, nic in nics(facts).items() if nic.link_layer == "Ethernet"] == ["mlx5_0"]
            )
        },
    ),
    "ibstat-a100-8xhdr200-mlx5_8-missing-ibpanic.txt": Truth(
        ("ibstat",),
        HDR8
        | {
            "the vanished device": lambda facts: isinstance(nics(facts)["mlx5_8"].state, Unknown),
            "the panic line": lambda facts: [line.text.split(":")[0] for line in facts.unread] == ["ibpanic"],
        },
        frozenset({"nic-state"}),
    ),
    "ibstat-a100-vm-8x-hdr100.txt": Truth(("ibstat",), rates({("ACTIVE", 100.0): 8})),
    "ibstat-h100-3eth-disabled.txt": Truth(
        ("ibstat",),
        rates({("ACTIVE", 400.0): 8, ("DOWN", 40.0): 3, ("ACTIVE", 100.0): 1}),
        frozenset({"nic-state"}),
    ),
    "ibstat-h100-8xndr400-plus-bond0.txt": Truth(
        ("ibstat",), rates({("ACTIVE", 400.0): 8, ("ACTIVE", 200.0): 1})
    ),
    "ibstat-h100-roce-1polling-1disabled.txt": Truth(
        ("ibstat",),
        {
            "polling": lambda facts: (
                [nics(facts)[name].physical_state for name in ("mlx5_11", "mlx5_5")]
                == ["Polling", "Disabled"]
            )
        },
        frozenset({"nic-state"}),
    ),
    "ibstat-h100-roce-2x400-disabled.txt": Truth(
        ("ibstat",),
        rates({("ACTIVE", 400.0): 6, ("ACTIVE", 100.0): 4, ("DOWN", 40.0): 2}),
        frozenset({"nic-state"}),
    ),
    "ibstat-h100-roce-8x400-4x100-active.txt": Truth(
        ("ibstat",), rates({("ACTIVE", 400.0): 8, ("ACTIVE", 100.0): 4})
    ),
    "ibstat-mlx4-ddr-one-port.txt": Truth(
        ("ibstat",),
        {
            "rate": lambda facts: nics(facts)["mlx4_0"].rate_gbps == 20.0,
            "its own subnet manager": lambda facts: (
                nics(facts)["mlx4_0"].lid == nics(facts)["mlx4_0"].sm_lid == 3
            ),
            "no cable": lambda facts: nics(facts)["mlx4_0:2"].physical_state == "Polling",
        },
    ),
    "ibstat-mlx4-ib-polling-eth-disabled.txt": Truth(
        ("ibstat",),
        {
            "mixed": lambda facts: (
                [nic.link_layer for nic in nics(facts).values()] == ["InfiniBand", "Ethernet"]
            )
        },
        frozenset({"nic-state"}),
    ),
    "ibstatus-a100-8xhdr200-plus-40g.txt": Truth(
        ("ibstatus",),
        rates({("ACTIVE", 200.0): 8, ("ACTIVE", 40.0): 1})
        | {
            "Ethernet": lambda facts: nics(facts)["mlx5_8"].link_layer == "Ethernet",
            "HDR": lambda facts: nics(facts)["mlx5_0"].speed == "HDR",
        },
    ),
    "ibswinfo-missing-fields.txt": Truth(
        ("ibswinfo",), {"part": lambda facts: switch(facts).part_number == "MSB7790-ES2F"}
    ),
    "ibswinfo-msb7790-fan-error.txt": Truth(
        ("ibswinfo",),
        {
            "fan": lambda facts: state_of(switch(facts).fans, "all") == "ERROR",  # type: ignore[arg-type]
            "temperature": lambda facts: switch(facts).temperature_c == 45,
        },
        frozenset({"switch-health"}),
    ),
    "ibswinfo-switch-2.txt": Truth(
        ("ibswinfo",), {"firmware": lambda facts: switch(facts).firmware_version == "27.2010.3118"}
    ),
    "ibswinfo-switch-3.txt": Truth(
        ("ibswinfo",), {"firmware": lambda facts: switch(facts).firmware_version == "27.2010.4102"}
    ),
    "mlxlink-25g-text-excerpt.txt": Truth(
        ("mlxlink",), {"rate": lambda facts: nics(facts)["unnamed"].rate_gbps == 25.0}
    ),
    "mlxlink-a100-vm-8x-hdr100.txt": Truth(
        ("mlxlink",),
        rates({("ACTIVE", 100.0): 8})
        | {
            "HDR100": lambda facts: {(nic.speed, nic.lanes) for nic in nics(facts).values()} == {("HDR", 2)},
            "no issue": lambda facts: {nic.advice for nic in nics(facts).values()} == {None},
        },
    ),
    "mlxlink-counters-a100-vm-8x-hdr100.txt": Truth(
        ("mlxlink",),
        {
            "worst": lambda facts: nics(facts)["mlx5_3"].pre_fec_bit_error_rate == 1e-7,
            "none after correction": lambda facts: (
                {nic.bit_error_rate for nic in nics(facts).values()} == {0.0}
            ),
        },
    ),
    "perfquery-rcv-error-details.txt": Truth(
        ("perfquery",),
        {"all 0": lambda facts: {row.value for nic in nics(facts).values() for row in nic.counters} == {0}},  # type: ignore[union-attr]
    ),
    "perfquery-x-hca-1.txt": Truth(
        ("perfquery",), {"discards": lambda facts: counted(nics(facts)["lid133"], "port_xmit_discards") == 0}
    ),
    "perfquery-x-switch-2ports.txt": Truth(
        ("perfquery",), {"two ports": lambda facts: [nic.port for nic in nics(facts).values()] == [1, 2]}
    ),
    "perfquery-x-switch-lid2052-port1.txt": Truth(
        ("perfquery",),
        {
            "discards": lambda facts: counted(nics(facts)["lid2052"], "port_xmit_discards") == 20046,
            "relay errors": lambda facts: (
                counted(nics(facts)["lid2052"], "port_rcv_switch_relay_errors") == 7
            ),
            "downed": lambda facts: counted(nics(facts)["lid2052"], "link_downed") == 1,
        },
        frozenset({"nic-discards"}),
    ),
    "rdma-link-samples.txt": Truth(
        ("rdma-link",),
        {
            "down": lambda facts: (
                (nics(facts)["rocep9s0"].state, nics(facts)["rocep9s0"].physical_state) == ("DOWN", "Polling")
            )
        },
        frozenset({"nic-state"}),
    ),
    "show_gids-roce-net1.txt": Truth(
        ("show-gids",),
        {
            "v2 at 5": lambda facts: (
                [
                    gid.index
                    for gid in nics(facts)["mlx5_0"].gids
                    if gid.kind == "RoCE v2" and gid.address == "10.12.0.21"  # type: ignore[union-attr]
                ]
                == [5]
            )
        },
        frozenset({"nic-gid-index"}),
    ),
    "sysfs-a100-2ports-stuck-init.json": Truth(
        (),
        rates({("ACTIVE", 200.0): 6, ("INIT", 200.0): 2})
        | {
            "their interfaces": lambda facts: (
                [nics(facts)[name].netdev_up for name in ("mlx5_6", "mlx5_8")] == [False, False]
            )
        },
        frozenset({"nic-state", "nic-subnet-manager"}),
    ),
    "sysfs-a100-8xhdr200-good.json": Truth((), HDR8 | {"firmware": fw("20.31.2354")}),
    "sysfs-a100-misbound-interface.json": Truth((), HDR8, frozenset({"nic-naming"})),
    "sysfs-a100-one-ipoib-down.json": Truth((), HDR8, frozenset({"nic-netdev"})),
    "sysfs-a100-rate-edr100-instead-of-hdr200.json": Truth(
        (), rates({("ACTIVE", 100.0): 8}), frozenset({"nic-speed"})
    ),
    "sysfs-h100-8xndr400-bond0.json": Truth(
        (),
        rates({("ACTIVE", 400.0): 8, ("ACTIVE", 200.0): 1})
        | {"history": lambda facts: counted(nics(facts)["mlx5_1"], "link_downed") == 255},
    ),
    "sysfs-hfi1-mlx4-mlx5.json": Truth(
        (),
        rates({("ACTIVE", 100.0): 1, ("ACTIVE", 40.0): 2, ("ACTIVE", 25.0): 1})
        | {
            "one lane": lambda facts: nics(facts)["mlx5_0"].lanes == 1,
            "no type": lambda facts: isinstance(nics(facts)["hfi1_0"].device_type, Unknown),
        },
    ),
    "sysfs-mlx4-qdr-and-i40iw.json": Truth(
        (),
        rates({("ACTIVE", 10.0): 1, ("ACTIVE", 40.0): 2})
        | {"no counters": lambda facts: isinstance(nics(facts)["i40iw0"].counters, Unknown)},
    ),
    "sysfs-net-bonding.json": Truth(
        (),
        {"member": lambda facts: interfaces(facts)["eth1"].link_seen_by_bond is False},
        frozenset({"interface-state"}),
    ),
    "vm-hostname-node-guid-list.txt": Truth(("guid-list",)),
}


@functools.cache
def states() -> dict[str, str]:
    """Return the stated condition of each recording of InfiniBand and RoCE, by file name."""
    return {path.removeprefix("ib/"): row["state"] for path, row in index().items() if path.startswith("ib/")}


@functools.cache
def facts_of(name: str) -> MachineFacts:
    source = open_loose([(name, (MACHINES / "ib" / name).read_bytes())])
    return assemble(name, gather(source, CollectOptions(), [row for row in PROBES if row.id in ASKED]))


@functools.cache
def findings_of(name: str) -> tuple[Finding, ...]:
    evidence = Evidence(facts=facts_of(name), catalogue=load_catalogue())
    rows = [row for row in CHECKS if row.group == "network" or row.module.endswith("link_flapping")]
    asked = [row for row in rows if missing(row.needs, evidence) is None]
    return tuple(finding for row in asked for finding in row.run(evidence))


def called_out(name: str, *statuses: Status) -> set[str]:
    return {finding.check_id for finding in findings_of(name) if finding.status in statuses}


def test_every_recording_of_the_network_has_an_expected_result() -> None:
    assert set(states()) - set(TRUTHS) == {"lsmod-nv_peer_mem-legacy.txt"}


@pytest.mark.parametrize("name", TRUTHS)
def test_kinds(name: str) -> None:
    text = (MACHINES / "ib" / name).read_text("utf-8", "replace")
    assert tuple(kind.id for kind in KINDS if kind.recognise(text)) == TRUTHS[name].kinds


@pytest.mark.parametrize(
    ("name", "fact"), [(name, fact) for name, truth in TRUTHS.items() for fact in truth.facts]
)
def test_facts(name: str, fact: str) -> None:
    assert TRUTHS[name].facts[fact](facts_of(name))


@pytest.mark.parametrize("name", TRUTHS)
def test_findings(name: str) -> None:
    assert TRUTHS[name].problems <= called_out(name, Status.WARN, Status.FAIL)
    assert (states()[name] == "fault") == bool(TRUTHS[name].problems)
    if states()[name] == "healthy":
        assert not called_out(name, Status.FAIL)


def test_the_score(capsys: pytest.CaptureFixture[str]) -> None:
    stated = met = 0
    for name, truth in TRUTHS.items():
        results = [check(facts_of(name)) for check in truth.facts.values()]
        results += [problem in called_out(name, Status.WARN, Status.FAIL) for problem in truth.problems]
        results.append(states()[name] == "fault" or not called_out(name, Status.FAIL))
        stated, met = stated + len(results), met + sum(results)
    with capsys.disabled():
        print(f"\nnetwork: {len(TRUTHS)} files, {stated} truths, {met} found")  # noqa: T201 - the score is the point
    assert met == stated
