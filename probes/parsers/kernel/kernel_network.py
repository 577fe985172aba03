"""What the kernel log says of the drivers of network cards, and of tables of the kernel that are full.

Source of the words: Linux, drivers/net/ethernet/mellanox/mlx5 (health.c, main.c, cmd.c, en_main.c),
broadcom/bnxt and net/sched/sch_generic.c; fs/file_table.c, net/netfilter/nf_conntrack_core.c,
net/core/neighbour.c, kernel/cgroup/pids.c (read 2026-11); NVIDIA/NVSentinel, NIC health (a driver that hangs
after TX timeouts).
"""

from __future__ import annotations

import re

from probes.base.patterns import pattern
from probes.parsers.kernel.log_tally import Sighting

_PCI = pattern(r"\b([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2})\.[0-7]\b")
_DEAD = pattern(
    r"mlx[45]_core\b.{0,100}?(?:health (?:compromised|recovery flow aborted)|Fatal error (?:\d+ )?detected|handling bad device|"
    r"PCI slot (?:\d{1,4} )?is unavailable|pci_err_detected|enter_error_state|"
    r"firmware (?:fatal error|is not responding|internal error)|FW non responsive|load_one failed)|"
    r"(?:mlx[45]_core|bnxt_en|ice|irdma|efa|ena|cxgb4|qede|hfi1|ionic)\b.{0,60}?: probe (?:of|with driver) \S{1,20} failed"
)
_STUCK = pattern(
    r"\befa \S{7,16}: Failed to process command|"
    r"TX timeout|transmit queue \d{1,5} timed out|wait_func:.{0,40}timeout|Command completion (?:queue )?timeout",
    re.I,
)
_WATCHDOG = pattern(r"NETDEV WATCHDOG: (\S{1,40}) \(\S{1,20}\): transmit queue")
_FULL = (
    ("file-max", pattern(r"VFS: file-max limit \d{1,20} reached")),
    ("connections", pattern(r"nf_conntrack: (?:nf_conntrack: )?table full")),
    ("neighbours", pattern(r"neighbou?r: \S{1,20}: neighbou?r table overflow|Neighbour table overflow")),
    ("processes", pattern(r"fork rejected by pids controller")),
)


def read_nic_driver(message: str) -> Sighting | None:
    """A card that its driver gave up (`fatal`), or a queue or command that hung."""
    dead = _DEAD.search(message) is not None
    if not dead and _STUCK.search(message) is None:
        return None
    watched = _WATCHDOG.search(message)
    place = _PCI.search(message)
    device = watched[1] if watched else place[1] if place else None
    return Sighting("nic-fault", message, device=device, fatal=dead, variant="given up" if dead else "hung")


def read_limit(message: str) -> Sighting | None:
    """A table of the kernel that is full, by which one it is."""
    for name, words in _FULL:
        if words.search(message):
            return Sighting("kernel-limit", message, variant=name)
    return None
