"""What is right or wrong with a machine, and what to do about it."""

from __future__ import annotations

import enum

import msgspec

from probes.facts import MachineFacts
from probes.hardware import Catalogue
from probes.measurements import Measurement
from probes.record import EvidenceRef, Record, Unknown
from probes.thresholds import Thresholds, load_thresholds


class Status(str, enum.Enum):
    """The outcome of one check on one subject."""

    PASS = "PASS"
    WARN = "WARN"
    FAIL = "FAIL"
    SKIP = "SKIP"
    """The check does not apply here."""
    UNKNOWN = "UNKNOWN"
    """The check applies and could not be made."""


WORST_FIRST = (Status.FAIL, Status.UNKNOWN, Status.WARN, Status.PASS, Status.SKIP)


class Remedy(Record, kw_only=True):
    """What a careful operator does first. Shown, never executed."""

    text: str
    command: str = ""
    needs_root: bool = False
    reversible: bool = True


class Finding(Record, kw_only=True):
    """One judgement with its evidence."""

    check_id: str
    subject: str
    """`GPU3`, `mlx5_0`, `host` ..."""
    status: Status
    summary: str
    expected: str = ""
    observed: str = ""
    why: str = ""
    """Why it matters for training."""
    remedy: Remedy | None = None
    evidence: tuple[EvidenceRef, ...] = ()


class Evidence(Record, kw_only=True):
    """The only argument of a check."""

    facts: MachineFacts
    catalogue: Catalogue
    measurements: tuple[Measurement, ...] = ()
    thresholds: Thresholds = msgspec.field(default_factory=load_thresholds)


class Judge(Record, kw_only=True):
    """Writes the findings of one check, so that each check names its id and its reason once."""

    check_id: str
    why: str

    def passed(self, subject: str, summary: str, *, observed: str = "", evidence: tuple[EvidenceRef, ...] = ()) -> Finding:
        return self._finding(Status.PASS, subject, summary, "", observed, None, evidence)

    def warned(
        self, subject: str, summary: str, *, expected: str, observed: str, remedy: Remedy, evidence: tuple[EvidenceRef, ...] = ()
    ) -> Finding:
        return self._finding(Status.WARN, subject, summary, expected, observed, remedy, evidence)

    def failed(
        self, subject: str, summary: str, *, expected: str, observed: str, remedy: Remedy, evidence: tuple[EvidenceRef, ...] = ()
    ) -> Finding:
        return self._finding(Status.FAIL, subject, summary, expected, observed, remedy, evidence)

    def skipped(self, subject: str, summary: str, *, evidence: tuple[EvidenceRef, ...] = ()) -> Finding:
        return self._finding(Status.SKIP, subject, summary, "", "", None, evidence)

    def undetermined(
        self, subject: str, unknown: Unknown, *, what: str, remedy: Remedy | None = None, evidence: tuple[EvidenceRef, ...] = ()
    ) -> Finding:
        """The check applies, but `what` could not be read."""
        return self._finding(Status.UNKNOWN, subject, f"{what} could not be read", "", str(unknown), remedy, evidence)

    def _finding(
        self,
        status: Status,
        subject: str,
        summary: str,
        expected: str,
        observed: str,
        remedy: Remedy | None,
        evidence: tuple[EvidenceRef, ...],
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
        )
