"""Test the statements in a node's report: passed checks, parts, and rates as shares of the catalogue."""

from __future__ import annotations

import msgspec
import pytest

from probes.base.record import EvidenceRef
from probes.compare.comparing import Beside
from probes.compare.reference_values import Reference
from probes.facts import Gpu, MachineFacts
from probes.facts.measurements import Measurement, MeasurementSet
from probes.fleet.node_side import metrics_of, parts_of, passed_of
from probes.judging.findings import Finding, Status
from probes.judging.verdict import judge


def finding(check: str, status: Status) -> Finding:
    return Finding(check_id=check, subject="GPU0", status=status, summary="x")


def test_only_a_check_that_passed_everywhere_has_passed():
    findings = [
        finding("a", Status.PASS),
        finding("b", Status.PASS),
        finding("b", Status.FAIL),
        finding("c", Status.UNKNOWN),
        finding("d", Status.PASS),
        finding("d", Status.UNKNOWN),
        finding("e", Status.WARN),
        finding("e", Status.PASS),
        finding("f", Status.SKIP),
        finding("g", Status.SKIP),
        finding("g", Status.PASS),
    ]
    verdict = judge(findings, (), hostname="n", source="x")
    assert sorted(passed_of(verdict)) == ["a", "g"]


def test_parts_have_their_identity_by_slot():
    gpus = (Gpu(index=0, name="H100", uuid="GPU-a"), Gpu(index=1, name="H100"))
    assert parts_of(MachineFacts(gpus=gpus)) == {"GPU0": "GPU-a"}
    assert parts_of(MachineFacts()) == {}


@pytest.mark.parametrize("share", [0.5, 1.25])
def test_a_rate_has_its_share_of_the_catalogue(share):
    measured = Measurement(
        bench_id="gemm", subject="GPU0", metric="gemm_flops_per_s", unit="flop/s", samples=(share * 8e14,)
    )
    other = msgspec.structs.replace(measured, subject="GPU1")
    reference = Reference(value=8e14, words="H100 SXM, bf16", ref=EvidenceRef(source="catalogue", key="x"))
    beside = Beside(measured=measured, reference=reference, status=Status.PASS)
    facts = MachineFacts(hostname="n1", gpus=(Gpu(index=0, name="H100", uuid="GPU-a"),))
    first, second = metrics_of(MeasurementSet(measurements=(measured, other)), facts, "1", (beside,))
    assert (first.reference_share, first.reference) == (pytest.approx(share), "H100 SXM, bf16")
    assert (second.reference_share, second.reference) == (None, "")
