"""Offer the use cases to the terminal UI."""

import sys
from collections.abc import Callable, Generator, Iterator
from datetime import datetime, timezone
from pathlib import Path

import msgspec
import platformdirs

from assistant.pages.training.plan_form import REFERENCE
from assistant.pages.training.recipe_page import LauncherFiles, Prepared
from assistant.storage import write_bytes
from assistant.usecases.bench.baseline import load_baselines, pin, save_run
from assistant.usecases.bench.bench_context import machine_id
from assistant.usecases.check import check_machine, evidence_under, judge_measurements
from assistant.usecases.events import Event, Progress, StageStarted, stage
from assistant.usecases.explain import explain_logs
from assistant.usecases.export import export_recipe
from assistant.usecases.measure import MeasureOptions, measure_machine
from assistant.usecases.plan import PlanRequest, plan_workload
from assistant.usecases.probe import probe_machine
from assistant.usecases.site_slots import filled
from probes.base.errors import OutputError, UsageError
from probes.base.record import value_or
from probes.bench.bench_requests import Suite
from probes.collect.collecting import CollectOptions
from probes.compare.measurement_judgement import Judgement
from probes.facts import MachineFacts
from probes.facts.measurements import Measurement, MeasurementSet
from probes.judging.policies.policy import Policy
from probes.sources.base import Source
from recipes.job.models.counts import load_models
from recipes.launch.launch_files import launch_files
from recipes.launch.launcher_table import LAUNCHERS, LauncherRow
from recipes.launch.program_limits import command_without_script, require_runnable
from recipes.launch.recipe import Command, Recipe
from recipes.launch.resolve import recipe_of
from recipes.planning.plan import Plan
from recipes.planning.programs import OWN, REFERENCE_PROGRAM


class Services:
    """The use cases for one source, as generators of events; they run outside the thread of the UI.

    Screens never start work themselves, and tests replace this class with prepared answers.
    """

    def __init__(self, source: Source, *, python: str | None = None, directory: Path | None = None) -> None:
        self._source = source
        self._python = python
        self._directory = directory or Path.cwd() / "rigtune-run" / "launch"

    @property
    def title(self) -> str:
        """Title of the source: `live`, a recording, a catalogue machine."""
        return self._source.title

    @property
    def is_live(self) -> bool:
        """True for this machine itself, which can be measured."""
        return self._source.title == "live"

    @property
    def directory(self) -> str:
        """Folder that the export dialog proposes."""
        return str(self._directory)

    @property
    def models(self) -> tuple[str, ...]:
        """Ids of the model presets."""
        return tuple(model.id for model in load_models())

    def probe(self) -> Iterator[Event]:
        """Read the machine; the result is a MachineFacts."""
        options = CollectOptions(python=self._python, directory=str(Path.cwd()), own_python=sys.executable)
        return probe_machine(self._source, options)

    def check(self, facts: MachineFacts, measured: MeasurementSet) -> Iterator[Event]:
        """Run the checks; the result is a Verdict."""
        return check_machine(evidence_under(Policy(), facts, today=None, measured=measured))

    def measure(self, facts: MachineFacts, stop: Callable[[], bool], suite: Suite) -> Iterator[Event]:
        """Measure until the end or until `stop` returns True; the result is a MeasurementSet."""
        return measure_machine(
            facts, MeasureOptions(suite=suite, python=self._python, accept_busy_host=True), stop
        )

    @stage("judge")
    def judge(self, facts: MachineFacts, measured: MeasurementSet) -> Generator[Event, None, Judgement]:
        """Compare with earlier runs, and store a complete run for later runs; the result is a Judgement."""
        yield StageStarted(stage="judge", title="Comparing")
        named = msgspec.structs.replace(measured, machine=machine_id(facts))
        notes: list[str] = []
        judgement = judge_measurements(
            facts, named, load_baselines(named.machine, notes.append, moment=named.started)
        )
        if measured.started:  # known only for a run that has ended
            try:
                save_run(named)
            except OutputError as error:
                notes.append(f"this run is not kept for later comparisons: {error.message}")
        yield from (Progress(stage="judge", message=words) for words in notes)
        return judgement

    def pin(self, facts: MachineFacts, measured: MeasurementSet) -> str:
        """Store `measured`, so that later runs are compared with it, and return its file."""
        return str(pin(msgspec.structs.replace(measured, machine=machine_id(facts))))

    def plan(
        self, facts: MachineFacts, measurements: tuple[Measurement, ...], request: PlanRequest
    ) -> Iterator[Event]:
        """Make a plan for the requested program, the user's own, or the reference workload; the result is a
        Plan.
        """
        program = request.program or (OWN if request.keeps_program else REFERENCE_PROGRAM)
        return plan_workload(facts, measurements, msgspec.structs.replace(request, program=program))

    @stage("recipe")
    def prepare(self, plan: Plan, facts: MachineFacts, command: Command) -> Generator[Event, None, Prepared]:
        """Make the recipe of a plan and its files; the result is a Prepared.

        Raises UsageError if rigtune cannot write launch files for the program of the plan, and for a site
        file that cannot be read.
        """
        yield StageStarted(stage="recipe", title="Writing the recipe")
        recipe = recipe_of(
            plan,
            name=plan.workload.model.id,
            command=command if command != REFERENCE else command_without_script(plan.chosen.program),
            python=self._python or value_or(facts.training.path, None) or "",
            facts=facts,
        )
        require_runnable(recipe)
        recipe = filled(recipe, (), ())
        return Prepared(recipe=recipe, launchers=tuple(_files_of(recipe, row) for row in LAUNCHERS))

    def export(self, recipe: Recipe, launcher: str, directory: str, *, overwrite: bool) -> Iterator[Event]:
        """Write the launch files; the result is the tuple of their paths."""
        return export_recipe(recipe, (launcher,), Path(directory).expanduser(), overwrite=overwrite)

    def explain(self, path: str) -> Iterator[Event]:
        """Explain a log or a folder of logs; the result is an Explanation."""
        return explain_logs((str(Path(path).expanduser()),))

    def save_report(self, text: str) -> str:
        """Save `text`, the traceback of a bug, and return its file."""
        name = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S%fZ.txt")
        path = platformdirs.user_state_path("rigtune") / "bugs" / name
        write_bytes(path, text.encode("utf-8", "backslashreplace"), mode=0o600)
        return str(path)


def _files_of(recipe: Recipe, row: LauncherRow) -> LauncherFiles:
    """Return the files of one launcher, or the reason why it cannot start this recipe."""
    try:
        return LauncherFiles(launcher=row.id, title=row.title, artifacts=launch_files(recipe, row.id))
    except UsageError as error:
        return LauncherFiles(launcher=row.id, title=row.title, problem=f"{error.message}: {error.hint}")
