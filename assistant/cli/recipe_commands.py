"""`rigtune export`, `run` and `verify`: write launch files from a recipe, start it, or try it."""

from pathlib import Path

import click

from assistant.cli.diagnostics import follow, say
from assistant.cli.options import PATH, format_option, python_option, verbosity_options
from assistant.cli.output import emit_answer, emit_text
from assistant.storage import read_bytes
from assistant.usecases.export import export_provision, export_recipe, run_recipe
from probes.base.errors import UsageError
from recipes.launch.provision import ProvisionOptions, find_provision
from recipes.launch.recipe import Recipe
from recipes.launch.recipe_file import load_recipe


@click.command()
@click.argument("recipe_file", type=PATH, metavar="[RECIPE]", required=False)
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
    help="Without RECIPE: write files that run `rigtune check` where machines are provisioned.",
)
@click.option(
    "--program", default=None, metavar="PATH", help="With --provision: path of rigtune on the nodes."
)
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
    help="With --provision kubernetes-*: number of GPUs that the pod requests.",
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
    recipe_file: Path | None,
    launchers: tuple[str, ...],
    kind: str | None,
    program: str | None,
    policy: str | None,
    expect: str | None,
    expect_gpus: int | None,
    slurm_conf: str | None,
    image: str | None,
    gpus: int | None,
    directory: Path | None,
    overwrite: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Write launch files for RECIPE, or with --provision the files of a health check, and print their paths.

    Kinds: slurm-health, slurm-prolog, nhc, kubernetes-init, kubernetes-job, systemd, prometheus, ansible,
    cloud-init.
    """
    given = {
        "program": program,
        "policy": policy,
        "expect": expect,
        "expect_gpus": expect_gpus,
        "slurm_conf": slurm_conf,
        "image": image,
        "gpus": gpus,
    }
    if kind is not None:
        if recipe_file is not None:
            raise UsageError(
                "--provision and RECIPE exclude each other",
                "write launch files and health checks with two commands",
            )
        chosen = {name: value for name, value in given.items() if value is not None}
        options = ProvisionOptions(**chosen)  # type: ignore[arg-type]
        events = export_provision(kind, options, directory or Path("provision"), overwrite=overwrite)
    elif recipe_file is None:
        raise UsageError(
            "nothing to export", "give a recipe, which `rigtune plan -o` writes, or --provision KIND"
        )
    elif stray := [f"--{name.replace('_', '-')}" for name, value in given.items() if value is not None]:
        raise UsageError(f"{stray[0]} needs --provision", "the recipe alone describes launch files")
    else:
        target = directory or recipe_file.parent / "launch"
        events = export_recipe(read_recipe(recipe_file), launchers, target, overwrite=overwrite)
    paths = follow(events, quiet=quiet, verbose=verbose)
    if kind is not None and not quiet:
        say(find_provision(kind).install)
    emit_text("\n".join(str(path) for path in paths))


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
    """Run some steps of RECIPE and print predicted beside measured step time and peak memory."""
    from assistant.pages.training.recipe_page import verify_page
    from assistant.usecases.verify import verify_recipe

    result = follow(
        verify_recipe(read_recipe(recipe_file), steps=steps, python=python), quiet=quiet, verbose=verbose
    )
    emit_answer(result, output_format, lambda _: verify_page(result), is_wide=True)
