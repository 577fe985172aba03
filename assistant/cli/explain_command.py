"""`rigtune explain`: diagnose logs of NCCL, torch, Slurm and the kernel."""

import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import click

from assistant.cli.diagnostics import follow
from assistant.cli.options import PATH, facts_of, format_option, verbosity_options
from assistant.cli.output import emit_answer
from assistant.cli.recipe_commands import read_recipe
from assistant.pages.explain_page import explain_page
from assistant.usecases.explain import explain_logs
from assistant.usecases.explain_files import PIPE
from probes.base.errors import ExitCode
from probes.logs.diagnosis import Explanation

_CODES = {"healthy": ExitCode.OK, "fault": ExitCode.FINDINGS, "unknown": ExitCode.UNKNOWN}


@click.command()
@click.argument("logs", nargs=-1, metavar="LOG...")
@click.option(
    "-f",
    "--follow",
    "following",
    is_flag=True,
    help="Keep reading while the logs grow; report causes as they appear.",
)
@click.option(
    "--recipe", type=PATH, metavar="FILE", help="Also compare the run with the environment of this recipe."
)
@click.option("--from", "from_paths", multiple=True, type=PATH, metavar="PATH",
              help="Also compare the run with this recording or pasted tool output of the machine; "
                   "repeatable.")  # fmt: skip
@click.option("--redact", is_flag=True, help="Replace names, addresses and paths as `rigtune capture` does.")
@format_option("text", "json")
@verbosity_options
def explain_command(
    logs: tuple[str, ...],
    following: bool,
    recipe: Path | None,
    from_paths: tuple[Path, ...],
    redact: bool,
    output_format: str,
    quiet: bool,
    verbose: bool,
) -> int:
    """Explain LOG (files, folders, - for standard input): what happened, where first, why, and what to do.

    Exit code 0: the run looks healthy; 1: the logs show a fault; 3: the logs show neither.
    """
    if not logs:
        raise click.UsageError("no log is named; name a file or a folder, or - for standard input")
    if logs.count(PIPE) > 1:
        raise click.UsageError("standard input can be read only once")
    events = explain_logs(
        logs,
        following=following,
        is_over=_until_interrupted() if following else lambda: False,
        recipe=read_recipe(recipe) if recipe is not None else None,
        machine=facts_of(from_paths) if from_paths else None,
        redacting=redact,
    )
    explanation: Explanation = follow(events, quiet=quiet, verbose=verbose)
    emit_answer(
        explanation,
        output_format,
        lambda _: explain_page(explanation, verbose=verbose, folds=sys.stdout.isatty()),
    )
    return int(_CODES[explanation.state])


def _until_interrupted() -> Callable[[], bool]:
    """Return a function that reports whether Ctrl-C was pressed.

    A person ends --follow with Ctrl-C: the first Ctrl-C prints the answer, the second ends the command as
    usual.
    """
    before = signal.getsignal(signal.SIGINT)
    stopped = threading.Event()

    def stop(_number: int, _frame: object) -> None:
        stopped.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, stop)
    return stopped.is_set
