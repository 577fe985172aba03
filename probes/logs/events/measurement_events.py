"""Records of benchmarks: results and failures."""

from __future__ import annotations

from typing import ClassVar

from probes.logs.events.log_record import Complaint, LogRecord


class NcclTestsStart(LogRecord, kw_only=True):
    """A test of nccl-tests or rccl-tests begins."""

    KIND: ClassVar[str] = "nccl_tests.start"
    collective: str


class NcclTestsRank(LogRecord, kw_only=True):
    """One line of the list of devices."""

    KIND: ClassVar[str] = "nccl_tests.rank"
    host: str
    gpu: int
    name: str
    """Model of the GPU."""
    bus: str
    rank: int | None = None


class NcclTestsRankTwice(LogRecord, kw_only=True):
    """Two processes call themselves the same rank of one measurement."""

    KIND: ClassVar[str] = "nccl_tests.rank-twice"
    rank: int
    host: str
    other_host: str


class NcclTestsResult(LogRecord, kw_only=True):
    """One row of a table, out of place or in place."""

    KIND: ClassVar[str] = "nccl_tests.result"
    collective: str
    """The one that the run names or that its columns imply."""
    bytes: int
    time_us: float
    algbw_gbps: float
    """GB/s of 1e9 bytes."""
    busbw_gbps: float
    """GB/s of 1e9 bytes."""
    in_place: bool
    """Whether the result overwrites the input."""
    ranks: int | None = None
    """Ranks of the communicator."""
    nodes: int | None = None
    """Number of nodes that take part."""
    wrong: float | None = None
    """Number of wrong values."""


class NcclTestsSummary(LogRecord, kw_only=True):
    """A whole table, at its end."""

    KIND: ClassVar[str] = "nccl_tests.summary"
    collective: str
    ranks: int | None = None
    """Ranks of the communicator."""
    nodes: int | None = None
    """Number of nodes that take part."""
    sizes: int | None = None
    """Number of sizes."""
    max_bytes: int | None = None
    """The largest size."""
    max_busbw_gbps: float | None = None
    """Bus bandwidth at the largest size."""
    peak_bytes: int | None = None
    """The size of the best bus bandwidth."""
    peak_busbw_gbps: float | None = None
    """The best bus bandwidth."""
    avg_busbw_gbps: float | None = None
    """Average bus bandwidth."""


class NcclTestsWrong(LogRecord, kw_only=True):
    """Results differ from what they must be."""

    KIND: ClassVar[str] = "nccl_tests.wrong"
    count: int
    collective: str


class NcclTestsBelowMinimum(LogRecord, kw_only=True):
    """The average is less than the test was asked to reach."""

    KIND: ClassVar[str] = "nccl_tests.below-minimum"
    average: float | None = None
    """None where it cannot be read."""


class NcclTestsFailure(Complaint, kw_only=True):
    """The test stopped with an error."""

    KIND: ClassVar[str] = "nccl_tests.failure"


class NvbandwidthVersion(LogRecord, kw_only=True):
    """The version of nvbandwidth."""

    KIND: ClassVar[str] = "nvbandwidth.version"
    version: str


class NvbandwidthSum(LogRecord, kw_only=True):
    """The sum below a matrix of nvbandwidth."""

    KIND: ClassVar[str] = "nvbandwidth.sum"
    test: str
    value: float | None = None
    """GB/s or ns."""


class NvbandwidthResult(LogRecord, kw_only=True):
    """One test of nvbandwidth."""

    KIND: ClassVar[str] = "nvbandwidth.result"
    test: str
    slowest: str
    """A GPU or a pair of GPUs."""
    slowest_gbps: float
    """GB/s of 1e9 bytes."""
    median_gbps: float
    """GB/s of 1e9 bytes."""
    fastest_gbps: float
    """GB/s of 1e9 bytes."""
    pairs: int
    """Number of pairs or GPUs."""


class NvbandwidthFailure(Complaint, kw_only=True):
    """A test or nvbandwidth itself failed."""

    KIND: ClassVar[str] = "nvbandwidth.failure"
    test: str | None = None


class NvbandwidthWarning(Complaint, kw_only=True):
    """nvbandwidth complains."""

    KIND: ClassVar[str] = "nvbandwidth.warning"
    test: str


class PerftestResult(LogRecord, kw_only=True):
    """One test of perftest: the largest size of a bandwidth, the smallest of a latency."""

    KIND: ClassVar[str] = "perftest.result"
    test: str
    device: str
    bytes: int
    gbit_per_s: float | None = None
    """Gbit/s of 1e9 bits."""
    usec: float | None = None


class PerftestCompletionError(LogRecord, kw_only=True):
    """A work completion failed in perftest."""

    KIND: ClassVar[str] = "perftest.completion-error"
    status: int | None = None
    """Number of `ibv_wc_status`."""
    vendor: int | None = None
    """The vendor's own number of the error."""
    text: str | None = None


class PerftestQpFailed(Complaint, kw_only=True):
    """Queue pairs of perftest were not connected."""

    KIND: ClassVar[str] = "perftest.qp-failed"


class PerftestRegistration(Complaint, kw_only=True):
    """perftest could not register memory."""

    KIND: ClassVar[str] = "perftest.registration"


class PerftestConnectFailed(LogRecord, kw_only=True):
    """perftest cannot reach its server."""

    KIND: ClassVar[str] = "perftest.connect-failed"
    host: str | None = None
    port: int | None = None
    reason: str | None = None


class PerftestPeerClosed(Complaint, kw_only=True):
    """The other side of perftest ended."""

    KIND: ClassVar[str] = "perftest.peer-closed"


class PerftestNoDevice(Complaint, kw_only=True):
    """perftest finds no adapter."""

    KIND: ClassVar[str] = "perftest.no-device"


class PerftestFailure(Complaint, kw_only=True):
    """Any other complaint of perftest."""

    KIND: ClassVar[str] = "perftest.failure"


class BenchResult(LogRecord, kw_only=True):
    """One test of another benchmark, at its largest size."""

    KIND: ClassVar[str] = "bench.result"
    tool: str
    test: str
    slowest: str
    """The slowest of its subjects."""
    slowest_gbps: float
    """GB/s of 1e9 bytes."""
    median_gbps: float
    """GB/s of 1e9 bytes."""
    fastest_gbps: float
    """GB/s of 1e9 bytes."""
    count: int
    peak_gbps: float | None = None
    """A faster rate at another size."""


class BenchLatency(LogRecord, kw_only=True):
    """The lowest latency of a test."""

    KIND: ClassVar[str] = "bench.latency"
    tool: str
    test: str
    usec: float


class BenchFailure(Complaint, kw_only=True):
    """Another benchmark failed."""

    KIND: ClassVar[str] = "bench.failure"
    tool: str
    test: str
