"""What a benchmark asks of its workers. The answer comes back as `probes.bench.worker_answers`."""

from __future__ import annotations

from typing import Literal

from probes.base.record import Record
from probes.facts import MachineFacts
from probes.facts.measurements import BenchFailure, Parameter

Case = dict[str, Parameter]
"""One thing to measure, by the parameters that identify it in the measurement."""

Suite = Literal["quick", "full"]
SpreadBy = Literal["ssh", "slurm", "mpi"]
"""What starts ranks on several hosts."""


class ReferenceModel(Record, kw_only=True):
    """The transformer that the training step runs."""

    shape: dict[str, Parameter]
    """Fields of a recipe's `ModelShape`, which the worker builds the model from."""
    flops_per_token: float
    """Model FLOPs, forward and backward: 6 per matmul parameter plus causal attention, without
    recomputation.
    """
    micro_batches: tuple[int, ...]
    """Ascending; the first that does not fit ends the list."""
    precision: Literal["bf16", "fp32"]


class BenchSettings(Record, kw_only=True):
    """What the user asked for beyond the suite."""

    folder: str = ""
    """Absolute: where relative paths and the user's modules are looked for, the folder that rigtune was
    started in.
    """
    data_path: str = ""
    """Folder or file on the file system from which training reads; empty for the folder rigtune was started
    in.
    """
    step: str = ""
    """`module:function` of the user's own training step."""
    shapes: tuple[tuple[int, int, int], ...] = ()
    """More matrix products to measure: m, n, k."""
    model: dict[str, Parameter] = {}
    """The user's model, whose matrix products are measured: fields of a recipe's `ModelShape`. Empty for the
    reference model.
    """
    noise_scale: bool = False
    """Measure the gradient noise scale too, for the advice on the batch size."""


class BenchContext(Record, kw_only=True):
    """The machine and the wishes, as far as they decide what to measure."""

    device: Literal["cuda", "cpu"]
    backend: Literal["nccl", "gloo"]
    ranks_per_node: int
    threads_per_rank: int
    model: ReferenceModel
    suite: Suite = "quick"
    facts: MachineFacts = MachineFacts()
    settings: BenchSettings = BenchSettings()
    subjects: dict[str, str] = {}
    """`GPU3` by the UUID that the driver gives; a rank's GPU need not have the rank's number."""
    hosts: tuple[str, ...] = ()
    """The hosts to measure across, this machine's own name among them; empty for this machine alone."""
    spread_by: SpreadBy = "ssh"


class BenchRequest(Record, kw_only=True):
    """One start of a worker on one or several ranks. The worker reads it as JSON."""

    bench_id: str
    title: str
    """What is measured, for progress: `matrix multiply, 8 GPUs at a time`."""
    device: Literal["cuda", "cpu"]
    backend: Literal["nccl", "gloo"]
    ranks: int
    """Over all hosts."""
    threads_per_rank: int
    budget_s: float
    """Time for the measuring itself, without the start of torch."""
    cases: tuple[Case, ...]
    model: dict[str, Parameter] = {}
    flops_per_token: float = 0.0
    subjects: dict[str, str] = {}
    settings: dict[str, Parameter] = {}
    """What is the same for all cases and identifies none: a folder, the name of a function ..."""
    numa_cpus: dict[str, tuple[int, ...]] = {}
    """CPUs by NUMA node, for benchmarks that bind themselves to a node."""
    environment: dict[str, str] = {}
    """Variables of the worker's processes for this request alone, such as those that shut one transport
    off.
    """
    hosts: tuple[str, ...] = ()
    """Where the ranks run, evenly spread in this order; empty for this machine."""
    spread_by: SpreadBy = "ssh"
    shares_start: bool = False
    """True where the ranks may have measured something else before: what counts no memory and leaves nothing
    behind.
    """
    needs_torch: bool = True
    """False for what Python alone measures; it also runs where no training interpreter is."""

    @property
    def subject(self) -> str:
        """What the request as a whole measures: `1 rank`, `8 ranks`."""
        return f"{self.ranks} rank{'s' if self.ranks != 1 else ''}"

    @property
    def ranks_per_node(self) -> int:
        return self.ranks // max(1, len(self.hosts))

    def failure(self, kind: str, message: str) -> BenchFailure:
        return BenchFailure(bench_id=self.bench_id, subject=self.subject, kind=kind, message=message)
