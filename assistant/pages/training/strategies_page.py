"""Show why strategies are chosen or not, and which of them a plan suggests to try."""

from assistant.pages.blocks import Block, Cell, Page, Row, Section, section, words
from probes.base.record import Unknown
from probes.base.units import duration, percent, plural
from recipes.planning.plan import Experiment, Plan
from recipes.strategies.verdicts import StrategyAnswers, Verdict

_WITHOUT_A_GAIN = ("chosen", "not-applicable", "unknown")
"""Statuses without a statement about the gain; the first reason is shown in its place."""
_NOTICEABLE = 0.002
"""Gains or losses below this part of a step are shown as `gains nothing`."""
_NAMED = 2
"""Maximum number of experiments that a plan's line names."""


def strategies_page(answers: StrategyAnswers) -> Page:
    """Return a section per strategy: the answer, then its reasons."""
    step = answers.step_time_s
    time = "step time unknown" if isinstance(step, Unknown) else f"{duration(step)} per step"
    compared = section("", [words((f"Compared with {answers.layout}: {time}", "dim"))])
    return (*(_strategy(row, step) for row in answers.verdicts), compared)


def _strategy(row: Verdict, step_s: float | Unknown) -> Section:
    first = row.because[0] if row.status in _WITHOUT_A_GAIN else ""
    reasons = row.because[1:] if first else row.because
    lines: list[Block | Cell] = [Row(words(reason)) for reason in reasons]
    suits = row.status in ("chosen", "recommended")
    details = (
        ("how", row.how),
        ("chosen when", row.chosen_when if suits else ""),
        ("not chosen when", "" if suits else row.not_when),
        ("setting", "" if row.status == "not-applicable" else row.setting),
        ("unproven", row.unproven),
        ("source", row.source),
    )
    lines += [Row(words((f"{name}: {text}", "dim"))) for name, text in details if text]
    return section(f"{row.strategy}: {_answer(row, step_s)}{first}", lines, indent=2)


def _answer(row: Verdict, step_s: float | Unknown) -> str:
    match row.status:
        case "chosen":
            return "the plan uses it: "
        case "not-applicable":
            return "not applicable: "
        case "unknown":
            return "gain unknown (unproven): "
    gain, after = row.gain, row.step_time_s
    if isinstance(gain, Unknown) or isinstance(after, Unknown) or isinstance(step_s, Unknown):
        return "gain unknown"
    times = f" ({duration(step_s)} -> {duration(after)})"
    if row.status == "recommended":
        return f"worth an experiment: saves {percent(gain)} of the step{times}"
    if abs(gain) < _NOTICEABLE:
        return (
            f"gains nothing here: the step changes by less than {percent(_NOTICEABLE)}"
            if gain
            else "gains nothing here"
        )
    if gain > 0:
        return f"not worth the effort: saves {percent(gain)} of the step{times}"
    return f"slower: the step takes {percent(-gain)} longer{times}"


def experiment_line(plan: Plan) -> str:
    """Return what the plan suggests to try, in one line; empty if nothing is worth an experiment."""
    rows = plan.experiments[:_NAMED]
    if not rows:
        return ""
    best = rows[0]
    other = "".join(f"; {row.strategy} saves {percent(row.saved_share)}" for row in rows[1:])
    saved = f"{best.strategy} saves {percent(best.saved_share)} of the step{_ranks(best, plan)}"
    return f"experiment: {saved}{other}; --why-not {best.strategy} explains"


def _ranks(row: Experiment, plan: Plan) -> str:
    """Return the time of a step, and the number of ranks if it differs from the plan's."""
    time = f" ({duration(row.step_time_s)}"
    if row.ranks == plan.cluster.world_size:
        return f"{time})"
    kind = "GPU" if plan.cluster.device == "cuda" else "rank"
    return f"{time} on all {plural(row.ranks, kind)})"
