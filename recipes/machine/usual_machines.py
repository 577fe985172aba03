"""The machine that a GPU usually sits in, for cases that name only the GPU."""

from __future__ import annotations

import functools
from typing import NamedTuple

from probes.base.record import StrictRecord
from probes.base.rows import load_rows
from probes.catalogue.hardware import Catalogue, GpuModel
from recipes.machine.cluster_records import Fabric, Transport


class Design(StrictRecord, kw_only=True):
    """The machine that a GPU usually sits in."""

    id: str
    title: str
    fabric: Fabric
    gpus_per_node: int
    domain_gpus: int | None = None
    """GPUs of an NVLink domain that spans nodes."""
    network_gbps: float
    """All ports of a node together, one direction."""
    network_ports: int
    transport: Transport
    source: str
    date: str


class NamedGpu(NamedTuple):
    """The GPU that a name means, and its usual machine."""

    row: GpuModel
    design: Design


@functools.lru_cache(maxsize=1)
def load_designs() -> dict[str, Design]:
    """Return all usual machines by id."""
    return {row.id: row for row in load_rows("recipes", "designs", Design)}


@functools.lru_cache(maxsize=4096)
def gpu_named(name: str, memory_gb: float | None, catalogue: Catalogue) -> NamedGpu | None:
    """Return the GPU of that name with its usual machine; None if no row has such a name."""
    row = catalogue.gpu_named(name, memory_gb)
    return None if row is None else NamedGpu(row, load_designs()[row.design])
