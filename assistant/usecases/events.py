"""Events that use cases yield while they work.

The command line prints them, the terminal UI shows them, and tests collect them.
"""

import functools
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any, ParamSpec

from probes.base.record import Record
from probes.facts import MachineFacts
from probes.facts.measurements import BenchFailure, Measurement
from probes.judging.findings import Finding

Arguments = ParamSpec("Arguments")


class Event(Record, kw_only=True):
    """The base class of all events."""


class StageStarted(Event, kw_only=True):
    """A stage begins, such as `probe`, `check`, `bench` or `plan`."""

    stage: str
    title: str


class Progress(Event, kw_only=True):
    """One step of a stage has begun, or is done."""

    stage: str
    message: str
    done: int = 0
    total: int = 0
    remaining_s: float | None = None
    """Rough time until the stage ends; None if unknown."""


class FactsGrew(Event, kw_only=True):
    """The facts that were read so far; facts that are not yet read are Unknown."""

    facts: MachineFacts


class FindingMade(Event, kw_only=True):
    finding: Finding


class Measured(Event, kw_only=True):
    measurement: Measurement


class BenchFailed(Event, kw_only=True):
    failure: BenchFailure


class Written(Event, kw_only=True):
    """A file was written."""

    path: str
    what: str


class Remarked(Event, kw_only=True):
    """A remark that a user must know of, such as what launch files do differently from the plan."""

    text: str


class StageFinished(Event, kw_only=True):
    """A stage ended; `result` is its record (MachineFacts, Verdict, MeasurementSet, Plan, Recipe ...)."""

    stage: str
    result: Any
    duration_s: float = 0.0


def stage(
    name: str,
) -> Callable[[Callable[Arguments, Generator[Event, None, object]]], Callable[Arguments, Iterator[Event]]]:
    """Return a decorator for generators that appends `StageFinished` with the result and the duration."""

    def decorate(
        work: Callable[Arguments, Generator[Event, None, object]],
    ) -> Callable[Arguments, Iterator[Event]]:
        @functools.wraps(work)
        def timed(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Iterator[Event]:
            started = time.monotonic()
            result = yield from work(*args, **kwargs)
            yield StageFinished(stage=name, result=result, duration_s=time.monotonic() - started)

        return timed

    return decorate


def result_of(events: Iterator[Event], *, announces_end: bool = False) -> Generator[Event, None, Any]:
    """Forward the events of another stage (also its end if `announces_end`), and return its result."""
    result: Any = None
    for event in events:
        if isinstance(event, StageFinished):
            result = event.result
        if announces_end or not isinstance(event, StageFinished):
            yield event
    return result
