"""Answer what-if questions about a plan: more nodes, other hardware numbers, other machines."""

from collections.abc import Generator
from typing import NamedTuple

import msgspec

from assistant.usecases.events import Event, Progress, StageStarted, stage
from assistant.usecases.plan import PlanRequest, plan_of, require_positive
from probes.base.units import plural
from probes.facts import MachineFacts
from probes.facts.measurements import Measurement
from recipes.planning.programs import OWN
from recipes.planning.what_if import (
    Answer,
    Comparison,
    ScalingCurve,
    Sensitivity,
    answer,
    comparison,
    scaling_curve,
    sensitivity,
)


class Place(NamedTuple):
    """A machine on which a job is planned."""

    name: str
    facts: MachineFacts
    measurements: tuple[Measurement, ...]
    request: PlanRequest


@stage("plan")
def scale(place: Place, node_counts: tuple[int, ...]) -> Generator[Event, None, ScalingCurve]:
    """Plan the job on each number of nodes; the last event's result is a `ScalingCurve`."""
    yield StageStarted(stage="plan", title=f"Planning {plural(len(node_counts), 'size')}")
    for nodes in node_counts:
        require_positive(nodes=nodes)
    answers = []
    for done, nodes in enumerate(node_counts):
        yield Progress(stage="plan", message=plural(nodes, "node"), done=done, total=len(node_counts))
        request = _quick(msgspec.structs.replace(place.request, nodes=nodes))
        label = plural(nodes, "node")
        answers.append((nodes, _answer(label, place._replace(request=request))))
    _require_some([row for _, row in answers], place._replace(request=request))
    return scaling_curve(answers)


@stage("plan")
def vary(place: Place) -> Generator[Event, None, Sensitivity]:
    """Plan the job with other hardware numbers; the last event's result is a `Sensitivity`."""
    yield StageStarted(stage="plan", title="Planning with other hardware numbers")
    request = _quick(place.request)
    effects = sensitivity(lambda change: plan_of(place.facts, place.measurements, request, change))
    _require_some([effects.base, *(change.more for change in effects.changes)], place)
    return effects


@stage("plan")
def compare(places: tuple[Place, ...]) -> Generator[Event, None, Comparison]:
    """Plan the job on several machines; the last event's result is a `Comparison`."""
    yield StageStarted(stage="plan", title=f"Planning on {plural(len(places), 'machine')}")
    answers = []
    for done, place in enumerate(places):
        yield Progress(stage="plan", message=place.name, done=done, total=len(places))
        answers.append(_answer(place.name, place._replace(request=_quick(place.request))))
    _require_some(answers, places[0])
    return comparison(tuple(answers))


def _answer(label: str, place: Place) -> Answer:
    return answer(label, lambda: plan_of(place.facts, place.measurements, place.request))


def _require_some(answers: list[Answer], place: Place) -> None:
    """Raise the error of the plan if no variant has a plan."""
    if not any(row.layout for row in answers):
        plan_of(place.facts, place.measurements, place.request)


def _quick(request: PlanRequest) -> PlanRequest:
    """Return the request for the chosen layout alone, with its program named; no programs are compared."""
    return msgspec.structs.replace(request, program=request.program or OWN, chosen_only=True)
