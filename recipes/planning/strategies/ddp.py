"""Distributed data parallel: every rank has the whole model and reduces gradients once per step."""

from __future__ import annotations

from collections.abc import Iterator

from recipes.job.candidate import Candidate, Degrees
from recipes.job.workload import Pins, Workload
from recipes.machine.cluster_records import Cluster
from recipes.planning.batch import divisions

ID = "ddp"


def candidates(workload: Workload, cluster: Cluster, pins: Pins) -> Iterator[Candidate]:
    """Yield every micro-batch that divides the ranks' share, ascending, without and with checkpointing."""
    yield from divisions(workload, cluster, pins, strategy=ID, degrees=Degrees(dp=cluster.world_size))
