"""`rigtune verify`: predicted beside measured."""

from __future__ import annotations

from pathlib import Path

import click

from assistant.cli.diagnostics import follow
from assistant.cli.export_command import read_recipe
from assistant.cli.options import PATH, format_option, python_option, verbosity_options
from assistant.cli.output import emit_answer
from assistant.pages.training.verify_page import verify_page
from assistant.usecases.verify import verify_recipe


@click.command()
@click.argument("recipe_file", type=PATH, metavar="RECIPE")
@python_option
@click.option(
    "--steps", type=click.IntRange(min=2), default=20, show_default=True, help="Optimizer steps to run."
)
@format_option("text", "json")
@verbosity_options
def command(
    recipe_file: Path, python: str | None, steps: int, output_format: str, quiet: bool, verbose: bool
) -> None:
    """Run some steps of RECIPE and print predicted beside measured step time and peak memory."""
    result = follow(
        verify_recipe(read_recipe(recipe_file), steps=steps, python=python), quiet=quiet, verbose=verbose
    )
    emit_answer(result, output_format, lambda _: verify_page(result), is_wide=True)
