"""Collect diagnoses of other tools: given reports of `dcgmi diag`."""

from __future__ import annotations

from probes.base.record import NOT_RECORDED, Unknown
from probes.collect.collecting import CollectOptions
from probes.facts import Diagnosis, Unread
from probes.sources.base import Source


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return `diagnoses`; Unknown if none was given, because rigtune does not start such tools."""
    if source.is_live:
        return {"diagnoses": NOT_RECORDED}
    from probes.reading.readers.tool_texts import DIAGNOSES  # noqa: PLC0415 - a live machine has none

    found: list[Diagnosis] = []
    unread: list[Unread] = []
    is_given = False
    for reader in DIAGNOSES:
        told = reader.read(source, Diagnosis)
        if not isinstance(told, Unknown):
            is_given = True
            found += told[0]
            unread += told[1]
    return {"diagnoses": tuple(found) if is_given else NOT_RECORDED, "unread": tuple(unread)}
