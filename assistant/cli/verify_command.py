"""`rigtune verify`: prove a launch, and compare predicted and measured step time and memory."""

from pathlib import Path
from typing import Literal

import click

from assistant.cli.diagnostics import follow
from assistant.cli.options import PATH, format_option, python_option, verbosity_options
from assistant.cli.output import emit_answer
from assistant.cli.recipe_commands import read_recipe, slot_option
from assistant.storage import default_run_directory
from assistant.usecases.site_slots import filled
from probes.base.errors import ExitCode
from recipes.launch.verification import Verification


@click.command()
@click.argument("recipe_file", type=PATH, metavar="RECIPE")
@python_option
@click.option(
    "--steps", type=click.IntRange(min=2), default=20, show_default=True, help="Optimizer steps to run."
)
@click.option(
    "--launcher",
    "--to",
    "launcher",
    default="torchrun",
    show_default=True,
    metavar="LAUNCHER",
    help="One of `rigtune list launchers`.",
)
@click.option(
    "--reference",
    "program",
    flag_value="reference",
    help="Measure the reference workload with the recipe's shapes instead of your own program.",
)
@click.option(
    "--own",
    "program",
    flag_value="own",
    help="Measure your own program even if its output folder is unknown; it may then replace checkpoints.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would run; start nothing.")
@click.option("--no-store", is_flag=True, help="Do not keep the measured step for the next plan.")
@click.option(
    "--out",
    "directory",
    type=PATH,
    default=None,
    metavar="FOLDER",
    help="Folder for launch files, reports and logs, the same on every host (default: a new one in the state "
    "folder).",
)
@slot_option
@format_option("text", "json")
@verbosity_options
def verify_command(
    recipe_file: Path,
    python: str | None,
    steps: int,
    launcher: str,
    program: Literal["reference", "own"] | None,
    dry_run: bool,
    no_store: bool,
    directory: Path | None,
    slots: tuple[str, ...],
    output_format: str,
    quiet: bool,
    verbose: bool,
) -> int:
    """Prove the launch of RECIPE by a smoke test on all ranks, then compare some steps with the prediction.

    The smoke test asserts the world size, ranks, hosts, backend, transports and the result of an all-reduce.
    Then some steps of your own program run, with an output folder of their own, or of the reference workload.
    The measured step is kept for the next plan of this machine.

    Exit code 0: the launch is proven; 1: an assertion about the launch failed; 4: the program failed.
    """
    from assistant.pages.training.verify_page import verify_page, verify_plan_page
    from assistant.usecases.verify import VerifyRequest, plan_verification, verify_launch

    recipe = filled(read_recipe(recipe_file), slots, (launcher,))
    request = VerifyRequest(
        steps=steps, python=python, launcher=launcher, program=program or "", stores=not no_store
    )
    folder = directory or default_run_directory() / "verify"
    if dry_run:
        planned = plan_verification(recipe, request, folder)
        emit_answer(planned, output_format, lambda _: verify_plan_page(planned), is_wide=True)
        return int(ExitCode.OK)
    result: Verification = follow(verify_launch(recipe, request, folder), quiet=quiet, verbose=verbose)
    emit_answer(result, output_format, lambda _: verify_page(result), is_wide=True)
    return int(ExitCode.FINDINGS if result.has_failed else ExitCode.OK)
