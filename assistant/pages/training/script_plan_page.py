"""Show how much better a plan would be than an existing launch, and the diff of the launch's files."""

from assistant.pages.blocks import Cell, Column, Page, Section, Source, Table, section, words
from probes.base.record import Unknown
from probes.base.units import count, duration, gib, percent
from recipes.launch.imports.better_plan import ScriptPlan
from recipes.planning.layout_words import describe
from recipes.predict.breakdowns import Predicted


def script_plan_page(answer: ScriptPlan) -> Page:
    """Return the gain, both predictions, the changes, and the diff."""
    plan = answer.best
    rows: list[tuple[Cell, ...]] = [_row("your files", answer.layout, answer.predicted, answer.ranks)]
    if answer.is_better:
        ranks = plan.cluster.world_size
        rows.append(_row("best plan", describe(plan.chosen), plan.chosen.predicted, ranks))
    columns = (
        Column(""),
        Column("step", right=True),
        Column("memory", right=True),
        Column("tokens/s", right=True),
        Column("layout", least=24),
    )
    return (
        section(_title(answer), [words((note, "dim")) for note in answer.notes]),
        Section("", (Table(columns, tuple(rows)),)),
        _changes(answer),
        Section("Change of your files", (Source(answer.diff, "diff"),)) if answer.diff else Section(),
    )


def _title(answer: ScriptPlan) -> str:
    if not answer.is_better:
        return "No plan is predicted to be clearly better than your files"
    room = answer.best.cluster.memory_bytes_per_rank
    if answer.fits is False and room is not None:
        needed = answer.predicted.memory_bytes_per_gpu.needed
        return f"Your files are predicted not to fit: {gib(needed)} of {gib(room.value)}; the best plan fits"
    gain = answer.speed_up
    return "" if isinstance(gain, Unknown) else f"A better plan would be {percent(gain)} faster"


def _row(label: str, layout: str, predicted: Predicted, ranks: int) -> tuple[Cell, ...]:
    step, rate = predicted.step_time_s.total, predicted.tokens_per_s_per_gpu
    return (
        label,
        "-" if isinstance(step, Unknown) else duration(step),
        gib(predicted.memory_bytes_per_gpu.needed),
        "-" if isinstance(rate, Unknown) else count(round(rate * ranks)),
        layout,
    )


def _changes(answer: ScriptPlan) -> Section:
    """Return the changed settings, each with the place that the diff changes."""
    lines = [
        words(
            f"{each.setting}: {each.before or 'not set'} -> {each.after or 'not set'}  ",
            (each.where, "dim") if each.where else ("the diff leaves this change to you", "caution"),
        )
        for each in answer.changes
    ]
    return section("What changes" if lines else "", lines)
