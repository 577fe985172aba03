"""Check every node of a fleet: each node judges itself, and the head (this machine) compares them."""

import datetime
import secrets
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

import msgspec

from assistant.engines.engine_table import EngineRow, Wanted
from assistant.engines.shipping import Shipment
from assistant.usecases.events import Event, Progress, StageStarted, stage
from assistant.usecases.fleet.fleet_store import (
    add_run,
    known_nodes,
    past_before,
    require_readable,
    update_states,
)
from assistant.usecases.fleet.run_folder import (
    RunMeta,
    began_at,
    journal,
    nodes_in,
    read_meta,
    reports_of,
    unanswered,
    write_meta,
)
from probes.base.errors import InputError, OutputError
from probes.base.record import Record
from probes.base.units import plural
from probes.fleet.advancing import Advance, FleetStates, Run, States, advance, summary_of
from probes.fleet.comparing.compare_nodes import compare_nodes
from probes.fleet.comparing.fleet_finding import FleetFinding
from probes.fleet.comparing.past import Past
from probes.fleet.fleet_result import FleetResult, result_of
from probes.fleet.joined_runs import joined
from probes.fleet.node_report import NodeEnd, NodeLine, NodeReport
from probes.fleet.question import Question
from probes.fleet.run_redaction import RunRedactor


class FleetRun(Record, kw_only=True):
    """A command, the nodes to run it on, and the folder that keeps the answers."""

    engine: EngineRow
    engine_reason: str
    nodes: tuple[str, ...]
    command: tuple[str, ...]
    limit_s: float
    folder: Path
    options: Mapping[str, str | None] = {}
    places: Mapping[str, Mapping[str, str]] = {}
    """Rack, switch and the like of each node, as far as the site knows them."""
    has_brake: bool = True
    """False if a person has decided to drain more nodes at once than the brake allows."""
    own_version: str = ""
    """Line of `rigtune --version` on the head, with which the nodes are compared."""
    ship: Shipment | None = None
    """Archives for nodes on which this rigtune is not installed."""
    question: Question | None = None
    """Question that the command asks; the folder keeps the answers to one question only."""

    @property
    def meta(self) -> RunMeta:
        """Return the facts about the run that its folder keeps."""
        return RunMeta(
            engine=self.engine.id,
            engine_reason=self.engine_reason,
            wanted=self.nodes,
            places={node: dict(values) for node, values in self.places.items()},
            question=self.question,
        )


@stage("fleet")
def check_fleet(
    run: FleetRun, store: Path | None = None, *, redacting: bool = False
) -> Generator[Event, None, FleetResult]:
    """Ask the nodes that have not answered in this folder, then judge all; the result is a FleetResult.

    Every answer is written to disk at once, so that a stopped run loses nothing, and the same command then
    asks only the missing nodes. With a `store`, parts are compared with their own earlier runs, measurements
    are stored, and the states of nodes and parts advance. With `redacting`, the result has placeholders for
    names.
    Raises OutputError if an answer cannot be kept, UsageError if the folder has the answers to another
    question, and InputError for a damaged store.
    """
    if store is not None:
        require_readable(store)
    write_meta(run.folder, run.meta)
    reports = reports_of(run.folder, run.nodes)
    missing = unanswered(run.folder, reports)
    yield from asked(run, missing, journal(run.folder))
    if missing:
        reports = reports_of(run.folder, run.nodes)
    stored = _judged(
        run.folder,
        reports,
        store,
        lambda evidence, states: advance(evidence, states, has_brake=run.has_brake),
        redacting=redacting,
        own_version=run.own_version,
        engine=run.engine.id,
    )
    return msgspec.structs.replace(stored.result, engine_reason=run.engine_reason)


def asked(
    run: FleetRun,
    missing: tuple[str, ...],
    keeping: AbstractContextManager[Callable[[NodeLine | NodeEnd], None]],
) -> Iterator[Event]:
    """Run the command on the nodes whose answers are missing; `keeping` yields the sink of answers."""
    shipped = ", ".join(archive.path.name for archive in run.ship.archives) if run.ship is not None else ""
    yield StageStarted(
        stage="fleet",
        title=f"Asking {plural(len(missing), 'node')} through {run.engine.id} ({run.engine_reason})"
        + (f"; {shipped} for those without this rigtune" if shipped else ""),
    )
    kept = len(run.nodes) - len(missing)
    yield Progress(
        stage="fleet", message=f"{plural(kept, 'answer')} kept, {plural(len(missing), 'node')} asked"
    )
    if not missing:
        return
    began = time.monotonic()
    wanted = Wanted(missing, run.command, run.limit_s, run.options, run.ship)
    with keeping as keep:
        ended: list[NodeEnd] = []

        def sink(event: NodeLine | NodeEnd) -> None:
            keep(event)
            if isinstance(event, NodeEnd):
                ended.append(event)

        engine = run.engine.load()
        engine.run(wanted, sink)
        lost = tuple(end.node for end in ended if end.outcome == "no-answer" and end.exit_code is not None)
        if lost:  # a gateway was lost on the way; the nodes behind it are asked once more, directly
            engine.run(wanted._replace(nodes=lost, options={**run.options, "direct": True}), sink)
    yield Progress(
        stage="fleet",
        message=f"{plural(len(missing), 'node')} ended within {time.monotonic() - began:.0f} s",
        done=len(missing),
        total=len(missing),
    )


class StoredRun(NamedTuple):
    """A run that was read from its folder and judged."""

    folder: Path
    reports: tuple[NodeReport, ...]
    result: FleetResult
    began_at: datetime.datetime | None
    """Start of the run; None if no node has answered."""
    questions: tuple[Question, ...] = ()
    """Question of the run, or of each joined run; a run whose question was not recorded is left out."""
    gaps: tuple[str, ...] = ()
    """Sentences on nodes that gave no verdict in one of several joined runs."""

    def report_of(self, node: str) -> NodeReport | None:
        """Return the report of a node; None if the run has no such node."""
        return next((report for report in self.reports if report.node == node), None)


@stage("fleet")
def open_run(folder: Path, store: Path | None = None) -> Generator[Event, None, StoredRun]:
    """Read and compare the answers in a folder; the result is a StoredRun. Raises InputError."""
    yield StageStarted(stage="fleet", title=f"Reading {folder}")
    return stored_run(folder, store)


def stored_run(folder: Path, store: Path | None = None, *, redacting: bool = False) -> StoredRun:
    """Return the run in a folder, with the states and the past of the `store`, which is not changed.

    Raises InputError if `folder` is no folder of a run.
    """
    return stored_runs((folder,), store, redacting=redacting)


def stored_runs(folders: Sequence[Path], store: Path | None = None, *, redacting: bool = False) -> StoredRun:
    """Return the runs in several folders as one, in the order of their starts; see `stored_run`."""
    by_start = sorted(folders, key=lambda folder: began_at(_run_folder(folder)) or 0.0)
    metas = [read_meta(folder) for folder in by_start]
    runs = {}
    for number, (folder, meta) in enumerate(zip(by_start, metas, strict=True), 1):
        reports = reports_of(folder, meta.wanted if meta is not None else nodes_in(folder))
        if not reports:
            raise InputError(f"{folder} has no answers of nodes", "name a folder of `rigtune fleet check`")
        runs[f"run {number}" if redacting else str(folder)] = reports
    reports, gaps = joined(runs)
    kept = store if store is not None and store.exists() else None
    engine = next((meta.engine for meta in reversed(metas) if meta is not None), "stored")
    first = _moment(began_at(by_start[0]))  # only measurements before the oldest run are the past
    run = _judged(
        by_start[-1], reports, kept, None, redacting=redacting, engine=engine, gaps=gaps, first=first
    )
    questions = tuple(meta.question for meta in metas if meta is not None and meta.question is not None)
    return run._replace(questions=tuple(each.redacted() for each in questions) if redacting else questions)


def _run_folder(folder: Path) -> Path:
    """Return the folder of a run. Raises InputError if it is none."""
    if not folder.is_dir():
        problem = "is not a folder" if folder.exists() else "does not exist"
        raise InputError(f"{folder} {problem}", "name a folder of `rigtune fleet check`")
    return folder


class _Known(NamedTuple):
    """The comparison of a run, and what the store has added to it."""

    findings: tuple[FleetFinding, ...]
    past: Past = {}
    states: FleetStates | None = None
    notes: tuple[str, ...] = ()


Step = Callable[[Run, States], Advance]


def _judged(
    folder: Path,
    reports: tuple[NodeReport, ...],
    store: Path | None,
    step: Step | None,
    *,
    redacting: bool,
    own_version: str = "",
    engine: str = "stored",
    gaps: tuple[str, ...] = (),
    first: datetime.datetime | None = None,
) -> StoredRun:
    """Return the run in a folder; a `step` is applied to the states in the store, and the run is added.

    The reports are compared with measurements before `first`, or before the start of the run.
    """
    start = _moment(began_at(folder))
    if store is None or start is None:
        known = _Known(compare_nodes(reports))
    else:
        name = f"{folder.name} {start.isoformat()}"
        known = _with_store(name, start, reports, store, step, past_until=first or start)
    why = f"answers in {folder}"
    if redacting:
        hidden = RunRedactor(reports, salt=secrets.token_bytes())
        reports, why = tuple(map(hidden.report, reports)), "answers of an earlier run"
        gaps = tuple(map(hidden.text, gaps))
        known = known._replace(
            findings=compare_nodes(reports, hidden.past(known.past)),
            states=hidden.states(known.states) if known.states is not None else None,
            notes=tuple(map(hidden.text, known.notes)),
        )
    result = result_of(
        reports,
        known.findings,
        engine=engine,
        engine_reason=why,
        own_version=own_version,
        states=known.states,
        notes=known.notes,
    )
    return StoredRun(folder, reports, result, start, gaps=gaps)


def _moment(seconds: float | None) -> datetime.datetime | None:
    return None if seconds is None else datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)


def _with_store(
    name: str,
    start: datetime.datetime,
    reports: tuple[NodeReport, ...],
    store: Path,
    step: Step | None,
    *,
    past_until: datetime.datetime,
) -> _Known:
    """Compare the nodes with their past too, add the run to the store, and advance all states.

    The start of a run identifies it: a second call for its missing nodes has the same start. If the store
    cannot be written, a note reports this, because the answers of the nodes are kept already.
    """
    try:
        past = past_before(store, past_until, reports)
        findings = compare_nodes(reports, past)
        if step is not None:
            add_run(store, name, start, reports)
        run = Run(
            name=name, at=start, reports=reports, findings=findings, past=past, known=known_nodes(store)
        )
        states, changes = update_states(
            store, name, lambda before: step(run, before) if step is not None else Advance({}, ())
        )
    except OutputError as error:
        return _Known(compare_nodes(reports), notes=(f"No state of a node is known or kept: {error}.",))
    return _Known(findings, past, summary_of(run, states, changes))
