"""Test every check on its cases: mostly machines that differ from a healthy machine in one thing."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest

from probes.base.record import Reason
from probes.base.versions import at_least
from probes.facts import GpuProcess, MachineFacts
from probes.judging.check_table import CHECKS
from probes.judging.findings import Finding, Status
from tests.support.check_case import Case
from tests.support.check_cases import CASES
from tests.support.machines import cpu_box, evidence_of, h100_node, with_gpus, with_nics
from tests.support.measured import earlier, gemm, measured

ROWS = {row.id: row for row in CHECKS}


def run(check_id: str, facts: MachineFacts, **inputs: Any) -> list[Finding]:
    """Return the findings of one check.

    Only its own module is loaded, so that a broken check fails only its own tests.
    """
    return list(ROWS[check_id].run(msgspec.structs.replace(evidence_of(facts), **inputs)))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.check_id}: {case.name}")
def test_findings_of_each_case_have_the_stated_status_and_subject(case: Case) -> None:
    inputs = {
        "measurements": case.measured.measurements,
        "bench_failures": case.measured.failures,
        "baselines": case.baselines,
        "site_outcomes": case.site_outcomes,
    }
    findings = run(case.check_id, case.facts, policy=case.policy, today=case.today, **inputs)
    assert tuple(f"{finding.status.value} {finding.subject}" for finding in findings) == case.said
    for finding in findings:
        assert finding.check_id == case.check_id
        assert finding.summary
        assert finding.why
        if finding.status in (Status.WARN, Status.FAIL):
            assert finding.expected
            assert finding.observed
            assert finding.remedy is not None
            assert finding.remedy.text
        if finding.status is Status.UNKNOWN:
            assert finding.observed.split(":")[0].replace(" ", "_") in {*Reason}


@pytest.mark.parametrize("check_id", ROWS)
def test_every_check_has_cases_for_a_pass_an_unknown_and_a_problem(check_id: str) -> None:
    said = {status.split()[0] for case in CASES if case.check_id == check_id for status in case.said}
    assert {"PASS", "UNKNOWN"} <= said
    assert said & {"WARN", "FAIL"}


@pytest.mark.parametrize("check_id", ROWS)
@pytest.mark.parametrize("facts", [h100_node(), cpu_box()], ids=["8 x H100", "no GPU"])
def test_healthy_machine_has_no_problem(check_id: str, facts: MachineFacts) -> None:
    assert {finding.status for finding in run(check_id, facts)} <= {Status.PASS, Status.SKIP}


def test_command_for_a_strange_mount_is_one_shell_word() -> None:
    facts = cpu_box()
    assert isinstance(facts.storage, tuple)
    evil = msgspec.structs.replace(facts.storage[0], mount="/a b'; rm -rf $HOME", free_bytes=0)
    (finding,) = run("disk-space", msgspec.structs.replace(facts, storage=(evil,)))
    assert finding.remedy is not None
    assert finding.remedy.command.endswith("""'/a b'"'"'; rm -rf $HOME'""")


@pytest.mark.parametrize(
    ("changes", "command"),
    [
        ({"physical_state": "Disabled"}, "ibportstate -C mlx5_5 -D 0 1 enable"),
        ({"physical_state": "Disabled", "link_layer": "Ethernet", "netdev": "rail5"}, "ip link set rail5 up"),
        ({"physical_state": "Disabled", "link_layer": "Ethernet", "netdev": None}, "rdma link show mlx5_5/1"),
        ({"physical_state": "Polling", "link_layer": "Ethernet"}, "ibstat mlx5_5 1"),
        ({"state": "INIT", "physical_state": "LinkUp"}, "sminfo -C mlx5_5 -P 1"),
        ({"physical_state": "Disabled", "link_layer": "Ethernet", "netdev": "a;b"}, "ip link set 'a;b' up"),
    ],
)
def test_command_names_the_port_that_is_down(changes: dict[str, str | None], command: str) -> None:
    facts = with_nics(h100_node(), "mlx5_5", **{"state": "DOWN", **changes})
    finding = run("nic-state", facts)[0]
    assert finding.remedy is not None
    assert finding.remedy.command == command


def test_many_processes_are_counted_not_listed() -> None:
    facts = with_gpus(
        h100_node(), 0, processes=tuple(GpuProcess(pid=pid, name="python") for pid in range(300))
    )
    finding = run("gpu-busy", facts)[0]
    assert "and 296 more" in finding.observed


def test_a_throttled_gpu_is_reported_with_the_cause_and_not_the_general_bit() -> None:
    facts = with_gpus(h100_node(), 0, throttle_reasons=("hw_thermal_slowdown", "hw_slowdown"))
    assert "hot" in run("gpu-throttle", facts)[0].summary


@pytest.mark.parametrize(
    ("version", "minimum", "expected"),
    [
        ("2.28", "2.28", True),
        ("2.28.3", "2.28", True),
        ("2.27.9", "2.28", False),
        ("13", "13.0", True),
        ("5.4.0-150-generic", "5.12", False),
    ],
)
def test_versions_compare_by_number(version: str, minimum: str, expected: bool) -> None:
    assert at_least(version, minimum) is expected


@pytest.mark.parametrize(
    ("slow", "words"),
    [
        ((("c", "a"), ("c", "b")), "when it sends"),
        ((("a", "c"), ("b", "c")), "when it receives"),
        ((("a", "c"), ("b", "c"), ("c", "a"), ("c", "b")), "every link"),
    ],
)
def test_a_slow_host_is_reported_with_its_direction(slow: tuple[tuple[str, str], ...], words: str) -> None:
    rates = {f"{a}->{b}": 0.1 if (a, b) in slow else 1.2 for a, b in itertools.permutations("abc", 2)}
    links = tuple(
        measured("network", "tcp_bandwidth_bytes_per_s", subject, rate * 1e9)
        for subject, rate in rates.items()
    )
    (finding,) = run("measured-network", h100_node(), measurements=links)
    assert finding.subject == "c"
    assert words in finding.summary


def test_a_slow_gpu_is_reported_with_its_cause() -> None:
    capped = with_gpus(h100_node(), 1, power_limit_w=400.0)
    finding = run("measured-gemm", capped, measurements=tuple(gemm(720.0, 430.0)))[0]
    assert (finding.subject, finding.status) == ("GPU1", Status.FAIL)
    assert "power limit is 400 W" in finding.summary
    assert finding.remedy is not None
    assert finding.remedy.command == "nvidia-smi -i 0000:3b:00.0 -pl 700"
    throttled = tuple(
        msgspec.structs.replace(
            other, conditions={**other.conditions, "throttle_reasons": "hw_thermal_slowdown"}
        )
        for other in gemm(720.0, 430.0)
    )
    assert "clocks are reduced" in run("measured-gemm", h100_node(), measurements=throttled)[0].summary


def test_a_changed_software_version_is_named_beside_the_baseline() -> None:
    before = tuple(
        msgspec.structs.replace(other, conditions={"torch_version": "2.4.0"}) for other in gemm(720.0)
    )
    (finding,) = run(
        "measured-baseline", h100_node(), measurements=tuple(gemm(500.0)), baselines=earlier("pinned", before)
    )
    assert "torch 2.4.0 -> 2.5.1" in finding.summary
    assert "2026-11-19T08:00:00Z" in finding.expected
