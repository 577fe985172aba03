"""Check that the ports that carry training are up.

`probes/judging/rails.py` selects these ports. A training port that is down costs its share of the bandwidth
or stops the job; a port for storage or management only deserves a look. Source: NCCL user guide,
troubleshooting; AMD-AGI/Primus.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from probes.base.record import Reason, Unknown, known, value_or
from probes.facts import Nic
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.rails import Rails, card_of, training_rails
from probes.judging.reporting import Judged, judge_each, on_nics, subject_name

JUDGE = Judge(
    check_id="nic-state",
    why="NCCL uses the ports that are up: with one rail down, multi-node training loses its bandwidth or "
    "does not start.",
)
SPARE = Judge(
    check_id=JUDGE.check_id,
    why="It may serve storage or management, or nobody at all; training goes on without it.",
)


UNCONFIGURED = ("INIT", "ARMED")
"""States of a port with a cable whose subnet manager has not finished."""


@on_nics(JUDGE)
def check(nics: tuple[Nic, ...], evidence: Evidence) -> Iterable[Finding]:
    rails = training_rails(evidence.facts)
    with_gpus = known(evidence.facts.gpus) and len(evidence.facts.gpus) > 0
    in_use = {card_of(nic) for nic in nics if nic.state == "ACTIVE"}

    def judge(nic: Nic) -> Judged:
        is_second = nic.state == "DOWN" and card_of(nic) in in_use and nic not in rails.down
        return "a second port, not in use" if is_second else _judge(nic, rails, with_gpus=with_gpus)

    return judge_each(JUDGE, nics, judge, what="the state of the port", good="RDMA ports are up")


def _judge(nic: Nic, rails: Rails, *, with_gpus: bool) -> Judged:
    if isinstance(nic.state, Unknown):
        return _vanished(nic, nic.state) if nic.state.reason is Reason.ERROR else nic.state
    if nic.state == "ACTIVE":
        return f"{nic.state}, {nic.physical_state}" if isinstance(nic.physical_state, str) else nic.state
    physical = value_or(nic.physical_state, "")
    observed = ", ".join(word for word in (nic.state, physical) if word)
    remedy = _remedy(nic, physical)
    if nic in rails.down and (
        rails.active or nic.state in UNCONFIGURED or (with_gpus and physical != "Disabled")
    ):
        return JUDGE.failed(
            subject_name(nic),
            "a training port is down",
            expected="ACTIVE, LinkUp",
            observed=observed,
            remedy=remedy,
        )
    summary = "a port is down that training does not seem to need"
    return SPARE.warned(
        subject_name(nic), summary, expected="ACTIVE, LinkUp", observed=observed, remedy=remedy
    )


def _vanished(nic: Nic, error: Unknown) -> Finding:
    """Report a device that the kernel lists but cannot show: its driver has lost it."""
    remedy = Remedy(
        text="Look in the kernel log for why the driver lost the device, then reset the card or reboot.",
        command="dmesg",
    )
    return JUDGE.failed(
        subject_name(nic),
        "the device is listed and cannot be read",
        expected="ACTIVE, LinkUp",
        observed=error.words,
        remedy=remedy,
    )


def _remedy(nic: Nic, physical: str) -> Remedy:
    device = shlex.quote(nic.name)
    if nic.link_layer == "Ethernet" and (physical == "Disabled" or nic.state in UNCONFIGURED):
        if isinstance(nic.netdev, str):
            text, command = (
                "Its network interface is switched off: set it up.",
                f"ip link set {shlex.quote(nic.netdev)} up",
            )
            return Remedy(text=text, command=command, needs_root=True)
        text = "Its network interface is switched off: find it, and set it up (ip link set NAME up)."
        return Remedy(text=text, command=f"rdma link show {device}/{nic.port}")
    if nic.state == "INIT":
        text = (
            "The cable is fine and no subnet manager has configured the port: start or ask for the "
            "subnet manager."
        )
        return Remedy(text=text, command=f"sminfo -C {device} -P {nic.port}")
    if nic.state == "ARMED":
        return Remedy(text="The subnet manager has not finished with this port: look at its log.")
    if physical == "Disabled":
        text = "The port is switched off by an administrator: enable it."
        return Remedy(text=text, command=f"ibportstate -C {device} -D 0 {nic.port} enable", needs_root=True)
    if physical == "Polling":
        text = "The port finds no partner: check cable, transceiver and switch port."
        return Remedy(text=text, command=f"ibstat {device} {nic.port}")
    return Remedy(text="Check cable, transceiver and switch port.", command=f"ibstat {device} {nic.port}")
