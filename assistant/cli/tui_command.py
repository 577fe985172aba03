"""`rigtune tui`: the terminal UI."""

import os
from pathlib import Path

import click

from assistant.cli.diagnostics import has_terminal, say
from assistant.cli.options import PATH, python_option, require_interpreter, source_of, source_options
from assistant.cli.output import shows_utf8
from probes.base.errors import UsageError


@click.command()
@source_options
@python_option
@click.option("--fleet", type=PATH, default=None, metavar="FOLDER",
              help="List the nodes of a run of `rigtune fleet check`, and open each.")  # fmt: skip
@click.option("--out", "directory", type=PATH, default=None, help="Folder for recipes and launch files.")
@click.option("--ascii/--no-ascii", "plain", default=None,
              help="Draw only ASCII characters (default: only if the locale is not UTF-8).")  # fmt: skip
def tui_command(
    from_paths: tuple[Path, ...],
    machine: str | None,
    python: str | None,
    fleet: Path | None,
    directory: Path | None,
    plain: bool | None,
) -> int:
    """Open the terminal UI."""
    if not has_terminal():
        dumb = "; TERM=dumb cannot show the UI" * (os.environ.get("TERM") == "dumb")
        raise UsageError(
            f"the terminal UI needs a terminal{dumb}", "`rigtune auto` checks, measures and plans without it"
        )
    from assistant.tui.app import RigtuneApp, run_tui

    ascii_only = not shows_utf8() if plain is None else plain
    app: RigtuneApp
    if fleet is not None:
        if from_paths or machine:
            raise UsageError("--fleet shows the nodes of a run, not one machine", "give it alone")
        from assistant.engines.clustershell_runs import folded
        from assistant.tui.fleet_app import FleetApp
        from assistant.usecases.fleet.fleet_store import default_store

        app = FleetApp(fleet, folded, store=default_store(), ascii_only=ascii_only)
    else:
        from assistant.tui.services import Services

        source = source_of(from_paths, machine)
        if source.is_live:
            require_interpreter(python)
        services = Services(source, python=python, directory=directory)
        app = RigtuneApp(services, ascii_only=ascii_only)
    code, words = run_tui(app)
    if words:
        say(words)
    return code
