"""Settings that the user fixed."""

from probes.base.record import StrictRecord
from recipes.job.candidate import ActivationCheckpointing, Schedule, Sharding


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
