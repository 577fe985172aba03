"""Check that the training ports are up, at one rate, and as fast and wide as their cards allow.

`probes/judging/rails.py` selects these ports. If a training port is down, its bandwidth is lost or the job
stops; a port for storage or management that is down only causes a warning. NCCL spreads a collective evenly
over the rails, so the slowest port determines the rate.

A port falls back to a lower rate if a cable or transceiver is poor, or if the other end is slower. Half of a
card's rate is normal if one port of a switch is split over two hosts (HDR100, NDR200): the link then has
fewer lanes, but each lane is fast.
Source: NCCL user guide, troubleshooting; AMD-AGI/Primus; NVIDIA/nccl#307, #489 (rates), #709 (MTU); OCI GPU
health checks (bit error rates); NVIDIA ConnectX user manuals; NVIDIA firmware tools, mlxlink.
"""

import math
import shlex
from collections import Counter
from collections.abc import Iterable

from probes.base.record import Reason, Unknown, items_of, known, only_known, value_or
from probes.base.units import gbit_per_s
from probes.catalogue.nic_models import Layout, expected_ref, load_nic_models
from probes.facts import MachineFacts, Nic
from probes.judging.findings import Evidence, Finding, Findings, Judge, Remedy
from probes.judging.rails import Rails, card_of, is_up, training_rails
from probes.judging.reporting import HOST, Judged, each_port, judge_each, on_nics, subject_name
from probes.parsers.fabric.rdma_words import LANE_GBPS

STATE = Judge(
    check_id="nic-state",
    why="NCCL uses the ports that are up: with one rail down, multi-node training loses its bandwidth or "
    "does not start.",
)
SPARE = Judge(
    check_id=STATE.check_id,
    why="The port may serve storage or management, or be unused; training works without it.",
)


_LOST = Remedy(
    text="Read in the kernel log why the driver lost the device, then reset the card or reboot.",
    command="dmesg",
)
_UNCONFIGURED = ("INIT", "ARMED")
"""States of a port that has a cable but that the subnet manager has not finished configuring."""
RATE = Judge(
    check_id="nic-rate",
    why="NCCL shares the load evenly over the rails: the slowest port slows every multi-node collective.",
)
SPEED = Judge(
    check_id="nic-speed",
    why="The slower the link is, the longer each message between nodes takes.",
)
WIDTH = Judge(
    check_id="nic-width",
    why="A link that lost lanes runs at a fraction of its rate, and often loses more lanes later.",
)
ADVICE = Judge(
    check_id="nic-advice",
    why="The card's firmware can examine the cable and the other end, and reports why a link is bad.",
)
MTU = Judge(
    check_id="nic-mtu",
    why="Small packets lower the rate. If the MTUs of two ports differ, large messages are dropped, while "
    "small tests pass.",
)
_RESEAT = Remedy(
    text="Reseat or replace cable and transceiver, and compare with the switch port.", command="ibstat"
)
_NONE_UP = "no RDMA port is up; see nic-state"
_MTUS = (4096, 2048, 1024, 512, 256)
"""MTUs of InfiniBand and RoCE in bytes (Linux, enum ib_mtu)."""


@on_nics(STATE)
def nic_state(nics: tuple[Nic, ...], evidence: Evidence) -> Iterable[Finding]:
    rails = training_rails(evidence.facts)
    with_gpus = len(items_of(evidence.facts.gpus)) > 0
    in_use = {card_of(nic) for nic in nics if nic.state == "ACTIVE"}

    def judge(nic: Nic) -> Judged:
        is_second = nic.state == "DOWN" and card_of(nic) in in_use and nic not in rails.down
        return "a second port, not in use" if is_second else _judge_state(nic, rails, with_gpus=with_gpus)

    return judge_each(
        STATE, nics, judge, what="the state of the port", good="the RDMA ports that are in use are up"
    )


def _judge_state(nic: Nic, rails: Rails, *, with_gpus: bool) -> Judged:
    if isinstance(nic.state, Unknown):
        if nic.state.reason is not Reason.ERROR:
            return nic.state
        return STATE.failed(
            subject_name(nic),
            "the device is listed but cannot be read",
            expected="ACTIVE, LinkUp",
            observed=nic.state.words,
            remedy=_LOST,
        )
    if nic.state == "ACTIVE":
        return f"{nic.state}, {nic.physical_state}" if isinstance(nic.physical_state, str) else nic.state
    physical = value_or(nic.physical_state, "")
    observed = ", ".join(word for word in (nic.state, physical) if word)
    is_needed = nic in rails.down and (
        bool(rails.active) or nic.state in _UNCONFIGURED or (with_gpus and physical != "Disabled")
    )
    return (STATE if is_needed else SPARE).problem(
        subject_name(nic),
        "a training port is down" if is_needed else "a port is down that training does not seem to need",
        fails=is_needed,
        expected="ACTIVE, LinkUp",
        observed=observed,
        remedy=_remedy(nic, physical),
    )


def _remedy(nic: Nic, physical: str) -> Remedy:
    device = shlex.quote(nic.name)
    if nic.link_layer == "Ethernet" and (physical == "Disabled" or nic.state in _UNCONFIGURED):
        if isinstance(nic.netdev, str):
            command = f"ip link set {shlex.quote(nic.netdev)} up"
            return Remedy(
                text="Its network interface is switched off: switch it on.", command=command, needs_root=True
            )
        text = "Its network interface is switched off: switch it on with `ip link set NAME up`."
        return Remedy(text=text, command=f"rdma link show {device}/{nic.port}")
    if nic.state == "INIT":
        text = (
            "The cable is fine, but no subnet manager has configured the port: start or ask for the "
            "subnet manager."
        )
        return Remedy(text=text, command=f"sminfo -C {device} -P {nic.port}")
    if nic.state == "ARMED":
        return Remedy(
            text="The subnet manager has not finished configuring this port: look at the subnet "
            "manager's log."
        )
    if physical == "Disabled":
        text = "An administrator has switched the port off: enable it."
        return Remedy(text=text, command=f"ibportstate -C {device} -D 0 {nic.port} enable", needs_root=True)
    if physical == "Polling":
        text = "The port finds no partner: check cable, transceiver and switch port."
        return Remedy(text=text, command=f"ibstat {device} {nic.port}")
    return Remedy(text="Check cable, transceiver and switch port.", command=f"ibstat {device} {nic.port}")


@on_nics(RATE)
def nic_rate(nics: tuple[Nic, ...], evidence: Evidence) -> Findings:
    rails = training_rails(evidence.facts)
    if not rails.active:
        return RATE.skipped(HOST, "no RDMA port is up; see nic-state")
    usual, links = rails.active[0].rate_gbps, items_of(evidence.facts.links)
    distances_known = any(link.a.startswith("GPU") != link.b.startswith("GPU") for link in links)

    def judge(nic: Nic) -> Judged:
        if isinstance(nic.rate_gbps, Unknown):
            return nic.rate_gbps
        if isinstance(usual, Unknown) or nic.rate_gbps >= usual:
            return gbit_per_s(nic.rate_gbps)
        # A slower port below a GPU's PCIe switch is a rail. If distances are unknown, the port may also be a
        # storage port of the same device type.
        return RATE.problem(
            subject_name(nic),
            "the port is slower than the other training ports",
            fails=distances_known,
            expected=gbit_per_s(usual),
            observed=gbit_per_s(nic.rate_gbps),
            remedy=Remedy(
                text="Reseat or replace cable and transceiver, and compare with the switch port.",
                command="ibstat",
            ),
        )

    return judge_each(
        RATE,
        rails.active + rails.slower,
        judge,
        what="the rate of the port",
        good="training ports run at the same rate",
    )


def _rails_that_are_up(evidence: Evidence) -> tuple[Nic, ...]:
    rails = training_rails(evidence.facts)
    return rails.active + rails.slower


@each_port(
    SPEED,
    _rails_that_are_up,
    absent=_NONE_UP,
    what="the rate of the card",
    good="training ports run at a rate that is normal for their card",
)
def nic_speed(nic: Nic, evidence: Evidence) -> Judged:
    layout = load_nic_models().layout(evidence.facts)
    if layout is not None and any(nic.pci_bus_id == place.address for place in layout.rails):
        return _by_layout(nic, layout)
    return _by_card(nic)


def _by_layout(nic: Nic, layout: Layout) -> Judged:
    if isinstance(nic.rate_gbps, Unknown):
        return nic.rate_gbps
    if nic.rate_gbps >= layout.rate_gbps:
        return gbit_per_s(nic.rate_gbps)
    return SPEED.failed(
        subject_name(nic),
        "the port is slower than the ports of this machine usually are",
        expected=f"{gbit_per_s(layout.rate_gbps)} in a {layout.title}",
        observed=_rate_words(nic),
        remedy=_RESEAT,
        evidence=(expected_ref(layout, layout.id),),
    )


def _by_card(nic: Nic) -> Judged:
    card = load_nic_models().card(nic)
    if card is None or card.rate_gbps is None or nic.link_layer != "InfiniBand":
        why = (
            "the switch determines the rate of an Ethernet port"
            if nic.link_layer == "Ethernet"
            else "the catalogue has no rate for this card"
        )
        return Unknown(
            Reason.NOT_RECORDED if isinstance(nic.device_type, Unknown) else Reason.NOT_SUPPORTED, why
        )
    if isinstance(nic.rate_gbps, Unknown):
        return nic.rate_gbps
    # Half the rate on few fast lanes means a split cable; half the rate on all lanes means that the link fell
    # back to an older speed. Cards before HDR were sold with several speed limits under one part number.
    is_split_kind = LANE_GBPS[card.lane] >= LANE_GBPS["HDR"]
    trained_down = is_split_kind and nic.lanes == 4 and _lane_gbps(nic, math.inf) < LANE_GBPS[card.lane]
    if trained_down or nic.rate_gbps < card.rate_gbps / 2:
        return SPEED.warned(
            subject_name(nic),
            "the link runs at an older, slower speed than its card supports",
            expected=f"{gbit_per_s(card.rate_gbps)} of a {card.title}, or half of it over a split cable",
            observed=_rate_words(nic),
            remedy=_RESEAT,
            evidence=(expected_ref(card, card.part),),
        )
    return _rate_words(nic)


def _lane_gbps(nic: Nic, unknown: float) -> float:
    """Return the rate of one lane in Gb/s, or `unknown`."""
    return LANE_GBPS.get(value_or(nic.speed, ""), unknown)


def _rate_words(nic: Nic) -> str:
    words = gbit_per_s(nic.rate_gbps) if known(nic.rate_gbps) else "rate not known"
    return f"{words} ({nic.lanes}X {nic.speed})" if known(nic.lanes) and known(nic.speed) else words


@each_port(
    WIDTH,
    lambda evidence: [
        nic for nic in items_of(evidence.facts.nics) if is_up(nic) and nic.link_layer == "InfiniBand"
    ],
    absent="no InfiniBand port is up",
    what="the width of the link",
    good="links have all their lanes",
)
def nic_width(nic: Nic, evidence: Evidence) -> Judged:
    if isinstance(nic.lanes, Unknown):
        return nic.lanes
    if nic.lanes >= 4 or (nic.lanes == 2 and _lane_gbps(nic, 0.0) >= LANE_GBPS["HDR"]):
        return f"{nic.lanes}X"
    return WIDTH.warned(
        subject_name(nic),
        "the link has lost lanes",
        expected="4X, or 2X over a split HDR or NDR cable",
        observed=_rate_words(nic),
        remedy=_RESEAT,
    )


@each_port(
    ADVICE,
    lambda evidence: [nic for nic in items_of(evidence.facts.nics) if known(nic.advice)],
    absent="only mlxlink reports the firmware's diagnosis, and its output was not given",
    what="the firmware's diagnosis",
    good="the firmware reports no issue with the links",
)
def nic_advice(nic: Nic, evidence: Evidence) -> Judged:
    if not isinstance(nic.advice, str):
        return "no issue"
    return ADVICE.warned(
        subject_name(nic),
        "the card's firmware reports an issue with the link",
        expected="no issue",
        observed=nic.advice or "an issue without a description",
        remedy=Remedy(
            text="Follow this advice.",
            command=f"mlxlink -d {shlex.quote(nic.name)}",
            needs_root=True,
        ),
    )


@on_nics(MTU)
def nic_mtu(nics: tuple[Nic, ...], evidence: Evidence) -> Findings:
    rails = training_rails(evidence.facts).active
    if not rails:
        return MTU.skipped(HOST, _NONE_UP)
    least, headers = evidence.thresholds.rdma_mtu_minimum_bytes, evidence.thresholds.roce_headers_bytes
    mtus = {subject_name(nic): _mtu(nic, evidence.facts, headers.value) for nic in rails}
    usual = Counter(only_known(mtus.values())).most_common(1)

    def judge(nic: Nic) -> Judged:
        mtu = mtus[subject_name(nic)]
        if isinstance(mtu, Unknown):
            return mtu
        if mtu >= least.value and mtu == usual[0][0]:
            return f"{mtu} bytes"
        return MTU.warned(
            subject_name(nic),
            "the RDMA MTU is small"
            if mtu < least.value
            else "the RDMA MTU differs from the MTU of the other training ports",
            expected=f"{max(usual[0][0], int(least.value))} bytes",
            observed=f"{mtu} bytes",
            remedy=Remedy(
                text="Ethernet: set the interface's MTU to 4200 or more, as on the switch. InfiniBand: ask "
                "for a larger MTU in the subnet manager's partition.",
                command=f"ibv_devinfo -d {shlex.quote(nic.name)}",
            ),
            evidence=(least.ref,),
        )

    return judge_each(MTU, rails, judge, what="the RDMA MTU", good="RDMA MTUs are large and equal")


def _mtu(nic: Nic, facts: MachineFacts, headers_bytes: float) -> int | Unknown:
    """Return the active MTU; if a RoCE port does not report it, the largest MTU that fits its frames."""
    if known(nic.mtu) or nic.link_layer != "Ethernet" or isinstance(facts.interfaces, Unknown):
        return nic.mtu
    frame = next((interface.mtu for interface in facts.interfaces if interface.name == nic.netdev), nic.mtu)
    if isinstance(frame, Unknown):
        return frame
    return next((mtu for mtu in _MTUS if mtu + headers_bytes <= frame), nic.mtu)
