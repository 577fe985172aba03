"""Show the answers of `plan --nodes 1,2,4`, `--sensitivity` and `--compare`."""

from assistant.pages.blocks import Cell, Column, Page, Section, Table, section, words
from assistant.pages.training.run_lines import hours, number
from probes.base.record import Unknown
from probes.base.units import count, duration, percent
from recipes.planning.what_if import Answer, Comparison, ScalingCurve, Sensitivity

_COSTS = (Column("run", right=True), Column("GPU hours", right=True))
_LAYOUT = Column("layout", least=24)


def scaling_page(curve: ScalingCurve) -> Page:
    """Return a row per size, and the size at which more nodes stop paying."""
    has_price = any(point.answer.cost is not None for point in curve.points)
    answers = tuple(point.answer for point in curve.points)
    rows = tuple(
        (
            str(point.nodes),
            str(point.answer.gpus) if point.answer.layout else "-",
            *_speed(point.answer),
            _share(point.efficiency),
            _share(point.marginal_efficiency),
            *_run(point.answer, has_price=has_price)[1:],
            _layout(point.answer),
        )
        for point in curve.points
    )
    columns = (
        Column("nodes", right=True),
        Column("GPUs", right=True),
        *_numbers(answers),
        Column("efficiency", right=True),
        Column("added", right=True),
        _COSTS[1],
        *_price(has_price=has_price),
        _LAYOUT,
    )
    answers = tuple(point.answer for point in curve.points)
    notes = [
        "efficiency: each GPU relative to the smallest size; added: the GPUs added since the size before"
    ]
    notes += _changing_batch(answers)
    return (
        section(_stop_words(curve), [words((note, "dim")) for note in notes]),
        Section("", (Table(columns, rows),)),
        _without_plan(answers),
    )


def _numbers(answers: tuple[Answer, ...]) -> tuple[Column, ...]:
    items = next((row.items for row in answers if row.layout), "tokens")
    return Column("step", right=True), Column(f"{items}/s", right=True)


def _changing_batch(answers: tuple[Answer, ...]) -> list[str]:
    """Return a note if the global batch changes with the size: as many steps then train other samples."""
    batches = [row.global_batch for row in answers if row.layout]
    if not batches or max(batches) == min(batches):
        return []
    if batches == sorted(batches):
        return [
            f"the global batch grows from {batches[0]} to {batches[-1]}, because the GPUs must be able to "
            "share it; a run of as many steps then trains more samples"
        ]
    return [
        f"the global batch is between {min(batches)} and {max(batches)}, because the GPUs must be able to "
        "share it; runs of as many steps do not train equally many samples"
    ]


def _without_plan(answers: tuple[Answer, ...]) -> Section:
    """Return why variants have no plan."""
    return section("", [f"{row.label}: {row.reason}" for row in answers if not row.layout])


def _stop_words(curve: ScalingCurve) -> str:
    limit = percent(curve.threshold)
    if curve.pays_until_nodes is None:
        return "The speed is unknown at every size, so rigtune cannot decide where more nodes stop paying"
    if curve.stops_at_nodes is None:
        return f"All sizes pay: the added GPUs always do at least {limit} of the work of the first GPUs"
    return (
        f"More nodes stop paying after {curve.pays_until_nodes}: at {curve.stops_at_nodes}, the added GPUs "
        f"do less than {limit} of the work of the first GPUs"
    )


def sensitivity_page(answers: Sensitivity) -> Page:
    """Return the change that gains most, and the effect of each hardware number."""
    rows = tuple(
        (
            change.name,
            _gain(change.gain),
            "" if change.twice_gain is None else _gain(change.twice_gain),
            _layout(change.more)
            if not change.more.layout or change.more.layout != answers.base.layout
            else words(("the same", "dim")),
        )
        for change in answers.changes
    )
    columns = (
        Column("what changes"),
        Column("10 % more", right=True),
        Column("twice", right=True),
        Column("layout with 10 % more (or one GPU fewer)"),
    )
    base = answers.base
    speed = _speed(base)
    first = f"{base.layout}: {speed[0]} per step, {speed[1]} {base.items}/s" if base.layout else base.reason
    asked = (row for change in answers.changes for row in (change.more, change.twice) if row is not None)
    return (
        section(best_words(answers), [words(first)]),
        Section("", (Table(columns, rows),)),
        _without_plan(tuple(asked) if base.layout else ()),
    )


def best_words(answers: Sensitivity) -> str:
    """Return a sentence about the single change that would gain most, such as twice the bandwidth."""
    if answers.base.layout and isinstance(answers.base.tokens_per_s, Unknown):
        return (
            f"The speed is unknown, and so is the effect of the hardware: {answers.base.tokens_per_s.detail}"
        )
    if not answers.best_change and not answers.base.layout:
        return "No single change of the hardware makes the job fit, not even twice as much"
    if not answers.best_change:
        return "No single change of the hardware would gain anything"
    if isinstance(answers.best_gain, Unknown):
        return f"Nothing fits; with twice the {answers.best_change} the job fits"
    best = (
        f"The single change that would gain most: twice the {answers.best_change}: {_gain(answers.best_gain)}"
    )
    other = answers.best_other_change
    if other and other != answers.best_change:
        best += f"; without faster computation, twice the {other}: {_gain(answers.best_other_gain)}"
    return best


def comparison_page(answers: Comparison) -> Page:
    """Return a row per machine; the title names the fastest machine."""
    has_price = any(row.cost is not None for row in answers.answers)
    rows = tuple(
        (
            row.label,
            str(row.gpus) if row.layout else "-",
            *_speed(row),
            _ratio(speed),
            *_run(row, has_price=has_price),
            _layout(row),
        )
        for row, speed in zip(answers.answers, answers.speed, strict=True)
    )
    columns = (
        Column("machine"),
        Column("GPUs", right=True),
        *_numbers(answers.answers),
        Column("speed", right=True),
        *_COSTS,
        *_price(has_price=has_price),
        _LAYOUT,
    )
    timed = [row for row in answers.answers if isinstance(row.tokens_per_s, float)]
    fastest = max(timed, key=lambda row: float(str(row.tokens_per_s)), default=None)
    title = "No machine has a plan with a known speed" if fastest is None else f"Fastest: {fastest.label}"
    return (section(title, []), Section("", (Table(columns, rows),)), _without_plan(answers.answers))


def _price(*, has_price: bool) -> tuple[Column, ...]:
    return (Column("price", right=True),) * has_price


def _speed(row: Answer) -> tuple[str, str]:
    step, rate = row.step_time_s, row.tokens_per_s
    return (
        "-" if isinstance(step, Unknown) else duration(step),
        "-" if isinstance(rate, Unknown) else count(round(rate)),
    )


def _run(row: Answer, *, has_price: bool) -> tuple[str, ...]:
    texts = (
        "-" if isinstance(row.hours, Unknown) else hours(row.hours),
        "-" if isinstance(row.gpu_hours, Unknown) else number(row.gpu_hours),
    )
    return (*texts, number(row.cost) if isinstance(row.cost, float) else "-") if has_price else texts


def _layout(row: Answer) -> Cell:
    return row.layout or words(("no plan", "caution"))


def _share(value: float | Unknown) -> str:
    return "-" if isinstance(value, Unknown) else percent(value)


def _gain(value: float | Unknown) -> str:
    return "-" if isinstance(value, Unknown) else f"{100 * value:+.1f} %"


def _ratio(value: float | Unknown) -> str:
    return "-" if isinstance(value, Unknown) else f"{value:.3g} x"
