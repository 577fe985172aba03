"""Rows of the kernel log's grammar: network links, cables, drivers of network cards, and full tables.

Source of the words: Linux, drivers/net/ethernet/mellanox/mlx5 (health.c, main.c, cmd.c, en_main.c),
broadcom/bnxt and net/sched/sch_generic.c; fs/file_table.c, net/netfilter/nf_conntrack_core.c,
net/core/neighbour.c, kernel/cgroup/pids.c (read 2026-11); NVIDIA/NVSentinel, NIC health (a driver that hangs
after TX timeouts).
"""

import re

from probes.base.patterns import pattern
from probes.parsers.kernel.kernel_events import (
    PCI,
    CableFault,
    FullTable,
    KernelEvent,
    KernelRow,
    LinkDown,
    LinkUp,
    Maker,
    NicFault,
    NicFirmware,
    card_of,
    row,
)
from probes.parsers.kernel.log_tally import LESSER

DAEMONS = frozenset({"systemd-networkd", "NetworkManager"})
"""Programs whose lines about links count in addition to the kernel's lines."""
CARRIER_WORD = " carrier"
"""Part of every line of `DAEMONS` about a link."""
_CARRIER = pattern(r"^(?P<device>[\w.@-]{1,40}): (?P<state>[Ll]ost|[Gg]ained) carrier$")
_VIRTUAL = pattern(
    r"(?:veth|cali|docker|br-|cni|flannel|lxc|lxd|tap|tun|vnet|virbr|vxlan|dummy|ifb|kube|nodelocal"
    r"|cilium|wg)"
)
_DISKS = ("SATA", "ata")
_DOWN = frozenset({"down", "lost"})
_NOW_DOWN = "now running without any active interface"
_CARD = pattern(rf"\b({PCI})\.[0-7]\b")
_WATCHDOG = pattern(r"NETDEV WATCHDOG: (\S{1,40}) \(\S{1,20}\): transmit queue")
_MLX = r"mlx[45]_core [0-9a-f:.]{1,20}:? "


def read_carrier(message: str) -> KernelEvent | None:
    """Return the link that a line of the network daemon reports."""
    match = _CARRIER.match(message)
    return None if match is None else _link("daemon")(match)


def _link(view: str) -> Maker:
    """Return a function that makes events about links of network interfaces and RDMA ports.

    For links of disks and of containers, the function makes no event.
    """

    def make(match: re.Match[str]) -> KernelEvent | None:
        device, state = match["device"], match["state"]
        if _VIRTUAL.match(device) or device.startswith(_DISKS):
            return None
        change = LinkDown if state.lower() in _DOWN or state == _NOW_DOWN else LinkUp
        return change(message=match.string, device=device, view=view)

    return make


def _nic_fault(*, fatal: bool) -> Maker:
    def make(match: re.Match[str]) -> NicFault:
        card = _WATCHDOG.search(match.string) or _CARD.search(match.string)
        variant = "given up" if fatal else "hung"
        return NicFault(message=match.string, device=card[1] if card else None, fatal=fatal, variant=variant)

    return make


LINK_ROWS: tuple[KernelRow, ...] = (
    row(
        LinkUp,
        ("Link down", "Link up"),
        rf"{_MLX}(?P<device>\S{{1,40}}): Link (?P<state>up|down)$",
        make=_link("driver"),
    ),
    row(
        LinkUp,
        ("ink ACTIVE", "ink DOWN", "ink UP"),
        rf"{_MLX}(?P<device>mlx[45]_\S{{1,20}}): Port:? \d+ [Ll]ink (?P<state>ACTIVE|DOWN|UP)",
        make=_link("driver"),
    ),
    row(
        LinkUp,
        "link status definitely ",
        r"\(slave (?P<device>\S{1,40})\): link status definitely (?P<state>up|down)",
        make=_link("bond"),
    ),
    row(
        LinkUp,
        "link status definitely ",
        r"link status definitely (?P<state>up|down) for (?:active )?interface (?P<device>[\w.-]{1,40})",
        make=_link("bond"),
    ),
    # A bond that waits (`downdelay`) prints this line before the line with `definitely`, which some kernels
    # never print.
    row(
        LinkDown,
        "link status down ",
        r"\(slave (?P<device>\S{1,40})\): link status (?P<state>down) ",
        make=_link(f"{LESSER}bond, soon"),
    ),
    row(
        LinkDown,
        "link status down ",
        r"link status (?P<state>down) for (?:active )?interface (?P<device>[\w.-]{1,40})",
        make=_link(f"{LESSER}bond, soon"),
    ),
    row(
        LinkUp,
        "active interface",
        rf"(?P<device>[\w.-]{{1,40}}): (?P<state>{_NOW_DOWN}|active interface up)!",
        make=_link("bond"),
    ),
    row(
        LinkUp,
        "Link is ",
        r"(?:^|[ :])(?P<device>[A-Za-z][\w.-]{1,30}):? (?:NIC )?Link is (?P<state>[Uu]p|[Dd]own)\b",
        make=_link("driver"),
    ),
    row(
        CableFault,
        "Port module event",
        rf"({PCI})\.[0-7]: Port module event(?:\[error\])?: module (\d{{1,3}}), "
        r"(Cable unplugged|.*(?:[Hh]igh [Tt]emperature|[Ee]rror).*)",
        make=lambda match: CableFault(
            message=match.string, device=match[1], variant=f"{match[2]} {match[3][:40]}"
        ),
    ),
    row(
        CableFault,
        "igh temperature",
        rf"(?P<device>{PCI})\.[0-7].{{0,40}}?[Hh]igh temperature",
        variant="temperature",
    ),
)

CARD_ROWS: tuple[KernelRow, ...] = (
    row(
        NicFirmware,
        "firmware version: ",
        r"mlx[45]_core ([0-9a-f:.]{7,16}): firmware version: (\d{1,3}\.\d{1,5}\.\d{1,5})",
        make=lambda match: NicFirmware(
            message=match.string, device=card_of(match[1]), address=match[1], version=match[2]
        ),
    ),
    row(
        NicFault,
        ("mlx5_core", "mlx4_core"),
        r"mlx[45]_core\b.{0,100}?(?:health (?:compromised|recovery flow aborted)|"
        r"Fatal error (?:\d+ )?detected|"
        r"handling bad device|PCI slot (?:\d{1,4} )?is unavailable|pci_err_detected|enter_error_state|"
        r"firmware (?:fatal error|is not responding|internal error)|FW non responsive|load_one failed|"
        r"Firmware over \d{1,9} MS in (?:pre-)?initializing state)",
        make=_nic_fault(fatal=True),
    ),
    row(
        NicFault,
        ("probe of ", "probe with driver "),
        r"(?:mlx[45]_core|bnxt_en|ice|irdma|efa|ena|cxgb4|qede|hfi1|ionic)\b.{0,60}?: "
        r"probe (?:of|with driver) \S{1,20} failed",
        make=_nic_fault(fatal=True),
    ),
    row(
        NicFault,
        "Failed to process command",
        r"\befa \S{7,16}: Failed to process command",
        make=_nic_fault(fatal=False),
    ),
    row(
        NicFault,
        "eep alive",
        r"\b(?:efa|ena) [0-9a-f:.]{7,16}.{0,40}[Kk]eep alive",
        make=_nic_fault(fatal=False),
    ),
    row(
        FullTable,
        "limits exceeded",
        r"mlx5_core\b.{0,120}failed, status limits exceeded\(0x8\)",
        variant="resources of the card",
    ),
    row(
        NicFault,
        ("mlx5_core", "mlx4_core", "TX timeout", "NETDEV WATCHDOG"),
        r"TX timeout|transmit queue \d{1,5} timed out|wait_func:.{0,40}timeout|"
        r"Command completion (?:queue )?timeout",
        flags=re.IGNORECASE,
        make=_nic_fault(fatal=False),
    ),
    row(
        NicFault,
        ("Unit Hang", "reset failed", "bnxt_en "),
        rf"^(?:ice|i40e|ixgbe|igb|igc|e1000e|bnxt_en|cxgb4|qede|ionic|hns3|sfc) (?:{PCI})\.[0-7].{{0,60}}?: "
        r"(?:Detected (?:Tx )?(?:Hardware )?Unit Hang|.{0,30}reset failed|Error \((?:hwrm )?.{0,20}timeout)",
        make=_nic_fault(fatal=False),
    ),
    row(
        NicFault,
        ("transmit timeout", "modify QP", "create_qp"),
        r"^(?:ib\w{1,14}: (?:transmit timeout: latency|failed to modify QP)|"
        r"infiniband \w{1,20}: create_qp:.{0,60}failed)",
        make=_nic_fault(fatal=False),
    ),
    row(
        FullTable,
        ("page allocation ", "SLUB: Unable", "out of memory -- consider"),
        r"\S: page allocation (?:failure: order:|stalls for )\d|^SLUB: Unable to allocate memory|"
        r"^TCP: out of memory -- consider",
        variant="memory",
    ),
    row(FullTable, "file-max limit ", r"VFS: file-max limit \d{1,20} reached", variant="file-max"),
    row(FullTable, "swiotlb buffer is full", r"swiotlb buffer is full", variant="bounce buffers"),
    row(FullTable, "table full", r"nf_conntrack: (?:nf_conntrack: )?table full", variant="connections"),
    row(
        FullTable,
        "table overflow",
        r"neighbou?r: \S{1,20}: neighbou?r table overflow|Neighbour table overflow",
        variant="neighbours",
    ),
    row(FullTable, "fork rejected", r"fork rejected by pids controller", variant="processes"),
)
