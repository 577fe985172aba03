"""Dispatch the command line: a group that loads each command when it is used, error handling, exit codes.

Data goes to stdout, messages go to stderr.
"""

import contextlib
import errno
import importlib
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click

from assistant.cli.diagnostics import complain, complain_usage, has_terminal, say
from probes.base.errors import ExitCode, InputError, OutputError, ResourceError, RigtuneError, UsageError
from probes.base.nearest import did_you_mean

COMMANDS: dict[str, tuple[str, str]] = {
    "auto": ("plan_commands", "probe, check, quick benchmark, plan, export: the main job in one go"),
    "probe": ("machine_commands", "show what this machine is"),
    "check": ("check_command", "is this machine fit to train? the exit code is the answer"),
    "capture": ("machine_commands", "record all that can be read here, without names and secrets"),
    "diff": ("machine_commands", "show what changed between two nodes, or two moments"),
    "bench": ("bench_command", "measure this machine"),
    "fleet": ("fleet_commands", "check and compare many nodes through Slurm or ssh"),
    "lint": ("lint_command", "find the mistakes in launch scripts and configurations"),
    "predict": ("predict_command", "memory and speed of one run or a table of runs, before they are started"),
    "plan": ("plan_commands", "choose strategy, batch, learning rate and environment"),
    "import": ("import_command", "read an existing launch (scripts, configurations) into a recipe"),
    "export": ("recipe_commands", "write launch files from a recipe"),
    "run": ("recipe_commands", "start a recipe"),
    "verify": ("verify_command", "prove the launch, and compare predicted with measured steps"),
    "tune": ("tune_command", "measure the best few candidates of a recipe, and keep the winner"),
    "explain": ("explain_command", "what NCCL, torch, Slurm or kernel logs show: what happened, where, why"),
    "advise": ("advise_commands", "what to install; hardware, MIG, containers, kubelet and network"),
    "list": ("table_commands", "the rows of rigtune's tables: checks, models, machines, gpus and others"),
    "tui": ("tui_command", "the terminal UI (the default on a terminal)"),
}
"""Module of this package that defines `<name>_command`, and one line of help, by command."""


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a disk, a quota or a file that is full."""
_UNUSABLE = (errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ELOOP)
"""Errors of a path that the user may not use, or that no file can have."""
_AGAIN_AFTER_S = 0.05
"""Seconds until a dropped interrupt is repeated; the callback that dropped it has then ended."""


class LazyGroup(click.Group):
    """A group that loads a command's module only when it is used.

    `check`, for example, never loads the terminal UI.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"assistant.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, words) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            guess = did_you_mean(args[0], COMMANDS, cutoff=0.6) or f"the commands are {', '.join(COMMANDS)}"
            raise click.UsageError(f"no command {args[0]!r}; {guess}")
        return super().resolve_command(ctx, args)


def _print_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from assistant.formats.build import build_line

        click.echo(build_line())
        context.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version,
    help="Print the version with its commit, and exit.",
)  # fmt: skip
def rigtune() -> None:
    """Look at a GPU server, measure it, and write the launch recipe with the evidence for every line.

    Without a command: open the terminal UI on a terminal, otherwise do `auto`.
    """


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _interrupt_again(ignored: "sys.UnraisableHookArgs") -> None:
    """Interrupt once more after Python dropped an interrupt.

    Python drops exceptions in a callback of its import system or in a destructor; the locks of that import
    then stay locked for other threads.
    """
    if not issubclass(ignored.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(ignored)
        return
    signal.signal(signal.SIGALRM, _interrupt)
    signal.setitimer(signal.ITIMER_REAL, _AGAIN_AFTER_S)


def _require_folder() -> None:
    """Raise UsageError if the working folder was removed, because relative names then have no meaning."""
    try:
        Path.cwd()
    except OSError as error:
        raise UsageError("the working folder was removed", "change to an existing folder with cd") from error


def _condition(error: OSError) -> RigtuneError | None:
    """Return the error for the user if the machine is the cause; None if it is a bug of rigtune.

    Click writes help texts itself, so a full disk can appear there. `Path.is_dir` and `Path.exists` raise
    PermissionError for a path in a folder that the user may not enter.
    """
    words = os.strerror(error.errno or 0).lower()
    if error.errno in _FULL:
        return OutputError(f"cannot write: {words}", "free some space, or check the target of stdout")
    if error.errno in _UNUSABLE and error.filename is not None:
        return InputError(f"cannot use {error.filename}: {words}", "check the path and its permissions")
    return None


def command_line(arguments: list[str] | None = None) -> int:
    """Run the command line with `arguments` (default: the process's) and return the exit code."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP
            signal.signal(number, _interrupt)
    words = sys.argv[1:] if arguments is None else arguments
    try:
        _require_folder()
        result = rigtune.main(
            args=words or ["tui" if has_terminal() else "auto"], prog_name="rigtune", standalone_mode=False
        )
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
    except OSError as error:
        condition = _condition(error)
        if condition is None:
            raise
        complain(condition)
        return int(condition.exit_code)
    return int(result) if isinstance(result, int) else int(ExitCode.OK)


def main() -> NoReturn:
    """Run the command line, even if standard streams are closed, and end the process at once.

    Threads that hang in the kernel must not delay the end, and the usual shutdown of the interpreter would
    take longer than a check.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by the parent process
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115 - for the life of the process
    sys.unraisablehook = _interrupt_again
    code = command_line()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(code)
