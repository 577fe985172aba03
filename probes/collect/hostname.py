"""The machine's own name."""

from __future__ import annotations

from probes.collecting import CollectOptions
from probes.facts import Naming
from probes.sources.base import Source, read_text


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    """`hostname`."""
    return {"hostname": read_text(source, "/proc/sys/kernel/hostname"), "naming": Naming()}
