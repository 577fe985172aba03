"""Test that names are folded, and that all subjects without a problem share one finding."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.record import EvidenceRef, Reason, Unknown, items_of
from probes.facts import Gpu, LogEvent, MachineFacts, Nic, NvLink
from probes.judging.findings import Evidence, Finding, Judge, Remedy, Status
from probes.judging.reporting import (
    each_gpu,
    each_port,
    events_in,
    fold_names,
    has_no_gpu,
    is_behind_switch,
    judge_each,
    occurrences,
    on_events,
    subject_name,
    unfolded,
)
from tests.support.machines import CATALOGUE, h100_node, with_gpus

JUDGE = Judge(check_id="demo", why="because")


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        ((), ""),
        (("GPU0",), "GPU0"),
        (("GPU0", "GPU1", "GPU2", "GPU5"), "GPU0-2, GPU5"),
        (("mlx5_10", "mlx5_2", "mlx5_11", "mlx5_3"), "mlx5_2-3, mlx5_10-11"),
        (("x00", "x01"), "x00, x01"),
        (("rdmap13s0", "rdmap6s1", "rdmap6s0"), "rdmap6s0-1, rdmap13s0"),
        (("/", "/raid"), "/, /raid"),
    ],
)
def test_names_are_folded_in_natural_order(names: tuple[str, ...], folded: str) -> None:
    assert fold_names(names) == folded


@pytest.mark.parametrize(
    ("count", "first", "last", "shown"),
    [
        (1, "", "", "once"),
        (3, "", "", "3 times"),
        (1, "Sun Feb 23 16:24:18 2025", "Sun Feb 23 16:24:18 2025", "once, at Sun Feb 23 16:24:18 2025"),
        (2, "12:01", "12:09", "2 times, first 12:01, last 12:09"),
        (6, "10112.280872", "38319.517526", "6 times, first 10112 s after boot, last 38320 s after boot"),
        (2, "7.1", "7.1", "2 times, at 7 s after boot"),
    ],
)
def test_occurrences_have_times_with_a_unit(count: int, first: str, last: str, shown: str) -> None:
    assert occurrences(count, first, last) == shown


@given(st.sets(st.integers(0, 40)))
def test_folding_loses_no_number(numbers: set[int]) -> None:
    unfolded: set[int] = set()
    for part in filter(None, fold_names([f"GPU{number}" for number in numbers]).split(", ")):
        first, _, last = part.removeprefix("GPU").partition("-")
        unfolded.update(range(int(first), int(last or first) + 1))
    assert unfolded == numbers


def test_one_finding_for_each_problem_and_one_for_each_reason() -> None:
    ref = EvidenceRef(source="command", key="smi")
    gpus = [Gpu(index=index, evidence=(ref,)) for index in range(6)]
    timeout, unsupported = Unknown(Reason.TIMEOUT), Unknown(Reason.NOT_SUPPORTED, "no such thing")
    bad = JUDGE.failed("GPU0", "bad", expected="good", observed="bad", remedy=Remedy(text="repair"))
    answers = {0: bad, 1: timeout, 2: unsupported, 3: "fine", 4: "fine", 5: timeout}
    findings = list(
        judge_each(JUDGE, gpus, lambda gpu: answers[gpu.index], what="the thing", good="all good")
    )
    said = [(finding.status, finding.subject, finding.observed) for finding in findings]
    assert said == [
        (Status.FAIL, "GPU0", "bad"),
        (Status.UNKNOWN, "GPU1, GPU5", "timeout"),
        (Status.SKIP, "GPU2", ""),
        (Status.PASS, "GPU3-4", "fine"),
    ]
    assert all(finding.evidence == (ref,) for finding in findings)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("GPU0-2, GPU5", ["GPU0", "GPU1", "GPU2", "GPU5"]),
        ("GPU0", ["GPU0"]),
        ("mlx5_2-3", ["mlx5_2", "mlx5_3"]),
        # No run: the second number is not larger, as in the name of a disk or a host.
        ("disk2-2", ["disk2-2"]),
        ("rack7-3", ["rack7-3"]),
        ("host", ["host"]),
    ],
)
def test_folded_names_are_unfolded(text: str, names: list[str]) -> None:
    assert unfolded(text) == names


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        (("eth0", "eth1"), "eth0-1"),
        (("eth0", "eth2"), "eth0, eth2"),
        (("a1", "b2"), "a1, b2"),
        (("x0", "x00", "x1"), "x0-1, x00"),
        (("x999999998", "x999999999"), "x999999998-999999999"),
        (("x9999999998", "x9999999999"), "x9999999998, x9999999999"),
        (("abc", "ab"), "ab, abc"),
        (("p10x", "p9x"), "p9x, p10x"),
    ],
)
def test_only_consecutive_plain_numbers_are_folded(names: tuple[str, ...], folded: str) -> None:
    assert fold_names(names) == folded


def test_names_of_ports_state_the_port_number_beyond_the_first() -> None:
    assert subject_name(Nic(name="mlx4_0")) == "mlx4_0"
    assert subject_name(Nic(name="mlx4_0", port=2)) == "mlx4_0:2"


def gpus(reason: Reason, **changes: object) -> MachineFacts:
    return MachineFacts(gpus=Unknown(reason), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("facts", "is_without_gpu"),
    [
        (MachineFacts(gpus=()), True),
        (MachineFacts(gpus=(Gpu(index=0),)), False),
        (gpus(Reason.TOOL_MISSING), False),
        (gpus(Reason.TOOL_MISSING, pci_gpus=()), True),
        (gpus(Reason.TOOL_MISSING, pci_gpus=("0000:19:00.0",)), False),
        (gpus(Reason.TIMEOUT, pci_gpus=()), False),
        (gpus(Reason.PERMISSION, pci_gpus=()), False),
        (gpus(Reason.TIMEOUT, attached_gpus=0), True),
        (gpus(Reason.TIMEOUT, attached_gpus=1), False),
    ],
)
def test_a_silent_driver_is_no_proof_that_there_is_no_gpu(facts: MachineFacts, is_without_gpu: bool) -> None:
    assert has_no_gpu(facts) is is_without_gpu


@pytest.mark.parametrize(
    ("gpu", "is_behind"),
    [
        (Gpu(index=0, fabric_state="completed"), True),
        (Gpu(index=0, fabric_state="not supported"), False),
        (Gpu(index=0, nvlinks=(NvLink(index=0, active=True, remote="switch"),)), True),
        (Gpu(index=0, nvlinks=(NvLink(index=0, active=True, remote="0000:3b:00.0"),)), False),
        (Gpu(index=0, fabric_state="not supported", nvlinks=()), False),
        (Gpu(index=0), False),
    ],
)
def test_a_gpu_is_behind_a_switch_by_its_fabric_or_its_links(gpu: Gpu, is_behind: bool) -> None:
    assert is_behind_switch(gpu) is is_behind


XID = LogEvent(kind="xid", code=79, device="0000:19:00", message="m")


@pytest.mark.parametrize(
    ("events", "logs", "status"),
    [
        (Unknown(Reason.NOT_RECORDED), (), Status.SKIP),
        (Unknown(Reason.PERMISSION), (), Status.UNKNOWN),
        ((XID,), ("nccl-log",), Status.SKIP),
        ((XID,), ("kernel-log",), None),
        ((XID,), Unknown(Reason.NOT_RECORDED), None),
    ],
)
def test_events_are_judged_only_if_their_log_was_read(
    events: object, logs: object, status: Status | None
) -> None:
    ran = []

    @on_events(JUDGE)
    def check(events: tuple[LogEvent, ...], _: Evidence) -> tuple[Finding, ...]:
        ran.append(events)
        return ()

    facts = MachineFacts(events=events, logs=logs)  # type: ignore[arg-type]
    findings = list(check(Evidence(facts=facts, catalogue=CATALOGUE)))
    assert [finding.status for finding in findings] == ([] if status is None else [status])
    assert ran == ([(XID,)] if status is None else [])
    assert isinstance(events_in(facts), Unknown) is (status is not None)


@pytest.mark.parametrize(
    ("facts", "statuses", "judged"),
    [
        (h100_node(), [Status.PASS], 8),
        (with_gpus(h100_node(), 3, hung_call="nvmlDeviceGetName"), [Status.PASS], 7),
        (with_gpus(h100_node(), hung_call="nvmlDeviceGetName"), [Status.UNKNOWN], 0),
        (h100_node(gpus=()), [Status.SKIP], 0),
        (h100_node(gpus=Unknown(Reason.TIMEOUT)), [Status.UNKNOWN], 0),
    ],
)
def test_gpus_that_answer_are_judged(facts: MachineFacts, statuses: list[Status], judged: int) -> None:
    names: list[int] = []

    @each_gpu(JUDGE, what="the thing", good="all good")
    def check(gpu: Gpu, _: Evidence) -> str:
        names.append(gpu.index)
        return "fine"

    findings = list(check(Evidence(facts=facts, catalogue=CATALOGUE)))
    assert [finding.status for finding in findings] == statuses
    assert len(names) == judged


@pytest.mark.parametrize(
    ("facts", "selected", "status"),
    [
        (h100_node(), 9, Status.PASS),
        (h100_node(), 0, Status.SKIP),
        (h100_node(nics=()), 0, Status.SKIP),
        (h100_node(nics=Unknown(Reason.PERMISSION)), 0, Status.UNKNOWN),
    ],
)
def test_a_check_of_ports_gives_one_finding_without_a_port(
    facts: MachineFacts, selected: int, status: Status
) -> None:
    @each_port(
        JUDGE,
        lambda evidence: items_of(evidence.facts.nics)[:selected],
        absent="none",
        what="the thing",
        good="all good",
    )
    def check(nic: Nic, _: Evidence) -> str:
        return nic.name

    findings = list(check(Evidence(facts=facts, catalogue=CATALOGUE)))
    assert [finding.status for finding in findings] == [status]
