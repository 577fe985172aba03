"""A machine for the eye, read in ten seconds: one row for each subject, alike devices together, what is
unknown by its reason.
"""

from __future__ import annotations

from assistant.render import facts_gpu, facts_host, facts_network, facts_observed, facts_pci, facts_software
from assistant.render.facts_words import QUIET, Line, Section, cut
from assistant.render.lines import bold, filled
from probes.base.record import Reason, Unknown
from probes.base.units import plural
from probes.facts import MachineFacts

_INDENT = 11
_DETAIL_WIDTH = 70
"""Characters of a reason that are shown; the JSON has them all."""
_LABELS_SHOWN = 8
"""Subjects that are named where nothing is told of them."""


def facts_lines(facts: MachineFacts, *, colour: bool, verbose: bool = False) -> list[str]:
    """All lines of the overview. `verbose` adds the PCIe tree, names what is unknown, and shows what is else
    cut or counted.
    """
    sections = [
        *facts_host.identity(facts),
        *facts_gpu.sections(facts, verbose=verbose),
        *facts_network.sections(facts, verbose=verbose),
        *facts_pci.sections(facts, verbose=verbose),
        *facts_host.sections(facts, verbose=verbose),
        *facts_software.sections(facts, verbose=verbose),
        *facts_observed.sections(facts, verbose=verbose),
    ]
    lines: list[str] = []
    for section in sections:
        texts = [text for line in section.lines if (text := _told(line))]
        for number, text in enumerate(texts):
            lines += _labelled(text, section.label if number == 0 else "", colour=colour)
    for number, text in enumerate(_left_out(sections, verbose=verbose)):
        lines += _labelled(text, "Unknown" if number == 0 else "", colour=colour)
    return lines


def _labelled(text: str, label: str, *, colour: bool) -> list[str]:
    lead = len(text) - len(text.lstrip(" "))
    first, *rest = filled(text.lstrip(" "), label=label, indent=_INDENT + lead)
    return [bold(first[:_INDENT], colour=colour) + first[_INDENT:], *rest]


def _told(line: Line) -> str:
    """The words of a line with what somebody could mend, together by reason: `a, b; c: unknown
    (permission)`.
    """
    reasons: dict[Reason, list[tuple[str, Unknown]]] = {}
    for name, why in line.unknown:
        if why.reason not in QUIET:
            reasons.setdefault(why.reason, []).append((name, why))
    loud = []
    for reason, parts in reasons.items():
        details = {why.detail for _, why in parts}
        detail = cut(details.pop(), _DETAIL_WIDTH) if len(details) == 1 else ""
        names = ", ".join(name for name, _ in parts if name)
        loud.append(f"{names}{': ' * bool(names)}{Unknown(reason, detail)}")
    return "; ".join([line.text] * bool(line.text) + loud)


def _left_out(sections: list[Section], *, verbose: bool) -> list[str]:
    """What the source does not tell: whole subjects by name; single values by name where `verbose`, else
    counted.
    """
    whole: dict[Reason, list[str]] = {reason: [] for reason in QUIET}
    parts: dict[Reason, list[str]] = {reason: [] for reason in QUIET}
    hidden = 0
    for section in sections:
        quiet = [
            (name, why.reason) for line in section.lines for name, why in line.unknown if why.reason in QUIET
        ]
        if quiet and not _is_told(section):
            whole[quiet[0][1]].append(section.label)
            continue
        for reason in QUIET:
            names = list(dict.fromkeys(name for name, why in quiet if why is reason and name))
            hidden += len(names)
            parts[reason] += [f"{section.label}: {', '.join(names)}"] if names else []
    texts = []
    for reason in QUIET:
        labels = (
            whole[reason]
            if verbose or len(whole[reason]) <= _LABELS_SHOWN
            else ["everything else" if any(map(_is_told, sections)) else "everything"]
        )
        words = [", ".join(labels)] * bool(labels) + (parts[reason] if verbose else [])
        texts += [f"{reason.value.replace('_', ' ')}: {'; '.join(words)}"] if words else []
    if not verbose and (hidden or not all(len(labels) <= _LABELS_SHOWN for labels in whole.values())):
        hint = f"-v names {plural(hidden, 'value') if not texts else 'more'}"
        texts = [*texts[:-1], f"{texts[-1]} ({hint})"] if texts else [f"{hint} that the source does not tell"]
    return texts


def _is_told(section: Section) -> bool:
    return any(_told(line) for line in section.lines)
