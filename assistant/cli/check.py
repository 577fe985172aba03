"""`rigtune check`: is this machine fit to train?"""

from __future__ import annotations

from pathlib import Path

import click

from assistant.cli.diagnostics import follow
from assistant.cli.options import PATH, collect_options, format_option, paths_of, python_option, source_of, source_options
from assistant.cli.output import emit_json, emit_text, wants_colour
from assistant.usecases.check import check_machine
from assistant.usecases.probe import probe_machine
from probes.findings import Evidence
from probes.hardware import load_catalogue
from probes.verdict import FailOn, exit_code


@click.command()
@click.argument("more_paths", nargs=-1, type=PATH, metavar="")
@source_options
@python_option
@click.option(
    "--fail-on", type=click.Choice(("fail", "warn")), default="fail", show_default=True, help="Findings that give exit code 1."
)
@format_option("text", "json")
@click.option("-q", "--quiet", is_flag=True, help="Nothing on stdout; the exit code alone.")
@click.option("-v", "--verbose", is_flag=True, help="Also the checks that passed or do not apply.")
def command(
    more_paths: tuple[Path, ...],
    from_paths: tuple[Path, ...],
    machine: str | None,
    python: str | None,
    fail_on: FailOn,
    output_format: str,
    quiet: bool,
    verbose: bool,
) -> int:
    """Is this machine fit to train?

    Exit code 0: all required checks pass; 1: findings at or above --fail-on; 3: a required check could not be made.
    """
    source = source_of(paths_of(from_paths, more_paths), machine)
    facts = follow(probe_machine(source, collect_options(python, ask_interpreters=False)), quiet=True)
    verdict = follow(check_machine(Evidence(facts=facts, catalogue=load_catalogue())), quiet=True)
    if not quiet:
        if output_format == "json":
            emit_json(verdict)
        else:
            from assistant.render.as_text import render_verdict

            emit_text(render_verdict(verdict, colour=wants_colour(), verbose=verbose))
    return int(exit_code(verdict, fail_on=fail_on))
