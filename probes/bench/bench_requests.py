"""Requests of benchmarks to their workers, which answer with `probes.bench.worker_answers`."""

from __future__ import annotations

from typing import Literal

from probes.base.record import Record
from probes.facts import MachineFacts
from probes.facts.measurements import BenchFailure, Parameter

Case = dict[str, Parameter]
"""A case to measure, by the parameters that identify its measurement."""

Suite = Literal["quick", "full"]
SpreadBy = Literal["ssh", "slurm", "mpi"]
"""Tool that starts ranks on several hosts."""


class ReferenceModel(Record, kw_only=True):
    """The transformer that the training step runs."""

    shape: dict[str, Parameter]
    """Fields of a recipe's `ModelShape`, from which the worker builds the model."""
    flops_per_token: float
    """Model FLOPs per token, forward and backward, without recomputation.

    6 per matmul parameter plus causal attention.
    """
    micro_batches: tuple[int, ...]
    """Micro-batches in ascending order; the first that does not fit ends the list."""
    precision: Literal["bf16", "fp32"]


class BenchSettings(Record, kw_only=True):
    """Settings of the user beyond the suite."""

    folder: str = ""
    """Absolute path of the folder in which rigtune was started.

    Relative paths and the user's modules are resolved from this folder.
    """
    data_path: str = ""
    """Folder or file on the file system from which training reads; empty for `folder`."""
    step: str = ""
    """`module:function` of the user's own training step."""
    shapes: tuple[tuple[int, int, int], ...] = ()
    """Additional matrix products to measure: m, n, k."""
    model: dict[str, Parameter] = {}
    """Fields of a recipe's `ModelShape` of the user's model, whose matrix products are measured.

    Empty for the reference model.
    """
    noise_scale: bool = False
    """True to measure the gradient noise scale too, for the advice on the batch size."""


class BenchContext(Record, kw_only=True):
    """The parts of the machine and of the settings that determine the measurements."""

    device: Literal["cuda", "cpu"]
    backend: Literal["nccl", "gloo"]
    ranks_per_node: int
    threads_per_rank: int
    model: ReferenceModel
    suite: Suite = "quick"
    facts: MachineFacts = MachineFacts()
    settings: BenchSettings = BenchSettings()
    subjects: dict[str, str] = {}
    """Names such as `GPU3` by the driver's UUID; the GPU of a rank need not have the rank's number."""
    hosts: tuple[str, ...] = ()
    """Hosts to measure across, including this machine's own name; empty for this machine alone."""
    spread_by: SpreadBy = "ssh"


class BenchRequest(Record, kw_only=True):
    """A start of a worker on one or several ranks. The worker reads the request as JSON."""

    bench_id: str
    title: str
    """Description for progress: `matrix multiply, 8 GPUs at a time`."""
    device: Literal["cuda", "cpu"]
    backend: Literal["nccl", "gloo"]
    ranks: int
    """Number of ranks over all hosts."""
    threads_per_rank: int
    budget_s: float
    """Seconds for the measurement itself, without the start of torch."""
    cases: tuple[Case, ...]
    model: dict[str, Parameter] = {}
    flops_per_token: float = 0.0
    subjects: dict[str, str] = {}
    settings: dict[str, Parameter] = {}
    """Settings that are equal for all cases and identify none: a folder, the name of a function ..."""
    numa_cpus: dict[str, tuple[int, ...]] = {}
    """CPUs by NUMA node, for benchmarks that bind themselves to a node."""
    environment: dict[str, str] = {}
    """Variables of this request's processes, such as those that disable a transport."""
    hosts: tuple[str, ...] = ()
    """Hosts of the ranks, evenly spread in this order; empty for this machine."""
    spread_by: SpreadBy = "ssh"
    shares_start: bool = False
    """True if the ranks may have run another benchmark before.

    Such a benchmark counts no memory and leaves nothing behind.
    """
    needs_torch: bool = True
    """False for measurements in plain Python, which also run without a training interpreter."""

    @property
    def subject(self) -> str:
        """Return the subject of the whole request: `1 rank`, `8 ranks`."""
        return f"{self.ranks} rank{'s' if self.ranks != 1 else ''}"

    @property
    def ranks_per_node(self) -> int:
        return self.ranks // max(1, len(self.hosts))

    def failure(self, kind: str, message: str) -> BenchFailure:
        return BenchFailure(bench_id=self.bench_id, subject=self.subject, kind=kind, message=message)
