"""What `rigtune explain` prints for people: each cause with the lines that it rests on, then what the run
was.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from assistant.render.lines import WIDTH, badge, bold, clean, filled, paint
from probes.judging.findings import Status
from probes.logs.diagnosis import Diagnosis, EvidenceLine, Explanation

_INDENT = 10
_FEW_LINES = 3
"""Of evidence for each cause, unless -v."""
_FEW_CAUSES = 3
_FEW_VALUES = 8
_LONGEST_LINE = 240
_STATUS = {"healthy": Status.PASS, "fault": Status.FAIL, "unknown": Status.UNKNOWN}
_ANSWERS = {
    "healthy": "nothing wrong in these logs",
    "fault": "the logs tell of a fault",
    "unknown": "the logs do not tell what is wrong, or whether anything is",
}
_FACTS = {
    "hosts": "hosts in the logs",
    "within_node": "channels within a node",
    "between_nodes": "channels between nodes",
    "pairs": "pairs of ranks",
    "p2p_refused": "pairs of GPUs without peer-to-peer",
    "init_started": "how many ranks began the initialisation",
    "init_completed": "how many completed it",
    "init_incomplete": "ranks that wait in it",
    "init_incomplete_hosts": "hosts of those that wait",
    "init_unseen": "ranks of which nothing is told",
}
"""Facts whose names alone would be misread: `init_incomplete` lists ranks, and `0` is one of them."""
_NO_FAILURE = "the logs tell of no failure, but of something to look at"
"""Where nothing more needs to be known, as of runs that were ended from outside."""


class _Page(NamedTuple):
    """How it is to look."""

    colour: bool
    verbose: bool
    width: int
    folds: bool
    many: bool
    """Whether several logs were read."""


def render_explanation(
    explanation: Explanation,
    *,
    colour: bool = False,
    verbose: bool = False,
    width: int = WIDTH,
    folds: bool = False,
) -> str:
    """The whole answer. With `folds`, lines of logs are broken too, which is easier to read and harder to
    search.
    """
    page = _Page(colour, verbose, width, folds, len(explanation.sources) > 1)
    lines = _headline(explanation, page)
    shown = explanation.diagnoses if verbose else explanation.diagnoses[:_FEW_CAUSES]
    for diagnosis in shown:
        if diagnosis.cause_id == "healthy" and explanation.state != "healthy":
            lines += [
                "",
                *filled(diagnosis.summary, label="  all else is healthy: ", indent=_INDENT, width=width),
            ]
        else:
            lines += ["", *_diagnosis(diagnosis, page)]
    if explanation.expected:
        lines += ["", *_listed("expect", explanation.expected, width)]
    if explanation.collect_next:
        lines += ["", bold("To find out more:", colour=colour), *_listed("", explanation.collect_next, width)]
    facts = fact_lines(explanation.facts, verbose=verbose, width=width)
    if facts:
        lines += ["", bold("The run:", colour=colour), *facts]
    hidden = len(explanation.diagnoses) - len(shown)
    has_more = hidden > 0 or any(len(each.evidence) > _FEW_LINES for each in shown)
    if has_more and not verbose:
        lines += ["", *filled("-v lists all causes, their lines and all facts", width=width)]
    return "\n".join(lines) + "\n"


def _headline(explanation: Explanation, page: _Page) -> list[str]:
    status = _STATUS[explanation.state]
    lines_read = explanation.lines_read
    read = f"{lines_read} line{'' if lines_read == 1 else 's'} of {_sources(explanation.sources)}"
    first = paint(badge(status), status, colour=page.colour) + bold(_answer(explanation), colour=page.colour)
    return [first, *filled(read, indent=_INDENT, width=page.width)]


def _answer(explanation: Explanation) -> str:
    is_warned = any(
        not diagnosis.is_fault and diagnosis.cause_id != "healthy" for diagnosis in explanation.diagnoses
    )
    is_ended = explanation.state == "unknown" and explanation.diagnoses and not explanation.collect_next
    is_told = is_ended or (explanation.state == "healthy" and is_warned)
    return _NO_FAILURE if is_told else _ANSWERS[explanation.state]


def _sources(names: Sequence[str]) -> str:
    shown = ["standard input" if name == "-" else name for name in names[:_FEW_VALUES]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "") if shown else "nothing"


def _diagnosis(diagnosis: Diagnosis, page: _Page) -> list[str]:
    status, width = _status(diagnosis), page.width
    is_known = diagnosis.cause_id != "unknown"
    title = clean(diagnosis.cause_id) + (f"  {diagnosis.confidence:.0%} sure" if is_known else "")
    lines = [paint(badge(status), status, colour=page.colour) + bold(title, colour=page.colour)]
    lines += filled(diagnosis.summary, indent=_INDENT, width=width)
    for effect in diagnosis.secondary:
        lines += filled(effect, label="  so also", indent=_INDENT, width=width)
    if diagnosis.remedy and diagnosis.cause_id != "healthy":
        lines += filled(diagnosis.remedy, label="  do", indent=_INDENT, width=width)
    if diagnosis.command:
        lines += _folded(f"$ {clean(diagnosis.command)}", " " * _INDENT, page)
    evidence = diagnosis.evidence if page.verbose else diagnosis.evidence[:_FEW_LINES]
    for line in evidence:
        lines += _evidence(line, page)
    if page.verbose and diagnosis.versions:
        lines += filled(diagnosis.versions, label="  when", indent=_INDENT, width=width)
    if page.verbose and diagnosis.source:
        lines += filled(diagnosis.source, label="  source", indent=_INDENT, width=width)
    return lines


def _status(diagnosis: Diagnosis) -> Status:
    if diagnosis.is_fault:
        return Status.FAIL
    if diagnosis.cause_id == "unknown":
        return Status.UNKNOWN
    return Status.PASS if diagnosis.cause_id == "healthy" else Status.WARN


def _evidence(line: EvidenceLine, page: _Page) -> list[str]:
    """A line as it stands in the log, on one line so that it can be searched for, with its place before
    it.
    """
    place = f"{line.source}:{line.line}" if page.many else f"{line.line}"
    text = clean(line.text.strip())
    shown = f"{text[:_LONGEST_LINE]}{'…' if len(text) > _LONGEST_LINE else ''}"
    return _folded(shown, f"  {clean(place):>7} | ", page)


def _folded(text: str, start: str, page: _Page) -> list[str]:
    """What is taken literally, whole unless lines are folded."""
    if not page.folds:
        return [start + text]
    return textwrap.wrap(
        text, page.width, initial_indent=start, subsequent_indent=" " * (_INDENT + 2), break_on_hyphens=False
    ) or [start]  # fmt: skip


def _listed(label: str, sentences: Sequence[str], width: int) -> list[str]:
    lines: list[str] = []
    for number, sentence in enumerate(sentences):
        mark = f"  {label}" if number == 0 and label else "  -" if not label else ""
        lines += filled(sentence, label=mark, indent=_INDENT if label else 4, width=width)
    return lines


def fact_lines(facts: Mapping[str, object], *, verbose: bool = False, width: int = WIDTH) -> list[str]:
    """Each fact with its name; long lists are cut unless `verbose`."""
    lines = []
    for name, value in facts.items():
        words = (
            _place(value)
            if name == "first_failure" and isinstance(value, Mapping)
            else _words(value, verbose=verbose)
        )
        if words:
            label = _FACTS.get(name, name.replace("_", " "))
            lines += filled(words, label=f"  {label}: ", indent=4, width=width)
    return lines


def _place(failure: Mapping[str, object]) -> str:
    """Where and when the first failure was told."""
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
    most = len(parts) if verbose else _FEW_VALUES
    return ", ".join(parts[:most]) + (f" and {len(parts) - most} more" if len(parts) > most else "")
