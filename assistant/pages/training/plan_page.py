"""Show a plan: decisions with their basis, cost, alternatives, and rejected candidates."""

import itertools
from typing import Literal, NamedTuple

from assistant.pages.blocks import (
    Cell,
    Column,
    Page,
    Row,
    Section,
    Share,
    Shares,
    Table,
    Tone,
    Words,
    section,
    words,
)
from assistant.pages.training.bill import memory_terms, speed, time_terms
from assistant.pages.training.run_lines import run_section
from assistant.usecases.plan import PlanRequest
from probes.base.errors import UsageError
from probes.base.record import Unknown
from probes.base.units import duration, gib, plural
from probes.facts import MachineFacts
from recipes.job.candidate import Candidate
from recipes.job.workload import AnyWorkload, Workload
from recipes.launch.program_files import WRITTEN
from recipes.machine.cluster_records import Basis
from recipes.planning.plan import Choice, Plan
from recipes.planning.program_settings import layout_of, program_settings
from recipes.planning.programs import program_named
from recipes.planning.reasons import bound_words
from recipes.predict.breakdowns import memory_words

_BASIS_TONES: dict[Basis, Tone] = {"measured": "good", "modelled": "code", "rule": "", "user": "odd"}
_DECISION_COLUMNS = ("decision", "chosen", "basis", "because", "alternatives")
_DEGREES = ("dp", "fsdp", "tp", "pp", "cp", "ep", "vp")
_CHOSEN_WIDTH = 32
_SHOWN = 4
_REJECTED_SHOWN = 200


def plan_page(plan: Plan, *, verbose: bool = False) -> Page:
    """Return the page; with `verbose`, it lists every alternative and every rejected candidate."""
    return (
        headline(plan),
        run_section(plan),
        decisions(plan),
        own_words(plan),
        *prediction(plan),
        others(plan, None if verbose else _SHOWN),
        notices(plan),
    )


def headline(plan: Plan) -> Section:
    """Return the model, the machine, and the answer."""
    workload, cluster, chosen = plan.workload, plan.cluster, plan.chosen
    step = chosen.predicted.step_time_s.total
    time = "step time unknown" if isinstance(step, Unknown) else f"{duration(step)} per step"
    answer = f"{describe(chosen)}: {time}"
    memory = f"{_memory(chosen)}{_limit(plan)} per rank"
    what = (
        f"{workload.model.title}{_sample_size(workload)}, {workload.precision}, "
        f"global batch {workload.global_batch}, {workload.optimizer}"
    )
    nodes = "" if cluster.nodes == 1 else f"{cluster.nodes} nodes × "
    where = f"on {nodes}{plural(cluster.ranks_per_node, 'rank')} of {cluster.device_name}"
    return section(
        what,
        [words(where, (f"  {cluster.title}", "dim")), words((answer, "strong")), words((memory, "strong"))],
    )


def _sample_size(workload: AnyWorkload) -> str:
    """Return the size of a sequence or an image; empty if the model's input is neither."""
    if isinstance(workload, Workload):
        return f", sequence {workload.sequence_length}"
    return f", images of {workload.image_size} pixels" if workload.image_size else ""


def _memory(choice: Choice) -> str:
    memory = choice.predicted.memory_bytes_per_gpu
    return memory_words(memory.allocated, memory.reserved, memory.upper)


def _limit(plan: Plan) -> str:
    """Return the memory that a rank can use, as ` of 79.6 GiB`; empty if it is unknown."""
    room = plan.cluster.memory_bytes_per_rank
    return "" if room is None else f" of {gib(room.value)}"


def decisions(plan: Plan, *, with_alternatives: bool = False) -> Section:
    """Return a table with one line per decision."""
    names = _DECISION_COLUMNS if with_alternatives else _DECISION_COLUMNS[:-1]
    rows = []
    for row in plan.decisions:
        cells: tuple[Cell, ...] = (
            _name(row.name),
            words((row.value, "strong")),
            _basis(row.basis),
            row.because,
            words((", ".join(row.alternatives) or "-", "dim")),
        )
        rows.append(cells[: len(names)])
    columns = (
        Column(name, fixed=name in ("decision", "basis"), most=_CHOSEN_WIDTH if name == "chosen" else 0)
        for name in names
    )
    return Section("Decisions", (Table(tuple(columns), tuple(rows)),))


def narrow_decisions(plan: Plan) -> Section:
    """Return the decisions for a narrow page: each reason on its own line, and no alternatives."""
    rows = (
        (Row(words((row.value, "strong"), "  ") + _basis(row.basis), _name(row.name)), Row(row.because))
        for row in plan.decisions
    )
    return Section("Decisions", tuple(itertools.chain(*rows)))


def _basis(basis: Basis) -> Words:
    return words((basis, _BASIS_TONES.get(basis, "")))


def _name(name: str) -> str:
    """Return a decision as text; environment variables are not changed."""
    return name if name.isupper() else name.replace("_", " ")


def own_words(plan: Plan) -> Section:
    """Return the settings in the program's own words; empty for programs whose files rigtune writes."""
    program = program_named(plan.chosen.program)
    if program.id in WRITTEN:
        return section("", [])
    rows = tuple(
        (name, words((value, "strong"))) for name, value in program_settings(program, layout_of(plan))
    )
    table = Table((Column(fixed=True), Column()), rows)
    return section(f"Settings for {program.title}", [table], indent=2)


def prediction(plan: Plan) -> tuple[Section, Section]:
    """Return the memory of the rank that needs most, and the time of one step, term by term."""
    predicted = plan.chosen.predicted
    memory, step = predicted.memory_bytes_per_gpu, predicted.step_time_s
    bound = [words((f"worst case: {bound_words(memory)}", "dim"))] if memory.margin else []
    first = section(
        f"Memory per rank  worst case {gib(memory.upper)}{_limit(plan)}",
        [memory_terms(memory), *bound],
        indent=2,
    )
    if isinstance(step.total, Unknown):
        measure = words(("`rigtune bench` (4 Benchmarks) measures what is missing.", "dim"))
        return first, section("Step time  unknown", [str(step.total), measure], indent=2)
    data = (Share("data", "unknown"),) * isinstance(step.data, Unknown)
    interval = ""
    if not isinstance(step.low, Unknown) and not isinstance(step.high, Unknown):
        interval = f"  ({duration(step.low)} to {duration(step.high)})"
    return first, section(
        f"Step time  {duration(step.total)}{interval}",
        [Shares(time_terms(step).terms + data), words((_speed(plan.chosen), "dim"))],
        indent=2,
    )


def _speed(choice: Choice) -> str:
    predicted = choice.predicted
    tokens, samples = predicted.tokens_per_s_per_gpu, predicted.samples_per_s
    in_all = samples if isinstance(tokens, Unknown) and isinstance(samples, float) else None
    return speed(tokens, predicted.mfu, in_all) or "speed unknown"


def notices(plan: Plan) -> Section:
    """Return the plan's warnings, one per line; empty if there are none."""
    return section("", [words((f"! {text}", "caution")) for text in plan.warnings])


def others(plan: Plan, most: int | None = _REJECTED_SHOWN) -> Section:
    """Return the alternatives that fit, then the rejected candidates with reasons; at most `most` of each."""
    rows: list[tuple[Cell, Cell]] = [
        (
            describe(choice),
            words((f"fits: {_memory(choice)}, {_speed(choice)}", "good")),
        )
        for choice in plan.alternatives[:most]
    ]
    rows += [(describe(row.candidate), row.reason) for row in plan.rejected[:most]]
    more = len(plan.alternatives) + len(plan.rejected) - len(rows)
    title = f"Alternatives ({len(plan.alternatives)}) and rejected ({len(plan.rejected)})"
    if not rows:
        return section(title, [words(("Nothing else was considered.", "dim"))])
    hint = f"and {more} more" + ("; -v shows all" if most == _SHOWN else "")
    return section(
        title, [Table((Column(), Column()), tuple(rows)), *[words((hint, "dim"))] * bool(more)], indent=2
    )


def describe(row: Choice | Candidate) -> str:
    """Return one line: strategy, degrees, batch, recompute."""
    used = [(name, size) for name in _DEGREES if (size := getattr(row.degrees, name)) > 1]
    spread = (
        f"over {used[0][1]} ranks"
        if len(used) == 1
        else " ".join(f"{name} {size}" for name, size in used) or "on one rank"
    )
    return f"{row.strategy} {spread}, micro-batch {row.micro_batch} × {row.grad_accum}{_recompute(row)}"


def _recompute(row: Choice | Candidate) -> str:
    """Return what is recomputed: `, full recompute`, `, full recompute of 25 % of the layers`."""
    if row.activation_checkpointing == "none":
        return ""
    share = f" of {100 * row.recomputed_share:.3g} % of the layers" if row.recomputed_share < 1 else ""
    return f", {row.activation_checkpointing} recompute{share}"


_WAITING = {
    "plan": (
        "  w changes the workload.",
        "  The machine is still being read; the plan is then made automatically.",
        "Planning …",
    ),
    "recipe": (
        "  Page 5 (Plan) shows why; press w on that page to change the workload.",
        "  The machine is still being read; plan and recipe are then made automatically.",
        "Writing the recipe …",
    ),
}
"""Texts of a page without a plan or recipe: after a failure, during the probe, and during planning."""


def waiting(what: Literal["plan", "recipe"], facts: MachineFacts | None, *, has_failed: bool) -> Section:
    """Return the page that is shown while no plan or recipe exists."""
    failed, early, working = _WAITING[what]
    if has_failed:
        return section("", [words((f"No {what}.", "strong"), failed)])
    return section(
        "", [words((f"No {what} yet.", "strong"), early) if facts is None else words((working, "strong"))]
    )


class Field(NamedTuple):
    """A field of the workload form."""

    name: str
    label: str
    hint: str


FIELDS = (
    Field("model", "model", "preset or path of a model file"),
    Field("global_batch", "global batch", "sequences per optimizer step"),
    Field("sequence_length", "sequence length", "tokens"),
    Field("nodes", "nodes", "machines like this one"),
)


def form_values(request: PlanRequest, plan: Plan | None) -> dict[str, str]:
    """Return the initial values of the form: the planned model, and the settings that the user chose.

    Fields whose values rigtune chose are left empty, so that rigtune may choose again.
    """
    asked = {field.name: getattr(request, field.name) for field in FIELDS}
    values = {name: "" if value is None else str(value) for name, value in asked.items()}
    return values if plan is None else {**values, "model": request.model or plan.workload.model.id}


def form_hints(plan: Plan | None) -> dict[str, str]:
    """Return the hint for each field, with the number in the current plan if there is a plan."""
    hints = {field.name: field.hint for field in FIELDS}
    if plan is not None:
        hints["global_batch"] += f", now {plan.workload.global_batch}"
        if isinstance(plan.workload, Workload):
            hints["sequence_length"] += f", now {plan.workload.sequence_length}"
    return hints


def request_of(values: dict[str, str]) -> PlanRequest:
    """Return the request of a filled form. Raises UsageError for a value that is not a positive integer."""
    numbers: dict[str, int | None] = {}
    for field in FIELDS[1:]:
        text = values[field.name].strip()
        if text and (not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) < 1):
            raise UsageError(f"{field.label} is {text[:20]!r}", "give a positive whole number, or nothing")
        numbers[field.name] = int(text) if text else None
    return PlanRequest(
        model=values["model"].strip(),
        nodes=numbers["nodes"] or 1,
        global_batch=numbers["global_batch"],
        sequence_length=numbers["sequence_length"],
    )
