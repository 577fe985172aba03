"""Lines of one subject on the overview of a machine."""

from __future__ import annotations

from types import ModuleType

from probes.facts import MachineFacts


def lines_of(
    module: ModuleType, label: str, facts: MachineFacts, *, verbose: bool = False
) -> list[tuple[str, str]]:
    """Return text and tone of each line of a subject."""
    (lines,) = [each.lines for each in module.sections(facts, verbose=verbose) if each.label == label]
    return [(line.text, line.tone) for line in lines]


def texts_of(module: ModuleType, label: str, facts: MachineFacts, *, verbose: bool = False) -> list[str]:
    return [text for text, _ in lines_of(module, label, facts, verbose=verbose)]
