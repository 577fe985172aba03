"""`rigtune plan`: strategy, batch, learning rate and environment for a model on a machine."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from assistant.cli.diagnostics import follow, say
from assistant.cli.options import (
    PATH,
    ProgramCommand,
    facts_of,
    format_option,
    plan_options,
    program_after_dashes,
    python_option,
    source_options,
    verbosity_options,
)
from assistant.cli.output import emit_answer
from assistant.cli.requests import command_of, request_of
from assistant.pages.training.plan_page import plan_page
from assistant.storage import read_measurements, write_bytes
from assistant.usecases.plan import plan_workload
from recipes.launch.recipe_file import dump_recipe
from recipes.launch.resolve import recipe_of


@click.command(cls=ProgramCommand)
@click.argument("model", required=False, default="")
@source_options
@python_option
@plan_options
@click.option(
    "--measurements",
    type=PATH,
    metavar="FILE",
    help="measurements.json of `rigtune bench` on such a machine.",
)
@click.option("-o", "--output", type=PATH, metavar="FILE", help="Write the recipe (TOML) there.")
@format_option("text", "json")
@verbosity_options
def command(
    model: str,
    from_paths: tuple[Path, ...],
    machine: str | None,
    python: str | None,
    measurements: Path | None,
    output: Path | None,
    output_format: str,
    quiet: bool,
    verbose: bool,
    **wanted: Any,
) -> None:
    """Plan MODEL (a preset or a model file) on this machine, a recording or a catalogue machine.

    PROGRAM is your own training command after `--`, for example
    `rigtune plan llama-3-8b -o recipe.toml -- train.py --batch {micro_batch} --lr {learning_rate}`;
    without it the recipe runs the reference workload with the model's sizes.
    """
    facts = facts_of(from_paths, machine, python)
    measured = read_measurements(measurements).measurements if measurements else ()
    plan = follow(plan_workload(facts, measured, request_of(model, wanted)), quiet=True)
    if output is not None:
        interpreter = python or (facts.training.path if isinstance(facts.training.path, str) else "")
        recipe = recipe_of(
            plan, name=plan.workload.model.id, command=command_of(program_after_dashes()), python=interpreter
        )
        write_bytes(output, dump_recipe(recipe).encode("utf-8", "surrogateescape"))
    emit_answer(plan, output_format, lambda _: plan_page(plan, verbose=verbose), is_wide=True)
    if output_format != "json" and output is not None and not quiet:
        say(f"wrote {output}; next: rigtune export {shlex.quote(str(output))}")
