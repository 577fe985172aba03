"""`rigtune fleet report`, `compare`, `export`, `accept`: use the folders of runs, without asking a node."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from assistant.cli.options import PATH, format_option, verbosity_options
from assistant.cli.output import emit_answer, emit_data
from probes.base.errors import ExitCode

if TYPE_CHECKING:
    from probes.fleet.fleet_result import FleetResult

Command = TypeVar("Command", bound=Callable[..., Any])


def _default_store() -> Path:
    from assistant.usecases.fleet.fleet_store import default_store

    return default_store()


def store_option(function: Command) -> Command:
    """Add `--store FILE`, which is never None."""
    return click.option(
        "--store",
        type=PATH,
        default=_default_store,
        metavar="FILE",
        help="History and states of the fleet (default: the user's own).",
    )(function)


def redact_option(function: Command) -> Command:
    """Add `--redact`."""
    return click.option(
        "--redact",
        is_flag=True,
        help="Replace names, addresses and serial numbers, with one mapping for all.",
    )(function)


def output_option(function: Command) -> Command:
    """Add `-o FILE`."""
    return click.option(
        "-o",
        "--output",
        type=PATH,
        default=None,
        metavar="FILE",
        help="Write to this file, whole or not at all.",
    )(function)


def verdict_code(result: "FleetResult") -> int:
    """Return the exit code of a run: 0 if all nodes are fit, 1 if some are not, 3 if some gave no answer."""
    if result.bad or result.out:
        return int(ExitCode.FINDINGS)
    return int(ExitCode.UNKNOWN if result.silent else ExitCode.OK)


def _write(text: str, output: Path | None, mode: int = 0o600, *, for_others: bool = False) -> None:
    """Write text to the file, or to standard output. Raises OutputError."""
    if output is None:
        emit_data(text)
        return
    from assistant.storage import write_bytes

    write_bytes(output, text.encode(), mode, for_others=for_others)


@click.command("report")
@click.argument("folder", type=PATH)
@store_option
@output_option
@redact_option
@format_option("markdown", "csv", "text", "json")
@verbosity_options
def report_command(
    folder: Path,
    store: Path,
    output: Path | None,
    redact: bool,
    output_format: str,
    quiet: bool,
    verbose: bool,
) -> None:
    """Write the answers in FOLDER as a report: Markdown for people, CSV with one row per node."""
    from assistant.engines.clustershell_runs import folded
    from assistant.formats.fleet_formats import fleet_csv, fleet_markdown
    from assistant.formats.json_answer import json_answer
    from assistant.pages.fleet_page import fleet_page
    from assistant.usecases.fleet.check_fleet import stored_run

    del quiet
    run = stored_run(folder, store, redacting=redact)
    if output_format == "text" and output is None:
        emit_answer(
            run.result, "text", lambda _: fleet_page(run.result, folded, verbose=verbose), is_wide=True
        )
        return
    texts: dict[str, Callable[[], str]] = {
        "markdown": lambda: fleet_markdown(run.result, folded),
        "csv": lambda: fleet_csv(run.result, run.reports),
        "json": lambda: json_answer(run.result).decode(),
        "text": lambda: _plain(fleet_page(run.result, folded, verbose=True)),
    }
    _write(texts[output_format](), output)


def _plain(page: Any) -> str:
    from assistant.text.plain_writer import WIDTH, text_of

    return text_of(page, colour=False, width=WIDTH)


@click.command("compare")
@click.argument("before", type=PATH)
@click.argument("after", type=PATH)
@redact_option
@format_option("text", "json")
@verbosity_options
def compare_command(
    before: Path, after: Path, redact: bool, output_format: str, quiet: bool, verbose: bool
) -> int:
    """Show what changed between two runs: nodes, verdicts, parts, firmware, rates.

    Exit code 0: nothing changed; 1: something changed; 2: wrong usage.
    """
    from assistant.engines.clustershell_runs import folded
    from assistant.pages.fleet_compare_page import fleet_compare_page
    from assistant.usecases.fleet.compare_fleet_runs import compare_folders

    comparison = compare_folders(before, after, redacting=redact)
    if not quiet:
        emit_answer(
            comparison,
            output_format,
            lambda _: fleet_compare_page(comparison, folded, verbose=verbose),
            is_wide=True,
        )
    return int(ExitCode.OK if comparison.is_equal else ExitCode.FINDINGS)


@click.command("export")
@click.argument("folder", type=PATH)
@store_option
@output_option
@redact_option
@format_option("prometheus", "good", "bad", "silent")
def export_command(folder: Path, store: Path, output: Path | None, redact: bool, output_format: str) -> None:
    """Write FOLDER for other programs: metrics for the head node's textfile collector, lists of nodes.

    The list of bad nodes also has the nodes that are out of service. With `-o`, a reader never sees half of
    a file.
    """
    from assistant.formats.fleet_formats import fleet_prometheus, node_list
    from assistant.usecases.fleet.check_fleet import stored_run

    run = stored_run(folder, store, redacting=redact)
    result = run.result
    if output_format == "prometheus":
        began_s = run.began_at.timestamp() if run.began_at is not None else None
        # node_exporter runs as another user
        _write(fleet_prometheus(result, began_s), output, 0o644, for_others=True)
        return
    lists = {"good": result.good, "bad": (*result.bad, *result.out), "silent": result.silent}
    _write(node_list(lists[output_format]), output)


@click.command("accept")
@click.argument("folders", metavar="FOLDER...", type=PATH, nargs=-1, required=True)
@store_option
@output_option
@redact_option
@format_option("markdown", "json")
def accept_command(
    folders: tuple[Path, ...], store: Path, output: Path | None, redact: bool, output_format: str
) -> int:
    """Write the hand-over report of a new cluster from a run with `--suite quick` or `--suite full`.

    Several folders, for example of the check against a policy and of the measurement, are one hand-over: a
    node has its worst verdict of all runs, and its newest measurements.

    Exit code 0: all nodes are fit; 1: some are not; 3: some gave no answer.
    """
    from assistant.engines.clustershell_runs import folded
    from assistant.formats.fleet_formats import acceptance_markdown
    from assistant.formats.json_answer import json_answer
    from assistant.usecases.fleet.check_fleet import stored_runs
    from probes.fleet.acceptance import acceptance_of

    run = stored_runs(folders, store, redacting=redact)
    began = run.began_at.isoformat(timespec="seconds") if run.began_at is not None else ""
    name = "" if redact else ", ".join(folder.name for folder in folders)
    report = acceptance_of(
        run.reports, run.result, run=name, began=began, questions=run.questions, gaps=run.gaps
    )
    markdown = output_format == "markdown"
    _write(
        acceptance_markdown(report, run.result, folded) if markdown else json_answer(report).decode(), output
    )
    return verdict_code(run.result)


RUN_COMMANDS = (report_command, compare_command, export_command, accept_command)
