"""Dispatch the command line: one lazy group, one error boundary, exit codes chosen in one place.

Data goes to stdout, messages go to stderr.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click

from assistant.cli.diagnostics import complain, complain_usage, has_terminal, say
from probes.base.errors import ExitCode, ResourceError, RigtuneError, UsageError

COMMANDS: dict[str, str] = {
    "auto": "probe, check, quick benchmark, plan, export: the main job in one go",
    "probe": "what this machine is",
    "check": "is it fit to train? the exit code says so",
    "capture": "a recording of all that was read here, without names and secrets",
    "diff": "what changed between two nodes, or two moments",
    "bench": "measure it",
    "lint": "what launch scripts and configurations will do wrong",
    "predict": "memory and speed of runs in a table, before any is started",
    "plan": "choose strategy, batch, learning rate, environment",
    "export": "write launch files from a recipe",
    "run": "start a recipe",
    "verify": "short run: predicted against measured",
    "explain": "what an NCCL, torch, Slurm or kernel log says: what happened, where first, why",
    "advise": "what to install for this distribution and these GPUs",
    "list": "checks, benchmarks, launchers, models, machines, gpus, stacks, kinds of output",
    "tui": "the terminal UI (the default on a terminal)",
}
"""Name and one-line help; the module is `assistant.cli.<name>_command` with a click command `command`."""


class LazyGroup(click.Group):
    """A group that loads a command's module only when it is used.

    `check`, for example, never loads the terminal UI.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"assistant.cli.{cmd_name}_command").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            guess = f"did you mean {near[0]}?" if near else f"the commands are {', '.join(COMMANDS)}"
            raise click.UsageError(f"no command {args[0]!r}; {guess}")
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="rigtune", prog_name="rigtune")
def rigtune() -> None:
    """Knows your GPU server, measures it, and writes the launch recipe with the evidence for every line.

    Without a command: the terminal UI on a terminal, else `auto`.
    """


def _default_command() -> str:
    return "tui" if has_terminal() else "auto"


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _stand_somewhere() -> None:
    """Raise UsageError if the working folder was removed, because relative names then have no meaning."""
    try:
        Path.cwd()
    except OSError as error:
        raise UsageError("the working folder is gone", "go to one that exists: cd") from error


def command_line(arguments: list[str] | None = None) -> int:
    """Run the command line with `arguments` (default: the process's) and return the exit code."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup leaves it
            signal.signal(number, _interrupt)
    words = sys.argv[1:] if arguments is None else arguments
    try:
        _stand_somewhere()
        result = rigtune.main(args=words or [_default_command()], prog_name="rigtune", standalone_mode=False)
    except RigtuneError as error:
        complain(error)
        return int(error.exit_code)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except (KeyboardInterrupt, click.Abort):
        say("rigtune: interrupted")
        return int(ExitCode.INTERRUPTED)
    except click.ClickException as error:
        complain_usage(error)
        return int(ExitCode.USAGE)
    except MemoryError:
        complain(ResourceError("too little memory"))
        return int(ResourceError.exit_code)
    return int(result) if isinstance(result, int) else int(ExitCode.OK)


def main() -> NoReturn:
    """Run the whole process: the command line, whatever standard streams exist, then the end at once.

    Threads that hang in the kernel must not delay the end, and an orderly end of the interpreter takes longer
    than a check.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by who started us
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115 - for the life of the process
    code = command_line()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(code)
