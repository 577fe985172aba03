"""The strategies that planning tries, in this order. To add one, write a row here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from recipes.job.candidate import Candidate, Degrees
from recipes.job.workload import Pins, Workload
from recipes.machine.cluster_records import Cluster
from recipes.planning.batch import divisions


class Strategy(NamedTuple):
    """One way to divide the work over the ranks."""

    id: str
    degrees: Callable[[int], Degrees]
    """Function that returns the degrees of parallelism for a number of ranks."""
    needs_peers: bool = False
    """Whether one rank has nothing to share, so that the strategy is offered there only when it is pinned."""

    def candidates(self, workload: Workload, cluster: Cluster, pins: Pins) -> Iterator[Candidate]:
        """Yield each micro-batch that divides the ranks' share, ascending, without and with checkpointing."""
        ranks = cluster.world_size
        if ranks > 1 or not self.needs_peers or pins.strategy == self.id:
            yield from divisions(workload, pins, strategy=self.id, degrees=self.degrees(ranks))


STRATEGIES = (
    # Distributed data parallel: every rank has the whole model and reduces gradients once per step.
    Strategy("ddp", lambda ranks: Degrees(dp=ranks)),
    # Fully sharded data parallel (FSDP2): all ranks share parameters, gradients and optimizer states.
    Strategy("fsdp", lambda ranks: Degrees(fsdp=ranks), needs_peers=True),
)
