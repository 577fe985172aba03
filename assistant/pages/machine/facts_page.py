"""Give an overview of a machine: one row per subject, with equal devices in one line."""

from collections.abc import Callable, Sequence

from assistant.pages.blocks import Cell, Page, Row, Section, spans, words
from assistant.pages.machine import (
    facts_gpu,
    facts_host,
    facts_network,
    facts_observed,
    facts_pci,
    facts_software,
)
from assistant.pages.machine.facts_words import QUIET, Line, Subject, cut
from probes.base.grouping import grouped
from probes.base.record import Reason, Unknown
from probes.base.units import plural
from probes.facts import MachineFacts

_INDENT = 11
_DETAIL_WIDTH = 70
"""Largest number of characters of a reason that are shown; the JSON contains the whole reason."""
_LABELS_SHOWN = 8
"""Largest number of subjects without any known value that are named."""
_PANELS: tuple[tuple[str, str, tuple[Callable[..., list[Subject]], ...]], ...] = (
    ("fabric", "Fabric", (facts_gpu.connections, facts_network.sections, facts_pci.sections)),
    ("software", "Software", (facts_software.sections,)),
    ("host", "Host", (facts_host.identity, facts_host.sections)),
    ("observed", "Logs, tools and sources", (facts_observed.sections,)),
)
"""Id and title of each panel, and the function that returns the panel's rows."""


def facts_page(facts: MachineFacts, *, verbose: bool = False) -> Page:
    """Return the whole overview.

    With `verbose` the overview contains the PCIe tree, the names of unknown values, and full lists.
    """
    subjects = [
        *facts_host.identity(facts, verbose=verbose),
        *facts_gpu.sections(facts, verbose=verbose),
        *facts_network.sections(facts, verbose=verbose),
        *facts_pci.sections(facts, verbose=verbose),
        *facts_host.sections(facts, verbose=verbose),
        *facts_software.sections(facts, verbose=verbose),
        *facts_observed.sections(facts, verbose=verbose),
    ]
    rows = [row for subject in subjects for row in _rows(subject)]
    rows += _labelled("Unknown", _left_out(subjects, verbose=verbose))
    return (Section("", tuple(rows), _INDENT),)


def panels(facts: MachineFacts, *, complete: bool) -> dict[str, Section]:
    """Return the panels of the overview that have content; subjects that are not read yet are marked."""
    result = {}
    for name, title, makers in _PANELS:
        subjects = [subject for make in makers for subject in make(facts, verbose=False)]
        rows = [row for subject in subjects for row in _rows(subject)]
        silent = [subject.label for subject in subjects if subject.lines and not _is_known(subject)]
        if complete and silent:
            rows.append(Row(words((f"not recorded: {', '.join(silent)}", "dim")), "Unknown"))
        elif silent:
            rows += [Row(words(("reading …", "dim")), label) for label in silent]
        # Logs without events get no row.
        if rows and not (
            name == "observed" and all(span.tone == "dim" for row in rows for span in spans(row.text))
        ):
            result[name] = Section(title, tuple(rows), _INDENT)
    return result


def _rows(subject: Subject) -> list[Row]:
    lines = [words((text, line.tone)) for line in subject.lines if (text := _text(line))]
    return _labelled(subject.label, lines)


def _labelled(label: str, lines: Sequence[Cell]) -> list[Row]:
    return [Row(line, words((label, "strong")) if number == 0 else "") for number, line in enumerate(lines)]


def _text(line: Line) -> str:
    """Return a line with the unknown values that a user can make known: `a, b; c: unknown (permission)`."""
    reasons = grouped((why.reason, (name, why)) for name, why in line.unknown if why.reason not in QUIET)
    loud = []
    for reason, parts in reasons.items():
        details = {why.detail for _, why in parts}
        detail = cut(details.pop(), _DETAIL_WIDTH) if len(details) == 1 else ""
        names = ", ".join(name for name, _ in parts if name)
        loud.append(f"{names}{': ' * bool(names)}{Unknown(reason, detail)}")
    return "; ".join([line.text] * bool(line.text) + loud)


def _left_out(subjects: Sequence[Subject], *, verbose: bool) -> list[str]:
    """Return the subjects that the source does not contain, and single missing values.

    With `verbose` the values are listed; otherwise they are only counted.
    """
    whole: dict[Reason, list[str]] = {reason: [] for reason in QUIET}
    parts: dict[Reason, list[str]] = {reason: [] for reason in QUIET}
    hidden = 0
    for subject in subjects:
        quiet = [
            (name, why.reason) for line in subject.lines for name, why in line.unknown if why.reason in QUIET
        ]
        if quiet and not _is_known(subject):
            whole[quiet[0][1]].append(subject.label)
            continue
        for reason in QUIET:
            names = list(dict.fromkeys(name for name, why in quiet if why is reason and name))
            hidden += len(names)
            parts[reason] += [f"{subject.label}: {', '.join(names)}"] if names else []
    texts = []
    for reason in QUIET:
        labels = (
            whole[reason]
            if verbose or len(whole[reason]) <= _LABELS_SHOWN
            else ["everything else" if any(map(_is_known, subjects)) else "everything"]
        )
        named = [", ".join(labels)] * bool(labels) + (parts[reason] if verbose else [])
        texts += [f"{reason.value.replace('_', ' ')}: {'; '.join(named)}"] if named else []
    if not verbose and (hidden or not all(len(labels) <= _LABELS_SHOWN for labels in whole.values())):
        hint = f"-v names {plural(hidden, 'value') if not texts else 'more'}"
        texts = (
            [*texts[:-1], f"{texts[-1]} ({hint})"] if texts else [f"{hint} that the source does not contain"]
        )
    return texts


def _is_known(subject: Subject) -> bool:
    return any(map(_text, subject.lines))
