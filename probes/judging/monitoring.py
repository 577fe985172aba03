"""Judge a machine that is in use: skip states that are not faults, and ignore old events and counts.

A warning about an event (a program's Xid, a process that was killed for memory) appears only for a while. If
the counters of an earlier run are known, a warning about a counter appears only if the counter rose since
then. A FAIL remains, however old its event or count is, until a boot, a reset or a recovery settles it.
"""

import datetime

import msgspec

from probes.base.patterns import pattern
from probes.base.record import items_of, known
from probes.facts import LogEvent
from probes.judging.counters import since
from probes.judging.findings import Evidence, Finding, Status

STATE = "a state that is not a fault: --mode monitor does not judge it"

_UPTIME = pattern(r"\d{1,8}\.\d{1,9}")
"""Seconds since boot, as `dmesg` prints them; nine digits and more are seconds since 1970."""
_ISO = pattern(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,]\d{1,9})?(Z|[+-]\d\d:?\d\d)")


def recent(evidence: Evidence) -> Evidence:
    """Return the evidence for the mode `monitor`: without old events, and with the increases of counters.

    The increases are those since the earlier run; without an earlier run, the totals stay. In the mode
    `accept`, the evidence stays the same.
    """
    if evidence.mode == "accept":
        return evidence
    facts, events = evidence.facts, evidence.facts.events
    window_s = evidence.thresholds.monitor_event_window_s.value
    kept = tuple(event for event in items_of(events) if (_age_s(event, evidence) or 0.0) <= window_s)
    if len(kept) < len(items_of(events)):
        facts = msgspec.structs.replace(facts, events=kept)
    if evidence.earlier is not None:
        facts = since(facts, evidence.earlier)
    return evidence if facts is evidence.facts else msgspec.structs.replace(evidence, facts=facts)


def since_words(evidence: Evidence) -> tuple[str, ...]:
    """Return a note about the run with which the counters are compared, if there is such a run."""
    if evidence.mode == "accept" or evidence.earlier is None:
        return ()
    moment = datetime.datetime.fromtimestamp(evidence.earlier.taken_s, datetime.timezone.utc)
    return (f"errors of links and remapped rows are counted since the run of {moment:%Y-%m-%d %H:%M} UTC",)


def standing(now: list[Finding], ever: list[Finding]) -> list[Finding]:
    """Return the findings about recent events, and the faults that older events and totals show."""
    faults = [finding for finding in ever if finding.status is Status.FAIL]
    named = {(finding.subject, finding.summary) for finding in faults}
    others = [
        finding
        for finding in now
        if (finding.subject, finding.summary) not in named and not (faults and finding.status is Status.PASS)
    ]
    return faults + others


def _age_s(event: LogEvent, evidence: Evidence) -> float | None:
    """Return the seconds since the last line of an event; None if its time or the present is unknown."""
    if _UPTIME.fullmatch(event.last_time):
        uptime_s, at_s = evidence.facts.kernel.uptime_s, float(event.last_time)
        # A time in the future belongs to another boot.
        return uptime_s - at_s if known(uptime_s) and at_s <= uptime_s else None
    stamp = _ISO.fullmatch(event.last_time)
    if stamp is None or evidence.now is None:
        return None
    day, clock, zone = stamp.groups()
    zone = "+00:00" if zone == "Z" else f"{zone[:3]}:{zone[-2:]}"
    try:
        moment = datetime.datetime.fromisoformat(f"{day}T{clock}{zone}")
    except ValueError:
        return None
    age_s = (evidence.now - moment).total_seconds()
    return age_s if age_s >= 0 else None
