"""Requests that benchmarks send to their workers, and the lines of JSON with which the workers answer."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from probes.base.record import Record, items_of
from probes.base.units import plural
from probes.facts import Gpu, MachineFacts
from probes.facts.measurements import BenchFailure, Measurement, Parameter

Case = dict[str, Parameter]
"""A case to measure, by the parameters that identify its measurement."""

Outcome = tuple[Measurement, ...] | BenchFailure
"""The measurements that a benchmark reads from the answers, or the reason why there are none."""

Suite = Literal["quick", "full"]
SpreadBy = Literal["ssh", "slurm", "mpi", "exec"]
"""Engine that starts the ranks on several hosts; `exec` starts all on this machine, for tests."""

_OVERRUN = 3.0
"""Longest duration of a benchmark, as a multiple of its budget."""


class ReferenceModel(Record, kw_only=True):
    """The transformer that the training step runs."""

    shape: dict[str, Parameter]
    """Fields of a recipe's `ModelShape`, from which the worker builds the model."""
    flops_per_token: float
    """Model FLOPs per token, forward and backward, without recomputation.

    The number is 6 per parameter of a matrix product, plus causal attention.
    """
    micro_batches: tuple[int, ...]
    """Micro-batches in ascending order; the measurement ends at the first micro-batch that does not fit."""
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
    """Names such as `GPU3` by the driver's UUID.

    The number of a rank's GPU may differ from the rank's number.
    """
    hosts: tuple[str, ...] = ()
    """Hosts to measure across, including this machine's own name; empty for this machine alone."""
    spread_by: SpreadBy = "ssh"
    run_token: str = ""
    """Random text of this run, by which its ranks recognise each other; empty where nothing is started."""

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """Return the GPUs of the machine; none if they are unknown."""
        return items_of(self.facts.gpus)

    def on_every_device(
        self,
        bench_id: str,
        title: str,
        *,
        budget_s: float,
        cases: tuple[Case, ...],
        settings: dict[str, Parameter] | None = None,
        numa_cpus: dict[str, tuple[int, ...]] | None = None,
    ) -> "BenchRequest":
        """Return a request in which all ranks measure their own devices at the same time.

        The ranks share power, buses and memory, as in training. They synchronise over gloo, which does not
        use the GPUs.
        """
        return BenchRequest(
            bench_id=bench_id,
            title=title,
            device=self.device,
            backend="gloo",
            ranks=self.ranks_per_node,
            threads_per_rank=self.threads_per_rank,
            budget_s=budget_s,
            cases=cases,
            subjects=self.subjects,
            settings=settings or {},
            numa_cpus=numa_cpus or {},
            shares_start=True,
        )


class BenchRequest(Record, kw_only=True):
    """One start of a worker on one or several ranks. The worker reads the request as JSON."""

    bench_id: str
    title: str
    """Description for progress: `collectives over 8 ranks`."""
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
    """Settings of all cases that do not identify a case: a folder, the name of a function ..."""
    numa_cpus: dict[str, tuple[int, ...]] = {}
    """CPUs by NUMA node, for benchmarks that bind themselves to a node."""
    environment: dict[str, str] = {}
    """Variables of this request's processes, such as variables that disable a transport."""
    hosts: tuple[str, ...] = ()
    """Hosts, in the order in which they get equal shares of the ranks; empty for this machine."""
    spread_by: SpreadBy = "ssh"
    shares_start: bool = False
    """True if ranks that have run another benchmark may run this benchmark too.

    This is possible only for a benchmark that does not measure peak memory and that frees all memory that it
    allocates.
    """
    needs_torch: bool = True
    """False for measurements in plain Python, which need no training interpreter."""

    @property
    def subject(self) -> str:
        """Return the subject of the whole request: `1 rank`, `8 ranks`."""
        return plural(self.ranks, "rank")

    @property
    def ranks_per_node(self) -> int:
        return self.ranks // max(1, len(self.hosts))

    @property
    def longest_s(self) -> float:
        """Seconds that the measurement may take: a case that has begun is finished beyond the budget."""
        return _OVERRUN * self.budget_s

    def failure(self, kind: str, message: str) -> BenchFailure:
        return BenchFailure(bench_id=self.bench_id, subject=self.subject, kind=kind, message=message)


class StartLine(Record, kw_only=True, tag_field="event", tag="start"):
    """The first line: the rank and its conditions."""

    rank: int
    world_size: int
    uuid: str = ""
    conditions: dict[str, Parameter] = {}


class SampleLine(Record, kw_only=True, tag_field="event", tag="sample"):
    """The samples of one case, in seconds per call."""

    case: Case
    durations_s: tuple[float, ...]
    figures: dict[str, float] = {}
    series: dict[str, tuple[float, ...]] = {}
    """Values over time, one per sample."""


class SkippedLine(Record, kw_only=True, tag_field="event", tag="skipped"):
    """A case that was not measured, with the reason, such as the time budget."""

    case: Case
    message: str


class FailureLine(Record, kw_only=True, tag_field="event", tag="failure"):
    """A failure of a case, or of the whole worker if `case` is empty."""

    kind: str
    message: str
    case: Case = {}


class DoneLine(Record, kw_only=True, tag_field="event", tag="done"):
    """The last line of a complete answer."""

    conditions: dict[str, Parameter] = {}
    """Conditions at the end of the measurement."""


WorkerLine = StartLine | SampleLine | SkippedLine | FailureLine | DoneLine
LinesByRank = Mapping[int, tuple[WorkerLine, ...]]

_DECODER = msgspec.json.Decoder(WorkerLine)


def parse_worker_lines(data: bytes) -> tuple[WorkerLine, ...]:
    """Return all complete, well-formed lines in order.

    The worker is still writing the text after the last newline, or died while it wrote this text. Malformed
    lines are ignored, so that a damaged file becomes an incomplete answer rather than a wrong answer.
    """
    lines: list[WorkerLine] = []
    for raw in data.split(b"\n")[:-1]:
        try:
            lines.append(_DECODER.decode(raw))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
    return tuple(lines)
