"""What of a step's communication remains visible when it runs beside computation."""

from __future__ import annotations

from probes.record import Record
from recipes.constants import constant


class LayerTimes(Record, kw_only=True):
    """Computation of one micro-batch on one rank, seconds."""

    layers: int
    forward_s: float
    """One layer."""
    backward_s: float
    """One layer, with its recomputation under full checkpointing."""
    root_s: float
    """Embedding, head and loss, forward and backward."""

    @property
    def backward_total_s(self) -> float:
        return self.layers * self.backward_s

    @property
    def total_s(self) -> float:
        return self.layers * (self.forward_s + self.backward_s) + self.root_s


def overlapped_s(communication_s: float, computation_s: float) -> float:
    """Time that communication adds to computation it runs beside: what does not fit, and the slow-down of what does."""
    hidden = min(communication_s, computation_s)
    return communication_s - hidden + constant("overlap_slowdown") * hidden
