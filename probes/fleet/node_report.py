"""The report of a node to the head, the machine that runs `rigtune fleet`.

Every engine runs the same command on each node. The command prints each record as one line of JSON that
begins with `MARK`; all other lines come from login shells and programs, and are ignored. The engine yields
the marked lines as `NodeLine`s and exactly one `NodeEnd` for each wanted node.
"""

import re
import statistics
from collections.abc import Sequence
from typing import Literal, NamedTuple

from probes.base.grouping import grouped
from probes.base.record import Record
from probes.judging.findings import Status

MARK = "@rigtune "
"""Start of a line of standard output that carries a record as JSON."""
LONGEST_ANSWER_BYTES = 4 * 1024 * 1024
"""Maximum number of bytes in the marked lines of a node; a node that sends more has the outcome `exit`."""

Outcome = Literal["ok", "exit", "timed-out", "unreachable", "no-answer", "not-started"]
"""End of the command of a node.

- `ok`: with exit code 0; `exit`: with another code, or with a signal;
- `timed-out`: still running at the time limit;
- `unreachable`: no connection could be made (name, address, host key, permission);
- `no-answer`: the connection was lost on the way, which says nothing about the node;
- `not-started`: the engine did not get the node, for example because a job runs there.
"""


_LONGEST_NAME = 253
"""Longest host name of DNS (RFC 1035, section 3.1, with the length bytes left out)."""


def is_node_name(text: str) -> bool:
    """Return whether the text can be the name of a node: safe in a shell, a list of hosts and a terminal."""
    return (
        0 < len(text) <= _LONGEST_NAME
        and text.isascii()
        and text[0] not in "-@:."
        and all(letter.isalnum() or letter in "._-:@" for letter in text)
    )


class NodeLine(NamedTuple):
    """One marked line of a node, without the mark."""

    node: str
    text: bytes


class NodeEnd(NamedTuple):
    """The end of the command on a node."""

    node: str
    outcome: Outcome
    exit_code: int | None = None
    detail: str = ""
    """Last line of the error output, or the reason why the node did not start; printable text."""


class Metric(Record, kw_only=True):
    """One measured quantity of a part of a node."""

    part_kind: str
    """Kind of the part: `gpu`, or `node` for all other subjects of measurements."""
    part_id: str
    """Identity that moves with the part: the UUID of a GPU; for other parts, host name and slot."""
    slot: str
    """Subject of the measurement within the node: `GPU3`, `8 ranks`; empty for the node itself."""
    metric: str
    unit: str
    samples: tuple[float, ...]
    is_larger_better: bool = True
    quality: Literal["good", "busy"] = "good"
    version: str = ""
    """Version of the benchmark; another version starts a new series."""
    reference_share: float | None = None
    """Part of the catalogue's value that was reached; 1.0 is equal, less is worse. None without a value."""
    reference: str = ""
    """Source of the catalogue's value."""

    @property
    def was_disturbed(self) -> bool:
        """True if others used the node, so that the samples do not show the speed of the part."""
        return self.quality == "busy"

    @property
    def is_usable(self) -> bool:
        """True if the samples can be compared with others."""
        return bool(self.samples) and not self.was_disturbed

    @property
    def median(self) -> float:
        """Return the median of the samples; there must be at least one sample."""
        return statistics.median(self.samples)


class Reason(Record, kw_only=True):
    """A finding that explains a verdict."""

    check_id: str
    subject: str
    status: Status
    summary: str


class NodeReport(Record, kw_only=True):
    """Everything that the head knows about one node after a run."""

    node: str
    """Name by which the node was asked."""
    outcome: Outcome
    detail: str = ""
    verdict: Status | None = None
    """The node's own judgement; None if it did not answer."""
    reasons: tuple[Reason, ...] = ()
    """The first FAIL and WARN findings, and UNKNOWN findings of required checks, the worst first."""
    attributes: dict[str, str] = {}
    """Hardware, firmware and software of the node by name: `gpu_model`, `driver`, `vbios`, `kernel`, `image`,
    `power_cap` ...; several values within the node are joined by ` | `.
    """
    places: dict[str, str] = {}
    """Place of the node by name: `rack`, `switch`, `pdu` ...; filled in by the head, and different between
    nodes without a fault.
    """
    parts: dict[str, str] = {}
    """Identity of the part in each slot: the UUID of `GPU3`; another identity means that it was swapped."""
    passed: tuple[str, ...] = ()
    """Ids of the checks that passed on all their subjects; only these checks can end a node's bad state."""
    metrics: tuple[Metric, ...] = ()
    unmeasured: str = ""
    """Reason why a wanted benchmark gave no result; empty if all did, or none was wanted."""
    version: str = ""
    """Version of rigtune on the node."""
    commit: str = ""
    """Commit of rigtune on the node."""
    clock_s: float | None = None
    """Clock of the node when it reported, in seconds since 1970."""
    clock_offset_s: float | None = None
    """Seconds by which the node's clock is ahead of the head's clock, or behind it if negative.

    The value is 0 if the node's time lies between the start of the run and the arrival of the report.
    """
    claims: str = ""
    """Host name that the node reports, if it differs from the name by which it was asked."""


def part_ids(report: NodeReport) -> set[str]:
    """Return the identities of the parts of a node, which the parts keep if they move to another node."""
    measured = (metric.part_id for metric in report.metrics if metric.part_kind != "node")
    return {*report.parts.values(), *measured}


def disputed_parts(reports: Sequence[NodeReport]) -> dict[str, list[str]]:
    """Return the identities that do not identify one part, each with the nodes that report it.

    Such an identity is reported by several nodes, equals the name of a node, or has only zeros. Answers are
    untrusted: no state may follow from such an identity, because it may belong to a part of another node.
    """
    owners = grouped((part, report.node) for report in reports for part in part_ids(report))
    names = {report.node for report in reports}
    return {
        part: sorted({*nodes, part} if part in names else nodes)
        for part, nodes in owners.items()
        if len(nodes) > 1 or part in names or _NO_IDENTITY.fullmatch(part)
    }


_NO_IDENTITY = re.compile(r"(?:[A-Za-z]+-)?[0:.x-]{12,}|")
"""An identity that the firmware never wrote: `0000:0000:0000:0000`, `GPU-00000000-0000-...`."""
