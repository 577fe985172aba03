"""What a benchmark asks of its workers. The answer comes back as `probes.parsers.worker_lines`."""

from __future__ import annotations

from typing import Literal

from probes.measurements import BenchFailure, Parameter
from probes.record import Record

Case = dict[str, Parameter]
"""One thing to measure, by the parameters that identify it in the measurement."""


class ReferenceModel(Record, kw_only=True):
    """The transformer that the training step runs."""

    shape: dict[str, Parameter]
    """Fields of a recipe's `ModelShape`, which the worker builds the model from."""
    flops_per_token: float
    """Model FLOPs, forward and backward: 6 per matmul parameter plus causal attention, without recomputation."""
    micro_batches: tuple[int, ...]
    """Ascending; the first that does not fit ends the list."""
    precision: Literal["bf16", "fp32"]


class BenchContext(Record, kw_only=True):
    """The machine, as far as it decides what to measure."""

    device: Literal["cuda", "cpu"]
    backend: Literal["nccl", "gloo"]
    ranks_per_node: int
    threads_per_rank: int
    model: ReferenceModel
    subjects: dict[str, str] = {}
    """`GPU3` by the UUID that the driver gives; a rank's GPU need not have the rank's number."""


class BenchRequest(Record, kw_only=True):
    """One start of a worker on one or several ranks. The worker reads it as JSON."""

    bench_id: str
    title: str
    """What is measured, for progress: `matrix multiply, 8 GPUs at a time`."""
    device: Literal["cuda", "cpu"]
    backend: Literal["nccl", "gloo"]
    ranks: int
    threads_per_rank: int
    budget_s: float
    """Time for the measuring itself, without the start of torch."""
    cases: tuple[Case, ...]
    model: dict[str, Parameter] = {}
    flops_per_token: float = 0.0
    subjects: dict[str, str] = {}

    @property
    def subject(self) -> str:
        """What the request as a whole measures: `1 rank`, `8 ranks`."""
        return f"{self.ranks} rank{'s' if self.ranks != 1 else ''}"

    def failure(self, kind: str, message: str) -> BenchFailure:
        return BenchFailure(bench_id=self.bench_id, subject=self.subject, kind=kind, message=message)
