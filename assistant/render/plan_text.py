"""A plan for the eye: what was chosen and why, its predicted cost, what else was possible."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from assistant.render.tables import plain_table, text_of
from probes.base.record import Unknown
from probes.base.units import count, duration, gib, percent
from recipes.planning.plan import Candidate, Choice, MemoryBreakdown, Plan, terms_of
from recipes.planning.reasons import bound_words

_MEMORY_TERMS = ("parameters", "gradients", "optimizer", "activations", "logits", "buffers", "overhead")
_ALTERNATIVES_SHOWN = 4
_REJECTED_SHOWN = 4


def render_plan(plan: Plan, *, colour: bool = False, verbose: bool = False) -> str:
    """The plan as text; `verbose` shows every alternative and every rejected candidate."""
    parts: list[RenderableType] = [_headline(plan), "", _decisions(plan), "", *_prediction(plan.chosen)]
    shown = plan.alternatives if verbose else plan.alternatives[:_ALTERNATIVES_SHOWN]
    if shown:
        parts += ["", Text(f"Alternatives ({len(plan.alternatives)})", style="bold")]
        parts += [
            f"  {describe(choice)}  {_speed(choice)}, {gib(choice.predicted.memory_bytes_per_gpu.total)}"
            for choice in shown
        ]
    dropped = plan.rejected if verbose else plan.rejected[:_REJECTED_SHOWN]
    if dropped:
        parts += ["", Text(f"Rejected ({len(plan.rejected)})", style="bold")]
        parts += [f"  {describe(row.candidate)}  {row.reason}" for row in dropped]
    if len(shown) + len(dropped) < len(plan.alternatives) + len(plan.rejected):
        parts.append("  -v shows all")
    parts += [Text(f"! {warning}", style="yellow") for warning in plan.warnings]
    return text_of(parts, colour=colour)


def describe(row: Choice | Candidate) -> str:
    """One line: strategy, degrees, batch, recompute."""
    sizes = [
        f"{name} {value}" for name, value in (("dp", row.degrees.dp), ("fsdp", row.degrees.fsdp)) if value > 1
    ]
    spread = f"over {sizes[0].split()[1]} ranks" if len(sizes) == 1 else " ".join(sizes) or "on one rank"
    recompute = "" if row.activation_checkpointing == "none" else ", full recompute"
    return f"{row.strategy} {spread}, micro-batch {row.micro_batch} x {row.grad_accum}{recompute}"


def _headline(plan: Plan) -> Text:
    cluster, workload = plan.cluster, plan.workload
    where = (
        f"{cluster.nodes} node{'s' * (cluster.nodes > 1)} x {cluster.ranks_per_node} {cluster.device_name}"
    )
    what = f"{workload.model.title}, sequence {workload.sequence_length}, {workload.precision}, global batch {workload.global_batch}"
    return Text(f"{what}\non {where} ({cluster.title})", style="bold")


def _decisions(plan: Plan) -> RenderableType:
    table = plain_table("decision", "chosen", "basis", "because")
    for decision in plan.decisions:
        table.add_row(decision.name, decision.value, decision.basis, decision.because)
    return table


def _prediction(choice: Choice) -> list[RenderableType]:
    memory, step = choice.predicted.memory_bytes_per_gpu, choice.predicted.step_time_s
    bound = bound_words(memory) if memory.margin else gib(memory.upper)
    lines: list[RenderableType] = [
        Text("Predicted", style="bold"),
        f"  memory per rank  {gib(memory.total)}, at most {bound}",
    ]
    lines.append("    " + _memory_terms(memory))
    if isinstance(step.total, Unknown):
        lines.append(f"  step time        {step.total}")
        return lines
    interval = ""
    if not isinstance(step.low, Unknown) and not isinstance(step.high, Unknown):
        interval = f" ({duration(step.low)} to {duration(step.high)})"
    lines.append(f"  step time        {duration(step.total)}{interval}")
    terms = tuple(terms_of(step))
    whole = [f"{name} {duration(seconds)}" for name, seconds, is_part in terms if not is_part]
    lines.append("    " + ", ".join([*whole, *(["data unknown"] if isinstance(step.data, Unknown) else [])]))
    parts = ", ".join(f"{name} {duration(seconds)}" for name, seconds, is_part in terms if is_part)
    lines += [f"    of compute: {parts}"] if parts else []
    lines.append(f"  speed            {_speed(choice)}")
    return lines


def _memory_terms(memory: MemoryBreakdown) -> str:
    return ", ".join(f"{name} {gib(value)}" for name in _MEMORY_TERMS if (value := getattr(memory, name)) > 0)


def _speed(choice: Choice) -> str:
    speed, mfu = choice.predicted.tokens_per_s_per_gpu, choice.predicted.mfu
    if isinstance(speed, Unknown):
        return "speed unknown"
    words = f"{count(speed)} tokens/s per rank"
    return words if isinstance(mfu, Unknown) else f"{words}, MFU {percent(mfu)} (causal attention counted)"
