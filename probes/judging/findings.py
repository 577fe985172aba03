"""Findings: the result of a check on one subject, and the remedy for it."""

import datetime
import enum
from collections.abc import Iterable

import msgspec

from probes.base.record import EvidenceRef, Reason, Record, Unknown
from probes.base.table_rows import Mode
from probes.catalogue.hardware import Catalogue
from probes.catalogue.thresholds import Thresholds, load_thresholds
from probes.facts import MachineFacts
from probes.facts.measurements import Baseline, BenchFailure, Measurement
from probes.judging.counters import Snapshot
from probes.judging.policies.policy import Policy, SiteOutcome, Waiver


class Status(str, enum.Enum):
    """The outcome of one check on one subject."""

    PASS = "PASS"  # noqa: S105 - a status, no password
    WARN = "WARN"
    FAIL = "FAIL"
    SKIP = "SKIP"
    """The check does not apply here."""
    UNKNOWN = "UNKNOWN"
    """The check applies but could not be carried out."""


WORST_FIRST = (Status.FAIL, Status.UNKNOWN, Status.WARN, Status.PASS, Status.SKIP)


class Remedy(Record, kw_only=True):
    """A first action for a careful operator; rigtune shows it but never executes it."""

    text: str
    command: str = ""
    needs_root: bool = False
    reversible: bool = True


class Finding(Record, kw_only=True):
    """The result of one check on one subject, with its evidence."""

    check_id: str
    subject: str
    """`GPU3`, `mlx5_0`, `host` ..."""
    status: Status
    summary: str
    expected: str = ""
    observed: str = ""
    why: str = ""
    """Reason why the check matters for training."""
    remedy: Remedy | None = None
    evidence: tuple[EvidenceRef, ...] = ()
    unknown: Reason | None = None
    """Reason why the check could not be carried out; None unless the status is UNKNOWN."""
    waived: Waiver | None = None
    """The waiver of the policy that removes this finding from the verdict; the status stays the same."""


Findings = Finding | Iterable[Finding]
"""Return type of a check."""


class Evidence(Record, kw_only=True):
    """The only argument of a check."""

    facts: MachineFacts
    catalogue: Catalogue
    measurements: tuple[Measurement, ...] = ()
    bench_failures: tuple[BenchFailure, ...] = ()
    """Benchmarks of the same run that gave no result."""
    baselines: tuple[Baseline, ...] = ()
    """Earlier runs with which the measurements are compared."""
    thresholds: Thresholds = msgspec.field(default_factory=load_thresholds)
    policy: Policy = Policy()
    site_outcomes: tuple[SiteOutcome, ...] = ()
    """Results of the policy's commands; empty for a stored machine, on which no command can run."""
    stated_by: dict[str, str] = {}
    """Command-line option that states an expectation, by the field of the policy (`gpu.count`)."""
    mode: Mode = "accept"
    earlier: Snapshot | None = None
    """Counters of an earlier run, with which monitoring compares."""
    now: datetime.datetime | None = None
    """The moment at which a live machine was read; None for stored facts, whose moment is unknown."""
    today: datetime.date | None = None
    """The date used to decide whether waivers have expired; None if the caller gives no date."""


class Judge(Record, kw_only=True):
    """Creates the findings of one check, so that each check names its id and its reason only once."""

    check_id: str
    why: str

    def passed(
        self, subject: str, summary: str, *, observed: str = "", evidence: tuple[EvidenceRef, ...] = ()
    ) -> Finding:
        return self._finding(subject, Status.PASS, summary, observed=observed, evidence=evidence)

    def problem(
        self,
        subject: str,
        summary: str,
        *,
        fails: bool,
        expected: str,
        observed: str,
        remedy: Remedy,
        evidence: tuple[EvidenceRef, ...] = (),
    ) -> Finding:
        """Return a FAIL, or a WARN if the problem does not fail the check."""
        return self._finding(
            subject,
            Status.FAIL if fails else Status.WARN,
            summary,
            expected=expected,
            observed=observed,
            remedy=remedy,
            evidence=evidence,
        )

    def warned(
        self,
        subject: str,
        summary: str,
        *,
        expected: str,
        observed: str,
        remedy: Remedy,
        evidence: tuple[EvidenceRef, ...] = (),
    ) -> Finding:
        return self.problem(
            subject,
            summary,
            fails=False,
            expected=expected,
            observed=observed,
            remedy=remedy,
            evidence=evidence,
        )

    def failed(
        self,
        subject: str,
        summary: str,
        *,
        expected: str,
        observed: str,
        remedy: Remedy,
        evidence: tuple[EvidenceRef, ...] = (),
    ) -> Finding:
        return self.problem(
            subject,
            summary,
            fails=True,
            expected=expected,
            observed=observed,
            remedy=remedy,
            evidence=evidence,
        )

    def skipped(self, subject: str, summary: str, *, evidence: tuple[EvidenceRef, ...] = ()) -> Finding:
        return self._finding(subject, Status.SKIP, summary, evidence=evidence)

    def undetermined(
        self,
        subject: str,
        unknown: Unknown,
        *,
        what: str,
        remedy: Remedy | None = None,
        evidence: tuple[EvidenceRef, ...] = (),
    ) -> Finding:
        """Return an UNKNOWN: the check applies, but `what` could not be read."""
        return self._finding(
            subject,
            Status.UNKNOWN,
            f"{what} could not be read",
            observed=unknown.words,
            remedy=remedy,
            evidence=evidence,
            unknown=unknown.reason,
        )

    def _finding(
        self,
        subject: str,
        status: Status,
        summary: str,
        *,
        expected: str = "",
        observed: str = "",
        remedy: Remedy | None = None,
        evidence: tuple[EvidenceRef, ...] = (),
        unknown: Reason | None = None,
    ) -> Finding:
        return Finding(
            check_id=self.check_id,
            subject=subject,
            status=status,
            summary=summary,
            expected=expected,
            observed=observed,
            why=self.why,
            remedy=remedy,
            evidence=evidence,
            unknown=unknown,
        )
