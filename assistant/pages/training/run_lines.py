"""Show the cost of a run: steps, hours, GPU hours, price, and the expected loss to failures."""

from assistant.pages.blocks import Row, Section, section, words
from assistant.pages.training.strategies_page import experiment_line
from probes.base.record import Unknown
from probes.base.units import count, percent, plural
from recipes.planning.plan import FastestProgram, Plan, RunCost

_LEAST_INTERRUPTIONS = 1.0
"""Smallest number of expected interruptions for which the loss is shown."""


def run_section(plan: Plan) -> Section:
    """Return the cost of the run, the program that would be fastest, and the strategies to try, if known."""
    lines = [] if plan.run is None else run_lines(plan.run, is_gpu=plan.cluster.device == "cuda")
    if plan.fastest_program is not None:
        lines.append(program_line(plan.fastest_program))
    if experiment := experiment_line(plan):
        lines.append(experiment)
    return section("Run", [Row(words(line)) for line in lines], indent=2)


def _counted(number: float, noun: str) -> str:
    """Return a number that may be very large, with its noun: `1 step`, `2.4 M steps`."""
    return plural(1, noun) if number == 1 else f"{count(number)} {noun}s"


def run_lines(run: RunCost, *, is_gpu: bool) -> list[str]:
    """Return the length of the run, its hours and price, and the loss to failures of a large run."""
    length = f"{_counted(run.steps, 'step')}, {_counted(run.samples, 'sample')}"
    length += f", {count(run.tokens)} tokens" if run.tokens else ""
    if run.length_from == "assumed":
        length += " (assumed: give --tokens, --samples or --steps)"
    if isinstance(run.hours, Unknown) or isinstance(run.gpu_hours, Unknown):
        return [f"{length}: hours unknown, because the step time is unknown"]
    price = f", {money(run.cost)}" if isinstance(run.cost, float) else ""
    lines = [
        f"{length}: {hours(run.hours)}, {number(run.gpu_hours)} {'GPU' if is_gpu else 'rank'} hours{price}"
    ]
    if isinstance(run.interruptions, float) and run.interruptions >= _LEAST_INTERRUPTIONS:
        lost = 0.0 if isinstance(run.lost_hours, Unknown) else run.lost_hours
        share = 0.0 if isinstance(run.lost_share, Unknown) else run.lost_share
        paid = "; the price includes this time" if price else ""
        lines.append(
            f"expected: about {plural(round(run.interruptions), 'interruption')} by failures, with "
            f"{hours(lost)} lost ({percent(share)} of the time){paid}"
        )
    return lines


def program_line(fastest: FastestProgram) -> str:
    """Return which program would be fastest, and by how much."""
    if not fastest.speed_up:
        return f"no other program is clearly faster here (compared: {len(fastest.compared)})"
    return (
        f"fastest program here: {fastest.title}, {percent(fastest.speed_up)} faster ({fastest.layout}); "
        f"--program {fastest.program} plans for it"
    )


def hours(value: float) -> str:
    """Return hours as people say them: `12.3 days`, `5.2 h`, `12 min`, `3.7 s`."""
    if value < 1 / 60:
        return f"{value * 3600:.2g} s"
    if value >= 72:
        return f"{value / 24:.3g} days" if value < 24_000 else f"{count(round(value / 24))} days"
    return f"{value:.3g} h" if value >= 1 else f"{value * 60:.2g} min"


def number(value: float) -> str:
    """Return an amount with three digits, or as a whole number from 100 to 99 999."""
    return count(round(value)) if value >= 100 else f"{value:.3g}"


def money(value: float) -> str:
    """Return a price without a currency, because the user's own price had none."""
    return f"price {number(value)}"
