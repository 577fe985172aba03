"""Check that RoCE ports are reachable across routers and that a forced GID index is right.

RoCE packets carry a GID as their address. Only the entries of RoCE v2 with an IP address of the interface
cross a router; their place in the table depends on the order in which addresses were added. Source: NCCL user
guide, NCCL_IB_GID_INDEX; AMD-AGI/Primus, preflight; NVIDIA/nccl#426, #1510.
"""

from __future__ import annotations

import re
import shlex

from probes.base.record import Unknown, known
from probes.facts import Gid, Nic, value_of
from probes.judging.findings import Evidence, Findings, Judge, Remedy
from probes.judging.rails import training_rails
from probes.judging.reporting import HOST, Judged, judge_each, on_nics, subject_name

JUDGE = Judge(
    check_id="nic-gid",
    why="Without a RoCE v2 address the port reaches no node beyond its own switch, or no node at all.",
)
INDEX = Judge(
    check_id="nic-gid-index",
    why="With the wrong GID, connections fail with error 12 or leave by another network.",
)
USUAL = (1, 3)
"""Index of RoCE v2 with IPv4 on a fresh host: 3 on NVIDIA and Broadcom cards, 1 on others."""
_NO_ROCE = "no training port is RoCE"


@on_nics(JUDGE)
def check(nics: tuple[Nic, ...], evidence: Evidence) -> Findings:
    ports = _roce_rails(evidence)
    if not ports:
        return JUDGE.skipped(HOST, _NO_ROCE)
    return judge_each(JUDGE, ports, _judge, what="the GID table", good="RoCE ports have a routable GID")


def _roce_rails(evidence: Evidence) -> list[Nic]:
    """Return the RoCE ports for training.

    Ports whose state is unknown are included, because a list of GIDs contains no port states.
    """
    rails = training_rails(evidence.facts)
    ports = rails.active or rails.down
    return [nic for nic in ports if nic.link_layer == "Ethernet" and nic.device_type != "efa"]


def _judge(nic: Nic) -> Judged:
    if isinstance(nic.gids, Unknown):
        return nic.gids
    second = [gid for gid in nic.gids if gid.kind == "RoCE v2"]
    routable = [gid for gid in second if _is_routable(gid)]
    if routable:
        return f"index {routable[0].index}: {routable[0].address or routable[0].gid}"
    unread = next((gid.kind for gid in nic.gids if isinstance(gid.kind, Unknown)), None)
    if unread is not None and not second:
        return unread
    netdev = nic.netdev if isinstance(nic.netdev, str) else "INTERFACE"
    remedy = Remedy(
        text="Give its network interface an IP address.",
        command=f"ip address add ADDRESS/PREFIX dev {shlex.quote(netdev)}",
        needs_root=True,
    )
    if second:
        return JUDGE.warned(
            subject_name(nic),
            "the port has only link-local RoCE v2 addresses",
            expected="a RoCE v2 GID with an address of the network",
            observed=", ".join(gid.gid for gid in second),
            remedy=remedy,
        )
    return JUDGE.failed(
        subject_name(nic),
        "the port has no RoCE v2 address",
        expected="a GID of type RoCE v2",
        observed=f"{len(nic.gids)} GIDs, none of RoCE v2",
        remedy=remedy,
    )


def _is_routable(gid: Gid) -> bool:
    return not gid.gid.lower().startswith("fe80")


@on_nics(INDEX)
def nic_gid_index(nics: tuple[Nic, ...], evidence: Evidence) -> Findings:
    ports = _roce_rails(evidence)
    if not ports:
        return INDEX.skipped(HOST, _NO_ROCE)
    forced = value_of(evidence.facts, "NCCL_IB_GID_INDEX")
    if forced is not None and re.fullmatch(r"\d{1,4}", forced.strip()) is None:
        forced = None
    index = None if forced is None else int(forced)
    return judge_each(
        INDEX,
        ports,
        lambda nic: _judge_index(nic, index),
        what="the GID table",
        good="the GID index is right",
    )


def _judge_index(nic: Nic, forced: int | None) -> Judged:
    if isinstance(nic.gids, Unknown):
        return nic.gids
    good = [gid.index for gid in nic.gids if gid.kind == "RoCE v2" and _is_routable(gid)]
    if not good:
        return "no routable GID, see nic-gid"
    unset = Remedy(
        text="Unset NCCL_IB_GID_INDEX: NCCL 2.21 and newer finds the entry itself; older ones need this "
        "index."
    )
    if forced is not None:
        if forced in good:
            return f"NCCL_IB_GID_INDEX={forced}"
        entry = next((gid for gid in nic.gids if gid.index == forced), None)
        return INDEX.failed(
            subject_name(nic),
            "NCCL_IB_GID_INDEX does not point to a routable RoCE v2 address",
            expected=f"{good[0]}, or NCCL_IB_GID_INDEX not set",
            observed=f"{forced}: {entry.kind if entry and known(entry.kind) else 'empty'}",
            remedy=unset,
        )
    if any(index in USUAL for index in good):
        return f"not forced; RoCE v2 at {good[0]}"
    return INDEX.warned(
        subject_name(nic),
        "RoCE v2 is not where scripts expect it in the GID table",
        expected=f"RoCE v2 with an IP address at index {USUAL[1]}, or at {USUAL[0]}",
        observed=f"at index {', '.join(map(str, good))}",
        remedy=unset,
    )
