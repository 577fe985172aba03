"""Define the options that several commands share."""

import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from assistant.cli.diagnostics import follow, say
from probes.base.errors import InterpreterError, UsageError
from probes.base.record import quoted
from probes.collect.collecting import CollectOptions
from probes.facts import MachineFacts
from probes.facts.measurements import MeasurementSet
from probes.sources.base import Source
from probes.sources.choose import open_source

Command = TypeVar("Command", bound=Callable[..., Any])


class _AnyPath(click.Path):
    """A path that need not exist. Paths that cannot be looked up are refused; `Path.exists` would raise."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = super().convert(value, param, ctx)
        try:
            Path(os.fsdecode(path)).exists()
        except OSError as error:
            reason = os.strerror(error.errno or 0).lower()
            self.fail(f"{quoted(str(value))} cannot be used: {reason}; name another path", param, ctx)
        return path


PATH = _AnyPath(path_type=Path)


class Number(click.FloatRange):
    """A number within bounds. NaN is refused; click would accept it within any bounds."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


class ProgramCommand(click.Command):
    """A command that takes the user's own training command after `--`.

    The command may have any number of arguments before `--`.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta["rigtune.program"] = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- PROGRAM...]"]


def program_after_dashes() -> tuple[str, ...]:
    """Return the arguments after `--`."""
    return tuple(click.get_current_context().meta.get("rigtune.program", ()))


def source_options(function: Command) -> Command:
    """Add `--from PATH` (repeatable) and `--machine NAME`.

    The options select a recording, pasted files or a catalogue machine.
    """
    function = click.option(
        "--machine",
        metavar="NAME",
        help="Use a machine of the catalogue instead of this one; see `rigtune list machines`.",
    )(function)
    return click.option(
        "--from",
        "from_paths",
        multiple=True,
        type=PATH,
        metavar="PATH",
        help="Read a recording or pasted tool output (- for standard input) instead of this machine; "
        "repeatable.",
    )(function)


def python_option(function: Command) -> Command:
    return click.option(
        "--python",
        metavar="PATH",
        callback=_from_anywhere,
        help="Python interpreter that runs your training.",
    )(function)


def policy_option(function: Command) -> Command:
    """Add `--policy FILE` to a command that measures, which gets the path as `policy_file`."""
    return click.option(
        "--policy",
        "policy_file",
        type=PATH,
        metavar="FILE",
        envvar="RIGTUNE_POLICY",
        show_envvar=True,
        help="Policy with other limits, and waivers.",
    )(function)


def _from_anywhere(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """Return an absolute path, because programs run in other folders.

    A bare name stays unchanged and is looked up on PATH. Symbolic links are not resolved, because the python
    of a virtual environment is a symbolic link.
    """
    if value is not None and not value.strip():
        raise click.BadParameter("no interpreter is named.")
    return str(Path(value).absolute()) if value and "/" in value else value


def format_option(*formats: str) -> Callable[[Command], Command]:
    return click.option(
        "--format",
        "output_format",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="Output on stdout.",
    )


def verbosity_options(function: Command) -> Command:
    function = click.option("-v", "--verbose", is_flag=True, help="Print more.")(function)
    return click.option("-q", "--quiet", is_flag=True, help="Print only errors on stderr.")(function)


class _Count(click.ParamType):  # type: ignore[type-arg]
    """A whole number with an optional unit: `300B` is 300e9, `1.5T` is 1.5e12."""

    name = "count"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value).strip()
        scale = {"K": 10**3, "M": 10**6, "B": 10**9, "G": 10**9, "T": 10**12}.get(text[-1:].upper(), 1)
        try:
            number = round(float(text[:-1] if scale > 1 else text) * scale)
        except (ValueError, OverflowError):
            number = 0
        if not 1 <= number <= 10**18:
            self.fail(f"{quoted(text)} is not a number; give one such as 300B", param, ctx)
        return number


TOKENS = _Count()


class _Length(click.ParamType):  # type: ignore[type-arg]
    """A number of tokens in digits: `128k` could be 128000 or 131072."""

    name = "integer"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return int(str(value))
        except ValueError:
            problem = f"{quoted(str(value)[:40])} is not a whole number of tokens; give all digits: 131072"
            self.fail(problem, param, ctx)


_MOST_SIZES = 64
"""Maximum number of sizes on one scaling curve."""


class _Nodes(click.ParamType):  # type: ignore[type-arg]
    """Numbers of nodes: `4`, `1,2,4`, or `1,2,4,...,4096`, continued by the last ratio or difference."""

    name = "nodes"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        words = [word.strip() for word in str(value).split(",")]
        counts: list[int] = []
        try:
            for place, word in enumerate(words):
                if word in ("...", "…"):
                    counts += _continued(counts, int(words[place + 1]))
                else:
                    counts.append(int(word))
        except (ValueError, IndexError):
            self.fail(
                f"{quoted(str(value))} is not a number of nodes; give 4, or 1,2,4,...,64 for a curve",
                param,
                ctx,
            )
        if len(counts) > _MOST_SIZES:
            self.fail(f"{len(counts)} numbers of nodes are too many; give at most {_MOST_SIZES}", param, ctx)
        if len(counts) > 1 and min(counts) < 1:
            self.fail(f"--nodes is {min(counts)}, but must be 1 or more", param, ctx)
        return tuple(counts if len(counts) == 1 else sorted(set(counts)))


def _continued(counts: list[int], last: int) -> list[int]:
    """Return the numbers after `counts` and below `last`. Raises ValueError if they do not grow."""
    before, current = counts[-2:]
    if not 0 < before < current:
        raise ValueError(counts)
    ratio, difference = divmod(current, before)
    result: list[int] = []
    while len(result) <= _MOST_SIZES:
        current = current + (counts[-1] - before) if difference else current * ratio
        if current >= last:
            break
        result.append(current)
    return result


NODES = _Nodes()


def plan_options(function: Command) -> Command:
    """Add the options that `plan` and `auto` share."""
    for option in reversed(
        (
            click.option(
                "--nodes",
                type=NODES,
                default="1",
                show_default=True,
                metavar="N",
                help="Number of nodes equal to this one; `plan` with 1,2,4,...,64 shows how the job scales.",
            ),
            click.option(
                "--global-batch", type=int, metavar="SEQUENCES", help="Sequences per optimizer step."
            ),
            click.option(
                "--image-size", type=int, metavar="PIXELS", help="Side of the images, for image models."
            ),
            click.option("--sequence-length", type=_Length(), metavar="TOKENS", help="Tokens per sequence."),
            click.option(
                "--precision",
                type=click.Choice(("bf16", "fp16", "fp32", "fp8", "mxfp8", "nvfp4")),
                help="Number format of the training.",
            ),
            click.option("--steps", type=int, help="Optimizer steps of the run."),
            click.option(
                "--tokens", type=TOKENS, metavar="TOKENS", help="Tokens of the whole run, such as 300B."
            ),
            click.option(
                "--samples",
                type=TOKENS,
                metavar="SAMPLES",
                help="Sequences or images of the whole run, such as 100M.",
            ),
            click.option(
                "--price",
                type=click.FloatRange(0.0, 1e6, min_open=True),
                metavar="PRICE",
                help="Price of a GPU hour, in any currency; the plan then shows the cost of the run.",
            ),
            click.option(
                "--objective",
                type=click.Choice(("throughput", "time", "cost", "fewest-gpus")),
                default="throughput",
                show_default=True,
                help="Goal of the plan: tokens per second, time with the expected loss to failures, cost "
                "(needs --price), or the fewest GPUs.",
            ),
            click.option(
                "--tuning",
                type=click.Choice(("full", "lora", "qlora")),
                default="full",
                show_default=True,
                help="Train all weights, or adapters over frozen weights.",
            ),
            click.option("--lora-rank", type=int, help="Rank of the adapters."),
            click.option(
                "--program",
                metavar="NAME",
                help="Training software that runs the plan; see `rigtune list programs`.",
            ),
            click.option(
                "--gpu",
                metavar="NAME",
                help="Plan for nodes with this GPU, in any spelling; with --from, complete a paste that does "
                "not name its GPUs.",
            ),
            click.option(
                "--gpus", type=int, metavar="N", help="GPUs per node, for --gpu (default: the usual number)."
            ),
            click.option(
                "--network",
                metavar="WORDS",
                help='Network of a node, for --gpu, such as "8x400G IB" (default: the usual network).',
            ),
            click.option(
                "--headroom",
                type=click.FloatRange(0.0, 0.9),
                metavar="PART",
                help="Part of each GPU's memory that the plan leaves free.",
            ),
            click.option(
                "--strategy",
                type=click.Choice(("ddp", "zero1", "zero2", "fsdp", "hsdp")),
                help="Pin the strategy.",
            ),
            click.option(
                "--micro-batch", type=int, metavar="SEQUENCES", help="Pin the micro-batch per rank."
            ),
            click.option(
                "--pin",
                "pinned",
                multiple=True,
                metavar="NAME=VALUE",
                help="Pin another setting: tp, pp, vp, cp, ep, fsdp, grad_accum, schedule, sharding, "
                "activation_checkpointing, recomputed_share; repeatable.",
            ),
            click.option("--ranks-per-node", type=int, help="Pin the ranks per node."),
            click.option("--learning-rate", type=float, help="Pin the peak learning rate."),
        )
    ):
        function = option(function)
    return function


def names_of(values: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of an option that may be repeated or have several values, separated by commas."""
    return tuple(name for value in values for part in value.split(",") if (name := part.strip()))


def paths_of(from_paths: tuple[Path, ...], more: tuple[Path, ...]) -> tuple[Path, ...]:
    """Return all paths of `--from A B C`; click treats B and C as arguments of the command."""
    if more and not from_paths:
        raise click.UsageError(f"unexpected argument {str(more[0])!r}")
    return from_paths + more


def source_of(from_paths: tuple[Path, ...], machine: str | None) -> Source:
    """Return the source that the options name, by default the live machine.

    The source is closed when the command ends.
    """
    source = open_source(from_paths, machine)
    click.get_current_context().call_on_close(source.close)
    return source


def require_interpreter(python: str | None) -> None:
    """Raise InterpreterError if the user names an interpreter that this machine does not have."""
    if not python:
        return
    import shutil  # most commands name no interpreter

    if shutil.which(python) is None and not Path(python).exists():
        raise InterpreterError(
            f"there is no Python interpreter {quoted(python)}",
            "name the interpreter that you train with: --python PATH",
        )


def collect_options(
    python: str | None, *, ask_interpreters: bool = True, is_here: bool = True
) -> CollectOptions:
    """Return what the probe reads; an interpreter that the user names must exist if the machine `is_here`."""
    if is_here:
        require_interpreter(python)
    return CollectOptions(
        python=python, directory=str(Path.cwd()), own_python=sys.executable, ask_interpreters=ask_interpreters
    )


def facts_of(
    from_paths: tuple[Path, ...] = (), machine: str | None = None, python: str | None = None
) -> MachineFacts:
    """Return the facts of the machine that `--from` or `--machine` names, by default this one.

    `python` is the value of `--python`, the training interpreter.
    """
    from assistant.usecases.probe import probe_machine  # many commands read no machine

    source = source_of(from_paths, machine)
    probing = probe_machine(source, collect_options(python, is_here=source.is_live))
    facts: MachineFacts = follow(probing, quiet=True)
    return facts


def measurements_for(path: Path | None, facts: MachineFacts, *, quiet: bool = False) -> MeasurementSet:
    """Return the measurements in a file; none without a file.

    Raises InputError for a file that cannot be read, and UsageError if another machine was measured.
    """
    if path is None:
        return MeasurementSet()
    from assistant.storage import read_measurements  # most commands read no file
    from recipes.machine.measured_on import require_same_machine

    measured = read_measurements(path)
    remark = require_same_machine(measured, facts, str(path))
    if remark and not quiet:
        say(f"rigtune: {remark}")
    return measured


def require_function(option: str, text: str) -> None:
    """Raise UsageError unless `text` is `module:function`, or `file.py:function` with an existing file."""
    hint = "give module:function or path/to/file.py:function"
    module, _, function = text.rpartition(":")
    named = module.endswith(".py") or all(part.isidentifier() for part in module.split("."))
    if not (named and function.isidentifier()):
        raise UsageError(f"{option} {text!r} names no function", hint)
    if module.endswith(".py") and not Path(module).is_file():
        raise UsageError(f"{option} {text!r}: there is no file {module}", hint)


def given_settings(options: dict[str, Any]) -> dict[str, str]:
    """Return the options that the user gave, as texts by name."""
    return {name: str(value) for name, value in options.items() if value is not None}
