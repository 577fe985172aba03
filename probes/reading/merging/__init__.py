"""Put together what several sources say of the same thing, and note where they contradict each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from probes.base.record import EvidenceRef, Record, Unknown
from probes.facts import Contradiction, Reading

R = TypeVar("R", bound=Record)

_SPREAD = 0.02
"""Tools round figures of the same thing (MiB and bytes, W and mW) by less than this share."""


def merge(
    subject: str, records: Sequence[R], *, volatile: frozenset[str]
) -> tuple[R, tuple[Contradiction, ...]]:
    """One record of all `records`, which come in order of trust: for each field the first known value.

    Fields named in `volatile` (`temperature_c`, or `pcie.generation` inside a record) change from moment to
    moment and are never called contradictions; neither are tuples and dicts, whose parts a tool may leave
    out. `evidence` is joined.
    """
    found: list[Contradiction] = []
    sources = [_reference(record) for record in records]
    return _merge(subject, "", records, sources, volatile, found), tuple(found)


def _merge(  # noqa: PLR0917 - a recursion with its state
    subject: str,
    prefix: str,
    records: Sequence[R],
    sources: Sequence[EvidenceRef],
    volatile: frozenset[str],
    found: list[Contradiction],
) -> R:
    first = records[0]
    fields: dict[str, object] = {}
    for name in first.__struct_fields__:
        values = [getattr(record, name) for record in records]
        if name == "evidence":
            fields[name] = tuple(dict.fromkeys(ref for refs in values for ref in refs))
        elif isinstance(values[0], Record):
            fields[name] = _merge(subject, f"{prefix}{name}.", values, sources, volatile, found)
        else:
            known = [
                (value, ref)
                for value, ref in zip(values, sources, strict=True)
                if not isinstance(value, Unknown)
            ]
            fields[name] = known[0][0] if known else values[0]
            if f"{prefix}{name}" not in volatile and (conflict := _conflict(known)):
                found.append(Contradiction(subject=subject, field=f"{prefix}{name}", readings=conflict))
    return msgspec.structs.replace(first, **fields)


def _conflict(known: Iterable[tuple[object, EvidenceRef]]) -> tuple[Reading, ...]:
    """The readings that differ, each once; empty where all agree."""
    distinct: list[tuple[object, EvidenceRef]] = []
    for value, ref in known:
        if value is None or isinstance(value, tuple | dict):
            continue
        if not any(_alike(value, other) for other, _ in distinct):
            distinct.append((value, ref))
    return (
        tuple(Reading(value=str(value), evidence=ref) for value, ref in distinct) if len(distinct) > 1 else ()
    )


def _alike(one: object, other: object) -> bool:
    if (
        isinstance(one, bool)
        or isinstance(other, bool)
        or not isinstance(one, int | float)
        or not isinstance(other, int | float)
    ):
        return str(one).lower() == str(other).lower()
    return abs(one - other) <= _SPREAD * max(abs(one), abs(other))


def _reference(record: Record) -> EvidenceRef:
    evidence = getattr(record, "evidence", ())
    return evidence[0] if evidence else EvidenceRef(source="unknown", key="")
