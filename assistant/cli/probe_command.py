"""`rigtune probe`: what this machine is."""

from __future__ import annotations

from pathlib import Path

import click

from assistant.cli.diagnostics import follow, say
from assistant.cli.options import (
    PATH,
    collect_options,
    format_option,
    paths_of,
    python_option,
    source_of,
    source_options,
    verbosity_options,
)
from assistant.cli.output import emit_json, emit_page
from assistant.usecases.probe import probe_machine


@click.command()
@click.argument("more_paths", nargs=-1, type=PATH, metavar="")
@source_options
@python_option
@click.option(
    "--record", type=PATH, metavar="FILE", help="Also save all answers as a recording that --from replays."
)
@format_option("text", "json")
@verbosity_options
def command(
    more_paths: tuple[Path, ...],
    from_paths: tuple[Path, ...],
    machine: str | None,
    python: str | None,
    record: Path | None,
    output_format: str,
    quiet: bool,
    verbose: bool,
) -> None:
    """What this machine is: GPUs, links, NICs, CPU, memory, limits, software.

    A recording holds what was read without redaction, readable by you alone; `rigtune capture` writes one to
    share.
    """
    source = source_of(paths_of(from_paths, more_paths), machine)
    if record is not None:
        from assistant.storage import write_bytes
        from probes.sources.recording import RecordingSource
        from probes.sources.stored import dump_recording

        recorder = RecordingSource(source)
        facts = follow(probe_machine(recorder, collect_options(python)), quiet=quiet, verbose=verbose)
        write_bytes(record, dump_recording(recorder.recording(source.title)), mode=0o600)
        if not quiet:
            from assistant.pages.capture_page import capture_page
            from assistant.text.lines import width_of_terminal
            from assistant.text.plain_writer import text_of

            say(text_of(capture_page(None, str(record)), width=width_of_terminal()).rstrip("\n"))
    else:
        facts = follow(probe_machine(source, collect_options(python)), quiet=True)
    if output_format == "json":
        from probes.judging.affinity import report_of

        emit_json(report_of(facts))
    else:
        from assistant.pages.machine.facts_page import facts_page
        from assistant.text.lines import WIDTH

        emit_page(facts_page(facts, verbose=verbose), width=WIDTH)
