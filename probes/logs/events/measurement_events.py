"""Records of benchmarks: results and failures."""

from probes.logs.events.log_record import Complaint, LogRecord


class NcclTestsStart(LogRecord, kw_only=True, tag="nccl_tests.start"):
    """A test of nccl-tests or rccl-tests begins."""

    collective: str


class NcclTestsRank(LogRecord, kw_only=True, tag="nccl_tests.rank"):
    """One rank with its GPU, from the list of devices."""

    host: str
    gpu: int
    name: str
    """Model of the GPU."""
    bus: str
    rank: int | None = None


class NcclTestsRankTwice(LogRecord, kw_only=True, tag="nccl_tests.rank-twice"):
    """Two processes claim the same rank of one measurement."""

    rank: int
    host: str
    other_host: str


class NcclTestsResult(LogRecord, kw_only=True, tag="nccl_tests.result"):
    """One row of a table of results, out of place or in place."""

    collective: str
    """The collective that the output names or that its columns imply."""
    bytes: int
    time_us: float
    algbw_gbps: float
    """GB/s; a GB is 1e9 bytes."""
    busbw_gbps: float
    """GB/s; a GB is 1e9 bytes."""
    in_place: bool
    """True if the result overwrites the input."""
    ranks: int | None = None
    """Ranks of the communicator."""
    nodes: int | None = None
    """Number of nodes that take part."""
    wrong: float | None = None
    """Number of wrong values."""


class NcclTestsSummary(LogRecord, kw_only=True, tag="nccl_tests.summary"):
    """The summary of a whole table."""

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
    """Bus bandwidth at the largest size, in GB/s."""
    peak_bytes: int | None = None
    """The size of the best bus bandwidth."""
    peak_busbw_gbps: float | None = None
    """The best bus bandwidth, in GB/s."""
    avg_busbw_gbps: float | None = None
    """Average bus bandwidth, in GB/s."""


class NcclTestsWrong(LogRecord, kw_only=True, tag="nccl_tests.wrong"):
    """Results are wrong."""

    count: int
    collective: str


class NcclTestsBelowMinimum(LogRecord, kw_only=True, tag="nccl_tests.below-minimum"):
    """The average is below the required minimum."""

    average: float | None = None
    """GB/s; a GB is 1e9 bytes. None if unreadable."""


class NcclTestsFailure(Complaint, kw_only=True, tag="nccl_tests.failure"):
    """The test stopped with an error."""


class NvbandwidthVersion(LogRecord, kw_only=True, tag="nvbandwidth.version"):
    """The version of nvbandwidth."""

    version: str


class NvbandwidthSum(LogRecord, kw_only=True, tag="nvbandwidth.sum"):
    """The sum below a matrix of nvbandwidth."""

    test: str
    value: float | None = None
    """GB/s or ns."""


class NvbandwidthResult(LogRecord, kw_only=True, tag="nvbandwidth.result"):
    """One test of nvbandwidth."""

    test: str
    slowest: str
    """A GPU or a pair of GPUs."""
    slowest_gbps: float
    """GB/s; a GB is 1e9 bytes."""
    median_gbps: float
    """GB/s; a GB is 1e9 bytes."""
    fastest_gbps: float
    """GB/s; a GB is 1e9 bytes."""
    pairs: int
    """Number of pairs or GPUs."""


class NvbandwidthFailure(Complaint, kw_only=True, tag="nvbandwidth.failure"):
    """A test of nvbandwidth, or nvbandwidth itself, failed."""

    test: str | None = None


class NvbandwidthWarning(Complaint, kw_only=True, tag="nvbandwidth.warning"):
    """nvbandwidth complains."""

    test: str


class PerftestResult(LogRecord, kw_only=True, tag="perftest.result"):
    """One test of perftest: bandwidth at the largest size, or latency at the smallest."""

    test: str
    device: str
    bytes: int
    gbit_per_s: float | None = None
    """Gbit/s; a Gbit is 1e9 bits."""
    usec: float | None = None


class PerftestCompletionError(LogRecord, kw_only=True, tag="perftest.completion-error"):
    """A work completion failed in perftest."""

    status: int | None = None
    """Value of `ibv_wc_status`."""
    vendor: int | None = None
    """The vendor's own number of the error."""
    text: str | None = None


class PerftestQpFailed(Complaint, kw_only=True, tag="perftest.qp-failed"):
    """Queue pairs of perftest were not connected."""


class PerftestRegistration(Complaint, kw_only=True, tag="perftest.registration"):
    """perftest could not register memory."""


class PerftestConnectFailed(LogRecord, kw_only=True, tag="perftest.connect-failed"):
    """perftest cannot reach its server."""

    host: str | None = None
    port: int | None = None
    reason: str | None = None


class PerftestPeerClosed(Complaint, kw_only=True, tag="perftest.peer-closed"):
    """The other side of perftest ended."""


class PerftestNoDevice(Complaint, kw_only=True, tag="perftest.no-device"):
    """perftest finds no adapter."""


class PerftestFailure(Complaint, kw_only=True, tag="perftest.failure"):
    """Any other complaint of perftest."""


class BenchResult(LogRecord, kw_only=True, tag="bench.result"):
    """One test of another benchmark, at its largest size."""

    tool: str
    test: str
    slowest: str
    """Name of the slowest of the tested GPUs, pairs or ports."""
    slowest_gbps: float
    """GB/s; a GB is 1e9 bytes."""
    median_gbps: float
    """GB/s; a GB is 1e9 bytes."""
    fastest_gbps: float
    """GB/s; a GB is 1e9 bytes."""
    count: int
    peak_gbps: float | None = None
    """The best rate in GB/s, if it was reached at another size."""


class BenchLatency(LogRecord, kw_only=True, tag="bench.latency"):
    """The lowest latency of a test."""

    tool: str
    test: str
    usec: float


class BenchFailure(Complaint, kw_only=True, tag="bench.failure"):
    """Another benchmark failed."""

    tool: str
    test: str
