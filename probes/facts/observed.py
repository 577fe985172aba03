"""Observations: log events, diagnoses and measurements of other tools, unread and contradictory inputs."""

from typing import Literal

from probes.base.record import NOT_RECORDED, EvidenceRef, Record, Unknown

EventKind = Literal[
    "xid",
    "sxid",
    "nvrm",
    "gsp-timeout",
    "nvswitch",
    "amdgpu",
    "device-error",
    "clock",
    "peermem",
    "pcie-limited",
    "pcie-error",
    "slot-power",
    "link-down",
    "link-up",
    "cable",
    "nic-fault",
    "out-of-memory",
    "lockup",
    "machine-check",
    "filesystem",
    "storage",
    "nccl-crash",
    "crash",
    "panic",
    "kernel-limit",
    "iommu-fault",
    "filesystem-back",
    "driver-loaded",
    "nic-firmware",
    "pcie-link",
    "nccl-warning",
    "fabric-manager",
]

_INVENTORY: frozenset[EventKind] = frozenset(
    {"driver-loaded", "nic-firmware", "pcie-link", "filesystem-back"}
)
"""Kinds of event that only describe the machine."""


class LogEvent(Record, kw_only=True):
    """An event in a log, on one device if the log names it. Equal events are one record with a count."""

    kind: EventKind
    code: int | None = None
    """Xid or SXid number."""
    sub_code: int | None = None
    """Fault within the unit of an NVLink 5 Xid (144 to 150)."""
    after: int | None = None
    """Xid of the same GPU, shortly before, of which this Xid is the effect."""
    device: str | None = None
    """PCI address without function (`0000:9b:00`), network interface, or RDMA device."""
    message: str
    """First line of the event, without time stamp and prefix."""
    fatal: bool | Unknown = NOT_RECORDED
    """Severity according to the log, if stated."""
    count: int = 1
    first_time: str = ""
    """Time in the notation of the log."""
    last_time: str = ""
    line: int = 0
    """Number of the event's first line, from 1."""
    last_line: int = 0
    """Number of the line on which the event was last repeated, from 1."""
    settled: bool = False
    """True if a later line shows that the problem is over.

    Such a line reports a boot, a new load of the driver, a GPU that needs no recovery, or a file server that
    answers again.
    """
    evidence: tuple[EvidenceRef, ...] = ()

    @property
    def is_complaint(self) -> bool:
        """False if the event only describes the machine."""
        return self.kind not in _INVENTORY


Outcome = Literal["PASS", "WARN", "FAIL", "SKIP", "UNKNOWN"]
"""Outcome of a test of another tool."""


class Diagnosis(Record, kw_only=True):
    """A result of another tool's own test (`dcgmi diag`)."""

    tool: str
    test: str
    subject: str
    """Tested device: `GPU3`, or `host`."""
    result: Outcome
    message: str = ""
    error_code: int | None = None
    evidence: tuple[EvidenceRef, ...] = ()


class ToolResult(Record, kw_only=True):
    """A number that another benchmark printed (nvbandwidth, nccl-tests, perftest, bandwidthTest ...)."""

    tool: str
    test: str
    """The tool's own name for the test: `host_to_device_memcpy_ce`, `all_reduce`, `ib_write_bw`."""
    subject: str
    """Measured device or pair: `GPU0`, `GPU0-GPU1`, `mlx5_0` or `host`."""
    metric: Literal["bandwidth", "bus_bandwidth", "latency", "status"]
    value: float | Unknown
    unit: Literal["B/s", "s", ""] = "B/s"
    size_bytes: int | None = None
    wrong_values: int | None = None
    """Number of results that the tool's own check rejected."""
    ranks: int | None = None
    """Number of GPUs that took part in a collective; None if the tool does not report them."""
    nodes: int | None = None
    """Number of machines that took part."""
    message: str = ""
    """Warning or error that the tool printed, if any."""
    evidence: tuple[EvidenceRef, ...] = ()


class Reading(Record, kw_only=True):
    """The value that one source reports."""

    value: str
    evidence: EvidenceRef


class Contradiction(Record, kw_only=True):
    """Different values that several sources report for a field that cannot change in between."""

    subject: str
    field: str
    """Name of the field: `memory_bytes`, `pcie.width` and others."""
    readings: tuple[Reading, ...]


class Unread(Record, kw_only=True):
    """A part of an input that could not be read. rigtune uses the rest of the input."""

    source: str
    """File name or command line."""
    line: int = 0
    """Line number from 1; 0 for the whole input."""
    text: str = ""
    why: str
