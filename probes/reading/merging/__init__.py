"""Merge the statements of several sources about one thing, and note contradictions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from probes.base.record import EvidenceRef, Record, Unknown
from probes.facts import Contradiction, Reading

R = TypeVar("R", bound=Record)

_SPREAD = 0.02
"""Largest relative difference caused by rounding (MiB and bytes, W and mW)."""


def merge(
    subject: str, records: Sequence[R], *, volatile: frozenset[str]
) -> tuple[R, tuple[Contradiction, ...]]:
    """Return a record with the first known value of each field of `records`, in order of trust.

    Fields named in `volatile` (`temperature_c`, or `pcie.generation` inside a record) change from moment to
    moment and never contradict each other; neither do tuples and dicts, whose parts a tool may leave out.
    `evidence` is joined.
    """
    contradictions: list[Contradiction] = []
    sources = [_reference(record) for record in records]
    return _merge(subject, "", records, sources, volatile, contradictions), tuple(contradictions)


def _merge(  # noqa: PLR0917 - a recursion with its state
    subject: str,
    prefix: str,
    records: Sequence[R],
    sources: Sequence[EvidenceRef],
    volatile: frozenset[str],
    contradictions: list[Contradiction],
) -> R:
    first = records[0]
    fields: dict[str, object] = {}
    for name in first.__struct_fields__:
        values = [getattr(record, name) for record in records]
        if name == "evidence":
            fields[name] = tuple(dict.fromkeys(ref for refs in values for ref in refs))
        elif isinstance(values[0], Record):
            fields[name] = _merge(subject, f"{prefix}{name}.", values, sources, volatile, contradictions)
        else:
            known = [
                (value, ref)
                for value, ref in zip(values, sources, strict=True)
                if not isinstance(value, Unknown)
            ]
            fields[name] = known[0][0] if known else values[0]
            if f"{prefix}{name}" not in volatile and (conflict := _conflict(known)):
                contradictions.append(
                    Contradiction(subject=subject, field=f"{prefix}{name}", readings=conflict)
                )
    return msgspec.structs.replace(first, **fields)


def _conflict(known: Iterable[tuple[object, EvidenceRef]]) -> tuple[Reading, ...]:
    """Return the readings that differ, each once; empty if all agree."""
    distinct: list[tuple[object, EvidenceRef]] = []
    for value, ref in known:
        if value is None or isinstance(value, tuple | dict):
            continue
        if not any(_alike(value, other) for other, _ in distinct):
            distinct.append((value, ref))
    return (
        tuple(Reading(value=str(value), evidence=ref) for value, ref in distinct) if len(distinct) > 1 else ()
    )


def _alike(first: object, second: object) -> bool:
    if (
        isinstance(first, bool)
        or isinstance(second, bool)
        or not isinstance(first, int | float)
        or not isinstance(second, int | float)
    ):
        return str(first).lower() == str(second).lower()
    return abs(first - second) <= _SPREAD * max(abs(first), abs(second))


def _reference(record: Record) -> EvidenceRef:
    evidence = getattr(record, "evidence", ())
    return evidence[0] if evidence else EvidenceRef(source="unknown", key="")
