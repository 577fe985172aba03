"""Run the main job in one go: probe, check, quick benchmark, plan, export.

The result of each stage is saved as soon as the stage ends.
"""

import shlex
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import msgspec

from assistant.storage import clear_partial_files, make_directory, read_bytes, write_bytes, write_record
from assistant.usecases.bench.bench_context import machine_id, shape_of
from assistant.usecases.check import check_machine
from assistant.usecases.events import Event, StageStarted, Written, result_of, stage
from assistant.usecases.export import (
    ChangedFileError,
    batch_system_of,
    export_recipe,
    how_to_start,
    refuse_edited_export,
    refuse_edited_recipe,
)
from assistant.usecases.measure import MeasureOptions, measure_machine
from assistant.usecases.model_file import model_named
from assistant.usecases.own_program import warned_plan
from assistant.usecases.plan import PlanRequest, plan_workload
from assistant.usecases.probe import probe_machine
from probes.base.errors import StoppedError
from probes.base.record import Record, from_json, known, value_or
from probes.base.units import plural
from probes.bench.bench_report import report_of
from probes.bench.bench_requests import BenchSettings
from probes.catalogue.hardware import load_catalogue
from probes.collect.collecting import CollectOptions
from probes.facts import MachineFacts
from probes.facts.measurements import MeasuredMachine, MeasurementSet
from probes.judging.findings import Evidence
from probes.judging.verdict import Verdict
from probes.sources.base import Source
from recipes.job.workload import TransformerModel
from recipes.launch.launch_files import able_launchers
from recipes.launch.program_limits import command_without_script, require_files, require_script
from recipes.launch.recipe import Command, Recipe
from recipes.launch.recipe_file import dump_recipe
from recipes.launch.resolve import recipe_of, require_program
from recipes.machine.measured_on import machine_words, measured_machine
from recipes.planning.plan import Plan
from recipes.planning.programs import OWN, program_named

Stoppable = Callable[[], AbstractContextManager[Callable[[], bool]]]
"""A context in which the user can stop the work. Its value is a function that returns whether to stop."""


def never_stopped() -> AbstractContextManager[Callable[[], bool]]:
    return nullcontext(lambda: False)


class AutoOptions(Record, kw_only=True):
    """The settings of the main job."""

    directory: str
    request: PlanRequest = PlanRequest()
    command: Command = Command(kind="reference")
    collect: CollectOptions = CollectOptions()
    measure: bool = True
    """False if the facts describe another machine, so that nothing can be measured."""
    overwrite: bool = False
    """Replace the results of another machine, and recipes and scripts that a person edited."""


class AutoResult(Record, kw_only=True):
    """The results of all stages and the files that they wrote."""

    schema_version: int = 1
    directory: str
    facts: MachineFacts
    verdict: Verdict
    measurements: MeasurementSet
    plan: Plan
    scripts: tuple[str, ...]
    """The scripts that start training, and the tests that they run first on each node (`preflight.sh`)."""
    start: str
    """The shell command that starts training here."""
    start_remark: str = ""
    """A sentence about this command and the other way to start on a site with Slurm; empty elsewhere."""
    cannot_start: str = ""
    """Reason why the scripts cannot run on this machine yet; empty if they can or need not run here."""
    is_for_here: bool = True
    """False if the scripts are for another machine."""


@stage("auto")
def auto(
    source: Source, options: AutoOptions, stoppable: Stoppable = never_stopped
) -> Generator[Event, None, AutoResult]:
    """Run every stage and write the results to `options.directory`.

    The last event's result is an `AutoResult`. Files of an earlier run for this machine in that folder are
    replaced stage by stage, even if that run was killed. `stoppable` is active while the machine is measured;
    if the user then stops, the measurements are saved and StoppedError names their file. Raises the errors of
    the stages. Without `overwrite`, also raises ChangedFileError for a run of another machine and for edited
    files, before anything is measured or written.
    """
    if options.request.model:
        require_program(model_named(options.request.model), options.command)
    program = program_named(options.request.program or OWN).id
    require_files(program)
    require_script(program, options.command)
    directory = Path(options.directory)
    if not options.overwrite:
        refuse_edited_recipe(directory / "recipe.toml", "rigtune auto")
        refuse_edited_export(directory / "launch", "rigtune auto")
    make_directory(directory)
    clear_partial_files(directory)
    yield StageStarted(stage="auto", title=f"Writing to {directory}")

    probing = probe_machine(source, options.collect)
    facts: MachineFacts = yield from _saved(
        probing, directory / "facts.json", "facts", None if options.overwrite else _refuse_other_machine
    )
    verdict: Verdict = yield from _saved(
        check_machine(Evidence(facts=facts, catalogue=load_catalogue())),
        directory / "findings.json",
        "findings",
    )
    measured = MeasurementSet(suite="none")
    if options.measure:
        path = directory / "measurements.json"
        with stoppable() as is_stopped:
            events = measure_machine(facts, _measure_options(options), is_stopped)
            measured = yield from _saved(events, path, "measurements", as_written=report_of)
            was_stopped = is_stopped()
        if was_stopped:
            if not measured.measurements:
                raise StoppedError("interrupted; no measurement was finished", "give the same command again")
            raise StoppedError(
                f"interrupted; {plural(len(measured.measurements), 'measurement')} saved: {path}",
                f"rigtune plan --measurements {shlex.quote(str(path))} makes a plan from them",
            )
    plan: Plan = yield from _saved(
        plan_workload(facts, measured.measurements, options.request),
        directory / "plan.json",
        "plan with its reasons",
    )
    plan = warned_plan(plan, options.command)

    is_own = options.command.kind != "reference"
    recipe = recipe_of(
        plan,
        name=plan.workload.model.id,
        command=options.command if is_own else command_without_script(plan.chosen.program),
        python=options.collect.python or value_or(facts.training.path, None) or "",
        facts=facts,
    )
    write_bytes(directory / "recipe.toml", dump_recipe(recipe).encode())
    yield Written(
        path=str(directory / "recipe.toml"), what="recipe (to change it, edit this file and export again)"
    )
    launchers = able_launchers(recipe)
    paths: tuple[Path, ...] = yield from result_of(
        export_recipe(recipe, launchers, directory / "launch", overwrite=options.overwrite),
        announces_end=True,
    )
    start, start_remark = _how_to_start(recipe, launchers, str(directory / "launch"), facts, options)
    scripts = tuple(str(path) for path in paths if path.suffix in (".sh", ".sbatch"))
    return AutoResult(
        directory=str(directory),
        facts=facts,
        verdict=verdict,
        measurements=measured,
        plan=plan,
        scripts=scripts,
        start=start,
        start_remark=start_remark,
        cannot_start=measured.hindrance,
        is_for_here=options.measure,
    )


def _how_to_start(
    recipe: Recipe, launchers: tuple[str, ...], folder: str, facts: MachineFacts, options: AutoOptions
) -> tuple[str, str]:
    """Return the command that starts training, and a sentence about it on a site with Slurm.

    A job of Slurm already has GPUs for torchrun on this node; outside a job, only sbatch reserves GPUs.
    """
    here = how_to_start(recipe, launchers[0], folder)
    if batch_system_of(facts) != "slurm" or not {"torchrun", "slurm"}.issubset(launchers):
        return here, ""
    submitted, nodes = how_to_start(recipe, "slurm", folder), recipe.parallelism.nodes
    script = shlex.quote(f"{folder}/launch.sh")
    if value_or(facts.scheduler.kind, None) != "slurm" or not options.measure:
        return submitted, f"{script} starts torchrun without Slurm, which then reserves no GPU for it."
    job = f"Slurm job {value_or(facts.scheduler.job_id, None) or 'of this shell'}"
    if nodes == 1:
        held = value_or(facts.scheduler.node_count, None) or 1
        others = f", one of the job's {plural(held, 'node')}" if held > 1 else ""
        return here, (
            f"This command starts torchrun on this node{others}, inside {job}. From a shell on another node, "
            f"put `srun --nodes=1 --ntasks=1` before it. For a job of its own: {submitted}"
        )
    inside = shlex.join(("bash", "-c", f"exec {script} $SLURM_NODEID"))
    return submitted, (
        f"This command submits a new job. To use {plural(nodes, 'node')} of {job} instead: "
        f"MASTER_ADDR=ADDRESS_OF_THE_FIRST srun --nodes={nodes} --ntasks-per-node=1 {inside}"
    )


def _measure_options(options: AutoOptions) -> MeasureOptions:
    """Return options that measure the ranks that the plan will use.

    A busy host is accepted: a measurement with a warning is better than none.
    """
    named = model_named(options.request.model) if options.request.model else None
    return MeasureOptions(
        suite="quick",
        python=options.collect.python,
        ranks_per_node=options.request.pins.ranks_per_node,
        accept_busy_host=True,
        settings=BenchSettings(model=shape_of(named) if isinstance(named, TransformerModel) else {}),
    )


def _saved(
    events: Iterator[Event],
    path: Path,
    what: str,
    refuse: Callable[[Path, Any], None] | None = None,
    *,
    as_written: Callable[[Any], Record] | None = None,
) -> Generator[Event, None, Any]:
    """Forward the events of a stage, save its result to `path` and return the result.

    `refuse` may raise an error because of a file that exists at `path`. `as_written` turns the result into
    the record that the file contains.
    """
    result = yield from result_of(events, announces_end=True)
    if refuse is not None:
        refuse(path, result)
    write_record(path, result if as_written is None else as_written(result))
    yield Written(path=str(path), what=what)
    return result


def _refuse_other_machine(path: Path, facts: MachineFacts) -> None:
    """Raise ChangedFileError if `path` contains the facts of another machine."""
    if not path.exists():
        return
    try:
        earlier = from_json(read_bytes(path), MachineFacts)
    except msgspec.DecodeError:
        owner = "a machine whose facts cannot be read"
    else:
        if _identity(earlier) == _identity(facts):
            return
        owner = machine_words(measured_machine(earlier), earlier.source)
    raise ChangedFileError(
        f"{path.parent} contains a run of {owner}, but this machine is "
        f"{machine_words(measured_machine(facts), facts.source)}",
        "choose another folder, or replace that run with `rigtune auto --overwrite`",
    )


def _identity(facts: MachineFacts) -> tuple[str, MeasuredMachine, str]:
    """Return the values that distinguish machines; the source is used only if the host name is unknown."""
    source = "" if known(facts.hostname) else facts.source
    return machine_id(facts), measured_machine(facts), source
