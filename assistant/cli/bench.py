"""`rigtune bench`: measure this machine in the training interpreter."""

from __future__ import annotations

from pathlib import Path

import click

from assistant.cli.diagnostics import follow
from assistant.cli.options import PATH, collect_options, format_option, python_option, source_of, verbosity_options
from assistant.cli.output import emit_json, emit_text, wants_colour
from assistant.storage import write_record
from assistant.usecases.measure import MeasureOptions, measure_machine
from assistant.usecases.probe import probe_machine
from probes.benching import Suite
from probes.errors import ExitCode


@click.command()
@python_option
@click.option("--suite", type=click.Choice(("quick", "full")), default="quick", show_default=True)
@click.option("--only", multiple=True, metavar="ID", help="Only this benchmark; repeat for several.")
@click.option("--force", is_flag=True, help="Measure although the GPUs or the host are busy.")
@click.option("-o", "--output", type=PATH, metavar="FILE", help="Also write the measurements (JSON) there.")
@format_option("text", "json")
@verbosity_options
def command(
    python: str | None,
    suite: Suite,
    only: tuple[str, ...],
    force: bool,
    output: Path | None,
    output_format: str,
    quiet: bool,
    verbose: bool,
) -> int:
    """Measure: matrix multiply, memory copy, all-reduce over the local ranks, one training step.

    Exit code 4: a benchmark gave no result.
    """
    facts = follow(probe_machine(source_of((), None), collect_options(python)), quiet=True)
    options = MeasureOptions(suite=suite, only=only, force=force, python=python)
    result = follow(measure_machine(facts, options), quiet=quiet, verbose=verbose)
    if output is not None:
        write_record(output, result)
    if output_format == "json":
        emit_json(result)
    else:
        from assistant.render.bench_text import render_measurements

        emit_text(render_measurements(result, colour=wants_colour()))
    return int(ExitCode.WORKER if result.failures else ExitCode.OK)
