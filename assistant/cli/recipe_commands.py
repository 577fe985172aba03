"""`rigtune export` and `run`: write launch files from a recipe, or start the recipe."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from assistant.cli.diagnostics import follow, say
from assistant.cli.options import PATH, format_option, verbosity_options
from assistant.cli.output import emit_data, emit_text
from assistant.formats.build import build_labels
from assistant.formats.json_answer import json_answer
from assistant.storage import read_bytes
from assistant.usecases.events import Event, Remarked
from assistant.usecases.export import (
    Exported,
    Startable,
    StartCommand,
    export_provision,
    export_recipe,
    run_recipe,
)
from assistant.usecases.hooks import judge_hooks
from assistant.usecases.site_slots import filled
from probes.base.errors import ExitCode, UsageError
from recipes.launch.provision import ProvisionOptions, find_provision
from recipes.launch.recipe import Recipe
from recipes.launch.recipe_file import load_recipe

slot_option = click.option(
    "--slot",
    "slots",
    multiple=True,
    metavar="NAME=VALUE",
    help="Fill a place of the launch files, such as account=lab; one of `rigtune list slots`; repeatable. "
    "~/.config/rigtune/site.toml and the file in RIGTUNE_SITE fill them for every recipe.",
)


@click.command()
@click.argument("files", type=PATH, metavar="[RECIPE | FOLDER | FILE...]", nargs=-1)
@click.option(
    "--to",
    "launchers",
    multiple=True,
    default=("torchrun",),
    show_default=True,
    metavar="LAUNCHER",
    help="One of `rigtune list launchers`; repeatable.",
)
@click.option(
    "--provision",
    "kind",
    default=None,
    metavar="KIND",
    help="Without RECIPE: write files that run `rigtune check` when machines are provisioned.",
)
@click.option(
    "--check",
    "checks",
    is_flag=True,
    help="Report which of the hooks, given as files or folders, another version of rigtune wrote. Exit code "
    "0: this version wrote all hooks; 1: another version wrote a hook, or a file has none; "
    "3: the commit of a hook is not known.",
)
@click.option(
    "--rigtune", default=None, metavar="PATH", help="With --provision: path of rigtune on the nodes."
)
@click.option("--program", default=None, metavar="PATH", hidden=True)
@click.option(
    "--policy", default=None, metavar="PATH", help="With --provision: path of the policy file on the nodes."
)
@click.option(
    "--expect",
    default=None,
    metavar="MACHINE",
    help="With --provision: machine of `rigtune list machines` that each node must be.",
)
@click.option(
    "--expect-gpus",
    type=int,
    default=None,
    metavar="N",
    help="With --provision: number of GPUs that each node must have. One of --expect, --expect-gpus and "
    "--policy is needed.",
)
@click.option(
    "--slurm-conf",
    default=None,
    metavar="PATH",
    help="With --provision slurm-health: path of slurm.conf, if it is not the default.",
)
@click.option(
    "--image",
    default=None,
    metavar="IMAGE",
    help="With --provision kubernetes-*: container image that contains rigtune.",
)
@click.option(
    "--gpus",
    type=int,
    default=None,
    metavar="N",
    help="With --provision kubernetes-init or kubernetes-job: number of GPUs that the pod requests (default: "
    "8). A Job with 0 checks all GPUs of the node, even while other jobs run.",
)
@click.option(
    "--nodes",
    type=int,
    default=None,
    metavar="N",
    help="With --provision kubernetes-cronjob: number of nodes to check (default: 1).",
)
@click.option(
    "--out",
    "directory",
    type=PATH,
    default=None,
    help="Folder to write to (default: launch/ beside the recipe, or provision/).",
)
@click.option("--overwrite", is_flag=True, help="Replace files that a person wrote or changed.")
@click.option(
    "--helper",
    "with_helper",
    is_flag=True,
    help="Also write rigtune_helper.py, with which your own torch program applies the plan.",
)
@slot_option
@format_option("text", "json")
@verbosity_options
def export_command(
    files: tuple[Path, ...],
    launchers: tuple[str, ...],
    slots: tuple[str, ...],
    kind: str | None,
    checks: bool,
    program: str | None,
    directory: Path | None,
    overwrite: bool,
    with_helper: bool,
    output_format: str,
    quiet: bool,
    verbose: bool,
    **given: str | int | None,
) -> int:
    """Write launch files for RECIPE, or with --provision the files of a health check, and print their paths.

    Kinds: slurm-health, slurm-prolog, nhc, prometheus, kubernetes-init, kubernetes-job, kubernetes-daemonset,
    kubernetes-cronjob, node-problem-detector, systemd, ansible, cloud-init. With --check: compare the version
    of exported hooks with this rigtune.
    """
    stated = {name: value for name, value in given.items() if value is not None}
    if program is not None:
        raise UsageError(
            "`export --program` is now `export --rigtune`",
            f"write --rigtune {shlex.quote(program)} for the path of rigtune on the nodes",
        )
    if checks and (kind is not None or stated or output_format == "json"):
        raise UsageError(
            "--check writes nothing and takes only files and folders", "rigtune export --check FOLDER"
        )
    if checks:
        return _check_hooks(files)
    if kind is not None:
        if files:
            raise UsageError(
                "--provision and RECIPE exclude each other",
                "write launch files and health checks with two commands",
            )
        options = ProvisionOptions(**stated, **build_labels())  # type: ignore[arg-type]
        events = export_provision(kind, options, directory or Path("provision"), overwrite=overwrite)
    elif not files:
        raise UsageError(
            "nothing to export", "give a recipe, which `rigtune plan -o` writes, or --provision KIND"
        )
    elif stated:
        option = next(iter(stated)).replace("_", "-")
        raise UsageError(f"--{option} needs --provision", "for launch files, give only the recipe")
    elif len(files) > 1:
        raise UsageError(f"{len(files)} recipes are too many", "export each recipe with a separate command")
    else:
        target = directory or files[0].parent / "launch"
        recipe = filled(read_recipe(files[0]), slots, launchers)
        events = export_recipe(recipe, launchers, target, overwrite=overwrite, with_helper=with_helper)
    _run_export(events, kind, output_format, quiet=quiet, verbose=verbose)
    return 0


def _run_export(
    events: Iterator[Event], kind: str | None, output_format: str, *, quiet: bool, verbose: bool
) -> None:
    """Run an export, and print the files on stdout and the next step on stderr."""
    remarks: list[str] = []
    starts: list[StartCommand] = []
    paths = follow(_noted(events, remarks, starts), quiet=quiet, verbose=verbose)
    if not quiet:
        say(find_provision(kind).install if kind is not None else _next(starts))
    written = tuple(str(path) for path in paths)
    if output_format == "json":
        answer = Exported(files=written, remarks=tuple(remarks), starts=tuple(starts))
        emit_data(json_answer(answer).decode())
    else:
        emit_text("\n".join(written))


def _noted(events: Iterator[Event], remarks: list[str], starts: list[StartCommand]) -> Iterator[Event]:
    """Yield the events, and collect what they state besides the files."""
    for event in events:
        match event:
            case Remarked():
                remarks.append(event.text)
            case Startable():
                starts.append(event.start)
        yield event


def _next(starts: Sequence[StartCommand]) -> str:
    """Return a line for each launcher that states how its files are started."""
    several = len(starts) > 1
    return "\n".join(f"next{f' ({each.launcher})' * several}: {each.command}" for each in starts)


def _check_hooks(files: tuple[Path, ...]) -> int:
    """Print one line for each hook, and return the exit code. Raises UsageError and InputError."""
    hooks = judge_hooks(files, **build_labels())
    emit_text("\n".join(f"{hook.state:9}  {hook.path}  {hook.words}".rstrip() for hook in hooks))
    states = {hook.state for hook in hooks}
    if states & {"differs", "no hook"}:
        return int(ExitCode.FINDINGS)
    return int(ExitCode.UNKNOWN if "unknown" in states else ExitCode.OK)


def read_recipe(path: Path) -> Recipe:
    """Return the recipe in `path`. Raises InputError."""
    return load_recipe(read_bytes(path).decode("utf-8", "surrogateescape"), str(path))


@click.command()
@click.argument("recipe_file", type=PATH, metavar="RECIPE")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--to",
    "launcher",
    default="torchrun",
    show_default=True,
    metavar="LAUNCHER",
    help="One of `rigtune list launchers`.",
)
@click.option(
    "--out",
    "directory",
    type=PATH,
    default=None,
    help="Folder for the launch files (default: launch/ beside the recipe).",
)
@slot_option
@verbosity_options
def run_command(
    recipe_file: Path,
    arguments: tuple[str, ...],
    launcher: str,
    slots: tuple[str, ...],
    directory: Path | None,
    quiet: bool,
    verbose: bool,
) -> int:
    """Write the launch files of RECIPE and start them; ARGUMENTS after `--` go to the training program.

    The exit code is that of the training program, or of the command that submits the job to a scheduler.
    """
    running = run_recipe(
        filled(read_recipe(recipe_file), slots, (launcher,)),
        launcher=launcher,
        directory=directory or recipe_file.parent / "launch",
        arguments=arguments,
    )
    return int(follow(running, quiet=quiet, verbose=verbose))
