"""Settings that the user fixed."""

from typing import get_args

from probes.base.record import StrictRecord
from recipes.job.candidate import ActivationCheckpointing, Schedule, Sharding

PINNED_WORDS: dict[str, tuple[str, ...]] = {
    "sharding": get_args(Sharding),
    "schedule": get_args(Schedule),
    "activation_checkpointing": get_args(ActivationCheckpointing),
}
"""Values of the pins that are words; the strategies are those of the planner."""


class Pins(StrictRecord, kw_only=True):
    """Settings that the user fixed.

    The planner follows them or reports why it cannot. It never overrides them.
    """

    strategy: str | None = None
    micro_batch: int | None = None
    grad_accum: int | None = None
    activation_checkpointing: ActivationCheckpointing | None = None
    recomputed_share: float | None = None
    sharding: Sharding | None = None
    schedule: Schedule | None = None
    tp: int | None = None
    pp: int | None = None
    cp: int | None = None
    ep: int | None = None
    vp: int | None = None
    fsdp: int | None = None
    """Ranks that share one copy of the parameters."""
    learning_rate: float | None = None
    warmup_steps: int | None = None
    ranks_per_node: int | None = None

    def batch_multiple(self, ranks: int) -> int:
        """Return the number whose multiples are the batches that all ranks can share with these settings."""
        divided = (self.tp or 1) * (self.pp or 1) * (self.cp or 1)
        return max(1, ranks // divided) * (self.micro_batch or 1) * (self.grad_accum or 1)
