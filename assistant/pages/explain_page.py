"""Explain logs: each cause with the lines that show it, then facts about the run."""

from collections.abc import Mapping

from assistant.pages.blocks import Page, Row, Section, words
from assistant.pages.terms import BADGE_WIDTH, STATUS
from probes.base.units import plural
from probes.judging.findings import Status
from probes.logs.diagnosis import Diagnosis, EvidenceLine, Explanation

_FEW_LINES = 3
"""Number of lines of evidence that are shown for each cause without -v."""
_FEW_CAUSES = 3
_FEW_VALUES = 8
_LONGEST_LINE = 240
_STATUS = {"healthy": Status.PASS, "fault": Status.FAIL, "unknown": Status.UNKNOWN}
_ANSWERS = {
    "healthy": "nothing wrong in these logs",
    "fault": "the logs show a fault",
    "unknown": "the logs do not show whether something is wrong, or what it is",
}
_FACTS = {
    "hosts": "hosts in the logs",
    "within_node": "channels within a node",
    "between_nodes": "channels between nodes",
    "pairs": "pairs of ranks",
    "p2p_refused": "pairs of GPUs without peer-to-peer",
    "init_started": "number of ranks that began the initialisation",
    "init_completed": "number of ranks that completed it",
    "init_incomplete": "ranks that wait during initialisation",
    "init_incomplete_hosts": "hosts of these waiting ranks",
    "init_unseen": "ranks that the logs do not mention",
}
"""Clear names for facts whose names can be misunderstood: `init_incomplete: 0` means that rank 0 waits."""
_NO_FAILURE = "the logs show no failure, but something that you should check"
"""Answer for healthy runs with warnings, and for runs that, for example, a user or a scheduler ended."""


def explain_page(explanation: Explanation, *, verbose: bool = False, folds: bool = False) -> Page:
    """Return the page; with `folds`, long log lines are wrapped, which makes them harder to search."""
    page = [_headline(explanation)]
    shown = explanation.diagnoses if verbose else explanation.diagnoses[:_FEW_CAUSES]
    for diagnosis in shown:
        if diagnosis.cause_id == "healthy" and explanation.state != "healthy":
            page.append(Section("", (Row(f"everything else is healthy: {diagnosis.summary}"),), BADGE_WIDTH))
        else:
            page.append(
                _diagnosis(diagnosis, verbose=verbose, folds=folds, names_source=len(explanation.sources) > 1)
            )
    expected = (
        Row(sentence, "  expect" if number == 0 else "")
        for number, sentence in enumerate(explanation.expected)
    )
    page.append(Section("", tuple(expected), BADGE_WIDTH))
    asked = tuple(Row(sentence, "  -") for sentence in explanation.collect_next)
    facts = fact_rows(explanation.facts, verbose=verbose)
    page.append(Section("To find out more:" if asked else "", asked, 4))
    page.append(Section("The run:" if facts else "", facts, 4))
    has_more = len(explanation.diagnoses) > len(shown) or any(
        len(each.evidence) > _FEW_LINES for each in shown
    )
    return [
        *page,
        Section("", (Row("-v lists all causes, their lines and all facts"),) * (has_more and not verbose)),
    ]


def _headline(explanation: Explanation) -> Section:
    names = ["standard input" if name == "-" else name for name in explanation.sources]
    read = f"{plural(explanation.lines_read, 'line')} of {_listed(names, _FEW_VALUES) or 'nothing'}"
    answer = words((_answer(explanation), "strong"))
    return Section("", (Row(answer, STATUS[_STATUS[explanation.state]].badge), Row(read)), BADGE_WIDTH)


def _answer(explanation: Explanation) -> str:
    is_warned = any(
        not diagnosis.is_fault and diagnosis.cause_id != "healthy" for diagnosis in explanation.diagnoses
    )
    is_ended = explanation.state == "unknown" and explanation.diagnoses and not explanation.collect_next
    if is_ended or (explanation.state == "healthy" and is_warned):
        return _NO_FAILURE
    return _ANSWERS[explanation.state]


def _listed(parts: list[str], most: int) -> str:
    """Return the first `most` parts and the number of the remaining parts."""
    return ", ".join(parts[:most]) + (f" and {len(parts) - most} more" if len(parts) > most else "")


def _diagnosis(diagnosis: Diagnosis, *, verbose: bool, folds: bool, names_source: bool) -> Section:
    sure = "" if diagnosis.cause_id == "unknown" else f"  {diagnosis.confidence:.0%} sure"
    rows = [
        Row(words((diagnosis.cause_id + sure, "strong")), STATUS[_status(diagnosis)].badge),
        Row(diagnosis.summary),
    ]
    rows += [Row(effect, "  so also") for effect in diagnosis.secondary]
    rows += [Row(diagnosis.remedy, "  do")] * bool(diagnosis.remedy and diagnosis.cause_id != "healthy")
    rows += [Row(words((f"$ {diagnosis.command}", "code")), literal=not folds)] * bool(diagnosis.command)
    rows += [
        _evidence(line, folds=folds, names_source=names_source)
        for line in diagnosis.evidence[: None if verbose else _FEW_LINES]
    ]
    rows += [Row(diagnosis.versions, "  when")] * bool(verbose and diagnosis.versions)
    rows += [Row(diagnosis.source, "  source")] * bool(verbose and diagnosis.source)
    return Section("", tuple(rows), BADGE_WIDTH)


def _status(diagnosis: Diagnosis) -> Status:
    usual = {"unknown": Status.UNKNOWN, "healthy": Status.PASS}.get(diagnosis.cause_id, Status.WARN)
    return Status.FAIL if diagnosis.is_fault else usual


def _evidence(line: EvidenceLine, *, folds: bool, names_source: bool) -> Row:
    """Return the place and the text of a line; without `folds` it is not wrapped, which eases a search."""
    place = f"{line.source}:{line.line}" if names_source else f"{line.line}"
    text = line.text.strip()
    shown = text if len(text) <= _LONGEST_LINE else f"{text[:_LONGEST_LINE]}…"
    return Row(shown, f"  {place:>7} | ", literal=not folds)


def fact_rows(facts: Mapping[str, object], *, verbose: bool = False) -> tuple[Row, ...]:
    """Return each fact with its name; long lists are shortened unless `verbose` is set."""
    rows = []
    for name, value in facts.items():
        text = (
            _place(value)
            if name == "first_failure" and isinstance(value, Mapping)
            else _words(value, verbose=verbose)
        )
        rows += [Row(text, f"  {_FACTS.get(name, name.replace('_', ' '))}: ")] * bool(text)
    return tuple(rows)


def _place(failure: Mapping[str, object]) -> str:
    """Return the place and the time at which the first failure was logged."""
    words = [f"line {failure.get('line')} of {failure.get('source')}"]
    words += [f"{name} {failure[name]}" for name in ("host", "rank") if failure.get(name) is not None]
    after_s = failure.get("after_s")
    words += [f"{after_s:.6g} s after the first line"] if isinstance(after_s, int | float) else []
    return ", ".join(words)


def _words(value: object, *, verbose: bool) -> str:
    match value:
        case None | "" | () | []:
            return ""
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.6g}"
        case Mapping():
            parts = [
                f"{name} ({words})" if isinstance(item, Mapping) else f"{name} {words}"
                for name, item in value.items()
                if (words := _words(item, verbose=verbose))
            ]
        case list() | tuple():
            parts = [words for item in value if (words := _words(item, verbose=verbose))]
        case _:
            return str(value)
    return _listed(parts, len(parts) if verbose else _FEW_VALUES)
