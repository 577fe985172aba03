"""Turn the report of a node into facts and a verdict, as far as the report carries them."""

from collections.abc import Sequence

from probes.base.record import NOT_RECORDED, Unknown
from probes.facts import Gpu, MachineFacts
from probes.facts.host_facts import Dmi
from probes.facts.software_facts import Software
from probes.fleet.comparing.fleet_finding import FleetFinding
from probes.fleet.comparing.sku_matrix import SEPARATOR
from probes.fleet.fleet_result import CONDEMNING
from probes.fleet.node_report import NodeReport
from probes.judging.findings import Finding, Status
from probes.judging.verdict import Verdict

SHOWN_AS_FACTS = frozenset({
    "gpus", "gpu_model", "driver", "kernel", "operating_system", "nccl", "ofed", "fabric_manager", "product",
    "bios", "bmc",
})  # fmt: skip
"""Attributes of a report that `machine_of` turns into facts."""
_MOST_GPUS = 1024
"""Maximum number of GPUs that is accepted from the report of a node, which is untrusted."""


def machine_of(report: NodeReport) -> MachineFacts:
    """Return the facts in a report; all others are Unknown, because the report does not carry them."""
    attributes = report.attributes

    def stated(name: str) -> str | Unknown:
        return attributes.get(name, NOT_RECORDED)

    return MachineFacts(
        hostname=report.node,
        gpus=_gpus(attributes),
        software=Software(
            driver_version=stated("driver"),
            kernel=stated("kernel"),
            operating_system=stated("operating_system"),
            nccl_version=stated("nccl"),
            ofed_version=stated("ofed"),
            fabric_manager_version=stated("fabric_manager"),
        ),
        dmi=Dmi(product_name=stated("product"), bios_version=stated("bios"), bmc_version=stated("bmc")),
    )


def _gpus(attributes: dict[str, str]) -> tuple[Gpu, ...] | Unknown:
    """Return the GPUs with their common name; Unknown if their names differ or were not reported."""
    number, model = attributes.get("gpus", ""), attributes.get("gpu_model", "")
    if number == "0":
        return ()
    if not (number.isascii() and number.isdecimal() and len(number) <= len(str(_MOST_GPUS))):
        return NOT_RECORDED
    if not model or SEPARATOR in model or int(number) > _MOST_GPUS:
        return NOT_RECORDED
    return tuple(Gpu(index=index, name=model) for index in range(int(number)))


def verdict_of(report: NodeReport, slow: Sequence[FleetFinding] = ()) -> Verdict:
    """Return the verdict of a node with the reasons for it, and with its slow parts.

    A node without a verdict is UNKNOWN, and the only reason is how it ended.
    """
    reasons = [
        Finding(
            check_id=reason.check_id, subject=reason.subject, status=reason.status, summary=reason.summary
        )
        for reason in report.reasons
    ]
    if report.verdict is None:
        words = f"{report.outcome}: {report.detail}" if report.detail else report.outcome
        reasons.append(Finding(check_id="fleet", subject="node", status=Status.UNKNOWN, summary=words))
    compared = [
        Finding(
            check_id=finding.kind,
            subject=finding.subject.removeprefix(f"{report.node} "),
            status=Status.FAIL if finding.kind in CONDEMNING else Status.WARN,
            summary=finding.summary,
        )
        for finding in slow
    ]
    findings = tuple(reasons + compared)
    statuses = [finding.status for finding in findings]
    is_slow = report.verdict in (Status.PASS, Status.WARN) and Status.FAIL in [
        finding.status for finding in compared
    ]
    return Verdict(
        hostname=report.node,
        source="report of a fleet's run",
        verdict=Status.FAIL if is_slow else report.verdict or Status.UNKNOWN,
        findings=findings,
        counts={status: statuses.count(status) for status in Status},
    )
