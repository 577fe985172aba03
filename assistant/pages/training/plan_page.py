"""Show a plan: decisions with their basis, cost, alternatives, and rejected candidates."""

from typing import Literal

from assistant.pages.blocks import (
    Block,
    Cell,
    Column,
    Page,
    Section,
    Share,
    Shares,
    Table,
    Tone,
    Words,
    section,
    words,
)
from assistant.pages.training.bill import memory_lines, speed, time_terms
from assistant.pages.training.environment_lines import environment_section
from assistant.pages.training.run_lines import run_section
from probes.base.grouping import grouped
from probes.base.record import Unknown
from probes.base.units import GIB, duration, gb_per_s, gib, plural
from probes.facts import MachineFacts
from recipes.job.workload import AnyWorkload, Workload
from recipes.machine.cluster_records import Basis, Cluster, Transport
from recipes.planning.layout_words import describe, layout_title, recomputation_words
from recipes.planning.plan import OWN_PROGRAM, Choice, Decision, Plan
from recipes.planning.program_settings import layout_of, program_settings
from recipes.planning.programs import OWN, REFERENCE_PROGRAM, program_named
from recipes.predict.breakdowns import memory_words

_BASIS_TONES: dict[Basis, Tone] = {"measured": "good", "modelled": "code", "rule": "", "user": "odd"}
_TRANSPORTS: dict[Transport, str] = {
    "infiniband": "InfiniBand",
    "roce": "RoCE",
    "efa": "EFA",
    "tcpxo": "GPUDirect-TCPXO",
    "ethernet": "TCP",
}
_SMALL_BYTES = 10 * GIB
"""Memory below which a decimal is shown."""
_DECISION_WIDTH = 28
_WITH_ALTERNATIVES = ("learning_rate", "weight_decay", "batch_ramp")
"""Decisions whose reason does not name the alternatives."""
_SHOWN = 4
_REJECTED_SHOWN = 200


def plan_page(plan: Plan, *, verbose: bool = False) -> Page:
    """Return the page; with `verbose`, it lists every alternative and every rejected candidate."""
    return (
        headline(plan),
        run_section(plan),
        decisions(plan),
        environment_section(plan.environment, plan.cluster),
        own_words(plan),
        *prediction(plan),
        others(plan, None if verbose else _SHOWN),
        notices(plan),
    )


def headline(plan: Plan) -> Section:
    """Return the answer as title, then its settings, the job, and the machine."""
    workload, cluster, chosen = plan.workload, plan.cluster, plan.chosen
    step = chosen.predicted.step_time_s.total
    time = "step time unknown" if isinstance(step, Unknown) else f"{duration(step)} per step"
    tuning = []
    if isinstance(workload, Workload) and workload.tuning != "full":
        tuning = [f"{workload.tuning} of rank {workload.adapter_rank}"]
    what = (
        f"{workload.model.title}{_sample_size(workload)}",
        workload.precision,
        *tuning,
        f"global batch {workload.global_batch}",
        workload.optimizer,
    )
    settings = [f"micro-batch {chosen.micro_batch} × {chosen.grad_accum}", recomputation_words(chosen)]
    if chosen.program != OWN_PROGRAM:
        settings.append(f"in {program_named(chosen.program).title}")
    nodes = "" if cluster.nodes == 1 else f"{cluster.nodes} nodes × "
    where = f"on {nodes}{plural(cluster.ranks_per_node, 'rank')} of {cluster.device_name}"
    return section(
        f"{layout_title(chosen, _ranks(plan))}: {time}, {_of_memory(plan)}",
        [
            words((", ".join(filter(None, settings)), "strong")),
            ", ".join(what),
            words(where, (f"  {cluster.host}", "dim")),
            *_network(cluster),
            words((f"{_memory(chosen)}{_limit(plan)}", "dim")),
        ],
    )


def _network(cluster: Cluster) -> tuple[Words, ...]:
    """Return a line about the network between nodes and where its rate is from; nothing for one node."""
    network = cluster.inter_bus_bandwidth_bytes_per_s
    if cluster.nodes == 1 or network is None:
        return ()
    source = f" ({network.source})" if network.source else ""
    over = f" over {_TRANSPORTS[cluster.transport]}" if cluster.transport in _TRANSPORTS else ""
    return (words((f"{gb_per_s(network.value)} from node to node{over}{source}", "dim")),)


def _sample_size(workload: AnyWorkload) -> str:
    """Return the size of a sequence or an image; empty if the model's input is neither."""
    if isinstance(workload, Workload):
        return f", sequence {workload.sequence_length}"
    return f", images of {workload.image_size} pixels" if workload.image_size else ""


def _of_memory(plan: Plan) -> str:
    """Return the memory that the plan needs on a rank: `48 of 78 GiB`.

    On a CPU the worst case must fit, because no allocator returns memory when it is short.
    """
    memory, room = plan.chosen.predicted.memory_bytes_per_gpu, plan.cluster.memory_bytes_per_rank
    needed, case = memory.needed, " in the worst case" if plan.cluster.device == "cpu" else ""
    if room is None:
        return gib(needed) + case
    if needed < _SMALL_BYTES:
        return f"{gib(needed)} of {gib(room.value)}{case}"
    return f"{needed / GIB:.0f} of {room.value / GIB:.0f} GiB{case}"


def _ranks(plan: Plan) -> str:
    """Return the word for ranks: a rank has a GPU, or a part of a CPU."""
    return "GPUs" if plan.cluster.device == "cuda" else "ranks"


def _memory(choice: Choice) -> str:
    memory = choice.predicted.memory_bytes_per_gpu
    return memory_words(memory.allocated, memory.reserved, memory.upper)


def _limit(plan: Plan) -> str:
    """Return the memory that a rank can use, as ` of 79.6 GiB`; empty if it is unknown."""
    room = plan.cluster.memory_bytes_per_rank
    return "" if room is None else f" of {gib(room.value)}"


def decisions(plan: Plan) -> Section:
    """Return a table of the decisions; it has two columns, so that 80 characters leave room for the reasons.

    Variables with the same value for the same reason are one row, such as both names of a renamed variable.
    """
    alike = grouped(
        ((row.value, row.basis, row.because) if row.name.isupper() else row.name, row)
        for row in plan.decisions
    )
    rows = tuple(
        (
            words(f"{', '.join(_name(row.name) for row in same)} ", (same[0].value, "strong")),
            _because(same[0]) + _others(same[0]),
        )
        for same in alike.values()
    )
    return Section("Decisions", (Table((Column("decision", most=_DECISION_WIDTH), Column("because")), rows),))


def _others(row: Decision) -> Words:
    """Return the alternatives of a decision; empty if the reason already compares them, as for a layout."""
    if not row.alternatives or row.name not in _WITH_ALTERNATIVES:
        return words()
    return words((f"; or {'; or '.join(row.alternatives)}", "dim"))


def _because(row: Decision) -> Words:
    """Return the basis and the reason; a reason such as `borrowed from X: ...` names its basis already."""
    if row.because.removeprefix("the ").startswith(f"{row.basis} "):
        return words(row.because)
    return words((row.basis, _BASIS_TONES.get(row.basis, "")), f": {row.because}")


def _name(name: str) -> str:
    """Return the name of a decision with spaces for `_`; names of environment variables stay as they are."""
    return name if name.isupper() else name.replace("_", " ")


def own_words(plan: Plan) -> Section:
    """Return the plan's settings under the program's own names; empty for programs without such names."""
    program = program_named(plan.chosen.program)
    if program.id in (OWN, REFERENCE_PROGRAM):
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
    title = f"Memory per rank  {gib(memory.total)}{_limit(plan)}, worst case {gib(memory.upper)}"
    first = section(title, memory_lines(memory), indent=2)
    if isinstance(step.total, Unknown):
        measure = words(("`rigtune bench` (4 Benchmarks) measures what is missing.", "dim"))
        return first, section("Step time  unknown", [str(step.total), measure], indent=2)
    data = (Share("data", "unknown"),) * isinstance(step.data, Unknown)
    interval = ""
    if not isinstance(step.low, Unknown) and not isinstance(step.high, Unknown):
        interval = f"  ({duration(step.low)} to {duration(step.high)})"
    return first, section(
        f"Step time  {duration(step.total)}{interval}",
        [Shares(time_terms(step).terms + data), words((_speed(plan, plan.chosen), "dim"))],
        indent=2,
    )


def _speed(plan: Plan, choice: Choice) -> str:
    predicted = choice.predicted
    tokens, samples = predicted.tokens_per_s_per_gpu, predicted.samples_per_s
    in_all = samples if isinstance(tokens, Unknown) and isinstance(samples, float) else None
    per = _ranks(plan).removesuffix("s")
    return speed(tokens, predicted.mfu, in_all, per=per) or "speed unknown"


def notices(plan: Plan) -> Section:
    """Return the plan's warnings, one per line; empty if there are none."""
    return section("", [words((f"! {text}", "caution")) for text in plan.warnings])


def others(plan: Plan, most: int | None = _REJECTED_SHOWN) -> Section:
    """Return the ties, the alternatives that are slower, and the rejected candidates; `most` of each.

    Each row has the reason why the candidate lost, or its memory and speed. The last line names
    what was not searched.
    """
    ranks = _ranks(plan)
    ties = [row for row in plan.alternatives if row.is_tie]
    slower = [row for row in plan.alternatives if not row.is_tie]
    rows: list[tuple[Cell, Cell]] = [
        (describe(row, ranks), words((row.lost_because or _outlook(plan, row), "good" if row.is_tie else "")))
        for row in (*ties[:most], *slower[:most])
    ]
    rows += [(describe(row.candidate, ranks), row.reason) for row in plan.rejected[:most]]
    more = len(plan.alternatives) + len(plan.rejected) - len(rows)
    speeds = f"{len(ties)} as fast, {len(slower)} slower"
    if isinstance(plan.chosen.predicted.step_time_s.total, Unknown):
        speeds = f"{len(slower)} of unknown speed"
    title = f"Alternatives: {speeds}, {len(plan.rejected)} without room"
    hint = f"and {more} more" + ("; -v shows all" if most == _SHOWN else "")
    missing = f"Not searched: {', '.join(plan.not_searched)}"
    lines: list[Block | Cell] = [Table((Column(), Column()), tuple(rows))] if rows else []
    if not rows:
        lines.append(words(("Nothing else is possible with this program and these settings.", "dim")))
    lines += [
        words((text, "dim")) for text, is_shown in ((hint, more), (missing, plan.not_searched)) if is_shown
    ]
    return section(title, lines, indent=2)


def _outlook(plan: Plan, choice: Choice) -> str:
    return f"fits: {_memory(choice)}, {_speed(plan, choice)}"


_WAITING = {
    "plan": (
        "  w changes the workload.",
        "  The machine is still being read; the plan is then made automatically.",
        "Planning …",
    ),
    "recipe": (
        "  w on page 5 (Plan) changes the workload and the program.",
        "  The machine is still being read; plan and recipe are then made automatically.",
        "Writing the recipe …",
    ),
}
"""Texts of a page without a plan or recipe: after a failure, during the probe, and during planning."""


def waiting(
    what: Literal["plan", "recipe"],
    facts: MachineFacts | None,
    *,
    has_failed: bool,
    has_machine: bool = True,
) -> Section:
    """Return the page that is shown while no plan or recipe exists.

    Without `has_machine` only a report of the machine is known, and no other workload leads to a plan.
    """
    failed, early, working = _WAITING[what]
    if has_failed:
        return section("", [words((f"No {what}.", "strong"), failed if has_machine else "")])
    return section(
        "", [words((f"No {what} yet.", "strong"), early) if facts is None else words((working, "strong"))]
    )
