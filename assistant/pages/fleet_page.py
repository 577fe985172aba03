"""Show a run over a fleet: counts, nodes that jobs should avoid with reasons, causes, lists to paste."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence

from assistant.pages.blocks import (
    Block,
    Column,
    Page,
    Row,
    Section,
    Table,
    Tone,
    Words,
    section,
    words,
)
from probes.base.grouping import grouped
from probes.base.units import plural
from probes.fleet.advancing import FleetStates, StateChange
from probes.fleet.comparing.fleet_finding import FleetFinding
from probes.fleet.fleet_result import FleetResult, NodeResult
from probes.fleet.states import Condition
from probes.judging.findings import Status

_MOST_ROWS = 40
_LONGEST_PATTERN = 30
"""Characters of a pattern of nodes in a column; the lists to paste have all names."""
WARNINGS = "Warnings in common"
"""Title of the section that lists each warning with all nodes that report the warning."""
_MOST_WARNINGS = 10
Fold = Callable[[tuple[str, ...]], str]
"""Function that writes node names as a short pattern."""


def fleet_page(result: FleetResult, fold: Fold, *, verbose: bool = False) -> Page:
    """Return the page; `fold` writes node names as a short pattern."""
    return (
        section("", [answer_words(result), *(words((note, "caution")) for note in result.notes)]),
        _nodes(result, fold, verbose=verbose),
        section(WARNINGS, warnings) if (warnings := warning_lines(result, fold)) else section("", []),
        *(
            _findings(title, [finding.summary for finding in findings])
            for title, findings in finding_lists(result)
        ),
        _states(result.states, {node.node for node in result.nodes}, fold)
        if result.states is not None
        else section("", []),
        _lists(result, fold),
    )


def answer_words(result: FleetResult) -> Words:
    """Return how many nodes are fit, not fit, without an answer and out of service."""
    bad, silent = result.bad, result.silent
    return words(
        (f"{len(result.good)} fit", "good"),
        ", ",
        (f"{len(bad)} not", "bad" if bad else ""),
        ", ",
        (f"{len(silent)} without an answer", "caution" if silent else ""),
        (f", {len(result.out)} out of service", "caution") if result.out else "",
        f" of {plural(len(result.wanted), 'node')}",
    )


def warning_lines(result: FleetResult, fold: Fold) -> list[str]:
    """Return a line for each warning with its nodes, the warning of most nodes first.

    Warnings with the same summary are one line, although the GPUs or ports differ.
    """
    nodes = grouped(
        pair
        for node in result.nodes
        for pair in dict.fromkeys(
            (reason.summary, node.node) for reason in node.reasons if reason.status is Status.WARN
        )
    )
    alike = sorted(nodes.items(), key=lambda item: -len(item[1]))
    shown = [f"{summary}: {fold(tuple(names))}" for summary, names in alike[:_MOST_WARNINGS]]
    left = len(alike) - len(shown)
    return [*shown, f"and {plural(left, 'more warning')}"] if left else shown


def finding_lists(result: FleetResult) -> tuple[tuple[str, list[FleetFinding]], ...]:
    """Return the findings of the comparison below their titles."""
    few = [finding for finding in result.outliers if finding.kind == "few-peers"]
    return (
        ("What they have in common", list(result.common_causes)),
        ("Slow parts", [finding for finding in result.outliers if finding.kind != "few-peers"]),
        ("Too few to compare", few),
    )


def _nodes(result: FleetResult, fold: Fold, *, verbose: bool) -> Section:
    """Return a row per verdict and reason with its nodes; if `verbose`, a row per node, even a fit one."""
    bad, slow = set(result.bad), result.slow_by_node()
    shown_always = bad.union(result.silent, result.out)
    rows = [
        (node.node, (verdict_of(node, bad), brief_reason(node, slow)))
        for node in result.nodes
        if verbose or node.node in shown_always
    ]
    if verbose:
        places = {node.node: places_of(node) for node in result.nodes}
        table = _node_table([(name, *row, places[name]) for name, row in rows])
        return section("Nodes", [table]) if rows else section("", [])
    alike = grouped((row, name) for name, row in rows)
    shown = [(_together(tuple(names), fold), *row) for row, names in alike.items()]
    if not shown:
        return section("", [])
    blocks: list[Block] = [_node_table(shown[:_MOST_ROWS])]
    more = sum(len(names) for names in list(alike.values())[_MOST_ROWS:])
    if more:
        blocks.append(Row(words((f"and {plural(more, 'more node')}; -v shows all", "dim"))))
    return Section("Nodes", tuple(blocks))


def _node_table(rows: Sequence[tuple[str, ...]]) -> Table:
    """Return the rows; the last column, with the places, is left out if no place is known."""
    width = 4 if any(row[3:] > ("",) for row in rows) else 3
    columns = (Column(fixed=True), Column(fixed=True), Column(), Column())[:width]
    return Table(columns, tuple(row[:width] for row in rows))


def _together(names: tuple[str, ...], fold: Fold) -> str:
    """Return the pattern of the names; if it is too long, the first name and the number of other names."""
    pattern = fold(names)
    return pattern if len(pattern) <= _LONGEST_PATTERN else f"{names[0]} and {len(names) - 1} more"


def verdict_of(node: NodeResult, bad: Container[str]) -> str:
    """Return the node's own verdict, `slow` for a bad node that passed its checks, or the outcome."""
    if node.verdict in (Status.PASS, Status.WARN) and node.node in bad:
        return "slow"
    return node.verdict.value if node.verdict is not None else node.outcome


def reasons_of(node: NodeResult, slow: Iterable[FleetFinding]) -> list[str]:
    """Return the reasons against a node: failures, slow parts, its state, warnings, an odd answer."""
    failed, others = (
        [
            f"{each.subject}: {each.summary}"
            for each in node.reasons
            if (each.status is Status.FAIL) is is_fail
        ]
        for is_fail in (True, False)
    )
    lines = [*failed, *(finding.summary for finding in slow)]
    if node.condition != "healthy" and node.state_reason not in (*lines, *others):
        lines.append(state_of(node))
    return [*lines, *others, *filter(None, [node.detail])]


def places_of(node: NodeResult) -> str:
    """Return the places of a node: `rack 7, switch leaf-12`."""
    return ", ".join(f"{name} {value}" for name, value in node.places.items())


def state_of(node: NodeResult) -> str:
    """Return the state of a node with its reason."""
    return f"{node.condition}: {node.state_reason}" if node.state_reason else node.condition


def brief_reason(node: NodeResult, slow: Mapping[str, Iterable[FleetFinding]]) -> str:
    """Return the first reason against a node; `slow` has the slow parts by node."""
    return first_reason(reasons_of(node, slow.get(node.node, ())))


def first_reason(lines: Sequence[str]) -> str:
    """Return the first reason, and how many more there are."""
    more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
    return f"{lines[0]}{more}" if lines else ""


def _findings(title: str, lines: list[str]) -> Section:
    different = list(dict.fromkeys(lines))
    shown = different[:_MOST_ROWS]
    more = [f"and {len(different) - len(shown)} more"] if len(different) > len(shown) else []
    return section(title, [*shown, *more]) if shown else section("", [])


def _states(states: FleetStates, nodes: set[str], fold: Fold) -> Section:
    """Return what this run changed for nodes, and the states that need attention; JSON has all parts."""
    lines: list[Words] = []
    if states.brake:
        count = plural(len(states.held_back), "node")
        lines.append(words((f"the brake held: {count} would be drained at once", "bad")))
        lines.append(words(f"{states.brake}: {fold(states.held_back)}; --no-brake quarantines them"))
    last = {change.subject: change for change in states.changes if change.subject in nodes}
    alike = grouped(((change.after, _why(change)), name) for name, change in last.items())
    for (after, why), names in list(alike.items())[:_MOST_ROWS]:
        tone = _TONES.get(after, "")
        lines.append(words((_CHANGES[after], tone), f" {_together(tuple(names), fold)}{why}"))
    if len(alike) > _MOST_ROWS:
        lines.append(words((f"and {plural(len(alike) - _MOST_ROWS, 'more change')}", "dim")))
    if ended := [subject for subject in states.ended if subject not in last]:
        lines.append(words(f"probation ended: {', '.join(ended)}"))
    for state in states.probation:
        until = f" until {state.expires:%Y-%m-%d}" if state.expires is not None else ""
        lines.append(words(("on probation", "caution"), f"{until}: {state.subject}"))
    for state in states.lemons:
        count = plural(len(state.confirmed_at), "failure")
        lines.append(words(("lemon", "bad"), f" {state.subject}: {count}, the last: {state.reason}"))
    return section("States", lines) if lines else section("", [])


def change_words(change: StateChange) -> str:
    """Return the subject of a change with its reason and its check."""
    return f"{change.subject}{_why(change)}"


def _why(change: StateChange) -> str:
    """Return the reason of a change and its check, in the form that follows the subject."""
    check = f" ({change.check_id})" if change.check_id else ""
    if change.reason.startswith(f"{change.subject} "):
        return f"{change.reason.removeprefix(change.subject)}{check}"
    return f"{f': {change.reason}' if change.reason else ''}{check}"


_CHANGES: dict[Condition, str] = {
    "healthy": "healthy again",
    "suspect": "suspect, check again after an hour:",
    "confirmed": "confirmed as bad:",
    "quarantined": "quarantined:",
    "repaired": "repaired, not yet tested:",
    "probation": "on probation:",
}
_TONES: dict[Condition, Tone] = {
    "healthy": "good",
    "suspect": "caution",
    "confirmed": "bad",
    "quarantined": "bad",
    "probation": "caution",
}


def _lists(result: FleetResult, fold: Fold) -> Section:
    """Return the lists and commands that people paste; nothing is executed."""
    lines = []
    if result.good:
        lines.append(words(("good  ", "dim"), (f"--nodelist={fold(result.good)}", "code")))
    if result.bad or result.out:
        bad = fold((*result.bad, *result.out))
        lines.append(words(("bad   ", "dim"), (f"--exclude={bad}", "code")))
    if drained := result.states.drained if result.states is not None else ():
        if result.engine == "slurm":
            command = f"scontrol update NodeName={fold(drained)} State=DRAIN Reason='rigtune: fleet check'"
            lines.append(words(("drain ", "dim"), (command, "code")))
        if result.engine == "kubernetes":
            lines.append(words(("drain ", "dim"), (f"kubectl cordon {' '.join(drained)}", "code")))
    if result.silent:
        lines.append(words(("ask again  ", "dim"), (f"-w '{fold(result.silent)}'", "code")))
    return section("To paste", lines) if lines else section("", [])
