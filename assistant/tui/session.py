"""Keep the state of the terminal UI in one frozen record, and replace the record after each event.

Only handlers of the App replace the state; screens only read it. `advance` is a pure function, so that every
state can be tested without a terminal.
"""

import msgspec

from assistant.pages.training.plan_form import JobRequest
from assistant.pages.training.recipe_page import Prepared
from assistant.usecases.events import (
    BenchFailed,
    Event,
    FactsGrew,
    FindingMade,
    Measured,
    Progress,
    StageFinished,
    StageStarted,
    Written,
)
from assistant.usecases.fleet.check_fleet import StoredRun
from probes.base.record import Record
from probes.bench.bench_requests import Suite
from probes.compare.measurement_judgement import Judgement
from probes.facts import MachineFacts
from probes.facts.measurements import MeasurementSet
from probes.fleet.node_report import NodeReport
from probes.judging.findings import Finding
from probes.judging.verdict import Verdict
from probes.logs.diagnosis import Explanation
from recipes.planning.plan import Plan


class Running(Record, frozen=True, kw_only=True):
    """A stage under way."""

    stage: str
    title: str
    message: str = ""
    done: int = 0
    total: int = 0
    remaining_s: float | None = None


class Problem(Record, frozen=True, kw_only=True):
    """The reason why a stage gave no result, and the remedy."""

    stage: str
    message: str
    hint: str = ""


class State(Record, frozen=True, kw_only=True):
    """Everything that the screens show."""

    source_title: str = ""
    is_live: bool = True
    facts: MachineFacts | None = None
    facts_complete: bool = False
    findings: tuple[Finding, ...] = ()
    verdict: Verdict | None = None
    measured: MeasurementSet = MeasurementSet()
    suite: Suite = "quick"
    """The suite of the next benchmark run."""
    judgement: Judgement = Judgement()
    """The findings and comparisons of `measured`; empty until the measurements were judged."""
    measuring_note: str = ""
    """A remark on all results of the last run, for example that other programs used the machine."""
    job: JobRequest = JobRequest()
    """The job that the user asked for."""
    plan: Plan | None = None
    prepared: Prepared | None = None
    """The recipe of the plan and the files of every launcher."""
    written: tuple[str, ...] = ()
    """Files of the last export."""
    exported_launcher: str = ""
    """Id of the launcher whose files were exported."""
    log: str = ""
    """Path of the log that was explained last."""
    explanation: Explanation | None = None
    """Explanation of that log."""
    fleet: StoredRun | None = None
    """The run of a fleet whose nodes are listed."""
    report: NodeReport | None = None
    """The report of the opened node, from which the facts and the verdict come; None for a machine."""
    running: tuple[Running, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def has_machine(self) -> bool:
        """Return False while only the report of a node is known."""
        return self.report is None

    def running_stage(self, stage: str) -> Running | None:
        return next((entry for entry in self.running if entry.stage == stage), None)

    def problem_of(self, stage: str) -> Problem | None:
        return next((entry for entry in self.problems if entry.stage == stage), None)


def begin(state: State, stage: str, title: str) -> State:
    """Return the state in which `stage` runs, without an earlier problem with the stage.

    Results of an earlier benchmark run or export are removed when the same stage begins again.
    """
    dropped: dict[str, dict[str, object]] = {
        "bench": {"measured": MeasurementSet(), "judgement": Judgement(), "measuring_note": ""},
        "export": {"written": ()},
    }
    return msgspec.structs.replace(
        state,
        running=(*_without(state.running, stage), Running(stage=stage, title=title)),
        problems=tuple(entry for entry in state.problems if entry.stage != stage),
        **dropped.get(stage, {}),
    )


def end(state: State, stage: str, problem: Problem | None = None) -> State:
    """Return the state after `stage` has ended, with or without a problem.

    After a problem, results of an earlier run of the stage are removed, because they belong to another
    request.
    """
    ended = msgspec.structs.replace(state, running=_without(state.running, stage))
    if problem is None:
        return ended
    dropped: dict[str, dict[str, object]] = {
        "plan": {"plan": None, "prepared": None, "written": ()},
        "recipe": {"prepared": None, "written": ()},
    }
    return msgspec.structs.replace(ended, problems=(*state.problems, problem), **dropped.get(stage, {}))


def advance(state: State, event: Event) -> State:
    """Return the state after `event`.

    Facts and findings of an earlier probe are kept until the new facts and findings are complete.
    """
    replace = msgspec.structs.replace
    match event:
        case StageStarted():
            return replace(state, running=_changed(state.running, event.stage, title=event.title))
        case Progress(stage="bench", total=0):
            return replace(state, measuring_note=event.message)
        case Progress():
            return replace(
                state,
                running=_changed(
                    state.running,
                    event.stage,
                    message=event.message,
                    done=event.done,
                    total=event.total,
                    remaining_s=event.remaining_s,
                ),
            )
        case FactsGrew() if not state.facts_complete:
            return replace(state, facts=event.facts)
        case FindingMade() if state.verdict is None:
            return replace(state, findings=(*state.findings, event.finding))
        case Measured():
            return replace(
                state,
                measured=replace(
                    state.measured, measurements=(*state.measured.measurements, event.measurement)
                ),
            )
        case BenchFailed():
            return replace(
                state, measured=replace(state.measured, failures=(*state.measured.failures, event.failure))
            )
        case Written():
            return replace(state, written=(*state.written, event.path))
        case StageFinished():
            return _with_result(state, event)
    return state


def _with_result(state: State, event: StageFinished) -> State:
    replace = msgspec.structs.replace
    match event.result:
        case MachineFacts() as facts:
            return replace(state, facts=facts, facts_complete=True)
        case Verdict() as verdict:
            return replace(state, verdict=verdict, findings=verdict.findings)
        case MeasurementSet() as measured:
            return replace(state, measured=measured)
        case Judgement() as judgement:
            return replace(state, judgement=judgement)
        case Plan() as plan:
            return replace(state, plan=plan, prepared=None, written=())
        case Explanation() as explanation:
            return replace(state, explanation=explanation)
        case StoredRun() as run:
            return replace(state, fleet=run)
        case Prepared() as prepared:
            return replace(state, prepared=prepared)
    return state


def _without(running: tuple[Running, ...], stage: str) -> tuple[Running, ...]:
    return tuple(entry for entry in running if entry.stage != stage)


def _changed(running: tuple[Running, ...], stage: str, **changes: str | float | None) -> tuple[Running, ...]:
    return tuple(
        msgspec.structs.replace(entry, **changes) if entry.stage == stage else entry for entry in running
    )
