"""Cases of the checks of NVLinks and the Fabric Manager: healthy machines with one difference."""

from __future__ import annotations

from probes.facts import MachineFacts, NvLink
from tests.support.check_case import (
    ALL,
    IN_CONTAINER,
    NODE,
    NOT_RECORDED,
    NOT_SUPPORTED,
    ONE,
    TIMEOUT,
    Case,
    nvlinks,
)
from tests.support.machines import with_gpus, with_part

BRIDGED = with_gpus(NODE, 0, 1, name="NVIDIA A100 80GB PCIe", nvlinks=nvlinks(up=0, of=12))

PCIE_ONLY = with_gpus(NODE, name="NVIDIA L40S", nvlinks=NOT_RECORDED)

STRANGER = with_gpus(NODE, name="NVIDIA H999", nvlinks=nvlinks(up=10, of=18))

NO_FABRIC = with_gpus(NODE, fabric_state="not supported")


def manager(state: object, facts: MachineFacts = NODE) -> MachineFacts:
    return with_part(facts, "software", fabric_manager=state)


FABRIC_CASES = (
    Case("nvlink-fabric", "joined", NODE, (f"PASS {ALL}",)),
    Case(
        "nvlink-fabric",
        "not started",
        with_gpus(NODE, fabric_state="not started"),
        tuple(f"FAIL GPU{n}" for n in range(8)),
    ),
    Case("nvlink-fabric", "in progress", with_gpus(ONE, fabric_state="in progress"), ("FAIL GPU0",)),
    Case("nvlink-fabric", "no fabric", NO_FABRIC, (f"SKIP {ALL}",)),
    Case("nvlink-fabric", "unread", with_gpus(ONE, fabric_state=TIMEOUT), ("UNKNOWN GPU0",)),
    Case("fabric-manager", "active", NODE, ("PASS host",)),
    Case("fabric-manager", "stopped, nothing set up", manager("inactive", NO_FABRIC), ("FAIL host",)),
    Case("fabric-manager", "missing, nothing set up", manager(None, NO_FABRIC), ("FAIL host",)),
    Case("fabric-manager", "stopped after the set-up", manager("failed"), ("WARN host",)),
    Case("fabric-manager", "in the rack", manager(None), ("PASS host",)),
    Case("fabric-manager", "outside the container", manager(None, IN_CONTAINER), ("SKIP host",)),
    Case(
        "fabric-manager",
        "outside the virtual machine",
        manager("inactive", with_part(NODE, "container", virtualization="kvm")),
        ("SKIP host",),
    ),
    Case("fabric-manager", "failed inside the container", manager("failed", IN_CONTAINER), ("WARN host",)),
    Case("fabric-manager", "unread", manager(TIMEOUT), ("UNKNOWN host",)),
    Case("fabric-manager", "no switch", with_gpus(NO_FABRIC, nvlinks=()), ("SKIP host",)),
    Case("nvlink-active", "all up", NODE, (f"PASS {ALL}",)),
    Case(
        "nvlink-active",
        "one down",
        with_gpus(NODE, 3, nvlinks=nvlinks(up=17)),
        ("FAIL GPU3", "PASS GPU0-2, GPU4-7"),
    ),
    Case(
        "nvlink-active",
        "the dead link is not even listed",
        with_gpus(NODE, 3, nvlinks=nvlinks(up=17, of=17)),
        ("FAIL GPU3", "PASS GPU0-2, GPU4-7"),
    ),
    Case(
        "nvlink-active",
        "all down",
        with_gpus(NODE, 3, nvlinks=nvlinks(up=0)),
        ("FAIL GPU3", "PASS GPU0-2, GPU4-7"),
    ),
    Case(
        "nvlink-active",
        "all GPUs lost the same link",
        with_gpus(NODE, nvlinks=nvlinks(up=17)),
        tuple(f"FAIL GPU{n}" for n in range(8)),
    ),
    Case(
        "nvlink-active",
        "A800 has eight by design",
        with_gpus(NODE, name="NVIDIA A800-SXM4-80GB", nvlinks=nvlinks(up=8, of=12)),
        (f"PASS {ALL}",),
    ),
    Case("nvlink-active", "no bridge fitted", BRIDGED, ("SKIP GPU0-1", "PASS GPU2-7")),
    Case(
        "nvlink-active",
        "a bridge half dead",
        with_gpus(BRIDGED, 0, nvlinks=nvlinks(up=8, of=12)),
        ("FAIL GPU0", "SKIP GPU1", "PASS GPU2-7"),
    ),
    Case("nvlink-active", "not in the catalogue, alike", STRANGER, (f"PASS {ALL}",)),
    Case(
        "nvlink-active",
        "not in the catalogue, one differs",
        with_gpus(STRANGER, 2, nvlinks=nvlinks(up=9)),
        ("FAIL GPU2", "PASS GPU0-1, GPU3-7"),
    ),
    Case(
        "nvlink-active", "not in the catalogue, alone", with_gpus(ONE, name="NVIDIA H999"), ("UNKNOWN GPU0",)
    ),
    Case(
        "nvlink-active",
        "not in the catalogue, none up",
        with_gpus(STRANGER, nvlinks=nvlinks(up=0)),
        (f"SKIP {ALL}",),
    ),
    Case("nvlink-active", "one of a board, alone", with_gpus(ONE, nvlinks=nvlinks(up=0)), ("SKIP GPU0",)),
    Case(
        "nvlink-active",
        "a link unread",
        with_gpus(NODE, 0, nvlinks=(*nvlinks(up=17, of=17), NvLink(index=17, active=TIMEOUT))),
        ("UNKNOWN GPU0", "PASS GPU1-7"),
    ),
    Case("nvlink-active", "unread, and by the catalogue there is none", PCIE_ONLY, (f"SKIP {ALL}",)),
    Case("nvlink-active", "unread", with_gpus(NODE, nvlinks=TIMEOUT), (f"UNKNOWN {ALL}",)),
    Case("nvlink-active", "MIG", with_gpus(NODE, nvlinks=NOT_SUPPORTED), (f"SKIP {ALL}",)),
    Case("nvlink-speed", "unread, and by the catalogue there is none", PCIE_ONLY, (f"SKIP {ALL}",)),
    Case("nvlink-speed", "full", NODE, (f"PASS {ALL}",)),
    Case(
        "nvlink-speed",
        "one slow",
        with_gpus(NODE, 1, nvlinks=nvlinks(up=18, rate=12.5e9)),
        ("FAIL GPU1", "PASS GPU0, GPU2-7"),
    ),
    Case(
        "nvlink-speed",
        "rate unread",
        with_gpus(ONE, nvlinks=(NvLink(index=0, active=True),)),
        ("UNKNOWN GPU0",),
    ),
    Case("nvlink-speed", "not in the catalogue", STRANGER, (f"SKIP {ALL}",)),
    Case("nvlink-speed", "none up", with_gpus(ONE, nvlinks=nvlinks(up=0)), ("SKIP GPU0",)),
)
