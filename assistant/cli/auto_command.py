"""`rigtune auto`: the main job in one go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from assistant.cli.diagnostics import follow
from assistant.cli.options import (
    PATH,
    ProgramCommand,
    collect_options,
    format_option,
    plan_options,
    program_after_dashes,
    python_option,
    source_of,
    source_options,
    verbosity_options,
)
from assistant.cli.output import emit_answer
from assistant.cli.requests import command_of, request_of
from assistant.pages.training.auto_page import auto_page
from assistant.storage import default_run_directory
from assistant.usecases.auto import AutoOptions, auto


@click.command(cls=ProgramCommand)
@click.argument("model", required=False, default="")
@source_options
@python_option
@plan_options
@click.option(
    "--out",
    "directory",
    type=PATH,
    default=None,
    help="Folder for all results (default: a new one in the state folder).",
)
@format_option("text", "json")
@verbosity_options
def command(
    model: str,
    from_paths: tuple[Path, ...],
    machine: str | None,
    python: str | None,
    directory: Path | None,
    output_format: str,
    quiet: bool,
    verbose: bool,
    **wanted: Any,
) -> None:
    """Probe, check, measure, plan and export in one go, and report the files.

    MODEL is a preset or a model file; without it the largest known model that suits the machine, on a CPU the
    shipped reference workload. PROGRAM is your own training command after `--`.
    """
    options = AutoOptions(
        directory=str(directory if directory is not None else default_run_directory()),
        request=request_of(model, wanted),
        command=command_of(program_after_dashes()),
        collect=collect_options(python),
        measure=not from_paths and machine is None,
    )
    result = follow(auto(source_of(from_paths, machine), options), quiet=quiet, verbose=verbose)
    emit_answer(result, output_format, lambda _: auto_page(result), is_wide=True)
