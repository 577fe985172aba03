"""Check that links stay up, and that cables and modules work.

The kernel counts the changes of an interface's carrier since boot, and the log names each loss. A single loss
is normal; many losses, or a loss after which the log reports no link, are reported. Source:
Azure/azurehpc-health-checks (link flaps in 24 hours); NVIDIA/NVSentinel, NIC health (carrier_changes);
leptonai/gpud (port module events of mlx5).
"""

from collections.abc import Iterator

from probes.base.grouping import grouped
from probes.base.record import Unknown, items_of, known
from probes.base.units import plural
from probes.facts import Interface, LogEvent
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST, Judged, events_in, judge_each

FLAPPING = Judge(
    check_id="link-flapping",
    why="Each loss of a link stops the transfers on it for seconds and may end the job.",
)
REMEDY = Remedy(
    text="Reseat or replace cable and transceiver; look at the switch port's log for the same times.",
    command="dmesg",
)
_LAST_MEMBER = "without any active interface"


def link_flapping(evidence: Evidence) -> Iterator[Finding]:
    facts, events = evidence.facts, events_in(evidence.facts)
    losses = [event for event in items_of(events) if event.kind == "link-down"]
    returns = [event for event in items_of(events) if event.kind == "link-up"]
    # Only ports with a cable are judged: software changes the state of loopback, bond and container
    # interfaces.
    interfaces = [
        interface
        for interface in items_of(facts.interfaces)
        if interface.is_virtual is not True and interface.bond_members is None
    ]
    named = {interface.name for interface in interfaces}
    by_device = grouped((event.device or HOST, event) for event in losses)
    for device, lost in by_device.items():
        if device not in named and (finding := _judge_losses(evidence, device, lost, returns)) is not None:
            yield finding
    if interfaces:
        yield from judge_each(
            FLAPPING,
            interfaces,
            lambda interface: _judge(evidence, interface, losses, returns),
            what="the number of carrier changes",
            good="no link goes up and down repeatedly",
        )
    elif known(events):
        yield FLAPPING.passed(
            HOST,
            "the log reports no link that goes up and down repeatedly",
            observed=f"{plural(_times(losses), 'loss')} of a link",
        )
    elif isinstance(facts.interfaces, Unknown):
        yield FLAPPING.undetermined(HOST, facts.interfaces, what="the network interfaces")
    else:
        yield FLAPPING.skipped(HOST, "this machine has no network port")


def _times(events: list[LogEvent]) -> int:
    return sum(event.count for event in events)


def _judge(
    evidence: Evidence, interface: Interface, losses: list[LogEvent], returns: list[LogEvent]
) -> Judged:
    own_losses = [event for event in losses if event.device == interface.name]
    logged = _judge_losses(evidence, interface.name, own_losses, [] if interface.up is True else returns)
    if logged is not None:
        return logged
    limit = evidence.thresholds.carrier_changes
    changes = interface.carrier_changes
    if isinstance(changes, Unknown):
        return changes
    if changes <= limit.value:
        return plural(changes, "change")
    return FLAPPING.warned(
        interface.name,
        "the link went up and down many times",
        expected=f"at most {limit.value:g} changes since boot",
        observed=plural(changes, "change"),
        remedy=REMEDY,
        evidence=(limit.ref,),
    )


def _judge_losses(
    evidence: Evidence, device: str, events: list[LogEvent], returns: list[LogEvent]
) -> Finding | None:
    limit = evidence.thresholds.link_downs_logged
    if not events:
        return None
    refs = tuple(ref for event in events for ref in event.evidence)
    if _times(events) >= limit.value:
        return FLAPPING.warned(
            device,
            "the log reports many losses of this link",
            expected=f"fewer than {limit.value:g} losses",
            observed=f"{plural(_times(events), 'loss')}, first: {events[0].message}",
            remedy=REMEDY,
            evidence=(*refs, limit.ref),
        )
    last = _last_loss(events, [event for event in returns if event.device == device])
    if last is not None:
        times = plural(_times(events), "loss")
        return FLAPPING.warned(
            device,
            "the link went down and did not come up again",
            expected="the link up at the end of the log",
            observed=f"{times}, last {last.last_time}: {last.message}"
            if last.last_time
            else f"{times}: {last.message}",
            remedy=REMEDY,
            evidence=refs,
        )
    return None


def _last_loss(events: list[LogEvent], returns: list[LogEvent]) -> LogEvent | None:
    """Return the last loss of the link if the log reports no link after it.

    A port that never came up has no cable and reports a loss at each boot, so it is left out. The loss of a
    bond's last member is included.
    """
    last = max(
        (event for event in events if not event.settled), key=lambda event: event.last_line, default=None
    )
    if last is None or any(event.last_line > last.last_line for event in returns):
        return None
    return last if returns or _LAST_MEMBER in last.message else None
