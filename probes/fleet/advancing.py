"""Advance the states of nodes and parts with the result of one run, and report what changed."""

import datetime
import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from probes.base.grouping import grouped
from probes.base.record import Record, StrictRecord
from probes.base.rows import load_rows
from probes.fleet.comparing.fleet_finding import FleetFinding
from probes.fleet.comparing.limits import limit
from probes.fleet.comparing.past import Past
from probes.fleet.comparing.peers import can_judge
from probes.fleet.comparing.series import series_of
from probes.fleet.node_report import Metric, NodeReport, disputed_parts, part_ids
from probes.fleet.states import (
    MOST_FAILURES,
    OUT_OF_SERVICE,
    Condition,
    Observation,
    PartState,
    brake_reason,
    is_lemon,
    lapsed,
    observed,
    quarantined,
    repaired,
)
from probes.judging.findings import Status
from probes.judging.reporting import unfolded

States = Mapping[str, PartState]
_CHECK_OF_KIND = {"slow-part": "peers", "suspect-part": "peers", "slower-than-before": "past"}
"""The comparison, with peers or with the past, behind each kind of finding that fails a part."""


class Proof(StrictRecord, kw_only=True):
    """A check whose FAIL is proof after one run."""

    id: str
    why: str
    source: str
    date: str


@functools.lru_cache(maxsize=1)
def load_proofs() -> dict[str, Proof]:
    """Return the rows of `probes/data/fleet_proof.toml` by the id of their check."""
    return {row.id: row for row in load_rows("probes", "proofs", Proof, file="fleet_proof")}


class StateChange(Record, kw_only=True):
    """One change of the state of a node or a part."""

    subject: str
    at: datetime.datetime
    before: Condition
    after: Condition
    check_id: str = ""
    reason: str = ""
    run: str = ""
    """Name of the run that caused the change."""


class FleetStates(Record, kw_only=True):
    """The states of the nodes and parts of a run that an operator must know."""

    changes: tuple[StateChange, ...] = ()
    """Changes by this run."""
    out: tuple[PartState, ...] = ()
    """Nodes that jobs should not get: confirmed, quarantined, or repaired and not yet tested."""
    suspects: tuple[PartState, ...] = ()
    """Nodes and parts that failed a check that must fail again to confirm the fault."""
    probation: tuple[PartState, ...] = ()
    """Nodes and parts that passed their tests after a repair, and are in service again."""
    lemons: tuple[PartState, ...] = ()
    """Nodes and parts that fail again and again."""
    held_back: tuple[str, ...] = ()
    """Confirmed nodes that are not quarantined, because too many nodes would be drained at once."""
    brake: str = ""
    """Reason why the nodes are held back; empty if none is."""

    @property
    def drained(self) -> tuple[str, ...]:
        """Nodes that this run quarantined."""
        return tuple(change.subject for change in self.changes if change.after == "quarantined")

    @property
    def ended(self) -> tuple[str, ...]:
        """Nodes and parts whose probation this run ended."""
        return tuple(
            change.subject
            for change in self.changes
            if (change.before, change.after) == ("probation", "healthy")
        )


class Run(Record, kw_only=True, dict=True):
    """A run over a fleet, with the findings about it and the earlier results of its parts."""

    name: str
    """Unique name of the run."""
    at: datetime.datetime
    reports: Sequence[NodeReport]
    findings: Sequence[FleetFinding]
    past: Past = {}
    known: Set[str] = frozenset()
    """Nodes of the site that answered in earlier runs."""

    def nodes(self) -> Set[str]:
        """Return the nodes of the site that answered in this run or in an earlier run."""
        return self.known | {report.node for report in self.reports if report.verdict is not None}

    @functools.cached_property
    def own_parts(self) -> dict[str, frozenset[str]]:
        """The parts of each node, without ids that identify no single part (see `disputed_parts`)."""
        others = self.known | disputed_parts(self.reports).keys()
        return {report.node: frozenset(part_ids(report) - others) for report in self.reports}

    @functools.cached_property
    def failures(self) -> dict[str, dict[tuple[str, str], str]]:
        """The failed checks of each node with a verdict, and of its parts, with their reasons."""
        compared = (finding for finding in self.findings if finding.kind in _CHECK_OF_KIND)
        slow = grouped((finding.nodes[0], finding) for finding in compared)
        return {
            report.node: dict(_failures(report, self.own_parts[report.node], slow.get(report.node, ())))
            for report in self.reports
            if report.verdict is not None
        }


class Advance(NamedTuple):
    """The states that a run changed."""

    states: dict[str, PartState]
    changes: tuple[StateChange, ...]


def advance(run: Run, states: States, *, has_brake: bool = True) -> Advance:
    """Return the states that expired suspicions, observations of the run and new quarantines change.

    If the brake holds, no node is quarantined: a person must look at what the nodes share. Without
    `has_brake`, every confirmed node is quarantined.
    """
    new: dict[str, PartState] = {}
    changes = []
    for subject, state in states.items():
        after = lapsed(state, run.at)
        if after is not state:
            new[subject] = after
        if after.condition != state.condition:
            changes.append(_change(run.name, run.at, state.condition, after))
    for observation in observations_of(run, states):
        before = new.get(observation.subject) or states.get(observation.subject)
        after = observed(before, observation)
        if after is not before:
            new[observation.subject] = after
        condition: Condition = before.condition if before else "healthy"
        if after.condition != condition:
            changes.append(_change(run.name, run.at, condition, after))
    new_out, reason = _brake(run, {**states, **new})
    for node in () if has_brake and reason else new_out:
        before = new.get(node) or states[node]
        new[node] = quarantined(before, run.at)
        changes.append(_change(run.name, run.at, before.condition, new[node]))
    return Advance(new, tuple(changes))


def repair(states: States, subjects: Iterable[str], at: datetime.datetime) -> Advance:
    """Return the states after a person has repaired these nodes or parts.

    Nodes and parts that are in service do not change.
    """
    out = [states[name] for name in subjects if name in states]
    new = {state.subject: repaired(state, at) for state in out if state.condition in OUT_OF_SERVICE}
    name = f"repaired {at.isoformat()}"
    changes = (_change(name, at, states[subject].condition, state) for subject, state in new.items())
    return Advance(new, tuple(changes))


def _change(run: str, at: datetime.datetime, before: Condition, after: PartState) -> StateChange:
    return StateChange(
        subject=after.subject,
        at=at,
        before=before,
        after=after.condition,
        check_id=after.check_id,
        reason=after.reason,
        run=run,
    )


def _brake(run: Run, states: States) -> tuple[tuple[str, ...], str]:
    """Return the confirmed nodes that failed their check in this run, and why they must be held back."""
    confirmed = tuple(
        report.node
        for report in run.reports
        if (state := states.get(report.node)) is not None
        and state.condition == "confirmed"
        and (report.node, state.check_id) in run.failures.get(report.node, ())
    )
    return confirmed, brake_reason(len(confirmed), states.values(), len(run.nodes()), run.at)


def summary_of(run: Run, states: States, changes: Sequence[StateChange]) -> FleetStates:
    """Return the summary for the operator from the `states` after the run and the changes by the run."""
    nodes = {report.node for report in run.reports}
    parts = set().union(*run.own_parts.values())
    own = [state for subject, state in sorted(states.items()) if subject in nodes or subject in parts]
    confirmed, brake = _brake(run, states)
    return FleetStates(
        changes=tuple(changes),
        out=tuple(state for state in own if state.subject in nodes and state.condition in OUT_OF_SERVICE),
        suspects=tuple(state for state in own if state.condition == "suspect"),
        probation=tuple(state for state in own if state.condition == "probation"),
        lemons=tuple(state for state in own if is_lemon(state, run.at)),
        held_back=confirmed if brake else (),
        brake=brake,
    )


def observations_of(run: Run, states: States) -> Iterator[Observation]:
    """Yield the observations of a run, for each node first the passes and then the failures.

    In this order, a pass that ends an old fault does not remove a new fault. A node without a verdict has no
    observations. A pass is yielded only if the state of the subject awaits it, and never for a confirmed
    part, which must be repaired first.
    """
    judged = _judged_by_peers(run)
    for report in run.reports:
        if report.node not in run.failures:
            continue
        failures = run.failures[report.node]
        for subject in (report.node, *sorted(run.own_parts[report.node])):
            state = states.get(subject)
            if state is None or (subject != report.node and state.condition == "confirmed"):
                continue
            for check_id in state.awaited:
                if (subject, check_id) not in failures and _passes(run, report, subject, check_id, judged):
                    yield _observation(run, subject, check_id, "")
        for (subject, check_id), reason in failures.items():
            yield _observation(run, subject, check_id, reason)


def _judged_by_peers(run: Run) -> set[tuple[str, str, str]]:
    """Return node, metric and part of each value that a comparison with peers could judge."""
    answered = (report for report in run.reports if report.verdict is not None)
    return {
        (value.node, series.metric, value.part_id)
        for series in series_of(answered)
        if can_judge(series)
        for value in series.values
    }


def _observation(run: Run, subject: str, check_id: str, reason: str) -> Observation:
    return Observation(
        id=f"{run.name} {check_id}",
        subject=subject,
        check_id=check_id,
        at=run.at,
        result="fail" if reason else "pass",
        is_fact=check_id in load_proofs(),
        reason=reason,
    )


def _failures(
    report: NodeReport, own: Set[str], slow: Sequence[FleetFinding]
) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield each failed check of the node and of its own parts, with the reason."""
    failed = (reason for reason in report.reasons if reason.status is Status.FAIL)
    for reason in itertools.islice(failed, MOST_FAILURES):
        words = f"{reason.subject}: {reason.summary}"
        yield (report.node, reason.check_id), words
        for slot in itertools.islice(unfolded(reason.subject), MOST_FAILURES):
            if (part := report.parts.get(slot, "")) in own:
                yield (part, reason.check_id), f"{report.node} {slot}: {reason.summary}"
    parts = {f"{report.node} {metric.slot}": metric for metric in report.metrics} if slow else {}
    for finding in slow:
        check_id = f"{_CHECK_OF_KIND[finding.kind]} {finding.metric}"
        yield (report.node, check_id), finding.summary
        metric = parts.get(finding.subject)
        if metric is not None and metric.part_id in own:
            yield (metric.part_id, check_id), finding.summary


def _passes(
    run: Run, report: NodeReport, subject: str, check_id: str, judged: Set[tuple[str, str, str]]
) -> bool:
    """Return whether a check was carried out on the subject without a fault.

    A comparison does not count as a pass if it had too few peers, too few earlier runs, or peers in two
    separate groups.
    """
    comparison, _, name = check_id.partition(" ")
    if comparison not in _CHECK_OF_KIND.values() or not name:
        return check_id in report.passed
    measured = [
        metric
        for metric in report.metrics
        if metric.metric == name and subject in (report.node, metric.part_id)
    ]
    if comparison == "peers":
        return bool(measured) and all((report.node, name, metric.part_id) in judged for metric in measured)
    return bool(measured) and all(
        metric.quality == "good" and _has_past(run.past, metric) for metric in measured
    )


def _has_past(past: Past, metric: Metric) -> bool:
    return len(past.get((metric.metric, metric.part_id), ())) >= limit("fewest_past_runs")
