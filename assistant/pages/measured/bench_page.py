"""Report measurements: slow parts first, then every result with its references, then curves and failures."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from assistant.pages.blocks import Block, Page, Row, Section, section, spans, words
from assistant.pages.measured.bench_costs import cost
from assistant.pages.measured.bench_table import (
    SECONDARY,
    case,
    name_of,
    results_table,
    sources_of,
    surroundings,
)
from assistant.pages.measured.drawings import (
    figures,
    fit_section,
    is_link,
    matrices,
    pair_of,
    worth_a_line,
)
from assistant.pages.measured.results import Result, results
from assistant.pages.terms import BADGE_WIDTH, STATUS
from assistant.usecases.bench.bench_list import BenchEntry
from assistant.usecases.bench.find_bad_nodes import HostFault, HostSearch, Rate
from probes.base.grouping import grouped
from probes.base.units import plural, quantity
from probes.bench.bench_requests import Suite
from probes.compare.measured_findings import WRONG
from probes.compare.measurement_judgement import Judgement
from probes.facts import MachineFacts
from probes.facts.measurements import BenchFailure, Measurement, MeasurementSet
from probes.judging.findings import Finding, Status
from probes.judging.reporting import HOST

GET_TORCH = "python3 -m venv .venv && .venv/bin/pip install torch"
"""Command that installs torch into `./.venv`; rigtune finds it there, unless it runs as root."""

_LOG_LINES = 8
_MOST_CASES = 4
"""Number of cases in the line of a benchmark that has just ended."""
_MOST_LINES = 3
"""Largest number of cases that are named for one log: a faulty GPU may fail in every case."""
_MUCH_NOISE = 0.1
"""Share of slow runs of good hosts from which on the page mentions the noise."""
_MOST_LINKS = 4
_DIRECTIONS = {
    "sends": "is slow when it sends",
    "receives": "is slow when it receives",
    "both": "is slow in both directions",
}


def bench_page(
    measured: MeasurementSet, judgement: Judgement | None = None, *, show_all: bool = False, width: int
) -> Page:
    """Return the page; with `show_all`, every case is shown instead of the best case of each sweep."""
    judged = Judgement() if judgement is None else judgement
    rows = _rows(measured, judged, show_all=show_all)
    return (
        _head(measured, judged),
        sick(judged),
        Section("", no_results(measured)),
        Section("", (results_table(rows, width=width),) if rows else ()),
        *drawings(measured, judged),
        section(
            "Compared to" if sources_of(rows) else "",
            [Row(source, "  ") for source in sources_of(rows)],
            indent=4,
        ),
        failures(measured.failures),
    )


def _rows(measured: MeasurementSet, judged: Judgement, *, show_all: bool) -> tuple[Result, ...]:
    return results(
        worth_a_line(measured.measurements, show_all=show_all), judged.comparisons, show_all=show_all
    )


def _head(measured: MeasurementSet, judged: Judgement) -> Section:
    """Return the interpreter and suite of the measurements, and reasons to doubt the numbers."""
    parts = (
        f"{plural(len(measured.measurements), 'measurement')}, {measured.suite} suite",
        measured.started,
        f"with {measured.interpreter}" if measured.interpreter else "",
    )
    rows = [
        Row(", ".join(filter(None, parts))),
        *(Row(words((f"! {note}", "caution"))) for note in surroundings(measured)),
    ]
    unclear = sum(comparison.status is Status.UNKNOWN for comparison in judged.comparisons)
    if unclear:
        scatter = f"? {unclear} of {plural(len(judged.comparisons), 'comparison')} not judged: the samples"
        rows.append(Row(words((f"{scatter} scatter too much, or the difference may be chance", "odd"))))
    if len(judged.comparisons) > unclear and sick(judged).is_empty and not measured.failures:
        what = "nothing that could be judged" if unclear else "nothing"
        rows.append(Row(words((f"✓ {what} is slower than its references", "good"))))
    return Section("", tuple(rows))


def sick(judgement: Judgement) -> Section:
    """Return each part that is too slow, the worst part first, with its findings and remedies."""
    rows = []
    for part in sick_parts(judgement.findings):
        finding, status = part.finding, STATUS[part.finding.status]
        rows.append(Row(words((f"{finding.subject}: {finding.summary}", status.tone)), status.badge))
        rows += [Row("; ".join(part.also), "  also")] * bool(part.also)
        if finding.remedy is not None and part.shows_remedy:
            rows.append(Row(finding.remedy.text, "  do"))
            rows += [Row(words((f"$ {finding.remedy.command}", "code")), literal=True)] * bool(
                finding.remedy.command
            )
    return Section("What is slow" if rows else "", tuple(rows), BADGE_WIDTH)


def no_results(measured: MeasurementSet) -> tuple[Row, ...]:
    """Return the benchmarks that gave no result; benchmarks with wrong results are reported as findings."""
    failed = dict.fromkeys(
        failure.bench_id for failure in measured.failures if failure.kind not in (WRONG, "stopped")
    )
    return (Row(words((f"✗ no result: {', '.join(failed)}; the reasons are below", "bad"))),) * bool(failed)


def results_section(
    measured: MeasurementSet,
    judgement: Judgement,
    *,
    waiting: Sequence[str],
    show_all: bool,
    width: int,
) -> Section:
    """Return every result with its references, then the benchmarks that have no result yet.

    The first benchmark without a result is running.
    """
    rows = _rows(measured, judgement, show_all=show_all)
    blocks: list[Block] = [results_table(rows, width=width)] if rows else []
    blocks += [Row(words((f"> {waiting[0]}", "strong")))] if waiting else []
    blocks += [Row(words((f"· queued: {', '.join(waiting[1:])}", "dim")))] if waiting[1:] else []
    blocks += [Row(words((source, "dim"))) for source in ["", *sources_of(rows)] if rows]
    return Section(title(measured.suite, measured), tuple(blocks) or (Row(words(("no result yet", "dim"))),))


def drawings(measured: MeasurementSet, judgement: Judgement) -> tuple[Section, ...]:
    """Return curves, matrices, and the latencies and bandwidths that were fitted."""
    return (
        *(Section("", (figure,)) for figure in figures(measured.measurements)),
        *matrices(measured.measurements, judgement.comparisons),
        fit_section(measured.measurements),
    )


def title(suite: str, measured: MeasurementSet) -> str:
    """Return the title, for example `Quick suite` or `Full suite, 5 benchmarks measured`."""
    done = len({entry.bench_id for entry in measured.measurements})
    return f"{suite.capitalize()} suite" + (f", {plural(done, 'benchmark')} measured" if done else "")


def failures(entries: Sequence[BenchFailure]) -> Section:
    """Return the failures: the reason, the end of the log, and the command that reproduces it.

    Equal texts appear once.
    """
    alike: dict[tuple[str, str], dict[tuple[str, str], dict[str, None]]] = {}
    for entry in entries:
        # If the user stopped the benchmark, its log is not needed.
        log = ("", "") if entry.kind == "stopped" else (entry.log_tail, entry.command)
        alike.setdefault(log, {}).setdefault((entry.subject, entry.message), {})[entry.bench_id] = None
    rows = []
    for (log_tail, command), reasons in alike.items():
        lines = [
            f"✗ {', '.join(names)} on {subject}: {message}" for (subject, message), names in reasons.items()
        ]
        more = [f"and {len(lines) - _MOST_LINES} more"] if len(lines) > _MOST_LINES and log_tail else []
        rows += [Row(words((line, "bad"))) for line in (lines[:_MOST_LINES] + more if more else lines)]
        rows += [
            Row(words((f"    | {line}", "dim")), literal=True) for line in log_tail.splitlines()[-_LOG_LINES:]
        ]
        rows += [Row(words(("    again: ", "dim"), (command, "code")), literal=True)] * bool(command)
    return Section("What failed" if rows else "", tuple(rows))


def intro(
    facts: MachineFacts | None,
    measured: MeasurementSet,
    *,
    is_live: bool,
    progress: str,
    note: str = "",
    entries: Sequence[BenchEntry] = (),
    suite: Suite = "quick",
) -> Section:
    """Return the text above the results: what is running, what can be run, or why nothing can be measured.

    `note` is a reason to doubt the numbers.
    """
    other = "quick" if suite == "full" else "full"
    offer = f"the {suite} suite: {cost(entries, facts, suite)}; f chooses the {other} suite."
    if progress:
        lines = [words((progress, "strong"), ("   . stops it", "dim"))]
    elif not is_live:
        lines = [
            words(("Nothing can be measured here.", "strong")),
            words(
                "This is not the live machine, so the plan uses published figures. "
                "Start rigtune on the machine to measure it."
            ),
        ]
    elif lacks_torch(facts):
        lines = [
            words(("No training interpreter with torch was found, so nothing can be measured.", "caution")),
            words("To install torch in ./.venv, where rigtune looks for it, run this command, then press r:"),
            words((f"  {GET_TORCH}", "code")),
            words(
                (
                    "If you use another folder, or are root, start rigtune with --python .venv/bin/python. "
                    "Planning works without it, from published figures.",
                    "dim",
                )
            ),
        ]
    elif measured.measurements or measured.failures:
        python = f" with {measured.interpreter}" if measured.interpreter else ""
        lines = [words(("Measured", "strong"), f"{python}.  ", (f"s measures {offer}", "dim"))]
        lines += [spans(row.text) for row in no_results(measured)]
    else:
        lines = [
            words(("Nothing was measured yet.", "strong"), f"  s starts {offer}"),
            words("After the measurement, the plan uses the measured rates."),
        ]
    return Section("", tuple(map(Row, [*lines, *[words((f"! {note}", "caution"))] * bool(note)])))


def lacks_torch(facts: MachineFacts | None) -> bool:
    """Return whether the facts show that no interpreter with torch exists."""
    return facts is not None and (facts.training.path is None or facts.training.torch_version is None)


class SickPart(NamedTuple):
    """A part of the machine that is slower than it should be or gives wrong results."""

    finding: Finding
    """The finding about the worst fault of the part."""
    also: tuple[str, ...]
    """Other statements about the part; the cause is left out if the first finding already states it."""
    shows_remedy: bool
    """False if an earlier part has the same remedy."""


def sick_parts(findings: Iterable[Finding]) -> tuple[SickPart, ...]:
    """Return parts with failures before those with warnings, in the order of the findings.

    A finding about the host, or about all ranks together, has its own part.
    """
    counting = [finding for finding in findings if finding.waived is None]
    groups = grouped(
        (finding.subject if _is_part(finding.subject) else id(finding), finding)
        for status in (Status.FAIL, Status.WARN)
        for finding in counting
        if finding.status is status
    )
    parts, remedies = [], set()
    for first, *rest in groups.values():
        also = tuple(dict.fromkeys(_without_cause(finding.summary, first.summary) for finding in rest))
        parts.append(
            SickPart(first, also, shows_remedy=first.remedy is not None and first.remedy not in remedies)
        )
        remedies.add(first.remedy)
    return tuple(parts)


def _is_part(subject: str) -> bool:
    return subject != HOST and not subject.endswith((" rank", " ranks"))


def _without_cause(summary: str, first: str) -> str:
    cause = first.partition(": ")[2]
    return summary.removesuffix(f": {cause}") if cause else summary


def brief_lines(measurements: Sequence[Measurement]) -> list[str]:
    """Return the last results, one line per benchmark and subject.

    An example is `gemm  GPU0-7  GEMM bf16 8192³ 705 TFLOP/s (GPU5 -18 %), fp32 8192³ 52 TFLOP/s`.
    """
    rows = results(
        [entry for entry in measurements if entry.metric not in SECONDARY and not is_link(entry)],
        show_all=False,
    )
    subjects = dict.fromkeys((row.bench_id, row.subject) for row in rows)
    lines = [_brief_line(bench_id, subject, rows) for bench_id, subject in subjects]
    for bench_id in dict.fromkeys(entry.bench_id for entry in measurements):
        pairs = {pair_of(entry) for entry in measurements if entry.bench_id == bench_id and is_link(entry)}
        lines += [f"{bench_id}  {plural(len(pairs), 'pair')}"] * bool(pairs)
    return lines


def _brief_line(bench_id: str, subject: str, rows: Sequence[Result]) -> str:
    mine = [row for row in rows if (row.bench_id, row.subject) == (bench_id, subject)]
    mine = list({(row.metric, case(row.parameters), row.median): row for row in mine}.values())
    phrases, before = [], ("", "")
    for row in mine[:_MOST_CASES]:
        name, what = now = name_of(row.bench_id, row.metric, row.parameters), case(row.parameters)
        parts = (
            name if name != before[0] else "",
            what if what != before[1] or name == before[0] else "",
            quantity(row.median, row.unit),
            f"({row.slowest})" if row.slowest else "",
        )
        phrases.append(" ".join(filter(None, parts)))
        before = now
    more = f", and {len(mine) - _MOST_CASES} more" if len(mine) > _MOST_CASES else ""
    return f"{bench_id}  {subject}  {', '.join(phrases)}{more}"


def hosts_page(result: HostSearch) -> Page:
    """Return each bad host and link with its slow rates on the next lines, then the cost of the search."""
    lines = [line for fault in result.bad_hosts for line in _host(fault)]
    for link in result.bad_links:
        lines.append(
            f"link between {link.first} and {link.second}: slow, but both hosts are fast with other hosts"
        )
        lines += _rates(link.rates)
    lines += [f"slow, but the cause is unclear: {', '.join(group)}" for group in result.unresolved]
    lines += [f"no answer: {', '.join(group)}: no run gave a result" for group in result.silent_groups]
    lines += [f"{each.host}: left out: {each.reason}" for each in result.left_out]
    if result.slow_by_chance >= _MUCH_NOISE:
        lines.append(
            f"the measurements vary: good hosts were slow in {result.slow_by_chance:.0%} of their runs"
        )
    if not result.complete:
        lines.append("the search was stopped")
    elif not result.runs:
        lines.append("nothing was measured: fewer than two hosts can be used")
    elif not (result.bad_hosts or result.bad_links or result.unresolved or result.silent_groups):
        measured = len(result.hosts) - len(result.left_out)
        lines.append(f"all {measured} hosts and the links between them are equally fast")
    saved = f" instead of {result.all_pairs} pairs" if result.runs < result.all_pairs else ""
    runs = f"{plural(result.runs, 'run')} in {plural(result.rounds, 'round')}{saved}"
    if result.pairs_measured < result.all_pairs:
        runs += f"; {result.pairs_measured} of {result.all_pairs} links were measured"
    if result.reference_bytes_per_s:
        runs += (
            f"; a pair counts as slow below {result.slow_below:.0%} of the fast pairs, "
            f"{quantity(result.reference_bytes_per_s, 'byte/s')}"
        )
    lines.append(runs)
    return (Section("", tuple(Row(line, literal=True) for line in lines)),)


def _host(fault: HostFault) -> list[str]:
    if fault.kind != "slow":
        return [f"{fault.host}: {fault.kind}: {fault.message}"]
    return [f"{fault.host}: {_DIRECTIONS.get(fault.slow_direction, 'is slow')}", *_rates(fault.links)]


def _rates(rates: tuple[Rate, ...]) -> list[str]:
    lines = [
        f"  {rate.sender} -> {rate.receiver}  {quantity(rate.bytes_per_s, 'byte/s')}"
        for rate in rates[:_MOST_LINKS]
    ]
    return [*lines, *[f"  and {len(rates) - _MOST_LINKS} more"] * (len(rates) > _MOST_LINKS)]
