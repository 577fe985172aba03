"""What measurements say beside what they compare to."""

from __future__ import annotations

from typing import Literal

from probes.base.record import Record
from probes.facts.measurements import Parameter
from probes.judging.findings import Finding, Status

ComparedTo = Literal["reference", "peers", "previous", "pinned"]
"""What such hardware reaches, equal devices of this machine, the run before, the run that the user pinned."""


class Comparison(Record, kw_only=True):
    """One measurement beside one value."""

    bench_id: str
    subject: str
    metric: str
    parameters: dict[str, Parameter] = {}
    to: ComparedTo
    value: float
    """What it is compared to, in the measurement's unit."""
    share: float
    """1.0 is as good, below is worse: measured over compared for rates, compared over measured for times and
    memory.
    """
    share_low: float | None = None
    share_high: float | None = None
    """95 % confidence interval of `share`, where both sides have samples."""
    status: Status
    """PASS where nothing speaks against it; never UNKNOWN."""
    source: str
    """Where `value` comes from: a catalogue row with its source, `7 other GPUs`, `run of
    2026-11-20T21:14:03Z`.
    """


class Judgement(Record, kw_only=True):
    """What is to be said about one `MeasurementSet`."""

    findings: tuple[Finding, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
