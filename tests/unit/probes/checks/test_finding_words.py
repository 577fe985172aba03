"""Numbers and evidence in findings, which the table of check cases does not look at."""

from __future__ import annotations

import pytest

from probes.base.record import Unknown
from probes.facts import Fabric, MachineFacts, counts
from probes.judging.check_table import CHECKS
from probes.judging.environment_values import nccl_version
from probes.judging.findings import Finding, Status
from tests.support.check_case import NODE, TIMEOUT
from tests.support.check_cases_gpu_health import with_limits
from tests.support.machines import evidence_of, with_gpus, with_part

ROWS = {row.id: row for row in CHECKS}


def found(check_id: str, facts: MachineFacts, status: Status) -> Finding:
    """Return the only finding of one check with this status."""
    (finding,) = [row for row in ROWS[check_id].run(evidence_of(facts)) if row.status is status]
    return finding


def test_a_power_cap_is_given_in_seconds() -> None:
    free = with_limits(NODE, violations_us=counts({"sw_power_cap": 0}))
    facts = with_limits(free, 3, violations_us=counts({"sw_power_cap": 40_000}))
    assert found("gpu-violations", facts, Status.WARN).observed == "0.04 s here, 0 on 7 others"


def test_a_clique_cites_the_gpus_that_name_one() -> None:
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
