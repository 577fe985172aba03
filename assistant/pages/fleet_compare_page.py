"""Show what changed between two runs over a fleet."""

from assistant.pages.blocks import Cell, Page, section, words
from assistant.pages.fleet_page import Fold
from probes.base.units import plural
from probes.fleet.run_differences import RunComparison, VerdictChange, words_of_rate

_MOST_LINES = 40


def fleet_compare_page(comparison: RunComparison, fold: Fold, *, verbose: bool = False) -> Page:
    """Return the changes, those of nodes first; `fold` writes node names as a short pattern."""
    head = section("", [words((" -> ".join(comparison.runs), "strong"))])
    nodes: list[Cell] = []
    if comparison.appeared:
        nodes.append(f"new: {fold(comparison.appeared)}")
    if comparison.gone:
        nodes.append(f"gone: {fold(comparison.gone)}")
    nodes += [line for change in comparison.verdicts for line in _verdict(change)]
    attributes: list[Cell] = [
        f"{change.attribute}: {change.before} -> {change.after} on {plural(len(change.nodes), 'node')}: "
        f"{fold(change.nodes)}"
        for change in comparison.attributes
    ]
    parts: list[Cell] = [
        f"{change.node} {change.slot}: {change.before or 'empty'} -> {change.after or 'empty'}"
        + (f", which was {change.came_from}" if change.came_from else "")
        for change in comparison.parts
    ]
    rates: list[Cell] = []
    for rate in comparison.rates:
        slower = f"; slower than the others: {', '.join(rate.slower)}" if rate.slower else ""
        rates.append(f"{words_of_rate(rate)}{slower}")
    kinds = (("Nodes", nodes), ("Firmware and software", attributes), ("Parts", parts), ("Rates", rates))
    none = [section("", ["nothing has changed"])] if comparison.is_equal else []
    return (head, *none, *(section(title, _cut(lines, verbose)) for title, lines in kinds if lines))


def _cut(lines: list[Cell], verbose: bool) -> list[Cell]:
    more = len(lines) - _MOST_LINES
    return lines if verbose or more <= 0 else [*lines[:_MOST_LINES], f"and {more} more; -v shows all"]


def _verdict(change: VerdictChange) -> list[Cell]:
    before, after = change.before or "no answer", change.after or "no answer"
    verdict = f"{before} -> {after}" if before != after else after
    return [
        f"{change.node}: {verdict}",
        *(f"  new: {text}" for text in change.new),
        *(f"  gone: {text}" for text in change.gone),
    ]
