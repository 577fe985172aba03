"""`rigtune export`: launch files from a recipe."""

from __future__ import annotations

from pathlib import Path

import click

from assistant.cli.diagnostics import follow
from assistant.cli.options import PATH, verbosity_options
from assistant.cli.output import emit_text
from assistant.storage import read_bytes
from assistant.usecases.export import export_recipe
from recipes.recipe import Recipe
from recipes.recipe_file import load_recipe


@click.command()
@click.argument("recipe_file", type=PATH, metavar="RECIPE")
@click.option("--to", "launchers", multiple=True, default=("torchrun",), show_default=True, metavar="LAUNCHER")
@click.option("--out", "directory", type=PATH, default=None, help="Folder to write to (default: launch/ beside the recipe).")
@click.option("--overwrite", is_flag=True, help="Replace files that rigtune did not write.")
@verbosity_options
def command(
    recipe_file: Path, launchers: tuple[str, ...], directory: Path | None, overwrite: bool, quiet: bool, verbose: bool
) -> None:
    """Write launch files for RECIPE; prints their paths."""
    recipe = read_recipe(recipe_file)
    target = directory if directory is not None else recipe_file.parent / "launch"
    paths = follow(export_recipe(recipe, launchers, target, overwrite=overwrite), quiet=quiet, verbose=verbose)
    emit_text("\n".join(str(path) for path in paths))


def read_recipe(path: Path) -> Recipe:
    """The recipe in `path`; raises InputError."""
    return load_recipe(read_bytes(path).decode("utf-8", "surrogateescape"), str(path))
