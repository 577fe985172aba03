"""Test the overview lines on GPUs and their links; each row changes one property of a machine."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from assistant.pages.machine import facts_gpu
from probes.base.record import NOT_RECORDED, Reason, Unknown
from probes.facts import (
    Accelerator,
    GpuProcess,
    Link,
    MachineFacts,
    MigDevice,
    NvLink,
    PcieLink,
    PeerAccess,
)
from tests.support.fact_lines import lines_of, texts_of
from tests.support.machines import cpu_box, h100, h100_node, with_gpus, with_part

DENIED = Unknown(Reason.PERMISSION, "as root only")


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
        ({"ecc_uncorrected_volatile": 1}, "", ", uncorrected ECC errors: 1", "bad"),
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
