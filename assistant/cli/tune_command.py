"""`rigtune tune`: measure the best few candidates of a recipe, and write the winner into the recipe."""

import re
from pathlib import Path

import click

from assistant.cli.diagnostics import follow, say
from assistant.cli.interrupts import stop_on_signals
from assistant.cli.options import PATH, facts_of, format_option, python_option, verbosity_options
from assistant.cli.output import emit_answer
from assistant.cli.recipe_commands import read_recipe
from assistant.usecases.tune import TuneRequest, experiment_variables, tune_recipe
from probes.base.errors import ExitCode
from probes.base.record import quoted
from probes.base.units import plural
from recipes.tuning.tune_result import TuneResult
from recipes.tuning.tune_stages import MOST_CANDIDATES, MOST_STEPS
from recipes.tuning.variants import variables_to_try

_PARTS = re.compile(r"(\d+(?:\.\d+)?)([smh])")
_SECONDS = {"s": 1, "m": 60, "h": 3600}


class _Duration(click.ParamType):  # type: ignore[type-arg]
    """A time such as `90s`, `20m` or `1h30m`."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        text = str(value).strip().lower()
        parts = _PARTS.findall(text)
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
        if "".join(number + unit for number, unit in parts) != text or not 0 < seconds < 1e7:
            self.fail(f"{quoted(text)} is not a time; give one such as 90s, 20m or 1h30m", param, ctx)
        return seconds


@click.command()
@click.argument("recipe_file", type=PATH, metavar="RECIPE")
@python_option
@click.option(
    "--budget",
    "budget_s",
    type=_Duration(),
    default="20m",
    show_default=True,
    metavar="TIME",
    help="Time limit for all trials together, including earlier trials that --resume continues.",
)
@click.option(
    "--steps",
    type=click.IntRange(2, MOST_STEPS),
    default=20,
    show_default=True,
    help="Optimizer steps per trial.",
)
@click.option(
    "--candidates",
    type=click.IntRange(1, MOST_CANDIDATES),
    default=6,
    show_default=True,
    metavar="K",
    help="Maximum number of layouts and settings to measure besides the recipe, fastest prediction first.",
)
@click.option(
    "--variables",
    is_flag=True,
    help="Then also measure the environment variables that may help on this machine.",
)
@click.option(
    "--try",
    "tried",
    multiple=True,
    metavar="NAME=VALUE",
    help="Also measure this environment variable; repeatable.",
)
@click.option(
    "--reference",
    "uses_reference",
    is_flag=True,
    help="Run the reference workload with the recipe's shapes instead of your own program.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the order of the trials.")
@click.option("--dry-run", is_flag=True, help="Only show the candidates.")
@click.option("--resume", is_flag=True, help="Continue a tune that was interrupted.")
@click.option(
    "--out",
    "folder",
    type=PATH,
    default=None,
    metavar="FOLDER",
    help="Folder for the journal and the logs (default: tune-NAME/ beside the recipe).",
)
@click.option(
    "-o",
    "--output",
    type=PATH,
    default=None,
    metavar="FILE",
    help="Write the recipe with the winner to this file instead of RECIPE.",
)
@format_option("text", "json")
@verbosity_options
def tune_command(
    recipe_file: Path,
    python: str | None,
    budget_s: float,
    steps: int,
    candidates: int,
    variables: bool,
    tried: tuple[str, ...],
    uses_reference: bool,
    seed: int,
    dry_run: bool,
    resume: bool,
    folder: Path | None,
    output: Path | None,
    output_format: str,
    quiet: bool,
    verbose: bool,
) -> int:
    """Measure the best few candidates of RECIPE, and write the winner into it.

    Candidates are other layouts with the same global batch, settings of the reference workload, and
    environment variables. Each trial trains some steps. A candidate wins only if its steps are shorter by
    more than chance.

    Exit code 0: the candidates were measured, whether or not one of them won; 4: RECIPE itself failed; 130:
    interrupted, and --resume continues.
    """
    from assistant.pages.training.tune_page import tune_page

    recipe = read_recipe(recipe_file)
    experiments = experiment_variables(recipe, facts_of(python=python)) if variables else ()
    request = TuneRequest(
        steps=steps,
        candidates=candidates,
        budget_s=budget_s,
        seed=seed,
        variables=(*experiments, *variables_to_try(tried)),
        python=python,
        uses_reference=uses_reference,
        resume=resume,
        dry_run=dry_run,
    )
    folder = folder or recipe_file.parent / f"tune-{recipe_file.stem}"
    with stop_on_signals() as is_stopped:
        events = tune_recipe(
            recipe, recipe_file, request, folder=folder, output=output, is_stopped=is_stopped
        )
        result: TuneResult = follow(events, quiet=quiet, verbose=verbose)
        was_stopped = is_stopped() and not result.is_complete
    if variables and not experiments:
        say("rigtune: no environment variable of tier experiment applies here")
    emit_answer(result, output_format, lambda _: tune_page(result), is_wide=True)
    if was_stopped:
        say(f"rigtune: interrupted; {plural(result.trials, 'trial')} kept, and --resume continues")
        return int(ExitCode.INTERRUPTED)
    return int(ExitCode.OK)
