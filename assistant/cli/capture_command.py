"""`rigtune capture`: a recording that can be shown to others."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from assistant.cli.diagnostics import follow, say_page
from assistant.cli.options import (
    PATH,
    collect_options,
    paths_of,
    python_option,
    source_of,
    source_options,
    verbosity_options,
)
from assistant.usecases.capture import capture_machine
from probes.base.errors import UsageError


def _kinds(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> frozenset[str]:
    from probes.redaction import KINDS

    kinds = frozenset(kind for value in values for kind in value.split(","))
    if kinds - set(KINDS):
        raise click.BadParameter(
            f"no kind {', '.join(sorted(kinds - set(KINDS)))}; the kinds are {', '.join(KINDS)}"
        )
    if "secret" in kinds:
        raise click.BadParameter("secrets are never kept one kind among others; --no-redact keeps everything")
    return kinds


@click.command()
@click.argument("more_paths", nargs=-1, type=PATH, metavar="")
@click.option(
    "-o",
    "--output",
    type=PATH,
    required=True,
    metavar="FILE",
    help="The recording to write; readable by you alone.",
)
@source_options
@python_option
@click.option(
    "--tier",
    type=click.Choice(("quick", "deep")),
    default="deep",
    show_default=True,
    help="quick starts no slow commands.",
)
@click.option(
    "--keep",
    multiple=True,
    callback=_kinds,
    metavar="KIND",
    help="Do not replace this kind (hostname, serial, ip ...); repeat.",
)
@click.option("--no-redact", is_flag=True, help="Keep everything, secrets too.")
@click.option(
    "--salt", metavar="TEXT", help="The same words give the same placeholders, for captures to be compared."
)
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@verbosity_options
def command(
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
    """Record everything that can be read here, without names, serial numbers, addresses and secrets.

    The same value has the same placeholder everywhere, so `rigtune check --from FILE` gives the same verdict.
    """
    if no_redact and (keep or salt):
        raise UsageError("--no-redact leaves nothing for --keep and --salt to do", "give one or the other")
    if output.is_file() and not force:
        raise UsageError(f"{output} exists", "choose another name, or overwrite it with --force")
    source = source_of(paths_of(from_paths, more_paths), machine)
    options = msgspec.structs.replace(collect_options(python), deep=tier == "deep")
    captured = follow(
        capture_machine(source, options, redacted=not no_redact, keep=keep, salt=salt),
        quiet=quiet,
        verbose=verbose,
    )
    from assistant.pages.capture_page import capture_page
    from assistant.storage import write_bytes
    from probes.sources.stored import dump_recording

    write_bytes(output, dump_recording(captured.recording), mode=0o600)
    if not quiet:
        say_page(capture_page(captured.manifest, str(output)))
