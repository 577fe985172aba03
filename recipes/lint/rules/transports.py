"""Transports that are turned off or forced: peer-to-peer, shared memory, GPUDirect RDMA, networks."""

import re

from probes.base.record import known
from recipes.lint.comments import gives_reason
from recipes.lint.context import Context
from recipes.lint.document import Document, Setting
from recipes.lint.reach import given_to, is_aside, is_switched, nodes_that_get, text_in
from recipes.lint.rule_table import Findings, make_finding, per_document
from recipes.lint.views import (
    first_line,
    has_one_gpu,
    is_on_cloud,
    is_one_machine,
    is_one_process,
    literal_settings,
    value,
)

_SWITCHES = {
    "NCCL_IB_DISABLE": "ib-disabled",
    "NCCL_P2P_DISABLE": "p2p-disabled",
    "NCCL_SHM_DISABLE": "shm-disabled",
}


_WITHOUT_PEERS = re.compile(r"GeForce RTX 40[5-9]0")
"""Boards without peer access: if the file names such a board, NCCL_P2P_DISABLE costs nothing.

Source: NVIDIA driver 550.40.07 release notes; NVIDIA/nccl-tests#117.
"""


@per_document()
def disabled(document: Document, context: Context) -> Findings:
    """Check for RDMA, peer-to-peer or shared memory that is turned off."""
    off = [
        item for item in document.given if item.name in _SWITCHES and item.is_literal and item.value == "1"
    ]
    if not off or is_one_process(document):
        return
    is_here = is_one_machine(document)
    for item in off:
        if _is_needed(item.name, context) or is_aside(document, item):
            continue
        if _has_no_use(document, item, is_here=is_here):
            continue
        is_meant = gives_reason(document, item) or (
            item.name == "NCCL_P2P_DISABLE" and context.has_nvlink is False
        )
        yield make_finding(
            _SWITCHES[item.name],
            document,
            item.place,
            f"{item.name}=1: {_cost(item.name, context)}",
            fix="Remove the setting for a trial. If ranks then hang or fail, find the fault that it hides.",
            severity="note" if is_meant or is_switched(document, item) else None,
        )


def _has_no_use(document: Document, item: Setting, *, is_here: bool) -> bool:
    """Return whether the ranks do not need the transport."""
    if item.name == "NCCL_IB_DISABLE":
        return is_here or nodes_that_get(document, item) == 1
    has_no_peers = item.name == "NCCL_P2P_DISABLE" and _WITHOUT_PEERS.search(document.text) is not None
    return has_one_gpu(document) or has_no_peers


def _cost(name: str, context: Context) -> str:
    if name == "NCCL_IB_DISABLE":
        return "all traffic between machines uses TCP, at a tenth of the rate of InfiniBand or RoCE"
    if name == "NCCL_SHM_DISABLE":
        return "GPUs without peer access exchange data over the network"
    way = "not directly" if context.has_nvlink is False else "and NVLink, if present, is not used"
    return f"GPUs of one machine exchange data through host memory, {way}"


def _is_needed(name: str, context: Context) -> bool:
    machine = context.machine
    if machine is None:
        return False
    if name == "NCCL_P2P_DISABLE":
        return has_broken_p2p(context) is not None or context.has_peer_access is False
    return name == "NCCL_IB_DISABLE" and machine.nics == ()


def has_broken_p2p(context: Context) -> str | None:
    """Return the driver's version if its peer-to-peer between these boards corrupts data, else None.

    This concerns boards of the RTX 40 and RTX Ada series.
    """
    if len(context.gpus) < 2:
        return None
    for gpu in context.gpus:
        if known(gpu.name) and re.search(r"RTX 40[5-9]0|RTX \d+ Ada", gpu.name) and known(gpu.driver_version):
            version = gpu.driver_version
            parts = tuple(int(part) for part in version.split(".") if part.isdecimal())
            # Drivers from 520 up to the last version before 550.40.07 offer the broken peer-to-peer.
            if (550, 40, 7) > parts >= (520,):
                return version
    return None


@per_document()
def consumer_boards(document: Document, context: Context) -> Findings:
    """Check for RTX 40 and RTX Ada boards with a driver whose peer-to-peer corrupts data."""
    version = has_broken_p2p(context)
    if version is None:
        return
    trains = [
        command
        for command in document.commands
        if command.program in ("torchrun", "accelerate", "deepspeed", "mpirun")
    ]
    bare = [command for command in trains if text_in(given_to(document, command), "NCCL_P2P_DISABLE") != "1"]
    if bare:
        yield make_finding(
            "p2p-broken-driver",
            document,
            bare[0].place,
            f"driver {version} offers peer-to-peer between boards of the RTX 40 and RTX Ada series, which "
            "hangs or corrupts data",
            fix="Update the driver to 550.40.07 or newer; until then set NCCL_P2P_DISABLE=1.",
        )


@per_document()
def direct(document: Document, context: Context) -> Findings:
    """Check for settings that prevent NICs from reaching GPU memory, or make them use a slow path."""
    for item, text in literal_settings(document, "NCCL_NET_GDR_LEVEL"):
        if text in ("LOC", "0"):
            yield make_finding(
                "gdr-off",
                document,
                item.place,
                f"NCCL_NET_GDR_LEVEL={text} turns GPUDirect RDMA off, so data goes through host memory",
                fix="Remove the setting for a trial; it is meant for debugging.",
            )
        elif text == "SYS" and not is_on_cloud(document):
            yield make_finding(
                "gdr-level-forced",
                document,
                item.place,
                f"NCCL_NET_GDR_LEVEL={text} lets NICs access GPUs of the other socket; on many boards this "
                "is slower than a copy through host memory",
                fix="Measure the rate with and without the setting. On virtual machines give NCCL the "
                "topology file of the vendor.",
            )
    for item, text in literal_settings(document, "NCCL_DMABUF_ENABLE"):
        if text == "0":
            peermem = context.machine.software.peermem_loaded if context.machine is not None else None
            yield make_finding(
                "dmabuf-off",
                document,
                item.place,
                "with NCCL_DMABUF_ENABLE=0, GPUDirect RDMA needs the module nvidia_peermem"
                + (", which is not loaded" if peermem is False else ""),
                fix="Remove the setting, or load nvidia_peermem on every machine.",
                severity="error" if peermem is False else None,
            )
    at = first_line(document, r"(?:rmmod|modprobe -r|blacklist) +(nvidia[_-]peermem|nv_peer_mem)\b")
    if at is not None and first_line(document, r"modprobe +(?:nvidia[_-]peermem|nv_peer_mem)") is None:
        yield make_finding(
            "peermem-unloaded",
            document,
            at[0],
            f"without {at[1][1]} and without DMA-BUF, NICs cannot reach GPU memory",
            fix="Load nvidia_peermem at boot, or use the open kernel module with DMA-BUF.",
        )


@per_document()
def pinned(document: Document, context: Context) -> Findings:
    """Check for transports that are forced to TCP or have a wrong name."""
    for item, text in literal_settings(document, "NCCL_NET"):
        right = {"ib": "IB", "socket": "Socket", "gib": "gIB"}.get(text.lower())
        if right is not None and text != right and text.lower() == "gib":
            yield make_finding(
                "net-name",
                document,
                item.place,
                f"no transport is called {text!r}; the name is {right!r}",
                fix=f"Write {right}.",
            )
        elif text.lower() in (
            "ibverbs",
            "rdma",
            "roce",
            "infiniband",
            "tcp",
            "efa",
            "ofi",
            "aws-ofi-nccl",
            "ethernet",
        ):
            yield make_finding(
                "net-name",
                document,
                item.place,
                f"no transport is called {text!r}, so NCCL ends with an error",
                fix="Write IB or Socket, or the name that the plugin prints, such as `AWS Libfabric`.",
            )
        elif (
            text.lower() == "socket"
            and value(document, "NCCL_IB_HCA") is None
            and value(document, "NCCL_IB_DISABLE") != "1"
        ):
            yield make_finding(
                "net-socket-forced",
                document,
                item.place,
                "NCCL_NET=Socket sends everything over TCP, even on machines with RDMA",
                fix="Remove the setting if the machines have InfiniBand, RoCE or EFA.",
            )
