"""Descriptions of layouts, and the decisions about their degrees of parallelism."""

from collections.abc import Iterator

from probes.base.record import Unknown
from probes.base.units import duration, gib
from recipes.constants import constant
from recipes.job.candidate import Candidate
from recipes.job.workload import Pins
from recipes.machine.cluster_records import Basis
from recipes.planning.plan import Choice, Decision, Rejected
from recipes.planning.space import strategy_of


def describe(candidate: Candidate | Choice) -> str:
    """Return a description of a candidate: `fsdp with full checkpointing, micro-batch 2`."""
    mode = "" if candidate.activation_checkpointing == "none" else f" with {recomputation_words(candidate)}"
    name = candidate.strategy if isinstance(candidate, Choice) else strategy_of(candidate)
    degrees = candidate.degrees
    sizes = "".join(f" {part} {getattr(degrees, part)}" for part in _DIVIDING if getattr(degrees, part) > 1)
    return f"{name}{sizes}{mode}, micro-batch {candidate.micro_batch}"


_DIVIDING = ("tp", "pp", "vp", "cp", "ep")


def recomputation_words(candidate: Candidate | Choice) -> str:
    """Return how activations are recomputed: `full checkpointing of 25 % of the layers`."""
    share = candidate.recomputed_share
    part = f" of {round(100 * share)} % of the layers" if share < 1.0 else ""
    return f"{candidate.activation_checkpointing} checkpointing{part}"


def outlook(choice: Choice) -> str:
    memory = f"{gib(choice.predicted.memory_bytes_per_gpu.upper)} in the worst case"
    time = choice.predicted.step_time_s.total
    return (
        f"{describe(choice)}: {memory}"
        if isinstance(time, Unknown)
        else f"{describe(choice)}: {duration(time)}, {memory}"
    )


def decision(
    name: str, value: str, pin: object, *, basis: Basis, because: str, alternatives: tuple[str, ...] = ()
) -> Decision:
    """Return a decision; a pinned one is the user's."""
    if pin is not None:
        basis, because = "user", f"you fixed it; {because}"
    return Decision(name=name, value=value, basis=basis, because=because, alternatives=alternatives)


_DEGREE_MEANING = {
    "tp": "ranks share each matrix",
    "pp": "stages share the layers",
    "vp": "parts of the layers per stage",
    "cp": "ranks share each sequence",
    "ep": "ranks share the experts of a layer",
    "fsdp": "ranks share one copy of the parameters",
}


def layout_decisions(
    pins: Pins, choices: list[Choice], rejected: tuple[Rejected, ...], basis: Basis
) -> Iterator[Decision]:
    """Yield a decision for each degree that is used or pinned, with the cost of other values."""
    chosen = choices[0]
    for name, meaning in _DEGREE_MEANING.items():
        value, pin = getattr(chosen.degrees, name), getattr(pins, name)
        if pin is None and (value == 1 or (name == "fsdp" and chosen.degrees.dp == 1)):
            continue
        others = [choice for choice in choices[1:] if getattr(choice.degrees, name) != value]
        because = f"{value} {meaning}; {_without(name, value, chosen, others, rejected)}"
        shown = tuple(outlook(other) for other in others[:3])
        yield decision(name, str(value), pin, basis=basis, because=because, alternatives=shown)
    if chosen.degrees.pp > 1 or pins.schedule is not None:
        because = "order of work in the pipeline with the shortest step that fits"
        yield decision("schedule", chosen.schedule, pins.schedule, basis=basis, because=because)
    if pins.sharding is not None:
        because = f"the strategy {chosen.strategy} shares this training state"
        yield decision("sharding", chosen.sharding, pins.sharding, basis=basis, because=because)


def _without(
    name: str, value: int, chosen: Choice, others: list[Choice], rejected: tuple[Rejected, ...]
) -> str:
    """Return what the best layout with another value of a degree costs, or why there is none."""
    mine = chosen.predicted.step_time_s.total
    if others:
        best = others[0]
        its = best.predicted.step_time_s.total
        other = f"{name} {getattr(best.degrees, name)}"
        if isinstance(mine, Unknown) or isinstance(its, Unknown):
            return f"{other} fits too, and no step time is known"
        if its <= mine * (1 + constant("layout_tie")):
            return f"{other} is predicted as fast ({duration(its)} per step), but tighter or not simpler"
        return f"the best layout with {other} takes {duration(its)} per step instead of {duration(mine)}"
    smallest = next((row for row in rejected if getattr(row.candidate.degrees, name) != value), None)
    if smallest is not None:
        return f"with {name} {getattr(smallest.candidate.degrees, name)} it {smallest.reason}"
    return "no layout with another value was examined"


def share_decision(chosen: Choice, pins: Pins, basis: Basis) -> tuple[Decision, ...]:
    """Return the decision about the part of the layers that is recomputed; none if it is all of them."""
    if pins.recomputed_share is None and chosen.recomputed_share == 1.0:
        return ()
    because = "the smallest part of the layers with which the layout fits"
    value = f"{chosen.recomputed_share:g}"
    return (decision("recomputed_share", value, pins.recomputed_share, basis=basis, because=because),)
