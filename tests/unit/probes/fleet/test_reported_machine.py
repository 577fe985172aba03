"""Test the facts and the verdict in the report of a node."""

from __future__ import annotations

import pytest

from probes.base.record import NOT_RECORDED, Unknown
from probes.fleet.comparing.fleet_finding import FleetFinding
from probes.fleet.node_report import NodeReport, Reason
from probes.fleet.reported_machine import SHOWN_AS_FACTS, machine_of, verdict_of
from probes.judging.findings import Status

H100 = "NVIDIA H100 80GB HBM3"


@pytest.mark.parametrize(
    ("number", "model", "count"),
    [
        ("8", H100, 8),
        ("1024", H100, 1024),
        ("0", "", 0),
        ("0", H100, 0),
        ("", H100, None),
        ("8", "", None),
        ("8", f"{H100} | NVIDIA A100", None),
        ("1025", H100, None),
        ("9" * 5_000, H100, None),
        ("-8", H100, None),
        ("eight", H100, None),
        ("\u0668", H100, None),
    ],
    ids=[
        *("eight", "the most", "none", "none with a model", "no number", "no model", "two models"),
        *("too many", "many digits", "negative", "a word", "another digit"),
    ],
)
def test_gpus_are_those_that_the_report_states(number: str, model: str, count: int | None) -> None:
    texts = {"gpus": number, "gpu_model": model}
    attributes = {name: text for name, text in texts.items() if text}
    facts = machine_of(NodeReport(node="n1", outcome="ok", attributes=attributes))
    assert facts.hostname == "n1"
    if count is None:
        assert facts.gpus == NOT_RECORDED
    else:
        assert not isinstance(facts.gpus, Unknown)
        assert [(gpu.index, gpu.name) for gpu in facts.gpus] == [(number, H100) for number in range(count)]


def test_versions_are_facts_and_missing_ones_are_unknown() -> None:
    texts = SHOWN_AS_FACTS - {"gpus", "gpu_model"}
    facts = machine_of(
        NodeReport(node="n1", outcome="ok", attributes={name: f"its {name}" for name in texts})
    )
    software, dmi = facts.software, facts.dmi
    assert {
        "driver": software.driver_version,
        "kernel": software.kernel,
        "operating_system": software.operating_system,
        "nccl": software.nccl_version,
        "ofed": software.ofed_version,
        "fabric_manager": software.fabric_manager_version,
        "product": dmi.product_name,
        "bios": dmi.bios_version,
        "bmc": dmi.bmc_version,
    } == {name: f"its {name}" for name in texts}
    silent = machine_of(NodeReport(node="n1", outcome="ok"))
    assert (silent.software.driver_version, silent.dmi.bios_version) == (NOT_RECORDED, NOT_RECORDED)


def test_a_node_without_a_verdict_is_unknown_because_of_its_end() -> None:
    verdict = verdict_of(NodeReport(node="n1", outcome="timed-out", detail="no end within 60 s"))
    assert verdict.verdict is Status.UNKNOWN
    assert [finding.summary for finding in verdict.findings] == ["timed-out: no end within 60 s"]
    assert verdict_of(NodeReport(node="n1", outcome="no-answer")).findings[0].summary == "no-answer"


@pytest.mark.parametrize(
    ("own", "kind", "verdict", "status"),
    [
        (Status.PASS, "slow-part", Status.FAIL, Status.FAIL),
        (Status.WARN, "slower-than-before", Status.FAIL, Status.FAIL),
        (Status.PASS, "suspect-part", Status.PASS, Status.WARN),
        (Status.FAIL, "slow-part", Status.FAIL, Status.FAIL),
        (Status.UNKNOWN, "slow-part", Status.UNKNOWN, Status.FAIL),
    ],
)
def test_a_slow_part_condemns_a_fit_node(own: Status, kind: str, verdict: Status, status: Status) -> None:
    warning = Reason(check_id="xid", subject="GPU1", status=Status.WARN, summary="an Xid")
    report = NodeReport(node="n1", outcome="ok", verdict=own, reasons=(warning,))
    slow = FleetFinding(kind=kind, subject="n1 GPU3", nodes=("n1",), metric="gemm", summary="is slow")
    answer = verdict_of(report, (slow,))
    assert answer.verdict is verdict
    assert [(each.check_id, each.subject, each.status) for each in answer.findings] == [
        ("xid", "GPU1", Status.WARN),
        (kind, "GPU3", status),
    ]
    assert answer.counts[Status.WARN] == 1 + (status is Status.WARN)
