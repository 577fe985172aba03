"""`rigtune plan` and `rigtune auto`: plan how a model should run on a machine."""

from pathlib import Path
from typing import Any

import click

from assistant.cli.counting import counted_modules
from assistant.cli.diagnostics import follow, say
from assistant.cli.interrupts import stop_on_signals
from assistant.cli.options import (
    PATH,
    ProgramCommand,
    collect_options,
    facts_of,
    format_option,
    given_settings,
    measurements_for,
    plan_options,
    program_after_dashes,
    python_option,
    require_function,
    source_of,
    source_options,
    verbosity_options,
)
from assistant.cli.output import emit_answer
from assistant.cli.training_options import stated_of, training_options
from assistant.pages.training.plan_page import plan_page
from assistant.storage import default_run_directory, write_bytes
from assistant.usecases.bench.baseline import verified_steps
from assistant.usecases.export import batch_system_of, how_to_export, refuse_edited_recipe
from assistant.usecases.model_file import model_named
from assistant.usecases.own_program import warned_plan
from assistant.usecases.pinning import pins_of
from assistant.usecases.plan import PlanRequest, machine_of, plan_workload
from assistant.usecases.what_if import Place
from probes.base.errors import UsageError
from probes.base.record import quoted
from probes.facts import MachineFacts
from probes.facts.measurements import Measurement
from recipes.job.models.counted import names_own_module
from recipes.launch.program_limits import command_without_script
from recipes.launch.program_table import WRITTEN
from recipes.launch.recipe import Command
from recipes.launch.recipe_file import dump_recipe
from recipes.launch.resolve import machine_in_words, recipe_of, require_program
from recipes.launch.user_command import user_command
from recipes.planning.programs import REFERENCE_PROGRAM, program_of_command


@click.command(cls=ProgramCommand)
@click.argument("model", required=False, default="")
@source_options
@python_option
@plan_options
@training_options
@click.option(
    "--measurements",
    type=PATH,
    metavar="FILE",
    help="Rates that `rigtune bench -o FILE` measured on such a machine.",
)
@click.option(
    "--sensitivity",
    is_flag=True,
    help="Show what 10 % more of each hardware number, and one GPU fewer per node, would do.",
)
@click.option(
    "--compare",
    "others",
    multiple=True,
    metavar="MACHINE|GPU",
    help="Plan the same job on a catalogue machine or on nodes with another GPU, side by side; repeatable.",
)
@click.option(
    "--from-script",
    "scripts",
    multiple=True,
    type=PATH,
    metavar="FILE",
    help="Plan the job of an existing launch again, and show the better plan as a diff of its files; "
    "repeatable for the files of one launch. Other options give what the files do not state.",
)
@click.option(
    "--why-not",
    "strategies",
    multiple=True,
    metavar="STRATEGY",
    help="Show what a strategy of `rigtune list strategies` would gain here, or why it cannot; repeatable.",
)
@click.option("-o", "--output", type=PATH, metavar="FILE", help="Write the recipe (TOML) to this file.")
@click.option("--overwrite", is_flag=True, help="Replace a recipe that was edited, or another file.")
@format_option("text", "json")
@verbosity_options
def plan_command(
    model: str,
    from_paths: tuple[Path, ...],
    machine: str | None,
    python: str | None,
    measurements: Path | None,
    sensitivity: bool,
    others: tuple[str, ...],
    strategies: tuple[str, ...],
    scripts: tuple[Path, ...],
    output: Path | None,
    overwrite: bool,
    output_format: str,
    quiet: bool,
    verbose: bool,
    **wanted: Any,
) -> None:
    """Plan MODEL on this machine, a recording, a catalogue machine, or nodes with --gpu.

    MODEL is a preset, an image model (`rigtune list models`), a Hugging Face id, a config.json or a folder
    with one, or your own module as FILE.py:FUNCTION. Without MODEL, rigtune takes a well-known model that
    fits the machine, with a shorter sequence if need be.

    PROGRAM is your own training command after `--`, for example
    `rigtune plan llama-3-8b -o recipe.toml -- train.py --batch {micro_batch} --lr {learning_rate}`;
    if you give PROGRAM, MODEL is needed. Without PROGRAM the recipe runs the reference workload with the
    model's sizes.
    """
    command = _own_program(model, is_here=not from_paths and machine is None)
    if output is not None and not overwrite:
        refuse_edited_recipe(output, "rigtune plan")
    _require_one_machine(machine, wanted["gpu"])
    own_model = None
    if names_own_module(model):
        require_function("MODEL", model)
        own_model = counted_modules((model,), python)[model]
    if output is not None and model:
        require_program(own_model or model_named(model), command)
    node_counts: tuple[int, ...] = wanted["nodes"]
    asked = [
        name
        for name, is_asked in (
            ("several --nodes", len(node_counts) > 1),
            ("--sensitivity", sensitivity),
            ("--compare", bool(others)),
            ("--why-not", bool(strategies)),
            ("--from-script", bool(scripts)),
            ("-o", output is not None),
        )
        if is_asked
    ]
    if len(asked) > 1:
        raise UsageError(f"{asked[0]} and {asked[1]} are two questions", "ask one at a time")
    settings = {**wanted, "nodes": node_counts[0], "own_model": own_model}
    given = _given_of_script(model, settings) if scripts else {}
    request = _request_of(model, settings, command, for_recipe=output is not None)
    is_read = request.gpu is None or from_paths
    facts = facts_of(from_paths, machine, python) if is_read else MachineFacts()
    measured = measurements_for(measurements, machine_of(facts, request), quiet=quiet).measurements
    measured += _verified(facts, request)
    if asked and output is None:
        from assistant.cli.plan_questions import Questions, answer_question  # a plan alone needs no reader

        place = Place(request.gpu or machine or "this machine", facts, measured, request)
        questions = Questions(node_counts, others, strategies, scripts, given)
        answer_question(place, questions, output_format)
        return
    plan = warned_plan(follow(plan_workload(facts, measured, request), quiet=True), command)
    if command.kind == "reference":
        command = command_without_script(plan.chosen.program)
    if output is not None:
        interpreter = python or (facts.training.path if isinstance(facts.training.path, str) else "")
        recipe = recipe_of(
            plan, name=plan.workload.model.id, command=command, python=interpreter, facts=facts
        )
        write_bytes(output, dump_recipe(recipe).encode("utf-8", "surrogateescape"))
    emit_answer(plan, output_format, lambda _: plan_page(plan, verbose=verbose), is_wide=True)
    if output_format != "json" and output is not None and not quiet:
        is_written = plan.chosen.program in WRITTEN
        step = f"; next: {how_to_export(recipe, output, batch_system_of(facts))}" if is_written else ""
        say(f"wrote {output}{step}")


@click.command(cls=ProgramCommand)
@click.argument("model", required=False, default="")
@source_options
@python_option
@plan_options
@training_options
@click.option(
    "--out",
    "directory",
    type=PATH,
    default=None,
    help="Folder for all results (default: a new one in the state folder).",
)
@click.option(
    "--overwrite",
    is_flag=True,
    help="Replace the results of another machine, an edited recipe and edited scripts in that folder.",
)
@format_option("text", "json")
@verbosity_options
def auto_command(
    model: str,
    from_paths: tuple[Path, ...],
    machine: str | None,
    python: str | None,
    directory: Path | None,
    overwrite: bool,
    output_format: str,
    quiet: bool,
    verbose: bool,
    **wanted: Any,
) -> None:
    """Probe, check, measure, plan and export in one go, and report the files.

    MODEL is a preset or a model file. Without MODEL, rigtune takes a well-known model that fits the machine,
    with a shorter sequence if need be, or its own small reference model if there is no GPU. PROGRAM is your
    own training command after `--`; if you give PROGRAM, MODEL is needed.
    """
    from assistant.pages.training.auto_page import auto_page
    from assistant.usecases.auto import AutoOptions, auto  # a plan needs neither a check nor a benchmark

    command = _own_program(model, is_here=not from_paths and machine is None)
    if len(wanted["nodes"]) > 1:
        raise UsageError("auto plans for one number of nodes", "`rigtune plan --nodes 1,2,4` shows several")
    wanted["nodes"] = wanted["nodes"][0]
    options = AutoOptions(
        directory=str(directory or default_run_directory()),
        request=_request_of(model, wanted, command, for_recipe=True),
        command=command,
        collect=collect_options(python, is_here=not from_paths and machine is None),
        measure=not from_paths and machine is None,
        overwrite=overwrite,
    )
    _require_one_machine(machine, options.request.gpu)
    if options.request.gpu is not None and not from_paths:
        raise UsageError(
            "auto probes and measures a machine, and --gpu describes nodes that are not here",
            "use `rigtune plan MODEL --gpu NAME`, or give --from PATH with a paste of such a node",
        )
    events = auto(source_of(from_paths, machine), options, stop_on_signals)
    result = follow(events, quiet=quiet, verbose=verbose)
    emit_answer(result, output_format, lambda _: auto_page(result), is_wide=True)


def _verified(facts: MachineFacts, request: PlanRequest) -> tuple[Measurement, ...]:
    """Return the steps that `rigtune verify` measured on this machine; none for described nodes."""
    name = "" if request.gpu is not None else machine_in_words(facts)
    return verified_steps(name, say) if name else ()


def _given_of_script(model: str, settings: dict[str, Any]) -> dict[str, str]:
    """Return the options that describe the launch of a script, and remove its layout from `settings`.

    The strategy and the micro-batch describe the given files; the better plan must be free to change them.
    """
    context = click.get_current_context()
    by_user = {
        name
        for name in _SCRIPT_OPTIONS
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    }
    given = given_settings({"model": model or None, **{name: settings[name] for name in by_user}})
    settings.update(dict.fromkeys(("strategy", "micro_batch"), None))
    return given


_SCRIPT_OPTIONS = (
    *("nodes", "ranks_per_node", "sequence_length", "global_batch", "precision", "strategy"),
    *("micro_batch", "steps", "learning_rate"),
)
"""Options that describe what the files of a launch do not state."""


def _require_one_machine(machine: str | None, gpu: str | None) -> None:
    """Raise UsageError if a catalogue machine and a GPU are both named."""
    if machine is not None and gpu is not None:
        raise UsageError(
            f"--machine {machine[:60]} and --gpu {gpu[:60]} both describe the nodes",
            "give one of them; `rigtune list machines` shows the GPUs of each machine",
        )


def _request_of(model: str, wanted: dict[str, Any], command: Command, *, for_recipe: bool) -> PlanRequest:
    """Return the options of `plan_options` as a request.

    A recipe without `--program` and without the user's own command runs the reference workload, so the plan
    is made for this workload.
    """
    pins = pins_of(
        wanted.pop("pinned"),
        **{name: wanted.pop(name) for name in ("strategy", "micro_batch", "ranks_per_node", "learning_rate")},
    )
    stated = stated_of(wanted)
    task = wanted.pop("task")
    program = wanted.pop("program") or ""
    if not program and command.kind != "reference":
        guessed = program_of_command((command.target, *command.arguments))
        # rigtune writes files for few programs. A recipe for a script of another program is planned as the
        # user's own program, so that it still gets launch files.
        if guessed is not None and (not for_recipe or guessed.id in WRITTEN):
            program = guessed.id
    if not program and for_recipe and command.kind == "reference":
        program = REFERENCE_PROGRAM
    keeps = for_recipe and command.kind != "reference"
    return PlanRequest(
        model=model,
        pins=pins,
        program=program,
        keeps_program=keeps,
        stated=stated,
        fine_tuning=None if task is None else task == "fine-tuning",
        **wanted,
    )


def _own_program(model: str, *, is_here: bool) -> Command:
    """Return the user's training command, or the command of the reference workload without PROGRAM.

    PROGRAM is `script.py ARGS`, `python script.py ARGS` or `-m module ARGS`.

    A launcher before the program (`torchrun`, `accelerate launch`, `mpirun` ...) is left out, and a message
    names each of its options.

    The program runs in the folder in which the job is started, or in that of the slot `workdir`. Raises
    UsageError if no model is given, for a wrong placeholder, and for a script that is missing on this
    machine. If `is_here` is False, the plan is for another machine, which may have the script.
    """
    words = program_after_dashes()
    if words:
        from recipes.launch.imports.unwrapping import unwrap

        for sentence in unwrap(words).dropped:
            say(f"rigtune: {sentence}")
    command = user_command(words)
    if command.kind == "reference":
        return command
    if not model:
        raise UsageError(
            f"no model is named for {quoted(words[0])}: a plan needs the sizes of the model that it trains",
            "name a preset (`rigtune list models`), a config.json or a TOML row before `--`: "
            "rigtune plan llama-3-8b -- train.py",
        )
    if command.kind == "script" and not Path(command.target).exists():
        missing = f"there is no script {command.target[:200]} in {Path.cwd()}"
        if is_here:
            hint = "give the path of the Python script on this machine"
            raise UsageError(missing, hint)
        say(f"rigtune: {missing}; the launch files need this script on the nodes")
    return command
