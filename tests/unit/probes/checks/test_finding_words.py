"""Test numbers and evidence in findings, which the table of check cases does not compare."""

from __future__ import annotations

import pytest

from probes.base.record import EvidenceRef, Unknown
from probes.facts import Contradiction, Diagnosis, Fabric, MachineFacts, Reading, counts
from probes.judging.check_table import CHECKS
from probes.judging.environment_values import nccl_version
from probes.judging.findings import Finding, Status
from tests.support.check_case import NODE, TIMEOUT
from tests.support.check_cases_gpu_health import with_limits
from tests.support.machines import evidence_of, h100_node, with_gpus, with_part

ROWS = {row.id: row for row in CHECKS}


def found(check_id: str, facts: MachineFacts, status: Status) -> Finding:
    """Return the only finding of one check with this status."""
    (finding,) = [row for row in ROWS[check_id].run(evidence_of(facts)) if row.status is status]
    return finding


def test_a_power_cap_is_given_in_seconds() -> None:
    free = with_limits(NODE, violations_us=counts({"sw_power_cap": 0}))
    facts = with_limits(free, 3, violations_us=counts({"sw_power_cap": 40_000}))
    assert found("gpu-violations", facts, Status.WARN).observed == "0.04 s here, 0 on 7 others"


def test_a_finding_about_the_clique_cites_the_gpus_that_report_one() -> None:
    unread = Fabric(clique_id=TIMEOUT, cluster_uuid=TIMEOUT)
    assert isinstance(NODE.gpus, tuple)
    clique_finding = found("fabric-clique", NODE, Status.PASS)
    assert clique_finding.evidence
    facts = with_gpus(NODE, 7, fabric=unread)
    passed = found("fabric-clique", facts, Status.PASS)
    assert passed.subject == "GPU0-6"
    assert set(passed.evidence) == {ref for gpu in NODE.gpus[:7] for ref in gpu.evidence}


@pytest.mark.parametrize(
    ("of_torch", "of_system", "expected"),
    [
        ("2.21.5", "2.19.3", "2.21.5"),
        (TIMEOUT, "2.19.3", "2.19.3"),
        (None, "2.19.3", "2.19.3"),
        (None, None, None),
    ],
)
def test_nccl_is_torchs_where_that_is_known(
    of_torch: str | Unknown | None, of_system: str | None, expected: str | None
) -> None:
    facts = with_part(with_part(NODE, "training", nccl_version=of_torch), "software", nccl_version=of_system)
    assert nccl_version(facts) == expected


def conflict(subject: str, field: str) -> Contradiction:
    readings = (Reading(value=v, evidence=EvidenceRef(source="paste", key=f"{v}.txt")) for v in ("80", "40"))
    return Contradiction(subject=subject, field=field, readings=tuple(readings))


@pytest.mark.parametrize(
    ("subjects", "fields", "summary", "observed"),
    [
        (["GPU0"], ["memory_bytes"], "memory bytes", "80 (80.txt) but 40 (40.txt)"),
        (["GPU0", "GPU1"], ["uuid"], "uuid", "GPU0: 80 (80.txt) but 40 (40.txt)"),
        (
            ["GPU0"],
            ["name", "uuid"],
            "name, uuid",
            "name 80 (80.txt) but 40 (40.txt); uuid 80 (80.txt) but 40 (40.txt)",
        ),
        (
            ["GPU0"],
            ["a", "b", "c"],
            "a, b, c",
            "a 80 (80.txt) but 40 (40.txt); b 80 (80.txt) but 40 (40.txt); c 80 (80.txt) but 40 (40.txt)",
        ),
        (
            ["GPU0"],
            ["a", "b", "c", "d", "e"],
            "a, b, c and 2 more",
            "a 80 (80.txt) but 40 (40.txt); b 80 (80.txt) but 40 (40.txt); c 80 (80.txt) but 40 (40.txt)",
        ),
    ],
)
def test_a_contradiction_names_only_what_the_subject_does_not_name(
    subjects: list[str], fields: list[str], summary: str, observed: str
) -> None:
    conflicts = tuple(conflict(subject, field) for subject in subjects for field in fields)
    finding = found("input-agreement", h100_node(source="a + b", contradictions=conflicts), Status.WARN)
    assert finding.summary == f"the sources contradict each other about {summary}"
    assert finding.observed == observed


@pytest.mark.parametrize(
    ("gpus", "subject", "observed"),
    [
        ((3,), "GPU3", "GPU 3 has 2 page retirements (error 44)"),
        ((3, 5), "GPU3, GPU5", "GPU has 2 page retirements (error 44)"),
    ],
)
def test_a_message_about_several_gpus_names_no_single_gpu(
    gpus: tuple[int, ...], subject: str, observed: str
) -> None:
    diagnoses = tuple(
        Diagnosis(
            tool="dcgmi diag",
            test="memory",
            subject=f"GPU{gpu}",
            result="FAIL",
            message=f"GPU {gpu} has 2 page retirements",
            error_code=44,
        )
        for gpu in gpus
    )
    finding = found("dcgm-diagnosis", h100_node(diagnoses=diagnoses), Status.FAIL)
    assert (finding.subject, finding.observed) == (subject, observed)
