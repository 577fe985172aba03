"""Search logs for the events that the data rows in `probes/data/log_checks.toml` describe.

Source: each row names its source.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from probes.catalogue.check_rows import LogCheck, LogRule
from probes.facts import LogEvent
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST, events_of, occurrences
from probes.reading.pci.paths import is_for_training, name_at, names_of


def check(evidence: Evidence, data: dict[str, Any]) -> Iterator[Finding]:
    """Yield the findings of the row `data`: one for each event that matches a rule, or one PASS.

    If no log of the row's kind was read, yield one SKIP or UNKNOWN.
    """
    row = msgspec.convert(data, LogCheck)
    judge = Judge(check_id=row.id, why=row.why)
    events = yield from events_of(judge, evidence, row.log)
    if events is None:
        return
    limit, names = evidence.thresholds.numbers.get(row.limit), names_of(evidence.facts)
    most = limit.value if limit is not None else 0.0
    mine = [event for event in events if _concerns(event, row, evidence)]
    fitting = [
        (event, rule)
        for event in mine
        if (rule := next((rule for rule in row.rules if _fits(event, rule, most)), None))
    ]
    for event, rule in fitting:
        yield judge.problem(
            HOST if row.subject == "host" or event.device is None else name_at(names, event.device),
            rule.bad,
            fails=rule.status == "FAIL",
            expected=row.expected.replace("{limit}", f"{most:.0f}"),
            observed=observed(event),
            remedy=Remedy(text=rule.fix or row.fix, command=row.command, needs_root=row.root),
            evidence=event.evidence + ((limit.ref,) if limit is not None else ()),
        )
    if not fitting:
        yield judge.passed(HOST, row.good, observed="; ".join(map(observed, mine)))


def observed(event: LogEvent) -> str:
    """Return how often and when an event occurred, and its message."""
    return f"{occurrences(event.count, event.first_time, event.last_time)}: {event.message}"


def _concerns(event: LogEvent, row: LogCheck, evidence: Evidence) -> bool:
    if event.kind not in row.kinds or (event.settled and not row.settled):
        return False
    if row.without and row.without in event.message.lower():
        return False
    return row.subject != "training device" or is_for_training(evidence.facts, event.device)


def _fits(event: LogEvent, rule: LogRule, most: float) -> bool:
    return all(
        (
            not rule.kinds or event.kind in rule.kinds,
            rule.fatal is None or event.fatal is rule.fatal,
            not rule.contains or any(words in event.message for words in rule.contains),
            not rule.often or event.count > most,
        )
    )
