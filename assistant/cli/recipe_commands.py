"""`rigtune export`, `run` and `verify`: write launch files from a recipe, start it, or try it."""

import shlex
from pathlib import Path

import click

from assistant.cli.diagnostics import follow, say
from assistant.cli.options import PATH, format_option, python_option, verbosity_options
from assistant.cli.output import emit_answer, emit_text
from assistant.formats.build import build_labels
from assistant.storage import read_bytes
from assistant.usecases.export import export_provision, export_recipe, run_recipe
from assistant.usecases.hooks import judge_hooks
from probes.base.errors import ExitCode, UsageError
from recipes.launch.provision import ProvisionOptions, find_provision
from recipes.launch.recipe import Recipe
from recipes.launch.recipe_file import load_recipe


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
    "0: this version wrote all hooks; 1: another version wrote a hook; 3: the commit of a hook is not known.",
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
@click.option("--overwrite", is_flag=True, help="Replace files that rigtune did not write.")
@verbosity_options
def export_command(
    files: tuple[Path, ...],
    launchers: tuple[str, ...],
    kind: str | None,
    checks: bool,
    program: str | None,
    directory: Path | None,
    overwrite: bool,
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
    if checks and (kind is not None or stated):
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
        events = export_recipe(read_recipe(files[0]), launchers, target, overwrite=overwrite)
    paths = follow(events, quiet=quiet, verbose=verbose)
    if kind is not None and not quiet:
        say(find_provision(kind).install)
    emit_text("\n".join(str(path) for path in paths))
    return 0


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
@verbosity_options
def run_command(
    recipe_file: Path,
    arguments: tuple[str, ...],
    launcher: str,
    directory: Path | None,
    quiet: bool,
    verbose: bool,
) -> int:
    """Write the launch files of RECIPE and start them; ARGUMENTS after `--` go to the training program.

    The exit code is the training program's own.
    """
    running = run_recipe(
        read_recipe(recipe_file),
        launcher=launcher,
        directory=directory or recipe_file.parent / "launch",
        arguments=arguments,
    )
    return int(follow(running, quiet=quiet, verbose=verbose))


@click.command()
@click.argument("recipe_file", type=PATH, metavar="RECIPE")
@python_option
@click.option(
    "--steps", type=click.IntRange(min=2), default=20, show_default=True, help="Optimizer steps to run."
)
@format_option("text", "json")
@verbosity_options
def verify_command(
    recipe_file: Path, python: str | None, steps: int, output_format: str, quiet: bool, verbose: bool
) -> None:
    """Run some steps of RECIPE and print predicted and measured step time and peak memory."""
    from assistant.pages.training.recipe_page import verify_page
    from assistant.usecases.verify import verify_recipe

    result = follow(
        verify_recipe(read_recipe(recipe_file), steps=steps, python=python), quiet=quiet, verbose=verbose
    )
    emit_answer(result, output_format, lambda _: verify_page(result), is_wide=True)
