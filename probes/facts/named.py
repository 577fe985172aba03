"""Named values instead of dicts, because msgspec allows no dict in a union with the Struct `Unknown`."""

from collections.abc import Iterable

from probes.base.record import Record


class Count(Record, kw_only=True):
    """A counter and its value."""

    name: str
    value: int


class State(Record, kw_only=True):
    """The name of a unit, setting or device, and its state as the tool names it."""

    name: str
    value: str


def counts(values: dict[str, int]) -> tuple[Count, ...]:
    return tuple(Count(name=name, value=value) for name, value in values.items())


def states(values: dict[str, str]) -> tuple[State, ...]:
    return tuple(State(name=name, value=value) for name, value in values.items())


def count_of(values: Iterable[Count], name: str) -> int | None:
    """Return the counter with that name; None if it was not read."""
    return next((count.value for count in values if count.name == name), None)


def state_of(values: Iterable[State], name: str) -> str | None:
    return next((state.value for state in values if state.name == name), None)
