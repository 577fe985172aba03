"""Records of comparisons and findings about measurements."""

from typing import Literal

from probes.base.record import Record
from probes.facts.measurements import Parameter
from probes.judging.findings import Finding, Status

ComparedTo = Literal["reference", "peers", "previous", "pinned"]
"""The references of a measurement: a published reference, equal devices of this machine, the previous
run, or a run pinned by the user.
"""


class Comparison(Record, kw_only=True):
    """The comparison of a measurement with a value."""

    bench_id: str
    subject: str
    metric: str
    parameters: dict[str, Parameter] = {}
    to: ComparedTo
    value: float
    """Compared value, in the measurement's unit."""
    share: float
    """Share of the compared value: 1.0 is equal, less is worse.

    For rates it is measured over compared value, for times and memory compared over measured value.
    """
    share_low: float | None = None
    share_high: float | None = None
    """Ends of the 95 % confidence interval of `share`, if both sides have samples."""
    status: Status
    """Status; PASS if nothing is wrong, UNKNOWN if the samples do not allow a judgement."""
    source: str
    """Origin of `value`: a reference row with its source, `median of all 8, including this one`, or `run of
    2026-11-20T21:14:03Z`.
    """


class Judgement(Record, kw_only=True):
    """Findings and comparisons of a `MeasurementSet`."""

    findings: tuple[Finding, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
