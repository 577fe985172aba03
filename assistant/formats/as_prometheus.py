"""Write a verdict for the textfile collector of Prometheus' node_exporter.

The format follows Prometheus' text-based exposition format; the metric names follow node_exporter's textfile
scripts and goss (2026-11). Values of `rigtune_check_status`: 0 pass, 1 warn, 2 fail, 3 unknown, as Nagios
counts. Checks that do not apply have no sample, and device telemetry is left to the DCGM exporter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from assistant.text.lines import clean
from probes.base.record import printable
from probes.judging.check_table import CHECKS
from probes.judging.findings import WORST_FIRST, Finding, Status
from probes.judging.verdict import Verdict

VALUES = {Status.PASS: 0, Status.WARN: 1, Status.FAIL: 2, Status.UNKNOWN: 3}


def prometheus_text(verdict: Verdict) -> str:
    """Return all metrics, each with its help and type."""
    lines = _metric(
        "rigtune_verdict", "Fit to train: 0 pass, 1 warn, 2 fail, 3 unknown.", [({}, VALUES[verdict.verdict])]
    )
    required = {row.id for row in CHECKS if row.required}
    lines += _metric(
        "rigtune_check_status",
        "Outcome of a check: 0 pass, 1 warn, 2 fail, 3 unknown; severity says whether an unknown counts.",
        [
            (
                {**labels, "severity": "required" if labels["check"] in required else "optional"},
                VALUES[status],
            )
            for labels, status in _worst(finding for finding in verdict.findings if finding.waived is None)
        ],
    )
    lines += _metric(
        "rigtune_check_waived",
        "Outcome of a check that does not count, as the policy waives it.",
        [
            (labels, VALUES[status])
            for labels, status in _worst(finding for finding in verdict.findings if finding.waived)
        ],
    )
    lines += _metric(
        "rigtune_findings",
        "Findings that are not waived, by outcome.",
        [({"status": status.value.lower()}, verdict.counts[status]) for status in WORST_FIRST],
    )
    if verdict.duration_s is not None:
        lines += _metric(
            "rigtune_run_duration_seconds", "How long the check took.", [({}, round(verdict.duration_s, 3))]
        )
    if verdict.started is not None:
        moment = round(verdict.started.timestamp(), 3)
        lines += _metric("rigtune_last_run_timestamp_seconds", "When the check began.", [({}, moment)])
    return "\n".join(lines) + "\n"


def _worst(findings: Iterable[Finding]) -> list[tuple[dict[str, str], Status]]:
    """Return one sample for each check and subject, because a series must not appear twice."""
    worst: dict[tuple[str, str], Status] = {}
    for finding in findings:
        if finding.status in VALUES:
            key = (finding.check_id, _plain(finding.subject))
            worst[key] = min(worst.get(key, finding.status), finding.status, key=WORST_FIRST.index)
    return [
        ({"check": check_id, "subject": subject}, status) for (check_id, subject), status in worst.items()
    ]


def _metric(name: str, words: str, samples: Iterable[tuple[Mapping[str, str], float]]) -> list[str]:
    lines = [f"{name}{_labels(labels)} {value}" for labels, value in samples]
    return [f"# HELP {name} {words}", f"# TYPE {name} gauge", *lines] if lines else []


def _labels(labels: Mapping[str, str]) -> str:
    return (
        "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"
        if labels
        else ""
    )


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _plain(value: str) -> str:
    """Return a label's text without control characters, which are allowed but useless."""
    return clean(printable(value))
