"""Environment."""

from __future__ import annotations

from probes.collecting import CollectOptions
from probes.facts import MachineFacts
from probes.sources.base import Source


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    return {"environment": MachineFacts().environment}
