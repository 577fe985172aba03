"""`rigtune probe`: what this machine is."""

from __future__ import annotations

from pathlib import Path

import click

from assistant.cli.diagnostics import follow, say_page
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
from assistant.cli.output import emit_answer
from assistant.pages.machine.facts_page import facts_page
from assistant.usecases.probe import probe_machine
from probes.judging.affinity import report_of


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
    """Describe this machine: GPUs, links, NICs, CPU, memory, limits, software.

    A recording contains what was read without redaction, readable by you alone; `rigtune capture` writes one
    to share.
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

            say_page(capture_page(None, str(record)))
    else:
        facts = follow(probe_machine(source, collect_options(python)), quiet=True)
    emit_answer(report_of(facts), output_format, lambda _: facts_page(facts, verbose=verbose))
