"""`rigtune run`: start a recipe."""

from __future__ import annotations

from pathlib import Path

import click

from assistant.cli.diagnostics import follow
from assistant.cli.export_command import read_recipe
from assistant.cli.options import PATH, verbosity_options
from assistant.usecases.run import run_recipe


@click.command()
@click.argument("recipe_file", type=PATH, metavar="RECIPE")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("--to", "launcher", default="torchrun", show_default=True, metavar="LAUNCHER")
@click.option(
    "--out",
    "directory",
    type=PATH,
    default=None,
    help="Folder for the launch files (default: launch/ beside the recipe).",
)
@verbosity_options
def command(
    recipe_file: Path,
    arguments: tuple[str, ...],
    launcher: str,
    directory: Path | None,
    quiet: bool,
    verbose: bool,
) -> int:
    """Write the launch files of RECIPE and start them; ARGUMENTS after `--` go to the training program.

    The exit code is the training program's own.
    """
    recipe = read_recipe(recipe_file)
    target = directory if directory is not None else recipe_file.parent / "launch"
    result = follow(
        run_recipe(recipe, launcher=launcher, directory=target, arguments=arguments),
        quiet=quiet,
        verbose=verbose,
    )
    return int(result)
