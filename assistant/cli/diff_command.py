"""`rigtune diff`: what changed between two nodes, or between two moments."""

from __future__ import annotations

from pathlib import Path

import click

from assistant.cli.diagnostics import follow
from assistant.cli.options import collect_options, format_option, source_of
from assistant.cli.output import emit_answer
from assistant.pages.diff_page import diff_page
from assistant.usecases.diff import diff_machines
from probes.base.errors import ExitCode, UsageError
from probes.catalogue.hardware import load_catalogue
from probes.sources.base import Source

_LIVE = "live"
_MACHINE = "machine:"


@click.command()
@click.argument("machines", nargs=-1, metavar="A B [C...]")
@click.option(
    "--machine", "catalogue", multiple=True, metavar="NAME", help="Short for `machine:NAME` at the end."
)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Also temperatures, clocks, counters, serial numbers and addresses.",
)
@format_option("text", "json")
@click.option("-q", "--quiet", is_flag=True, help="Nothing on stdout; the exit code alone.")
@click.option("-v", "--verbose", is_flag=True, help="All that is known on one side only.")
def command(
    machines: tuple[str, ...],
    catalogue: tuple[str, ...],
    everything: bool,
    output_format: str,
    quiet: bool,
    verbose: bool,
) -> int:
    """Compare two machines or two moments of one; of three and more, find the odd one out.

    A, B: a recording; pasted files of one machine joined by commas; `machine:NAME` of the catalogue; `live`.

    Exit code 0: no difference; 1: differences; 2: wrong usage.
    """
    wanted = (*machines, *(f"{_MACHINE}{name}" for name in catalogue))
    if len(wanted) < 2:
        raise UsageError("diff needs two machines or more", "give two recordings, or a recording and `live`")
    sources = [(name, _source(name)) for name in wanted]
    options = collect_options(None, ask_interpreters=False)
    comparison = follow(diff_machines(sources, options, load_catalogue(), everything=everything), quiet=True)
    if not quiet:
        emit_answer(comparison, output_format, lambda _: diff_page(comparison, verbose=verbose))
    return int(ExitCode.OK if comparison.is_equal else ExitCode.FINDINGS)


def _source(name: str) -> Source:
    if name == _LIVE:
        return source_of((), None)
    if name.startswith(_MACHINE):
        return source_of((), name.removeprefix(_MACHINE))
    whole = Path(name)
    return source_of((whole,) if whole.exists() else tuple(map(Path, filter(None, name.split(",")))), None)
