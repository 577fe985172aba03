"""List given files of no known kind."""

from __future__ import annotations

from probes.collect.collecting import CollectOptions
from probes.facts import Unread
from probes.sources.base import STRANGER, Source


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return `unread`: one entry for each file."""
    why = "nothing that rigtune knows"
    return {"unread": tuple(Unread(source=given.name, why=why) for given in source.given(STRANGER))}
