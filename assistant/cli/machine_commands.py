"""`rigtune probe`, `capture` and `diff`: what a machine is, a recording of it to share, and what changed."""

from pathlib import Path

import click
import msgspec

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
from probes.base.errors import ExitCode, UsageError
from probes.sources.base import Source


@click.command()
@click.argument("more_paths", nargs=-1, type=PATH, metavar="")
@source_options
@python_option
@click.option(
    "--record",
    type=PATH,
    metavar="FILE",
    help="Also save everything that was read as a recording, for --from.",
)
@format_option("text", "json")
@verbosity_options
def probe_command(
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

    A recording of --record is not redacted, and only you can read it. `rigtune capture` writes one to share.
    """
    from assistant.pages.machine.facts_page import facts_page
    from assistant.usecases.probe import probe_machine
    from probes.judging.affinity import report_of

    source = source_of(paths_of(from_paths, more_paths), machine)
    options = collect_options(python, is_here=source.is_live)
    if record is not None:
        from assistant.storage import write_bytes
        from probes.sources.recording import RecordingSource
        from probes.sources.stored import dump_recording

        recorder = RecordingSource(source)
        facts = follow(probe_machine(recorder, options), quiet=quiet, verbose=verbose)
        write_bytes(record, dump_recording(recorder.recording(source.title)), mode=0o600)
        if not quiet:
            from assistant.pages.capture_page import capture_page

            say_page(capture_page(None, str(record)))
    else:
        facts = follow(probe_machine(source, options), quiet=True)
    emit_answer(report_of(facts), output_format, lambda _: facts_page(facts, verbose=verbose))


def _kinds(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> frozenset[str]:
    from probes.redaction import KINDS

    kinds = frozenset(kind for value in values for kind in value.split(","))
    if unknown := kinds.difference(KINDS):
        raise click.BadParameter(f"no kind {', '.join(sorted(unknown))}; the kinds are {', '.join(KINDS)}")
    if "secret" in kinds:
        raise click.BadParameter("--keep cannot keep secrets; --no-redact keeps everything")
    return kinds


@click.command()
@click.argument("more_paths", nargs=-1, type=PATH, metavar="")
@click.option(
    "-o",
    "--output",
    type=PATH,
    required=True,
    metavar="FILE",
    help="Write the recording to this file, which only you can read.",
)
@source_options
@python_option
@click.option(
    "--tier",
    type=click.Choice(("quick", "deep")),
    default="deep",
    show_default=True,
    help="How much to read; quick starts no slow commands.",
)
@click.option(
    "--keep",
    multiple=True,
    callback=_kinds,
    metavar="KIND",
    help="Keep values of this kind (hostname, serial, ip ...) unredacted; repeatable.",
)
@click.option("--no-redact", is_flag=True, help="Keep everything, including secrets.")
@click.option(
    "--salt",
    metavar="TEXT",
    help="Captures with the same text have the same placeholders, so that they can be compared.",
)
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@verbosity_options
def capture_command(
    more_paths: tuple[Path, ...],
    output: Path,
    from_paths: tuple[Path, ...],
    machine: str | None,
    python: str | None,
    tier: str,
    keep: frozenset[str],
    no_redact: bool,
    salt: str | None,
    force: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Record everything that can be read on this machine, without names, serial numbers, addresses and
    secrets.

    The same value has the same placeholder everywhere, so `rigtune check --from FILE` gives the same verdict.
    """
    from assistant.pages.capture_page import capture_page
    from assistant.storage import write_bytes
    from assistant.usecases.capture import capture_machine
    from probes.sources.stored import dump_recording

    if no_redact and (keep or salt):
        raise UsageError("--no-redact excludes --keep and --salt", "give one or the other")
    if output.is_file() and not force:
        raise UsageError(f"{output} exists", "choose another name, or overwrite the file with --force")
    source = source_of(paths_of(from_paths, more_paths), machine)
    capturing = capture_machine(
        source,
        msgspec.structs.replace(collect_options(python, is_here=source.is_live), deep=tier == "deep"),
        redacted=not no_redact,
        keep=keep,
        salt=salt,
    )
    captured = follow(capturing, quiet=quiet, verbose=verbose)
    write_bytes(output, dump_recording(captured.recording), mode=0o600)
    if not quiet:
        say_page(capture_page(captured.manifest, str(output)))


@click.command()
@click.argument("machines", nargs=-1, metavar="A B [C...]")
@click.option(
    "--machine",
    "catalogue",
    multiple=True,
    metavar="NAME",
    help="Also compare this machine of the catalogue; the same as `machine:NAME`.",
)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Also compare temperatures, clocks, counters, serial numbers and addresses.",
)
@format_option("text", "json")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing on stdout; the exit code is the answer.")
@click.option("-v", "--verbose", is_flag=True, help="List all facts that are known about only one machine.")
def diff_command(
    machines: tuple[str, ...],
    catalogue: tuple[str, ...],
    everything: bool,
    output_format: str,
    quiet: bool,
    verbose: bool,
) -> int:
    """Compare two machines, or one machine at two moments; among several, find the machine that differs.

    A, B and C are each a recording, pasted files of one machine joined by commas, `machine:NAME` of the
    catalogue, or `live` for this machine.

    Exit code 0: no difference; 1: differences; 2: wrong usage.
    """
    from assistant.pages.diff_page import diff_page
    from assistant.usecases.diff import diff_machines
    from probes.catalogue.hardware import load_catalogue

    wanted = (*machines, *(f"machine:{name}" for name in catalogue))
    if len(wanted) < 2:
        raise UsageError("diff needs two machines or more", "give two recordings, or a recording and `live`")
    comparing = diff_machines(
        [(name, _source(name)) for name in wanted],
        collect_options(None, ask_interpreters=False),
        load_catalogue(),
        everything=everything,
    )
    comparison = follow(comparing, quiet=True)
    if not quiet:
        emit_answer(comparison, output_format, lambda _: diff_page(comparison, verbose=verbose))
    return int(ExitCode.OK if comparison.is_equal else ExitCode.FINDINGS)


def _source(name: str) -> Source:
    if name == "live":
        return source_of((), None)
    if name.startswith("machine:"):
        return source_of((), name.removeprefix("machine:"))
    whole = Path(name)
    return source_of((whole,) if whole.exists() else tuple(map(Path, filter(None, name.split(",")))), None)
