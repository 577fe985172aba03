"""Test the lines of the overview for single changes of a machine: one row for each change."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import msgspec
import pytest

from assistant.pages.machine import facts_gpu, facts_host, facts_network, facts_pci, facts_software
from probes.base.record import NOT_RECORDED, Reason, Unknown
from probes.base.units import GIB
from probes.facts import (
    Accelerator,
    FabricPort,
    FabricSwitch,
    Filesystem,
    GpuProcess,
    Interface,
    Link,
    MachineFacts,
    MigDevice,
    NvLink,
    PcieLink,
    PeerAccess,
    counts,
    states,
)
from tests.support.machines import cpu_box, h100, h100_node, ndr_port, with_gpus, with_nics, with_part

DENIED = Unknown(Reason.PERMISSION, "as root only")


def lines_of(
    module: ModuleType, label: str, facts: MachineFacts, *, verbose: bool = False
) -> list[tuple[str, str]]:
    """Return text and tone of each line of a subject."""
    (lines,) = [each.lines for each in module.sections(facts, verbose=verbose) if each.label == label]
    return [(line.text, line.tone) for line in lines]


def texts_of(module: ModuleType, label: str, facts: MachineFacts, *, verbose: bool = False) -> list[str]:
    return [text for text, _ in lines_of(module, label, facts, verbose=verbose)]


def one_gpu(**changes: Any) -> MachineFacts:
    return h100_node(gpus=(h100(0, **changes),))


PLAIN = "GPU0: NVIDIA H100 80GB HBM3, 79.6 GiB, compute capability 9.0, 700 W, PCIe Gen5 x16, 18 NVLinks up"


def links(up: int, down: int) -> tuple[NvLink, ...]:
    return tuple(NvLink(index=n, active=n < up) for n in range(up + down))


@pytest.mark.parametrize(
    ("changes", "old", "new", "tone"),
    [
        ({}, "", "", ""),
        ({"mig_enabled": True}, "", ", MIG on, but no slice exists", ""),
        ({"mig_enabled": True, "mig_devices": NOT_RECORDED}, "", ", MIG on", ""),
        (
            {"mig_enabled": True, "mig_devices": tuple(MigDevice(profile=each) for each in "aba")},
            "",
            ", MIG on: 2 x a + b",
            "",
        ),
        ({"ecc_enabled": False}, "", ", ECC off", ""),
        ({"ecc_uncorrected_volatile": 1}, "", ", 1 uncorrected ECC errors", "bad"),
        ({"row_remap_failed": True}, "", ", row remapping failed", "bad"),
        ({"row_remap_pending": True}, "", ", row remapping pending", "bad"),
        ({"recovery_action": "reset"}, "", ", needs reset", ""),
        ({"compute_mode": "exclusive"}, "", ", exclusive compute mode", ""),
        ({"virtualization": "pass-through"}, "", "", ""),
        ({"virtualization": "vGPU"}, "", ", vGPU virtualisation", ""),
        ({"failed_queries": ()}, "", "", ""),
        ({"failed_queries": tuple("abcd")}, "", ", driver errors: a, b, c, d", "bad"),
        ({"failed_queries": tuple("abcde")}, "", ", driver errors: a, b, c, and 2 more", "bad"),
        ({"pcie": PcieLink(generation_max=4, width=8, width_max=16)}, "Gen5 x16", "Gen4 x8 of x16", ""),
        ({"pcie": PcieLink(generation=1, width=16, width_max=16)}, "Gen5 x16", "Gen1 x16", ""),
        ({"pcie": PcieLink(generation_max=4, width_max=8)}, "Gen5 x16", "Gen4 x8", ""),
        ({"pcie": PcieLink(width=8)}, "Gen5 x16", "x8", ""),
        ({"pcie": PcieLink(generation_max=5)}, "Gen5 x16", "Gen5", ""),
        ({"pcie": PcieLink()}, ", PCIe Gen5 x16", "", ""),
        ({"nvlinks": links(17, 1)}, "18 NVLinks up", "17 NVLinks up, 1 down", "caution"),
        ({"nvlinks": links(1, 0)}, "18 NVLinks up", "1 NVLink up", ""),
        ({"nvlinks": links(0, 2)}, "18 NVLinks up", "0 NVLinks up, 2 down", "caution"),
        ({"nvlinks": ()}, "18 NVLinks up", "no NVLink", ""),
        ({"nvlinks": (NvLink(index=0, active=NOT_RECORDED),)}, ", 18 NVLinks up", "", ""),
    ],
)
def test_a_gpu_is_described_with_its_faults(changes, old, new, tone):
    expected = PLAIN.replace(old, new) if old else PLAIN + new
    assert lines_of(facts_gpu, "GPUs", one_gpu(**changes)) == [(expected, tone)]


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("retired_pages_pending", "page retirement pending"),
        ("unrepairable", "memory beyond repair"),
    ],
)
def test_a_fault_of_the_memory_is_bad(field, words):
    health = msgspec.structs.replace(h100(0).memory_health, **{field: True})
    assert lines_of(facts_gpu, "GPUs", one_gpu(memory_health=health)) == [(f"{PLAIN}, {words}", "bad")]


def test_gpus_are_counted_and_those_that_the_driver_does_not_show_are_mentioned():
    assert texts_of(facts_gpu, "GPUs", h100_node(attached_gpus=8))[0].startswith("GPU0-7: 8 x NVIDIA")
    assert texts_of(facts_gpu, "GPUs", h100_node(attached_gpus=8))[1:] == []
    assert texts_of(facts_gpu, "GPUs", h100_node(attached_gpus=9))[1:] == [
        "the driver reports 9 attached GPUs"
    ]
    nameless = with_gpus(h100_node(), name=NOT_RECORDED)
    assert texts_of(facts_gpu, "GPUs", nameless)[0].startswith("GPU0-7: 79.6 GiB")


def test_gpus_of_other_vendors_are_recognised():
    facts = cpu_box(accelerators=(Accelerator(name="AMD Instinct MI300X"),) * 2)
    assert texts_of(facts_gpu, "GPUs", facts) == ["no NVIDIA GPU"]
    assert texts_of(facts_gpu, "GPUs", cpu_box()) == ["none"]
    assert lines_of(facts_gpu, "Not NVIDIA", facts) == [
        ("2 x AMD Instinct MI300X (recognised, but not examined)", "caution")
    ]


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (1, "1 NVIDIA GPU on the PCI bus: a0"),
        (9, "9 NVIDIA GPUs on the PCI bus: a0, a1, a2, a3, a4, a5, a6, a7, a8"),
        (10, "10 NVIDIA GPUs on the PCI bus: a0, a1, a2, a3, a4, a5, a6, a7, and 2 more"),
    ],
)
def test_gpus_without_a_driver_are_those_of_the_pci_bus(number, words):
    facts = h100_node(gpus=DENIED, pci_gpus=tuple(f"a{n}" for n in range(number)))
    assert texts_of(facts_gpu, "GPUs", facts) == [words]
    (gpus, *_) = facts_gpu.sections(facts, verbose=False)
    assert gpus.lines[0].unknown == (("the driver's report", DENIED),)
    (gpus, *_) = facts_gpu.sections(h100_node(gpus=DENIED, pci_gpus=()), verbose=False)
    assert gpus.lines[0].unknown == (("", DENIED),)


STATE = "31 °C, 56 °C below throttling, memory 40 °C, 70 of 700 W, SM clock 345 of 1980 MHz, 0 % busy"


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({}, [STATE]),
        ({"power_w": NOT_RECORDED}, [STATE.replace(" 70 of 700 W,", "")]),
        ({"power_limit_w": NOT_RECORDED}, [STATE.replace("70 of 700 W", "70 W")]),
        ({"sm_clock_mhz": NOT_RECORDED}, [STATE.replace(" SM clock 345 of 1980 MHz,", "")]),
        (
            {"throttle_reasons": ("gpu_idle", "hw_slowdown")},
            [STATE, "clocks held by hw slowdown: GPU0"],
        ),
        ({"processes": (GpuProcess(pid=7, name="/usr/bin/python"),)}, [STATE, "used by GPU0 python (7)"]),
        ({"processes": (GpuProcess(pid=7),)}, [STATE, "used by GPU0 process (7)"]),
        (
            {"processes": (GpuProcess(pid=7, name="n" * 25),)},
            [STATE, f"used by GPU0 {'n' * 23}… (7)"],
        ),
        (
            {"processes": tuple(GpuProcess(pid=n, name="p") for n in range(4))},
            [STATE, "used by GPU0 p (0), GPU0 p (1), GPU0 p (2), GPU0 p (3)"],
        ),
        (
            {"processes": tuple(GpuProcess(pid=n, name="p") for n in range(5))},
            [STATE, "used by GPU0 p (0), GPU0 p (1), GPU0 p (2), and 2 more"],
        ),
    ],
)
def test_the_state_of_the_gpus_names_what_is_unusual(changes, lines):
    assert texts_of(facts_gpu, "GPU state", one_gpu(**changes)) == lines


def test_readings_of_many_gpus_are_ranges_and_usual_reasons_need_verbose():
    facts = with_gpus(h100_node(), 3, temperature_c=40, power_w=90.4, sm_clock_mhz=1980)
    assert texts_of(facts_gpu, "GPU state", facts) == [
        STATE.replace("31 °C", "31-40 °C", 1).replace("70 of", "70-90 of").replace("345 of", "345-1980 of")
    ]
    assert texts_of(facts_gpu, "GPU state", facts, verbose=True)[1] == "clocks held by gpu idle: GPU0-7"
    assert texts_of(facts_gpu, "GPU state", cpu_box()) == []


def test_links_between_gpus_are_counted_by_kind():
    links = (
        Link(a="GPU0", b="GPU1", kind="NVLINK", nvlink_count=4),
        Link(a="GPU0", b="GPU2", kind="SYS"),
        Link(a="GPU1", b="GPU2", kind="SYS"),
        Link(a="GPU1", b="GPU3", kind=NOT_RECORDED),
        Link(a="GPU0", b="mlx5_0", kind="PIX"),
    )
    facts = h100_node(
        links=links,
        peer_access=(
            PeerAccess(a="GPU0", b="GPU1", capability="read", status="OK"),
            PeerAccess(a="GPU0", b="GPU2", capability="read", status="CNS"),
            PeerAccess(a="GPU2", b="GPU0", capability="read", status="CNS"),
            PeerAccess(a="GPU1", b="GPU2", capability="read", status="CNS"),
        ),
    )
    assert texts_of(facts_gpu, "GPU links", facts) == [
        "2 GPU pairs SYS, 1 GPU pair NVLINK x4, 1 GPU pair of unknown distance",
        "peer access refused (read CNS) between 2 pairs",
    ]


@pytest.mark.parametrize(("gpus", "lines"), [(1, []), (2, ["none"])])
def test_links_are_missed_only_between_several_gpus(gpus, lines):
    facts = h100_node(gpus=h100_node().gpus[:gpus], links=())
    assert texts_of(facts_gpu, "GPU links", facts) == lines


FABRIC = "4 NVSwitches; {}; Fabric Manager 550.54.15 active"


@pytest.mark.parametrize(
    ("changes", "words", "tone"),
    [
        ({}, "GPU0-7 fabric completed", ""),
        ({"fabric_state": "in progress"}, "GPU0-7 fabric in progress", "caution"),
    ],
)
def test_the_membership_in_the_fabric(changes, words, tone):
    facts = with_gpus(h100_node(), **changes)
    assert lines_of(facts_gpu, "NVSwitch", facts) == [(FABRIC.format(words), tone)]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"status": "Success"}, ""),
        ({"status": "timeout"}, ", timeout"),
        ({"cluster_uuid": "12ab-0"}, ", clique 0, cluster 12ab-0"),
        ({"cluster_uuid": "00-00"}, ""),
        ({"health": ("access_timeout", "bad_route")}, ", access timeout, bad route"),
    ],
)
def test_the_health_of_the_fabric(changes, words):
    fabric = msgspec.structs.replace(h100(0).fabric, **changes)
    facts = with_gpus(h100_node(), fabric=fabric)
    assert texts_of(facts_gpu, "NVSwitch", facts) == [FABRIC.format(f"GPU0-7 fabric completed{words}")]


def test_services_of_the_fabric_are_named_with_their_versions():
    facts = with_part(
        with_gpus(h100_node(), fabric_state="not supported"),
        "software",
        fabric_manager_version=NOT_RECORDED,
        imex="READY",
        imex_channels=1,
    )
    assert lines_of(facts_gpu, "NVSwitch", facts) == [
        ("4 NVSwitches; Fabric Manager active; IMEX READY, 1 channel", "")
    ]


def test_a_long_list_of_cpus_is_short_unless_asked_for():
    every_second = ",".join(map(str, range(1, 64, 2)))
    odd_steps = ",".join(map(str, range(0, 96, 3)))
    for cpus, shown in (
        (every_second, "1-63 (odd ones)"),
        (every_second.replace("1,", "0,2,", 1), f"{every_second.replace('1,', '0,2,', 1)[:47]}…"),
        (",".join(map(str, range(0, 64, 2))), "0-62 (even ones)"),
        (odd_steps, f"{odd_steps[:47]}…"),
        ("0-55,112-167", "0-55,112-167"),
        ("1" * 48, "1" * 48),
    ):
        facts = with_gpus(h100_node(), cpu_affinity=cpus)
        first = texts_of(facts_network, "Affinity", facts)[0]
        assert first.startswith(f"NUMA node 0, CPUs {shown}: GPU0")
        whole = texts_of(facts_network, "Affinity", facts, verbose=True)[0]
        assert whole.startswith(f"NUMA node 0, CPUs {cpus}: GPU0")


NIC = "mlx5_0: rail, InfiniBand, 400 Gb/s, ACTIVE, ConnectX-7, firmware 28.39.1002"


@pytest.mark.parametrize(
    ("changes", "line", "tone"),
    [
        ({}, NIC, ""),
        ({"state": "DOWN", "physical_state": "Disabled"}, NIC.replace("ACTIVE", "DOWN"), "bad"),
        ({"state": "DOWN"}, NIC.replace("ACTIVE", "DOWN, LinkUp"), "bad"),
        ({"physical_state": "Polling"}, NIC.replace("ACTIVE", "ACTIVE, Polling"), ""),
        ({"netdev_up": False}, NIC.replace("ACTIVE", "ACTIVE, interface down"), ""),
        ({"is_virtual_function": True}, f"{NIC}, virtual function", ""),
        ({"advice": "a" * 60}, f"{NIC}, {'a' * 60}", ""),
        ({"advice": "a" * 61}, f"{NIC}, {'a' * 59}…", ""),
        ({"state": NOT_RECORDED}, NIC.replace(" ACTIVE,", ""), ""),
        ({"device_type": "odd", "board_id": NOT_RECORDED}, NIC.replace("ConnectX-7", "odd"), ""),
    ],
)
def test_a_port_is_described_with_what_is_unusual(changes, line, tone):
    facts = h100_node(gpus=(h100(0),), nics=(ndr_port(0, **changes),))
    assert lines_of(facts_network, "NICs", facts) == [(line, tone)]


def test_counters_are_shown_above_their_limit_and_with_verbose_above_zero():
    nics = tuple(
        ndr_port(n, counters=counts({"link_downed": value, "unknown_counter": 99}), bit_error_rate=0.0)
        for n, value in enumerate((0, 1, 100000))
    )
    facts = h100_node(nics=nics)
    assert [text for text in texts_of(facts_network, "NICs", facts) if "link_downed" in text] == [
        "mlx5_2: link_downed 100000"
    ]
    assert [text for text in texts_of(facts_network, "NICs", facts, verbose=True) if "rate 0" in text] == [
        "mlx5_0: bit error rate 0",
        "mlx5_1: link_downed 1, bit error rate 0",
        "mlx5_2: link_downed 100000, bit error rate 0",
    ]


@pytest.mark.parametrize(("number", "extra"), [(4, "m3: "), (5, "and 2 more")])
def test_counters_of_three_ports_are_shown(number, extra):
    names = "abcdefg"[:number]
    nics = tuple(
        ndr_port(n, name=f"{name}{n}", counters=counts({"link_downed": 100000 + n}))
        for n, name in enumerate(names)
    )
    lines = texts_of(facts_network, "NICs", h100_node(nics=nics))
    assert len([line for line in lines if "link_downed" in line or " more" in line]) == 4
    assert (extra in lines) is (number == 5)


@pytest.mark.parametrize(("number", "end"), [(7, "g"), (8, "and 2 more")])
def test_of_many_unlike_names_of_ports_six_are_shown(number, end):
    nics = tuple(ndr_port(0, name=name) for name in "abcdefgh"[:number])
    line = next(
        text for text in texts_of(facts_network, "NICs", h100_node(nics=nics)) if "InfiniBand" in text
    )
    assert line.partition(":")[0].endswith(end)
    whole = texts_of(facts_network, "NICs", h100_node(nics=nics), verbose=True)[0]
    assert whole.partition(":")[0].endswith("abcdefgh"[number - 1])


def port(node: str, kind: str = "host", **fields: Any) -> FabricPort:
    return FabricPort(**{"node": node, "node_kind": kind, "port": 1, "width": 4, "speed": "NDR", **fields})


def test_the_fabric_is_counted_by_nodes_and_speeds():
    ports = (
        port("s", "switch", guid="g1"),
        port("s", "switch", guid="g2"),
        port("h"),
        port("h"),
        port("i", speed="HDR", could_be="4X NDR"),
        port("j", width=NOT_RECORDED),
    )
    assert texts_of(facts_network, "IB fabric", h100_node(fabric_ports=ports)) == [
        "2 switches, 3 adapters, 6 cabled ports, 4 at 4X NDR, 1 at 4X HDR; 1 below what both ends support"
    ]
    assert texts_of(facts_network, "IB fabric", h100_node(fabric_ports=ports[:1])) == [
        "1 switch, 0 adapters, 1 cabled port, 1 at 4X NDR"
    ]


def test_a_switch_names_its_bad_parts():
    switch = FabricSwitch(
        name="leaf1",
        part_number="QM9700",
        temperature_c=40,
        power_supplies=states({"PSU1": "OK", "PSU2": "ok", "PSU3": "failed"}),
        fans=states({"FAN1": "6000 rpm", "FAN2": "stopped"}),
    )
    assert texts_of(facts_network, "IB fabric", h100_node(fabric_switches=(switch,))) == [
        "switch leaf1, QM9700, 40 °C, PSU3 failed, FAN2 stopped"
    ]


def interface(name: str, **fields: Any) -> Interface:
    base = {
        "up": True, "is_virtual": False, "is_default_route": False, "mtu": 1500, "addresses": (),
        "speed_gbps": 25.0, "bond_members": None,
    }  # fmt: skip
    return Interface(name=name, **{**base, **fields})


@pytest.mark.parametrize(
    ("interfaces", "lines"),
    [
        ([], ["none"]),
        ([interface("e0")], ["e0, 25 Gb/s"]),
        ([interface("e0"), interface("e1")], ["e0-1, 25 Gb/s"]),
        ([interface("e0", mtu=9000, is_default_route=True)], ["e0, 25 Gb/s, default route, MTU 9000"]),
        ([interface("e0", up=NOT_RECORDED)], ["e0, 25 Gb/s, state not reported"]),
        ([interface("e0", up=False)], ["down: e0"]),
        ([interface(f"e{n}", up=False) for n in range(7)], ["down: e0, e1, e2, e3, e4, e5, e6"]),
        (
            [interface(f"e{n}", up=False) for n in range(8)],
            ["down: e0, e1, e2, e3, e4, e5, and 2 more"],
        ),
        ([interface("e0", up=False, is_virtual=True)], ["1 virtual or part of a bond"]),
        ([interface("e0", is_virtual=True)], ["1 virtual or part of a bond"]),
        ([interface("e0", is_virtual=NOT_RECORDED)], ["e0, 25 Gb/s"]),
        (
            [interface("b", up=False, bond_members=("e0", "e1")), interface("e0"), interface("e1", up=False)],
            ["b, 25 Gb/s, bond of e0 e1", "down: e1; 1 virtual or part of a bond"],
        ),
        ([interface("e0", addresses=tuple("abcd"))], ["e0, 25 Gb/s, a b c d"]),
        ([interface("e0", addresses=tuple("abcde"))], ["e0, 25 Gb/s, a b c and 2 more"]),
    ],
)
def test_interfaces_that_carry_traffic_are_listed_and_the_others_are_counted(interfaces, lines):
    assert texts_of(facts_network, "Network", h100_node(interfaces=tuple(interfaces))) == lines


@pytest.mark.parametrize(("number", "more"), [(8, []), (9, ["and 1 more"])])
def test_eight_interfaces_are_shown(number, more):
    interfaces = tuple(interface(f"e{n}", mtu=9000 + n) for n in range(number))
    facts = h100_node(interfaces=interfaces)
    assert texts_of(facts_network, "Network", facts)[8:] == more
    assert len(texts_of(facts_network, "Network", facts, verbose=True)) == number


def test_neighbours_are_shown_with_verbose():
    facts = h100_node(interfaces=(interface("e0", neighbour="leaf1"), interface("e1", neighbour=None)))
    assert texts_of(facts_network, "Network", facts) == ["e0-1, 25 Gb/s"]
    assert texts_of(facts_network, "Network", facts, verbose=True) == ["e0, 25 Gb/s, to leaf1", "e1, 25 Gb/s"]


def with_device(facts: MachineFacts, bus_id: str, **changes: Any) -> MachineFacts:
    return msgspec.structs.replace(
        facts,
        pci_devices=tuple(
            msgspec.structs.replace(device, **changes) if device.bus_id == bus_id else device
            for device in facts.pci_devices
        ),
    )


GPU0, NIC0, BRIDGE0, BRIDGE1 = "0000:19:00.0", "0000:1a:00.0", "0000:e0:01.0", "0000:e1:01.0"
BUS = "9 bridges above 21 devices, no ACS redirect, MaxPayload 256 bytes"


@pytest.mark.parametrize(
    ("bus_ids", "changes", "lines"),
    [
        ([], {}, [BUS]),
        (
            [BRIDGE0],
            {"acs": ("request_redirect",)},
            [BUS.replace("no ACS redirect", "1 bridge above GPUs and NICs redirects traffic (ACS)")],
        ),
        (
            [BRIDGE0, BRIDGE1],
            {"acs": ("request_redirect", "source_validation")},
            [BUS.replace("no ACS redirect", "2 bridges above GPUs and NICs redirect traffic (ACS)")],
        ),
        ([BRIDGE0], {"acs": ("source_validation",)}, [BUS]),
        ([BRIDGE0], {"acs": DENIED}, [BUS.replace(" no ACS redirect,", "")]),
        ([GPU0], {"max_payload_bytes": 128}, [BUS.replace("256", "128 and 256")]),
        ([GPU0], {"pcie": PcieLink(width=8, width_max=16)}, [BUS, "x8 of x16: GPU0"]),
        ([GPU0], {"pcie": PcieLink(width=0, width_max=16)}, [BUS]),
        ([GPU0, NIC0], {"driver": None}, [BUS, "without a driver: GPU0, mlx5_0"]),
        (["0000:83:00.0"], {"driver": None}, [BUS]),
    ],
)
def test_the_pci_bus_is_one_line_with_its_anomalies(bus_ids, changes, lines):
    facts = h100_node()
    for bus_id in bus_ids:
        facts = with_device(facts, bus_id, **changes)
    assert texts_of(facts_pci, "PCIe", facts) == lines


def drawn(**changes: Any) -> list[str]:
    """Return the lines of the first bridge, its GPU and its NIC in the tree."""
    facts = with_device(h100_node(), GPU0, **changes)
    lines = texts_of(facts_pci, "PCIe tree", facts, verbose=True)
    start = next(number for number, line in enumerate(lines) if BRIDGE0 in line)
    return lines[start : start + 3]


TREE = (
    "0000:e0:01.0 bridge: Gen5 x16, NUMA 0, payload 256",
    "  0000:19:00.0 GPU0: Gen5 x16, NUMA 0, payload 256, read 4096",
    "  0000:1a:00.0 mlx5_0: Gen5 x16, NUMA 0, payload 256, read 4096",
)


@pytest.mark.parametrize(
    ("changes", "old", "new"),
    [
        ({}, "", ""),
        ({"numa_node": None}, " NUMA 0,", ""),
        ({"aer_fatal": 2}, "4096", "4096, 2 fatal errors"),
        ({"driver": None}, "4096", "4096, no driver"),
        ({"driver": "nvidia"}, "", ""),
        ({"slot": "SLOT1"}, "4096", "4096, slot SLOT1"),
        ({"acs": ("request_redirect",)}, "4096", "4096, ACS request redirect"),
        (
            {"pcie": PcieLink(generation=4, generation_max=5, width=8, width_max=16)},
            "Gen5 x16",
            "Gen4 of Gen5 x8 of x16",
        ),
        ({"pcie": PcieLink(generation_max=5, width_max=16)}, "Gen5 x16", "up to Gen5 up to x16"),
        ({"pcie": PcieLink(generation=5, width=0)}, "Gen5 x16", "no link"),
    ],
)
def test_the_tree_shows_each_device_below_its_bridge(changes, old, new):
    expected = list(TREE)
    expected[1] = expected[1].replace(old, new)
    assert drawn(**changes) == expected
    assert not [each for each in facts_pci.sections(h100_node(), verbose=False) if each.label == "PCIe tree"]


@pytest.mark.parametrize(
    ("part", "changes", "label", "old", "new"),
    [
        ("cpu", {"allowed_cpus": 16}, "CPU", "224 CPUs", "224 CPUs, 16 usable"),
        ("cpu", {"sockets": NOT_RECORDED}, "CPU", "2 x Intel", "Intel"),
        ("memory", {"limit_bytes": 64 * GIB}, "Memory", "no limit", "limited to 64.0 GiB"),
        ("memory", {"swap_total_bytes": 8 * GIB}, "Memory", "no swap", "8.0 GiB swap"),
        ("memory", {"hugepages_total": 4}, "Memory", "no swap", "no swap, 4 huge pages"),
        ("memory", {"hugepages_total": 0}, "Memory", "", ""),
        (
            "memory",
            {"hugepages_total": 4, "hugepage_bytes": 2 * 2**20},
            "Memory",
            "no swap",
            "no swap, 4 huge pages of 2 MiB",
        ),
        ("kernel", {"uptime_s": 86400.0}, "Settings", "up 10 days", "up 1 day"),
        ("kernel", {"uptime_s": 86399.0}, "Settings", "up 10 days", "up 23 h 59 min"),
        ("kernel", {"numa_balancing": True}, "Settings", "balancing off", "balancing on"),
        ("clock", {"synchronized": False}, "Settings", "chronyd", "chronyd, clock not synchronised"),
        ("limits", {"memlock_bytes": 65536}, "Limits", "locked memory unlimited", "locked memory 64 KiB"),
    ],
)
def test_one_change_of_the_host_changes_one_word(part, changes, label, old, new):
    (before,) = texts_of(facts_host, label, h100_node())
    assert texts_of(facts_host, label, with_part(h100_node(), part, **changes)) == [before.replace(old, new)]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"memory_errors_uncorrected": 1}, "1 uncorrected memory errors"),
        ({"memory_errors_corrected": 2}, "2 corrected memory errors"),
        ({"blocked_processes": tuple("abcde")}, "blocked: a, b, c, d, e"),
        ({"blocked_processes": tuple("abcdef")}, "blocked: a, b, c, d, and 2 more"),
    ],
)
def test_trouble_of_the_kernel_has_its_own_line(changes, words):
    facts = with_part(h100_node(), "kernel", **changes)
    assert lines_of(facts_host, "Settings", facts)[1:] == [(words, "caution")]


def test_zombies_are_counted_with_verbose():
    facts = with_part(h100_node(), "kernel", zombie_processes=1)
    assert texts_of(facts_host, "Settings", facts)[1:] == []
    assert texts_of(facts_host, "Settings", facts, verbose=True)[1:] == ["1 zombie"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"failed_supplies": ("PSU1",)}, ", failed: PSU1"),
        ({"sensor_alarms": tuple("abcdefgh")}, ", outside of limits: a, b, c, d, e, f, and 2 more"),
        ({"sensor_alarms": tuple("abcdefg")}, ", outside of limits: a, b, c, d, e, f, g"),
    ],
)
def test_power_names_what_failed(changes, words):
    assert texts_of(facts_host, "Power", with_part(h100_node(), "power", **changes)) == [
        "2400 W now, supplies of 19800 W in total" + words
    ]


@pytest.mark.parametrize(("number", "more"), [(6, []), (7, ["and 1 more"])])
def test_six_filesystems_are_shown(number, more):
    storage = tuple(Filesystem(mount=f"/{n}", kind="xfs", read_only=n == 0) for n in range(number))
    lines = texts_of(facts_host, "Storage", h100_node(storage=storage))
    assert lines[:2] == ["/0, xfs, read only", "/1, xfs"]
    assert lines[6:] == more
    assert len(texts_of(facts_host, "Storage", h100_node(storage=storage), verbose=True)) == number
    assert texts_of(facts_host, "Storage", h100_node(storage=())) == ["none"]


@pytest.mark.parametrize(
    ("changes", "old", "new"),
    [
        ({"driver_open_module": False}, "open kernel", "proprietary kernel"),
        (
            {"driver_library_version": "550.90.07"},
            "(open kernel module)",
            "(open kernel module) with libraries of 550.90.07",
        ),
        ({"driver_open_module": NOT_RECORDED}, " (open kernel module)", ""),
        ({"peermem_loaded": True}, "not loaded", "loaded"),
        ({"nccl_version": "2.21.5"}, "no system NCCL", "NCCL 2.21.5"),
    ],
)
def test_one_change_of_the_software_changes_one_word(changes, old, new):
    (before,) = texts_of(facts_software, "Software", h100_node())
    facts = with_part(h100_node(), "software", **changes)
    assert texts_of(facts_software, "Software", facts) == [before.replace(old, new)]


def test_a_machine_without_gpus_shows_no_driver_settings():
    facts = with_part(cpu_box(), "software", peermem_loaded=False, cuda_driver_version="12.4")
    (line,) = texts_of(facts_software, "Software", facts)
    assert "no NVIDIA driver" in line
    assert "peermem" not in line
    assert "CUDA" not in line


def test_a_port_that_is_down_is_bad_and_an_unknown_state_is_not():
    assert lines_of(facts_network, "NICs", with_nics(h100_node(), "mlx5_3", state="DOWN"))[1][1] == "bad"
