"""`rigtune tui`: the terminal UI."""

from __future__ import annotations

from pathlib import Path

import click

from assistant.cli.diagnostics import has_terminal, say
from assistant.cli.options import PATH, python_option, source_of, source_options
from probes.base.errors import UsageError


@click.command()
@source_options
@python_option
@click.option("--out", "directory", type=PATH, default=None, help="Folder for recipes and launch files.")
@click.option("--ascii", "plain", is_flag=True, help="No box drawing, for serial consoles.")
def tui_command(
    from_paths: tuple[Path, ...], machine: str | None, python: str | None, directory: Path | None, plain: bool
) -> int:
    """Open the terminal UI."""
    if not has_terminal():
        raise UsageError("the terminal UI needs a terminal", "`rigtune auto` does the main job without one")
    from assistant.tui.app import run_tui
    from assistant.tui.services import Services

    services = Services(source_of(from_paths, machine), python=python, directory=directory)
    code, words = run_tui(services, ascii=plain)
    if words:
        say(words)
    return code
