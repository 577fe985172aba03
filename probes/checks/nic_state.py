"""Are the ports that carry training up?

Which ports those are is told in `probes/rails.py`. A port that is down among them costs its share of the bandwidth or stops
the job; one for storage or management is only worth a look. Source: NCCL user guide, troubleshooting; AMD-AGI/Primus.
"""

from __future__ import annotations

from collections.abc import Iterator

from probes.facts import Nic
from probes.findings import Evidence, Finding, Judge, Remedy
from probes.judging import Judged, judge_each, nics_of, subject_name
from probes.rails import Rails, training_rails
from probes.record import Unknown, known, value_or

JUDGE = Judge(
    check_id="nic-state",
    why="NCCL uses the ports that are up: with one rail down, multi-node training loses its bandwidth or does not start.",
)

NEXT_STEP = {
    "INIT": Remedy(
        text="The cable is fine and no subnet manager has configured the port: start or ask for the subnet manager.",
        command="sminfo",
    ),
    "ARMED": Remedy(text="The subnet manager has not finished with this port: look at its log."),
}
BY_PHYSICAL_STATE = {
    "Disabled": Remedy(
        text="The port is switched off by an administrator: enable it.", command="ibportstate -D 0 1 enable", needs_root=True
    ),
    "Polling": Remedy(text="The port finds no partner: check cable, transceiver and switch port.", command="ibstat"),
}
LOOK = Remedy(text="Check cable, transceiver and switch port.", command="ibstat")


def check(evidence: Evidence) -> Iterator[Finding]:
    nics = yield from nics_of(JUDGE, evidence)
    rails = training_rails(evidence.facts)
    with_gpus = known(evidence.facts.gpus) and len(evidence.facts.gpus) > 0
    yield from judge_each(
        JUDGE, nics, lambda nic: _judge(nic, rails, with_gpus=with_gpus), what="the state of the port", good="RDMA ports are up"
    )


def _judge(nic: Nic, rails: Rails, *, with_gpus: bool) -> Judged:
    if isinstance(nic.state, Unknown):
        return nic.state
    if nic.state == "ACTIVE":
        return f"{nic.state}, {nic.physical_state}" if isinstance(nic.physical_state, str) else nic.state
    physical = value_or(nic.physical_state, "")
    observed = ", ".join(word for word in (nic.state, physical) if word)
    remedy = NEXT_STEP.get(nic.state) or BY_PHYSICAL_STATE.get(physical, LOOK)
    if nic in rails.down and (rails.active or nic.state in NEXT_STEP or (with_gpus and physical != "Disabled")):
        summary = "a training port is down"
        return JUDGE.failed(subject_name(nic), summary, expected="ACTIVE, LinkUp", observed=observed, remedy=remedy)
    summary = "a port is down that training does not seem to need"
    return JUDGE.warned(subject_name(nic), summary, expected="ACTIVE, LinkUp", observed=observed, remedy=remedy)
