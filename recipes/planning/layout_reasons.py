"""The reasons of a layout: what each other layout that the search examined would cost.

Every number comes from the members that the search ranked or rejected, and from the neighbours of the chosen
layout.
"""

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

from probes.base.record import Unknown, value_or
from probes.base.units import duration, gib
from recipes.constants import constant
from recipes.job.candidate import Candidate
from recipes.job.pins import Pins
from recipes.machine.cluster_records import Basis
from recipes.planning.examined import Examined
from recipes.planning.layout_words import DEGREE_TITLES, STRATEGY_TITLES, layout_title, recomputation_words
from recipes.planning.plan import Choice, Decision
from recipes.planning.search import is_safe, is_tight, simplicity
from recipes.planning.space import Request, strategy_of
from recipes.predict.breakdowns import COMPUTE_TERMS, TIME_TERMS, TimeBreakdown

_LEAVES = (*COMPUTE_TERMS, *(term for term in TIME_TERMS if term != "compute"))
_NEARLY = 0.5
"""A second term is named if its growth is at least this share of the largest growth."""
_FULLY = 1.5
"""A term that shrinks is named too if the named terms grow by more than this multiple of the step."""
_MOST_ALTERNATIVES = 4


class Comparison(NamedTuple):
    """The chosen layout, and the layouts with which it is compared."""

    request: Request
    chosen: Examined
    others: tuple[Examined, ...]
    """Best member of every other set of degrees, those that fit first and the fastest of them first."""
    inside: tuple[Examined, ...]
    """Members with the chosen degrees and another schedule, micro-batch or recomputation."""
    limit_bytes: float
    """Bytes of each GPU's memory that a plan may use."""


class _Value(NamedTuple):
    """Another value of a setting, with the best member that has this value."""

    title: str
    member: Examined
    words: str


def lost_because(member: Examined, compared: Comparison) -> str:
    """Return why a layout lost against the chosen one: `6 % slower: bubble 120 ms longer`.

    A layout that does not fit needs more memory than a plan may use. A layout within the tie loses because
    less memory stays free, because it may run out of memory, or because it is less simple; it can be faster
    than the chosen one. A simpler layout loses if the fastest layout, which was not chosen, is much faster.
    """
    chosen, limit_bytes = compared.chosen, compared.limit_bytes
    if member.time is None:
        return f"needs {gib(max(0.0, member.needed - limit_bytes))} more than a plan may use"
    growth = _growth(member, chosen)
    if growth is None:
        return f"fits too, with {gib(member.needed)}, but is no simpler, and no step time is known"
    if growth > constant("layout_tie"):
        terms = _longer_terms(member.time, chosen.time)
        return f"{_slower(growth)}{': ' if terms else ''}{terms}"
    speed = "as fast" if round(100 * abs(growth), 1) == 0 else _near(growth)
    return ", ".join(filter(None, [speed, _lost_tie(member, chosen) or _lost_to_fastest(member, compared)]))


def is_tie(member: Examined, chosen: Examined) -> bool:
    """Return whether a layout is as fast as the chosen one within the tie."""
    growth = None if member.time is None else _growth(member, chosen)
    return growth is not None and growth <= constant("layout_tie")


def layout_decisions(compared: Comparison) -> tuple[Decision, ...]:
    """Return a decision for each degree that has alternatives, is above 1, or was fixed by the user; and the
    decisions on the pipeline, on groups of shards, and on a sharding that the user fixed.
    """
    degrees, pins = compared.chosen.candidate.degrees, compared.request.pins
    decisions = []
    for name in DEGREE_TITLES:
        value, pin, values = getattr(degrees, name), getattr(pins, name), _values(compared, name)
        if values or value > 1 or pin is not None:
            because = _why_degree(compared, name, values)
            decisions.append(_decision(compared, (name, value), because, pin, values))
        if name == "pp" and (degrees.pp > 1 or pins.schedule is not None or pins.vp is not None):
            decisions += _pipeline_decisions(compared)
    if pins.fsdp is not None or (degrees.dp > 1 and degrees.fsdp > 1):
        values = _values(compared, "fsdp")
        because = _against_all(values) or "the ranks of a group share one copy of the parameters"
        decisions.append(_decision(compared, ("fsdp", degrees.fsdp), because, pins.fsdp, values))
    if pins.sharding is not None:
        stage = compared.chosen.candidate.sharding_stage
        decisions.append(_decision(compared, ("sharding", stage), "", pins.sharding, ()))
    return tuple(decisions)


def _pipeline_decisions(compared: Comparison) -> tuple[Decision, ...]:
    """Return the decisions about the order of work in the pipeline and about the parts of a stage."""
    candidate, pins = compared.chosen.candidate, compared.request.pins
    orders = _inside_values(compared, lambda row: row.schedule, lambda row: row.schedule)
    parts = _inside_values(compared, lambda row: row.degrees.vp, lambda row: f"vp {row.degrees.vp}")
    # A pin excludes choices that the program has.
    is_free = pins.schedule is None and pins.vp is None
    only = "the program has no other choice for this pipeline" if is_free else ""
    return (
        _decision(
            compared, ("schedule", candidate.schedule), _against_all(orders) or only, pins.schedule, orders
        ),
        _decision(compared, ("vp", candidate.degrees.vp), _against_all(parts) or only, pins.vp, parts),
    )


def strategy_reason(compared: Comparison) -> tuple[str, tuple[str, ...]]:
    """Return why the data-parallel strategy was chosen, and the alternatives."""
    values = tuple(_with_layout(value, compared) for value in _values(compared, "strategy"))
    return _against_all(values), _alternatives(values)


def recomputation_reason(compared: Comparison) -> tuple[str, tuple[str, ...]]:
    """Return why activations are recomputed as they are, and the alternatives."""
    values = _inside_values(
        compared,
        lambda row: (row.activation_checkpointing, row.recomputed_share),
        lambda row: recomputation_words(row) or "no recomputation",
        same=lambda row: (row.micro_batch, row.schedule, row.degrees),
    )
    return _against_all(values), _alternatives(values)


def micro_batch_reason(compared: Comparison) -> tuple[str, tuple[str, ...]]:
    """Return why the micro-batch was chosen, and the alternatives."""
    values = _inside_values(
        compared, lambda row: (row.micro_batch,), lambda row: f"micro-batch {row.micro_batch}"
    )
    return _against_all(values), _alternatives(values)


def not_searched(request: Request) -> tuple[str, ...]:
    """Return what the search did not vary, though the machine and the program may offer alternatives."""
    cluster, program, workload = request.cluster, request.program, request.workload
    narrow = [
        precision
        for precision in program.precisions
        if precision in ("fp8", "mxfp8", "nvfp4") and precision != workload.precision
        if precision in cluster.peak_flops_per_s
        or (precision == "mxfp8" and "fp8" in cluster.peak_flops_per_s)
    ]
    fixed = ("offload", "other optimizers", "compilation", "the order of ranks", "other global batches")
    return (*narrow, *fixed)


def _values(compared: Comparison, name: str) -> tuple[_Value, ...]:
    """Return the other values of a setting that distinguishes shapes, the best first."""
    here = _value_of(compared.chosen.candidate, name)
    best: dict[int | str, Examined] = {}
    for member in compared.others:
        if (value := _value_of(member.candidate, name)) != here:
            best.setdefault(value, member)
    return tuple(
        _Value(STRATEGY_TITLES.get(str(value), f"{name} {value}"), member, _words(member, compared))
        for value, member in best.items()
    )


def _value_of(candidate: Candidate, name: str) -> int | str:
    return strategy_of(candidate) if name == "strategy" else int(getattr(candidate.degrees, name))


def _inside_values(
    compared: Comparison,
    value_of: Callable[[Candidate], object],
    title_of: Callable[[Candidate], str],
    same: Callable[[Candidate], object] = lambda _: None,
) -> tuple[_Value, ...]:
    """Return the other values of a setting inside the shape, the best first."""
    candidate = compared.chosen.candidate
    best: dict[object, Examined] = {}
    for member in sorted(compared.inside, key=lambda member: (member.seconds, member.needed)):
        row = member.candidate
        if value_of(row) != value_of(candidate) and same(row) == same(candidate):
            best.setdefault(value_of(row), member)
    return tuple(
        _Value(title_of(member.candidate), member, _words(member, compared)) for member in best.values()
    )


def _words(member: Examined, compared: Comparison) -> str:
    return lost_because(member, compared)


def _with_layout(value: _Value, compared: Comparison) -> _Value:
    """Return the value with the layout in its title if the layout has other model parallelism."""
    mine, theirs = compared.chosen.candidate.degrees, value.member.candidate.degrees
    if all(getattr(mine, name) == getattr(theirs, name) for name in DEGREE_TITLES):
        return value
    layout = layout_title(value.member.candidate)
    return value._replace(title=layout if layout.startswith(value.title) else f"{value.title} ({layout})")


def _why_degree(compared: Comparison, name: str, values: tuple[_Value, ...]) -> str:
    """Return why a degree was chosen: the cost without it, then the cost of the next-best degree."""
    value = getattr(compared.chosen.candidate.degrees, name)
    without = [other for other in values if other.title == f"{name} 1"]
    next_best = [other for other in values if other not in without][:1]
    parts = [f"without {DEGREE_TITLES[name]}, the best layout {_verb(other)}" for other in without]
    if value > 1 and not without and getattr(compared.request.pins, name) is None:
        parts.append(f"no layout without {DEGREE_TITLES[name]} is possible")
    parts += [f"with {other.title}, the best layout {_verb(other)}" for other in next_best]
    return "; ".join(parts)


def _verb(other: _Value) -> str:
    """Return the words about a value as a part of a sentence, with the layout that has it."""
    return f"{_clause(other.words)} ({layout_title(other.member.candidate)})"


def _clause(words: str) -> str:
    """Return the words with the verb that they lack: `6 % slower` becomes `is 6 % slower`."""
    return words if words.startswith(("needs", "fits")) else f"is {words}"


def _against_all(values: Iterable[_Value]) -> str:
    """Return words about up to two alternatives: the best that fits, and the smallest that does not fit."""
    listed = list(values)
    fits = [other for other in listed if other.member.time is not None][:1]
    lacks = [other for other in listed if other.member.time is None]
    lacks = sorted(lacks, key=lambda other: other.member.needed)[:1]
    return "; ".join(f"{other.title} {_clause(other.words)}" for other in fits + lacks)


def _alternatives(values: tuple[_Value, ...]) -> tuple[str, ...]:
    return tuple(f"{other.title}: {other.words}" for other in values[:_MOST_ALTERNATIVES])


def _decision(
    compared: Comparison, named: tuple[str, object], because: str, pin: object, values: tuple[_Value, ...]
) -> Decision:
    """Return the decision with this name and value, and its alternatives as words."""
    basis: Basis = "modelled" if compared.chosen.seconds < math.inf else "rule"
    name, value = named
    return decision(name, str(value), pin, basis=basis, because=because, alternatives=_alternatives(values))


def decision(
    name: str, value: str, pin: object, *, basis: Basis, because: str, alternatives: tuple[str, ...] = ()
) -> Decision:
    """Return a decision of rigtune, or of the user if the value is pinned."""
    if pin is not None:
        basis, because = "user", "; ".join(filter(None, ["you fixed it", because]))
    return Decision(name=name, value=value, basis=basis, because=because, alternatives=alternatives)


def share_decision(chosen: Choice, pins: Pins, basis: Basis) -> tuple[Decision, ...]:
    """Return the decision about the part of the layers that is recomputed.

    The result is empty if all layers are recomputed and the user did not fix the part.
    """
    if pins.recomputed_share is None and chosen.recomputed_share == 1.0:
        return ()
    is_pinned = pins.recomputed_share is not None
    because = (
        ""
        if is_pinned
        else "the smallest part of the layers, in steps of a quarter, with which the layout fits"
    )
    value = f"{chosen.recomputed_share:g}"
    return (decision("recomputed_share", value, pins.recomputed_share, basis=basis, because=because),)


def _growth(member: Examined, chosen: Examined) -> float | None:
    """Return by which part a layout takes longer than the chosen one; None if a time is unknown."""
    slow, fast = member.seconds, chosen.seconds
    return None if math.inf in (slow, fast) or fast <= 0 else slow / fast - 1


def _slower(growth: float) -> str:
    return f"{1 + growth:.1f} times as slow" if growth >= 1 else f"{_percent(growth)} slower"


def _near(growth: float) -> str:
    return f"{_percent(abs(growth))} {'faster' if growth < 0 else 'slower'}, within the tie"


def _percent(part: float) -> str:
    return f"{100 * part:.1f} %" if part < 0.1 else f"{100 * part:.0f} %"


def _longer_terms(slow: TimeBreakdown | Unknown | None, fast: TimeBreakdown | Unknown | None) -> str:
    """Return the terms of a step that grow most: `exposed communication 1.2 s longer`.

    If they grow by much more than the step, the term that shrinks most follows.
    """
    if not isinstance(slow, TimeBreakdown) or not isinstance(fast, TimeBreakdown):
        return ""
    # The computation of image models has no terms of its own.
    has_terms = any(value_or(getattr(slow, name), 0.0) for name in COMPUTE_TERMS)
    changes = []
    for name in _LEAVES if has_terms else TIME_TERMS:
        there, here = getattr(slow, name), getattr(fast, name)
        if not isinstance(there, Unknown) and not isinstance(here, Unknown):
            changes.append((there - here, name.replace("_", " ")))
    changes.sort(reverse=True)
    named = [row for row in changes[:2] if row[0] > 0 and row[0] >= _NEARLY * changes[0][0]]
    words = [f"{name} {duration(seconds)} longer" for seconds, name in named]
    longer = value_or(slow.total, 0.0) - value_or(fast.total, 0.0)
    shrunk, name = changes[-1] if changes else (0.0, "")
    if shrunk < 0 and sum(seconds for seconds, _ in named) > _FULLY * longer:
        words.append(f"{name} {duration(-shrunk)} shorter")
    return ", ".join(words)


def _lost_tie(member: Examined, chosen: Examined) -> str:
    """Return why a layout that is as fast lost; blank if nothing but its time speaks against it."""
    if is_tight(member) and not is_tight(chosen):
        return f"but only {gib(_free(member))} stay free instead of {gib(_free(chosen))}"
    if is_safe(chosen) and not is_safe(member):
        return "but may run out of memory"
    mine, theirs = simplicity(member), simplicity(chosen)
    parts = member.candidate.degrees.vp > chosen.candidate.degrees.vp
    words = (
        "but has more kinds of parallelism",
        "but shares more of the training state",
        "but recomputes more",
        "but cuts stages into more parts" if parts else "but divides the model over more ranks",
        "but has more micro-batches",
        *(f"but counts as less simple, with {title}" for title in DEGREE_TITLES.values()),
    )
    differing = [place for place in range(len(words)) if mine[place] != theirs[place]]
    if differing and mine[differing[0]] > theirs[differing[0]]:
        return words[differing[0]]
    return ""


def _lost_to_fastest(member: Examined, compared: Comparison) -> str:
    """Return by how much a layout is slower than the fastest, if that is more than a tie; else blank."""
    fastest = min((compared.chosen, *compared.others), key=lambda other: other.seconds)
    growth = _growth(member, fastest)
    if growth is None or growth <= constant("layout_tie"):
        return ""
    return f"but {_slower(growth)} than the fastest layout"


def _free(member: Examined) -> float:
    limit = member.job.cluster.memory_bytes_per_rank
    return 0.0 if limit is None else max(0.0, limit.value - member.needed)
