"""Fully sharded data parallel (FSDP2): all ranks share parameters, gradients and optimizer states."""

from __future__ import annotations

from collections.abc import Iterator

from recipes.job.candidate import Candidate, Degrees
from recipes.job.workload import Pins, Workload
from recipes.machine.cluster_records import Cluster
from recipes.planning.batch import divisions

ID = "fsdp"


def candidates(workload: Workload, cluster: Cluster, pins: Pins) -> Iterator[Candidate]:
    """Yield every micro-batch that divides the ranks' share, ascending, without and with checkpointing.

    One rank has nothing to share, so FSDP is offered there only when it is pinned.
    """
    if cluster.world_size > 1 or pins.strategy == ID:
        yield from divisions(workload, cluster, pins, strategy=ID, degrees=Degrees(fsdp=cluster.world_size))
