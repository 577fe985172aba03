"""The plan page: what was chosen, on which basis, what it will cost, what was dropped."""

from __future__ import annotations

from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from assistant.present.text import CAUTION, DIM, GOOD, ODD, STRONG, Panel, clean, frameless, plain
from assistant.usecases.plan import PlanRequest
from probes.base.errors import UsageError
from probes.base.record import Unknown
from probes.base.units import count, duration, gib, percent, plural
from probes.facts import MachineFacts
from recipes.planning.plan import Basis, Candidate, Choice, MemoryBreakdown, Plan, TimeBreakdown, terms_of
from recipes.planning.reasons import bound_words

_MEMORY_TERMS = ("parameters", "gradients", "optimizer", "activations", "logits", "buffers", "overhead")
_BASIS_STYLES: dict[Basis, str] = {"measured": GOOD, "modelled": "cyan", "rule": "", "user": ODD}
_BAR_WIDTH = 16
_CHOSEN_WIDTH = 32
_REJECTED_SHOWN = 200


def headline(plan: Plan) -> Text:
    """What is trained on what, in two lines."""
    workload, cluster = plan.workload, plan.cluster
    nodes = "" if cluster.nodes == 1 else f"{cluster.nodes} nodes × "
    ranks = plural(cluster.ranks_per_node, "rank")
    first = Text.assemble(
        (clean(workload.model.title), STRONG),
        f"  sequence {workload.sequence_length}, {workload.precision}, global batch {workload.global_batch}",
        f", {workload.optimizer}",
    )
    second = Text.assemble(
        ("on ", DIM), f"{nodes}{ranks} of {clean(cluster.device_name)}", (f"  {clean(cluster.title)}", DIM)
    )
    return Text("\n").join((first, second))


def decisions(plan: Plan, *, is_wide: bool) -> Table:
    """One line per decision on a wide page; a narrow one puts the reason below and leaves the alternatives
    out.
    """
    if not is_wide:
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(style=DIM, no_wrap=True)
        table.add_column(overflow="fold")
        for row in plan.decisions:
            chosen = Text.assemble(
                (clean(row.value), STRONG),
                "  ",
                (row.basis, _BASIS_STYLES[row.basis]),
                f"\n{clean(row.because)}",
            )
            table.add_row(_name(row.name), chosen)
        return table
    table = frameless("decision", "chosen", "basis", "because", "alternatives")
    table.columns[0].no_wrap = True
    table.columns[1].max_width = _CHOSEN_WIDTH
    table.columns[2].no_wrap = True
    for row in plan.decisions:
        table.add_row(
            _name(row.name),
            plain(row.value, STRONG),
            Text(row.basis, style=_BASIS_STYLES[row.basis]),
            plain(row.because),
            plain(", ".join(row.alternatives) or "-", DIM),
        )
    return table


def _name(name: str) -> str:
    """Decisions in words; environment variables as they are."""
    return clean(name if name.isupper() else name.replace("_", " "))


def prediction(plan: Plan) -> tuple[Panel, Panel]:
    """Memory of the fullest rank and time of one step, term by term."""
    chosen = plan.chosen
    memory, step = chosen.predicted.memory_bytes_per_gpu, chosen.predicted.step_time_s
    return _memory(memory, plan), _step(step, chosen)


def _memory(memory: MemoryBreakdown, plan: Plan) -> Panel:
    room = plan.cluster.memory_bytes_per_rank
    of = f" of {gib(room.value)}" if room is not None else ""
    table = _terms()
    for name in _MEMORY_TERMS:
        value = getattr(memory, name)
        if value > 0:
            table.add_row(name, gib(value), _bar(value / memory.total if memory.total else 0.0))
    margin = [Text(f"at most: {bound_words(memory)}", style=DIM)] if memory.margin else []
    return Panel(
        f"Memory per rank  {gib(memory.total)}{of}, at most {gib(memory.upper)}", Group(table, *margin)
    )


def _step(step: TimeBreakdown, choice: Choice) -> Panel:
    if isinstance(step.total, Unknown):
        return Panel(
            "Step time  unknown",
            Group(plain(str(step.total)), Text("4 Benchmarks measures what is missing.", style=DIM)),
        )
    interval = ""
    if not isinstance(step.low, Unknown) and not isinstance(step.high, Unknown):
        interval = f"  ({duration(step.low)} to {duration(step.high)})"
    table = _terms()
    for name, seconds, is_part in terms_of(step):
        share = seconds / step.total if step.total else 0.0
        table.add_row(
            f"  {name}" if is_part else name, duration(seconds), _bar(share, DIM if is_part else "cyan")
        )
    if isinstance(step.data, Unknown):
        table.add_row("data", Text("unknown", style=DIM))
    return Panel(f"Step time  {duration(step.total)}{interval}", Group(table, Text(speed(choice), style=DIM)))


def _terms() -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style=DIM, no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    return table


def _bar(share: float, style: str = "cyan") -> Text:
    return Text("█" * max(0, min(_BAR_WIDTH, round(share * _BAR_WIDTH))), style=style)


def speed(choice: Choice) -> str:
    """Tokens per second and MFU, or that they are unknown."""
    rate, mfu = choice.predicted.tokens_per_s_per_gpu, choice.predicted.mfu
    if isinstance(rate, Unknown):
        return "speed unknown"
    words = f"{count(rate)} tokens/s per rank"
    return words if isinstance(mfu, Unknown) else f"{words}, MFU {percent(mfu)}"


def notices(plan: Plan) -> Text:
    """The plan's warnings, one per line; empty without any."""
    return Text("\n").join(Text(f"! {clean(words)}", style=CAUTION) for words in plan.warnings)


def rejected(plan: Plan) -> Panel:
    """What was considered: the alternatives that fit, then what was dropped and why."""
    table = frameless("candidate", "verdict")
    for choice in plan.alternatives:
        table.add_row(
            plain(describe(choice)),
            Text(f"fits: {gib(choice.predicted.memory_bytes_per_gpu.total)}, {speed(choice)}", style=GOOD),
        )
    for row in plan.rejected[:_REJECTED_SHOWN]:
        table.add_row(plain(describe(row.candidate)), plain(row.reason))
    more = len(plan.rejected) - _REJECTED_SHOWN
    parts: list[RenderableType] = (
        [table] if plan.alternatives or plan.rejected else [Text("Nothing else was considered.", style=DIM)]
    )
    if more > 0:
        parts.append(Text(f"and {more} more", style=DIM))
    return Panel(
        f"Alternatives ({len(plan.alternatives)}) and rejected ({len(plan.rejected)})", Group(*parts)
    )


def describe(row: Choice | Candidate) -> str:
    """One line: strategy, degrees, batch, recompute."""
    degrees = [(name, getattr(row.degrees, name)) for name in ("dp", "fsdp", "tp", "pp", "cp", "ep", "vp")]
    used = [(name, size) for name, size in degrees if size > 1]
    spread = (
        f"over {used[0][1]} ranks"
        if len(used) == 1
        else " ".join(f"{name} {size}" for name, size in used) or "on one rank"
    )
    recompute = "" if row.activation_checkpointing == "none" else ", full recompute"
    return f"{row.strategy} {spread}, micro-batch {row.micro_batch} × {row.grad_accum}{recompute}"


def waiting(facts: MachineFacts | None, *, has_failed: bool) -> Text:
    """The page without a plan."""
    if has_failed:
        return Text.assemble(("No plan.", STRONG), "  w changes the workload.")
    if facts is None:
        return Text.assemble(
            ("No plan yet.", STRONG), "  The machine is still being read; the plan follows by itself."
        )
    return Text.assemble(("Planning …", STRONG))


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
    """What the form starts with: the planned model, and what was asked for. What rigtune chose stays its
    choice.
    """
    asked = {field.name: getattr(request, field.name) for field in FIELDS}
    values = {name: "" if value is None else str(value) for name, value in asked.items()}
    return values if plan is None else {**values, "model": request.model or plan.workload.model.id}


def form_hints(plan: Plan | None) -> dict[str, str]:
    """What an empty field means, with the number that the present plan has."""
    chosen = (
        {}
        if plan is None
        else {name: getattr(plan.workload, name) for name in ("global_batch", "sequence_length")}
    )
    return {
        field.name: f"{field.hint}, now {chosen[field.name]}" if field.name in chosen else field.hint
        for field in FIELDS
    }


def request_of(values: dict[str, str]) -> PlanRequest:
    """The request that a filled form means. Raises UsageError for what is no positive whole number."""
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
