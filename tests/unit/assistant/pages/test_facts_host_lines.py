"""Test the overview lines on the PCI bus, the host and its software; each row changes one property."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from assistant.pages.machine import facts_host, facts_pci, facts_software
from probes.base.record import NOT_RECORDED, Reason, Unknown
from probes.base.units import GIB
from probes.facts import (
    Filesystem,
    MachineFacts,
    PcieLink,
)
from tests.support.fact_lines import lines_of, texts_of
from tests.support.machines import cpu_box, h100_node, with_part

DENIED = Unknown(Reason.PERMISSION, "as root only")


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
