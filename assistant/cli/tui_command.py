"""`rigtune tui`: the terminal UI."""

import os
from pathlib import Path

import click

from assistant.cli.diagnostics import has_terminal, say
from assistant.cli.options import PATH, python_option, source_of, source_options
from assistant.cli.output import shows_utf8
from probes.base.errors import UsageError


@click.command()
@source_options
@python_option
@click.option("--out", "directory", type=PATH, default=None, help="Folder for recipes and launch files.")
@click.option("--ascii/--no-ascii", "plain", default=None,
              help="Draw only ASCII characters (default: only if the locale is not UTF-8).")  # fmt: skip
def tui_command(
    from_paths: tuple[Path, ...],
    machine: str | None,
    python: str | None,
    directory: Path | None,
    plain: bool | None,
) -> int:
    """Open the terminal UI."""
    if not has_terminal():
        dumb = "; TERM=dumb cannot show the UI" * (os.environ.get("TERM") == "dumb")
        raise UsageError(
            f"the terminal UI needs a terminal{dumb}", "`rigtune auto` checks, measures and plans without it"
        )
    from assistant.tui.app import run_tui
    from assistant.tui.services import Services

    services = Services(source_of(from_paths, machine), python=python, directory=directory)
    code, words = run_tui(services, ascii=not shows_utf8() if plain is None else plain)
    if words:
        say(words)
    return code
