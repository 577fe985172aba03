"""What was observed beside the machine itself: logs, other tools' tests, variables, and how well the sources
could be read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.text import Text

from assistant.present.text import BAD, CAUTION, DIM, GOOD, Panel, clean, pairs
from probes.base.record import known, value_or
from probes.base.units import plural
from probes.facts import Diagnosis, LogEvent, MachineFacts

_KINDS_SHOWN = 4
_NAMES_SHOWN = 3
_NAME_WIDTH = 10


def observed(facts: MachineFacts) -> Panel | None:
    """One row for each source; None where nothing of all this was read, or the logs are quiet."""
    rows = [
        ("logs", _events(facts)),
        ("tests", _diagnoses(value_or(facts.diagnoses, ()))),
        ("numbers", _results(facts)),
        ("variables", _variables(facts)),
        ("disagree", _contradictions(facts)),
        ("unread", _unread(facts)),
    ]
    told = [(name, text) for name, text in rows if text.plain]
    is_quiet = not _complaints(facts) and [name for name, _ in told] == ["logs"]
    return Panel("Logs, tools and sources", pairs(told, _NAME_WIDTH)) if told and not is_quiet else None


def _complaints(facts: MachineFacts) -> list[LogEvent]:
    return [event for event in value_or(facts.events, ()) if event.is_complaint]


def _events(facts: MachineFacts) -> Text:
    """Kinds of events that nothing has settled since, those first that the log calls fatal."""
    if not known(facts.events):
        return Text("")
    events = _complaints(facts)
    if not events:
        logs = ", ".join(clean(log).replace("-", " ") for log in value_or(facts.logs, ()))
        return Text(f"nothing in the {logs}" if logs else "", style=DIM)
    open_events = [event for event in events if not event.settled]
    groups: dict[str, list[LogEvent]] = {}
    for event in sorted(open_events, key=lambda event: event.fatal is not True):
        groups.setdefault(
            event.kind.replace("-", " ") + (f" {event.code}" if event.code is not None else ""), []
        ).append(event)
    words = [_group(title, same) for title, same in list(groups.items())[:_KINDS_SHOWN]]
    more = len(groups) - len(words)
    settled = len(events) - len(open_events)
    tail = [f"{more} kinds more"] * bool(more) + [f"{settled} settled since"] * bool(settled)
    text = Text(", ").join(words)
    return text.append(f"{', ' if words else ''}{', '.join(tail)}", style=DIM) if tail else text


def _group(title: str, same: Sequence[LogEvent]) -> Text:
    count = sum(event.count for event in same)
    devices = list(dict.fromkeys(clean(event.device) for event in same if event.device))
    words = clean(title) + (f" ×{count}" if count > 1 else "")
    if devices:
        words += f" on {', '.join(devices[:_NAMES_SHOWN])}{' …' if len(devices) > _NAMES_SHOWN else ''}"
    return Text(words, style=BAD if any(event.fatal is True for event in same) else CAUTION)


def _diagnoses(diagnoses: Sequence[Diagnosis]) -> Text:
    counts: Counter[str] = Counter(each.result for each in diagnoses)
    text = Text(", ").join(
        Text(f"{counts[result]} {result}", style=style)
        for result, style in (
            ("FAIL", BAD),
            ("WARN", CAUTION),
            ("UNKNOWN", DIM),
            ("PASS", GOOD),
            ("SKIP", DIM),
        )
        if counts[result]
    )
    bad = list(dict.fromkeys(clean(each.test) for each in diagnoses if each.result == "FAIL"))
    return (
        text.append(f"  ({', '.join(bad[:_NAMES_SHOWN])}{' …' if len(bad) > _NAMES_SHOWN else ''})")
        if bad
        else text
    )


def _results(facts: MachineFacts) -> Text:
    tools = Counter(clean(result.tool) for result in value_or(facts.tool_results, ()))
    return Text(", ".join(f"{number} of {tool}" for tool, number in tools.items()))


def _variables(facts: MachineFacts) -> Text:
    names = list(
        dict.fromkeys(
            clean(variable.name) for variable in value_or(facts.environment, ()) if variable.is_effective
        )
    )
    more = len(names) - _KINDS_SHOWN
    return Text(", ".join(names[:_KINDS_SHOWN]) + (f" and {more} more" if more > 0 else ""))


def _contradictions(facts: MachineFacts) -> Text:
    named = [f"{clean(each.subject)} {clean(each.field)}" for each in facts.contradictions]
    more = f" and {len(named) - _NAMES_SHOWN} more" if len(named) > _NAMES_SHOWN else ""
    return Text(f"sources on {', '.join(named[:_NAMES_SHOWN])}{more}" if named else "", style=CAUTION)


def _unread(facts: MachineFacts) -> Text:
    if not facts.unread:
        return Text("")
    first = facts.unread[0]
    return Text(
        f"{plural(len(facts.unread), 'part')} of the sources, first: {clean(first.why)}", style=CAUTION
    )
