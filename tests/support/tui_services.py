"""Services that answer from records, so that tests reach every state of the terminal UI without a machine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

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
from assistant.usecases.plan import PlanRequest
from probes.bench.bench_requests import Suite
from probes.compare.measurement_judgement import Judgement
from probes.facts import MachineFacts
from probes.facts.measurements import Measurement, MeasurementSet
from probes.judging.verdict import Verdict
from probes.logs.diagnosis import Diagnosis, EvidenceLine, Explanation
from recipes.launch.recipe import Command, Recipe
from recipes.planning.plan import Plan
from tests.support.tui_machines import faulty_server, faulty_verdict
from tests.support.tui_measured import judged_on_gpus, measured_on_gpus
from tests.support.tui_plans import gpu_plan, prepared

EXPLANATION = Explanation(
    state="fault",
    diagnoses=(
        Diagnosis(
            cause_id="duplicate-gpu",
            confidence=0.95,
            summary="Two ranks use one GPU.",
            remedy="Choose the GPU by the local rank.",
            evidence=(
                EvidenceLine(source="job.log", line=7, text="trn-1:1:2 [0] NCCL WARN Duplicate GPU detected"),
            ),
        ),
    ),
    sources=("job.log",),
)


class ScriptedServices:
    """Use cases that yield prepared records.

    `raising` names stages that fail, `holds` stages that wait until they are stopped.
    """

    is_live = True
    models = ("gpt2", "llama-3-8b", "rigtune-mini")

    def __init__(
        self,
        directory: Path,
        *,
        facts: MachineFacts | None = None,
        verdict: Verdict | None = None,
        measured: MeasurementSet | None = None,
        made_plan: Plan | None = None,
        made_recipe: Prepared | None = None,
        title: str = "live",
        raising: dict[str, Exception] | None = None,
        holds: frozenset[str] = frozenset(),
        note: str = "",
        judgement: Judgement | None = None,
    ) -> None:
        self.title = title
        self.directory = str(directory / "launch")
        self.facts = facts if facts is not None else faulty_server()
        self.verdict = verdict if verdict is not None else faulty_verdict()
        self.measured = measured if measured is not None else measured_on_gpus()
        self.made_plan = made_plan if made_plan is not None else gpu_plan()
        self.made_recipe = made_recipe if made_recipe is not None else prepared()
        self.raising = raising or {}
        self.holds = holds
        self.note = note
        self.judgement = judgement if judgement is not None else judged_on_gpus()
        self.suites: list[str] = []
        self.pinned: list[MeasurementSet] = []
        self.release = threading.Event()
        """Event that lets the stages in `holds` continue; `opened` sets the event when the test ends."""
        self.calls: list[str] = []
        self.requests: list[PlanRequest] = []
        self.commands: list[Command] = []
        self.overwrites: list[bool] = []
        self.reports: list[str] = []
        self.closed: list[str] = []
        self._folder = directory

    def probe(self) -> Iterator[Event]:
        yield from self._begin("probe")
        yield Progress(stage="probe", message="GPUs", done=1, total=2)
        yield FactsGrew(facts=MachineFacts(gpus=self.facts.gpus))
        yield from self._hold("probe")
        yield StageFinished(stage="probe", result=self.facts)

    def check(self, facts: MachineFacts, measured: MeasurementSet) -> Iterator[Event]:
        yield from self._begin("check")
        for finding in self.verdict.findings:
            yield FindingMade(finding=finding)
        yield StageFinished(stage="check", result=self.verdict)

    def measure(self, facts: MachineFacts, stop: Callable[[], bool], suite: Suite) -> Iterator[Event]:
        self.suites.append(suite)
        try:
            yield from self._begin("bench")
            if self.note:
                yield Progress(stage="bench", message=self.note)
            for measurement in self.measured.measurements:
                yield Measured(measurement=measurement)
            while "bench" in self.holds and not stop() and not self.release.wait(0.01):
                pass
            if stop():
                return
            for failure in self.measured.failures:
                yield BenchFailed(failure=failure)
            yield StageFinished(stage="bench", result=self.measured)
        finally:
            self.closed.append("bench")

    def judge(self, facts: MachineFacts, measured: MeasurementSet) -> Iterator[Event]:
        yield from self._begin("judge")
        yield StageFinished(stage="judge", result=self.judgement)

    def pin(self, facts: MachineFacts, measured: MeasurementSet) -> str:
        self.pinned.append(measured)
        return "pinned.json"

    def plan(
        self, facts: MachineFacts, measurements: tuple[Measurement, ...], request: PlanRequest
    ) -> Iterator[Event]:
        self.requests.append(request)
        yield from self._begin("plan")
        yield StageFinished(stage="plan", result=self.made_plan)

    def prepare(self, plan: Plan, facts: MachineFacts, command: Command) -> Iterator[Event]:
        self.commands.append(command)
        yield from self._begin("recipe")
        yield StageFinished(stage="recipe", result=self.made_recipe)

    def export(self, recipe: Recipe, launcher: str, directory: str, *, overwrite: bool) -> Iterator[Event]:
        self.overwrites.append(overwrite)
        yield from self._begin("export")
        files = next(entry for entry in self.made_recipe.launchers if entry.launcher == launcher)
        Path(directory).mkdir(parents=True, exist_ok=True)
        for artifact in files.artifacts:
            path = Path(directory) / artifact.path
            path.write_text(artifact.text)
            yield Written(path=str(path), what="launch script")
        yield StageFinished(stage="export", result=(directory,))

    def explain(self, path: str) -> Iterator[Event]:
        yield from self._begin("explain")
        yield StageFinished(stage="explain", result=EXPLANATION)

    def save_report(self, text: str) -> str:
        self.reports.append(text)
        path = self._folder / f"bug-{len(self.reports)}.txt"
        path.write_text(text)
        return str(path)

    def _begin(self, stage: str) -> Iterator[Event]:
        self.calls.append(stage)
        yield StageStarted(stage=stage, title=f"{stage} of the script")
        if stage in self.raising:
            raise self.raising[stage]

    def _hold(self, stage: str) -> Iterator[Event]:
        if stage in self.holds:
            self.release.wait(60)
        return iter(())
