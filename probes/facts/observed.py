"""What was observed rather than what is there: events of the kernel log, other tools' diagnoses and
measurements, and how well the sources could be read and agree.
"""

from __future__ import annotations

from typing import Literal

from probes.base.record import NOT_RECORDED, EvidenceRef, Record, Unknown

EventKind = Literal[
    "xid",
    "sxid",
    "nvrm",
    "gsp-timeout",
    "nvswitch",
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
"""Kinds that complain of nothing."""


class LogEvent(Record, kw_only=True):
    """One kind of event on one device in a log. Equal ones are counted, not repeated."""

    kind: EventKind
    code: int | None = None
    """Xid or SXid number."""
    sub_code: int | None = None
    """Of an NVLink 5 Xid (144 to 150): which fault of its unit."""
    device: str | None = None
    """PCI address without function (`0000:9b:00`), network interface, or RDMA device."""
    message: str
    """The first line of its kind, without time stamp and prefix."""
    fatal: bool | Unknown = NOT_RECORDED
    """The log's own word, where it has one."""
    count: int = 1
    first_time: str = ""
    """As the log prints it."""
    last_time: str = ""
    line: int = 0
    """Line of the first one, from 1."""
    last_line: int = 0
    settled: bool = False
    """True where the log goes on with a boot, a new load of the driver, the GPU's word that it needs no
    recovery, or the file server's answer.
    """
    evidence: tuple[EvidenceRef, ...] = ()

    @property
    def is_complaint(self) -> bool:
        """False for what a log only says of how the machine is."""
        return self.kind not in _INVENTORY


class Diagnosis(Record, kw_only=True):
    """One result of another tool's own test (`dcgmi diag`)."""

    tool: str
    test: str
    subject: str
    """`GPU3`, or `host`."""
    result: Literal["PASS", "WARN", "FAIL", "SKIP", "UNKNOWN"]
    message: str = ""
    error_code: int | None = None
    evidence: tuple[EvidenceRef, ...] = ()


class ToolResult(Record, kw_only=True):
    """One number that another benchmark printed (nvbandwidth, nccl-tests, perftest, bandwidthTest ...)."""

    tool: str
    test: str
    """The tool's own name of the test: `host_to_device_memcpy_ce`, `all_reduce`, `ib_write_bw`."""
    subject: str
    """`GPU0`, `GPU0-GPU1`, `mlx5_0` or `host`."""
    metric: Literal["bandwidth", "bus_bandwidth", "latency", "status"]
    value: float | Unknown
    unit: Literal["B/s", "s", ""] = "B/s"
    size_bytes: int | None = None
    wrong_values: int | None = None
    """How many results the tool's own check found wrong."""
    ranks: int | None = None
    """GPUs that took part in a collective; None where the tool does not tell."""
    nodes: int | None = None
    """Machines that took part."""
    message: str = ""
    """What the tool complained of, where it did."""
    evidence: tuple[EvidenceRef, ...] = ()


class Reading(Record, kw_only=True):
    """What one source says."""

    value: str
    evidence: EvidenceRef


class Contradiction(Record, kw_only=True):
    """Two sources that say different things of one field that cannot change in between."""

    subject: str
    field: str
    """`memory_bytes`, `pcie.width` ..."""
    readings: tuple[Reading, ...]


class Unread(Record, kw_only=True):
    """A part of an input that could not be read. The rest was used."""

    source: str
    """File name or command line."""
    line: int = 0
    """From 1; 0 where it is about the whole."""
    text: str = ""
    why: str
