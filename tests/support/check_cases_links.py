"""Cases of the checks of links, switches and peer access: healthy machines with one difference."""

from __future__ import annotations

import msgspec

from probes.facts import Fabric, Link, LogEvent, MachineFacts, NvLink, PciDevice, PeerAccess
from probes.facts.gpu_facts import UNNUMBERED
from tests.support.check_case import ALL, BOX, NODE, NOT_RECORDED, NOT_SUPPORTED, ONE, TIMEOUT, Case, nvlinks
from tests.support.machines import h100_node, healthy_link, with_gpus, with_part

ALL_INACTIVE = (NvLink(index=UNNUMBERED, active=False),)
CUT = (*nvlinks(up=2, of=2), NvLink(index=UNNUMBERED, active=NOT_RECORDED))
OUTSIDE_CATALOGUE = with_gpus(NODE, name="NVIDIA H999")
RACK = Fabric(status="success", clique_id=3, cluster_uuid="8f1c7a52-0000-0000-0000-00000000000a", health=())


def counted(**errors: int) -> tuple[NvLink, ...]:
    return (msgspec.structs.replace(healthy_link(0), **errors), *(healthy_link(n) for n in range(1, 18)))


def pairs(kind: str, count: int | None = None, gpus: int = 8) -> tuple[Link, ...]:
    return tuple(
        Link(
            a=f"GPU{a}",
            b=f"GPU{b}",
            kind=kind,  # type: ignore[arg-type]
            nvlink_count=count,
            sees_nvlink=True,
        )
        for a in range(gpus)
        for b in range(a + 1, gpus)
    )


def weaker(gpu: int, count: int | None) -> tuple[Link, ...]:
    """Return a board on which one GPU has fewer links than the others, or none."""
    name = f"GPU{gpu}"
    return tuple(
        msgspec.structs.replace(link, kind="NVLINK" if count else "SYS", nvlink_count=count)
        if name in (link.a, link.b)
        else link
        for link in pairs("NVLINK", 18)
    )


def access(status: str, capability: str = "read", gpus: int = 2) -> tuple[PeerAccess, ...]:
    return tuple(
        PeerAccess(a=f"GPU{a}", b=f"GPU{b}", capability=capability, status=status)
        for a in range(gpus)
        for b in range(gpus)
        if a != b
    )


def two_gpus(name: str, **changes: object) -> MachineFacts:
    gpus = with_gpus(NODE, name=name).gpus
    assert isinstance(gpus, tuple)
    return h100_node(
        **{"gpus": gpus[:2], "links": pairs("PHB", gpus=2), "peer_access": NOT_RECORDED, **changes}
    )


def logged(kind: str, **changes: object) -> MachineFacts:
    fields = {"kind": kind, "message": "detected NVSwitch error", **changes}
    return h100_node(events=(LogEvent(**fields),))  # type: ignore[arg-type]


def switches(count: int) -> MachineFacts:
    others = tuple(
        device
        for device in NODE.pci_devices  # type: ignore[union-attr]
        if device.kind != "nvswitch"
    )
    return h100_node(
        pci_devices=(
            *others,
            *(PciDevice(bus_id=f"0000:8{index}:00.0", kind="nvswitch") for index in range(count)),
        )
    )


ACTIVE_CASES = (
    Case(
        "nvlink-active",
        "the driver says all are inactive",
        with_gpus(NODE, 6, nvlinks=ALL_INACTIVE),
        ("FAIL GPU6", "PASS GPU0-5, GPU7"),
    ),
    Case(
        "nvlink-active", "all inactive, on a GPU of a board", h100_node(gpus=(NODE.gpus[6:7])), ("PASS GPU6",)
    ),  # type: ignore[index]
    Case(
        "nvlink-active",
        "all down on all GPUs, whose model is not told",
        with_gpus(NODE, name=NOT_RECORDED, nvlinks=nvlinks(up=0)),
        (*(f"WARN GPU{n}" for n in range(8)),),
    ),
    Case(
        "nvlink-active",
        "a list that a person has cut",
        with_gpus(NODE, 1, nvlinks=CUT),
        ("UNKNOWN GPU1", "PASS GPU0, GPU2-7"),
    ),
    Case(
        "nvlink-active",
        "fewer links on every GPU",
        with_gpus(ONE, nvlinks=nvlinks(up=12, of=12)),
        ("WARN GPU0",),
    ),
    Case(
        "nvlink-active",
        "alone, and not the first of its machine",
        with_gpus(h100_node(gpus=NODE.gpus[6:7]), nvlinks=ALL_INACTIVE),
        ("FAIL GPU6",),
    ),  # type: ignore[index]
)

ERROR_CASES = (
    Case("nvlink-errors", "none", NODE, (f"PASS {ALL}",)),
    Case(
        "nvlink-errors",
        "replays",
        with_gpus(NODE, 2, nvlinks=counted(replay_errors=12)),
        ("WARN GPU2", "PASS GPU0-1, GPU3-7"),
    ),
    Case(
        "nvlink-errors",
        "CRC errors",
        with_gpus(NODE, 2, nvlinks=counted(crc_errors=1)),
        ("WARN GPU2", "PASS GPU0-1, GPU3-7"),
    ),
    Case(
        "nvlink-errors",
        "a link was trained anew",
        with_gpus(NODE, 2, nvlinks=counted(recovery_errors=1)),
        ("FAIL GPU2", "PASS GPU0-1, GPU3-7"),
    ),
    Case(
        "nvlink-errors",
        "a counter at its end",
        with_gpus(NODE, 2, nvlinks=counted(crc_errors=65535)),
        ("FAIL GPU2", "PASS GPU0-1, GPU3-7"),
    ),
    Case("nvlink-errors", "counters unread", with_gpus(NODE, nvlinks=nvlinks(up=18)), (f"UNKNOWN {ALL}",)),
    Case("nvlink-errors", "no link is up", with_gpus(ONE, nvlinks=nvlinks(up=0)), ("SKIP GPU0",)),
    Case("nvlink-errors", "MIG", with_gpus(NODE, nvlinks=NOT_SUPPORTED), (f"SKIP {ALL}",)),
    Case("nvlink-errors", "no GPU", BOX, ("SKIP host",)),
)

UNSEEN = tuple(msgspec.structs.replace(link, sees_nvlink=False) for link in pairs("SYS"))
"""Links in a listing of the PCI bus, which does not show NVLinks."""

MESH_CASES = (
    Case("nvlink-mesh", "alike", NODE, (f"PASS {ALL}",)),
    Case("nvlink-mesh", "one GPU lacks a link", h100_node(links=weaker(5, 17)), ("FAIL GPU5",)),
    Case("nvlink-mesh", "one GPU has none", h100_node(links=weaker(5, None)), ("FAIL GPU5",)),
    Case("nvlink-mesh", "the matrix shows PCIe alone", h100_node(links=pairs("SYS")), (f"FAIL {ALL}",)),
    Case("nvlink-mesh", "only the PCI bus was read", h100_node(links=UNSEEN), ("UNKNOWN host",)),
    Case(
        "nvlink-mesh",
        "AMD's pairs differ",
        with_gpus(h100_node(links=weaker(5, 4)), name="AMD 910"),
        ("SKIP host",),
    ),
    Case(
        "nvlink-mesh",
        "not in the catalogue, one GPU lacks a link",
        msgspec.structs.replace(OUTSIDE_CATALOGUE, links=weaker(1, 12)),
        ("FAIL GPU1",),
    ),
    Case("nvlink-mesh", "PCIe alone", two_gpus("NVIDIA L40S"), ("SKIP host",)),
    Case(
        "nvlink-mesh",
        "a bridge joins two of four",
        h100_node(
            gpus=with_gpus(NODE, name="NVIDIA A100 80GB PCIe").gpus[:4],
            links=(
                *pairs("NVLINK", 12, 2),
                *(link for link in pairs("SYS", gpus=4) if {link.a, link.b} != {"GPU0", "GPU1"}),
            ),
        ),
        ("PASS GPU0-3",),
    ),  # type: ignore[index]
    Case(
        "nvlink-mesh",
        "some GPUs of a hybrid cube",
        h100_node(
            gpus=OUTSIDE_CATALOGUE.gpus[:3],
            links=(
                *pairs("NVLINK", 1, 2),
                Link(a="GPU0", b="GPU2", kind="NVLINK", nvlink_count=1),
                Link(a="GPU1", b="GPU2", kind="NVLINK", nvlink_count=2),
            ),
        ),
        ("SKIP host",),
    ),  # type: ignore[index]
    Case("nvlink-mesh", "rows were cut", h100_node(links=pairs("NVLINK", 18)[:7]), ("UNKNOWN host",)),
    Case(
        "nvlink-mesh",
        "a pair unread",
        h100_node(links=(*pairs("NVLINK", 18)[1:], Link(a="GPU0", b="GPU1", kind=TIMEOUT))),
        ("UNKNOWN host",),
    ),
    Case("nvlink-mesh", "unread", h100_node(links=TIMEOUT), ("UNKNOWN host",)),
    Case(
        "nvlink-mesh",
        "xGMI without numbers",
        msgspec.structs.replace(OUTSIDE_CATALOGUE, links=pairs("NVLINK")),
        ("SKIP host",),
    ),
    Case("nvlink-mesh", "one GPU", ONE, ("SKIP host",)),
)

PEER_CASES = (
    Case("peer-access", "all", NODE, (f"PASS {ALL}",)),
    Case("peer-access", "refused over NVLink", h100_node(peer_access=access("TNS")), ("FAIL GPU0-1",)),
    Case(
        "peer-access",
        "refused over PCIe",
        two_gpus("NVIDIA L40S", peer_access=access("CNS")),
        ("WARN GPU0-1",),
    ),
    Case(
        "peer-access",
        "atomics need not be",
        two_gpus("NVIDIA L40S", peer_access=(*access("NS", "atomics"), *access("OK"))),
        ("PASS GPU0-1",),
    ),
    Case(
        "peer-access",
        "no NVLink and none is needed",
        two_gpus("NVIDIA L40S", peer_access=access("NS", "nvlink")),
        ("SKIP host",),
    ),
    Case(
        "peer-access",
        "the tree is hidden",
        two_gpus("NVIDIA L40S", links=pairs("SYS", gpus=2)),
        ("WARN GPU0-1",),
    ),
    Case("peer-access", "unread", two_gpus("NVIDIA L40S"), ("UNKNOWN host",)),
    Case(
        "peer-access",
        "one GPU",
        h100_node(gpus=NODE.gpus[:1], peer_access=()),  # type: ignore[index]
        ("SKIP host",),
    ),
    Case("peer-access-geforce", "another card", NODE, ("SKIP host",)),
    Case(
        "peer-access-geforce",
        "an old driver",
        with_gpus(two_gpus("NVIDIA GeForce RTX 4090"), driver_version="535.129.03"),
        ("WARN GPU0-1",),
    ),
    Case(
        "peer-access-geforce",
        "a newer one",
        with_gpus(two_gpus("NVIDIA GeForce RTX 4090"), driver_version="570.86.10"),
        ("PASS GPU0-1",),
    ),
    Case(
        "peer-access-geforce",
        "driver unread",
        with_gpus(two_gpus("NVIDIA GeForce RTX 4090"), driver_version=NOT_RECORDED),
        ("UNKNOWN GPU0-1",),
    ),
    Case("peer-access-geforce", "names unread", with_gpus(NODE, name=TIMEOUT), ("UNKNOWN host",)),
    Case(
        "peer-access-geforce",
        "one name unread",
        with_gpus(two_gpus("NVIDIA GeForce RTX 4090"), 1, name=TIMEOUT),
        ("UNKNOWN host",),
    ),
)

SWITCH_CASES = (
    Case("fabric-manager-version", "the driver's", NODE, ("PASS host",)),
    Case(
        "fabric-manager-version",
        "another",
        with_part(NODE, "software", fabric_manager_version="550.54.14"),
        ("FAIL host",),
    ),
    Case(
        "fabric-manager-version",
        "not installed",
        with_part(NODE, "software", fabric_manager_version=None),
        ("SKIP host",),
    ),
    Case(
        "fabric-manager-version",
        "unread",
        with_part(NODE, "software", fabric_manager_version=TIMEOUT),
        ("UNKNOWN host",),
    ),
    Case("fabric-health", "well", NODE, (f"PASS {ALL}",)),
    Case(
        "fabric-health",
        "degraded",
        with_gpus(NODE, 3, fabric=Fabric(status="success", health=("degraded_bandwidth",))),
        ("FAIL GPU3", "PASS GPU0-2, GPU4-7"),
    ),
    Case(
        "fabric-health",
        "a route is being mended",
        with_gpus(NODE, 3, fabric=Fabric(status="success", health=("route_recovery",))),
        ("WARN GPU3", "PASS GPU0-2, GPU4-7"),
    ),
    Case(
        "fabric-health",
        "no place in the fabric",
        with_gpus(NODE, 3, fabric=Fabric(status="insufficient resources")),
        ("FAIL GPU3", "PASS GPU0-2, GPU4-7"),
    ),
    Case(
        "fabric-health",
        "an old driver without the mask",
        with_gpus(NODE, fabric=Fabric(status="success", health=NOT_SUPPORTED)),
        (f"PASS {ALL}",),
    ),
    Case(
        "fabric-health",
        "unread",
        with_gpus(NODE, fabric=Fabric(status=TIMEOUT, health=TIMEOUT)),
        (f"UNKNOWN {ALL}",),
    ),
    Case("fabric-health", "no fabric", with_gpus(NODE, fabric_state="not supported"), (f"SKIP {ALL}",)),
    Case("fabric-clique", "one", NODE, (f"PASS {ALL}",)),
    Case("fabric-clique", "two", with_gpus(NODE, 7, fabric=RACK), (f"FAIL {ALL}",)),
    Case(
        "fabric-clique",
        "unread",
        with_gpus(NODE, fabric=Fabric(clique_id=TIMEOUT, cluster_uuid=TIMEOUT)),
        ("UNKNOWN host",),
    ),
    Case(
        "fabric-clique",
        "no fabric",
        with_gpus(NODE, fabric=Fabric(), fabric_state="not supported"),
        ("SKIP host",),
    ),
    Case("nvswitch-count", "all", NODE, ("PASS host",)),
    Case("nvswitch-count", "one missing", switches(3), ("FAIL host",)),
    Case("nvswitch-count", "a virtual machine sees none", switches(0), ("SKIP host",)),
    Case("nvswitch-count", "the bus unread", h100_node(pci_devices=TIMEOUT), ("UNKNOWN host",)),
    Case("nvswitch-count", "a board that nobody knows", OUTSIDE_CATALOGUE, ("SKIP host",)),
    Case("nvswitch-faults", "none", NODE, ("PASS host",)),
    Case(
        "nvswitch-faults",
        "fatal",
        logged("sxid", code=20034, device="0000:86:00", fatal=True),
        ("FAIL 0000:86:00",),
    ),
    Case(
        "nvswitch-faults",
        "fatal, and over",
        logged("sxid", code=20034, device="0000:86:00", fatal=True, settled=True),
        ("WARN 0000:86:00",),
    ),
    Case(
        "nvswitch-faults",
        "not fatal",
        logged("sxid", code=12028, device="0000:86:00", fatal=False),
        ("WARN 0000:86:00",),
    ),
    Case(
        "nvswitch-faults", "the Fabric Manager gave up", logged("fabric-manager", fatal=True), ("FAIL host",)
    ),
    Case("nvswitch-faults", "no log of it", h100_node(logs=("nccl-log",)), ("SKIP host",)),
    Case("nvswitch-faults", "log unread", h100_node(events=TIMEOUT), ("UNKNOWN host",)),
    Case("imex", "one machine alone", NODE, ("SKIP host",)),
    Case(
        "imex",
        "up",
        with_part(with_gpus(NODE, fabric=RACK), "software", imex="UP", imex_channels=1),
        ("PASS host",),
    ),
    Case("imex", "down", with_part(with_gpus(NODE, fabric=RACK), "software", imex="DOWN"), ("WARN host",)),
    Case(
        "imex",
        "no channel",
        with_part(with_gpus(NODE, fabric=RACK), "software", imex="UP", imex_channels=0),
        ("WARN host",),
    ),
    Case(
        "imex", "unread", with_part(with_gpus(NODE, fabric=RACK), "software", imex=TIMEOUT), ("UNKNOWN host",)
    ),
    Case("numa-hidden", "two nodes", NODE, ("PASS host",)),
    Case("numa-hidden", "one node for all", with_gpus(NODE, numa_node=0), ("WARN host",)),
    Case("numa-hidden", "nodes unread", with_gpus(NODE, numa_node=TIMEOUT), ("UNKNOWN host",)),
    Case("numa-hidden", "no node stated", with_gpus(NODE, numa_node=None), ("SKIP host",)),
    Case("numa-hidden", "PCIe alone", h100_node(links=pairs("SYS")), ("SKIP host",)),
)

LINK_CASES = (*ACTIVE_CASES, *ERROR_CASES, *MESH_CASES, *PEER_CASES, *SWITCH_CASES)
