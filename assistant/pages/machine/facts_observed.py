"""Describe observations: log events, results of other tools, and faults in the sources of the facts."""

from collections import Counter
from collections.abc import Sequence

from assistant.pages.blocks import Tone
from assistant.pages.machine.facts_words import Line, Subject, cut, first, subject
from probes.base.grouping import grouped
from probes.base.record import known, value_or
from probes.base.units import duration, gb_per_s, gib, plural
from probes.facts import Contradiction, Diagnosis, LogEvent, MachineFacts, ToolResult, Unread
from probes.judging.reporting import fold_names

_EVENTS_SHOWN = 6
_RESULTS_SHOWN = 8
_LINES_SHOWN = 4
_WORDS = 70
"""Maximum number of characters shown of a line from another program."""
_SERIOUS = ("FAIL", "WARN", "UNKNOWN")


def sections(facts: MachineFacts, *, verbose: bool) -> list[Subject]:
    return [
        subject("Events", _events(facts, verbose=verbose)),
        subject("Tests", _diagnoses(value_or(facts.diagnoses, ()), verbose=verbose)),
        subject("Results", _results(value_or(facts.tool_results, ()), verbose=verbose)),
        subject("Disagree", _odd(_contradictions(facts.contradictions, verbose=verbose))),
        subject("Unread", _odd(_unread(facts.unread, verbose=verbose))),
    ]


def _odd(texts: Sequence[str]) -> list[Line]:
    return [Line(text, (), "caution") for text in texts]


def _events(facts: MachineFacts, *, verbose: bool) -> list[Line]:
    """Return the kinds of events: fatal kinds first, and kinds that no longer need action last."""
    events = [event for event in value_or(facts.events, ()) if event.is_complaint]
    logs = value_or(facts.logs, ())
    if not events:
        names = ", ".join(log.replace("-", " ") for log in logs)
        return [Line(f"none in the {names}", (), "dim")] if logs and known(facts.events) else []
    groups = grouped(
        ((event.kind, event.code, "" if event.code is not None else event.message), event) for event in events
    )
    ordered = sorted(
        groups.values(),
        key=lambda same: (all(each.settled for each in same), not any(each.fatal is True for each in same)),
    )
    texts = first(
        [_event(same) for same in ordered], len(ordered) if verbose else _EVENTS_SHOWN, "kinds more"
    )
    return [Line(text, (), _tone(same)) for text, same in zip(texts, ordered, strict=False)]


def _tone(same: Sequence[LogEvent]) -> Tone:
    if all(each.settled for each in same):
        return "dim"
    return "bad" if any(each.fatal is True for each in same) else "caution"


def _event(same: Sequence[LogEvent]) -> str:
    event = same[0]
    count = sum(each.count for each in same)
    devices = list(dict.fromkeys(each.device for each in same if each.device))
    title = f"{event.kind.replace('-', ' ')}{f' {event.code}' if event.code is not None else ''}"
    title += f" x{count}" if count > 1 else ""
    title += f" on {', '.join(first(devices, 3))}" if devices else ""
    settled = " (settled since)" if all(each.settled for each in same) else ""
    return f"{title}: {cut(event.message, _WORDS)}{settled}"


def _diagnoses(diagnoses: Sequence[Diagnosis], *, verbose: bool) -> list[Line]:
    """Return the counts of tests by tool, then the tests that did not pass."""
    tools = grouped((each.tool, each.result) for each in diagnoses)
    lines = [
        f"{tool}: {', '.join(f'{number} {result}' for result, number in Counter(results).items())}"
        for tool, results in tools.items()
    ]
    bad = grouped(
        ((result, each.test, each.message), each.subject)
        for result in _SERIOUS
        for each in diagnoses
        if each.result == result
    )
    words = [
        f"{result} {test} on {fold_names(list(dict.fromkeys(subjects)))}"
        + (f": {cut(message, _WORDS)}" if message else "")
        for (result, test, message), subjects in bad.items()
    ]
    return [
        *map(Line, lines),
        *(
            Line(text, (), "bad" if text.startswith("FAIL") else "caution")
            for text in first(words, len(words) if verbose else _LINES_SHOWN)
        ),
    ]


def _results(results: Sequence[ToolResult], *, verbose: bool) -> list[str]:
    """Return one line for each test: the count and range of its numbers.

    For a series over sizes, the line shows the number at the largest size.
    """
    groups = grouped(((result.tool, result.test, result.metric), result) for result in results)
    lines = [
        words for (tool, test, metric), same in groups.items() if (words := _result(tool, test, metric, same))
    ]
    return first(lines, len(lines) if verbose else _RESULTS_SHOWN)


def _result(tool: str, test: str, metric: str, same: Sequence[ToolResult]) -> str:
    title = tool if test == tool else f"{tool} {test}"
    wrong = sum(each.wrong_values or 0 for each in same)
    trouble = f"; {plural(wrong, 'wrong value')}" if wrong else ""
    trouble += "".join(
        f"; {cut(message, _WORDS)}"
        for message in dict.fromkeys(each.message for each in same if each.message)
    )
    numbers = [each.value for each in same if known(each.value)]
    if metric == "status" or not numbers:
        return f"{title}: {trouble.removeprefix('; ')}" if trouble else ""
    unit = same[0].unit
    largest = [
        each
        for each in same
        if each.size_bytes is not None and each.size_bytes == max(other.size_bytes or 0 for other in same)
    ]
    name = {"bus_bandwidth": "bus bandwidth ", "latency": "latency "}.get(metric, "")
    if largest and len(largest) < len(same):
        at = [each.value for each in largest if known(each.value)]
        if at:
            return f"{title}: {name}{_span(at, unit)} at {gib(largest[0].size_bytes or 0)}{trouble}"
    subjects = list(dict.fromkeys(each.subject for each in same))
    among = (
        f" over {plural(len(numbers), 'pair') if '-' in subjects[0] else fold_names(subjects)}"
        if len(subjects) > 1
        else ""
    )
    on = f" on {subjects[0]}" if len(subjects) == 1 and subjects[0] != "host" else among
    return f"{title}: {name}{_span(numbers, unit)}{on}{trouble}"


def _span(values: Sequence[float], unit: str) -> str:
    form = duration if unit == "s" else gb_per_s if unit == "B/s" else "{:g}".format
    low, high = form(min(values)), form(max(values))
    if low == high:
        return high
    # Write the unit once if both numbers have the same unit.
    return f"{low.rpartition(' ')[0] if low.rpartition(' ')[2] == high.rpartition(' ')[2] else low} to {high}"


def _contradictions(contradictions: Sequence[Contradiction], *, verbose: bool) -> list[str]:
    lines = [
        f"{each.subject} {each.field}: "
        + " but ".join(
            f"{cut(reading.value, 40)} ({cut(reading.evidence.key, 40)})" for reading in each.readings
        )
        for each in contradictions
    ]
    return first(lines, len(lines) if verbose else _LINES_SHOWN)


def _unread(unread: Sequence[Unread], *, verbose: bool) -> list[str]:
    lines = [
        cut(f"{_place(each)}: {each.why}", 120) + (f" ({cut(each.text, 40)})" if each.text else "")
        for each in unread
    ]
    return first(lines, len(lines) if verbose else _LINES_SHOWN)


def _place(unread: Unread) -> str:
    """Return `dmesg.txt:12`, with only the name of the file because paths are long."""
    source = unread.source if " " in unread.source else unread.source.rpartition("/")[2]
    return f"{cut(source, 50)}{f':{unread.line}' if unread.line else ''}"
