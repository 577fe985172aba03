"""Test that earlier runs are kept per machine, benchmark and suite, and that bad files are reported."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from assistant.usecases.bench.baseline import load_baselines, pin, save_run, save_verified, verified_steps
from assistant.usecases.check import judge_measurements
from probes.judging.findings import Status
from probes.judging.policies.policy import CheckPolicy, Policy
from tests.support.machines import h100_node
from tests.support.measured import copies, failed, gemm, run_of


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def test_the_last_run_of_each_benchmark_is_kept() -> None:
    assert load_baselines("node17") == ()
    first = msgspec.structs.replace(run_of(gemm(720.0), copies(2500.0)), started="2026-11-19T08:00:00Z")
    save_run(first)
    assert [(one.kind, one.measured) for one in load_baselines("node17")] == [("previous", first)]
    second = run_of(gemm(700.0))
    save_run(second)
    runs = {one.measured.started: one.measured for one in load_baselines("node17")}
    assert [one.bench_id for one in runs[first.started].measurements] == ["memory-copy"]
    assert runs[second.started].measurements == second.measurements
    full = msgspec.structs.replace(second, suite="full")
    save_run(full)
    assert {one.measured.suite for one in load_baselines("node17")} == {"quick", "full"}


def test_a_pinned_run_stays() -> None:
    path = pin(run_of(gemm(720.0)))
    assert path.name == "pinned.json"
    save_run(msgspec.structs.replace(run_of(gemm(500.0)), started="2026-11-21T08:00:00Z"))
    kinds = {one.kind: one.measured.measurements[0].median for one in load_baselines("node17")}
    assert kinds == {"pinned": pytest.approx(7.2e14), "previous": pytest.approx(5e14)}


def test_a_stored_report_is_compared_with_earlier_runs_only() -> None:
    moments = ("2026-11-18T08:00:00Z", "2026-11-19T08:00:00Z", "2026-11-20T08:00:00Z")
    runs = [msgspec.structs.replace(run_of(gemm(720.0)), started=moment) for moment in moments]
    pin(runs[0])
    save_run(runs[2])
    kinds = [[one.kind for one in load_baselines("node17", moment=moment)] for moment in moments]
    assert kinds == [[], ["pinned"], ["pinned"]]
    pin(runs[2])
    assert [one.kind for one in load_baselines("node17", moment=moments[1])] == ["pinned"]


def test_a_figure_compares_to_the_latest_run_that_has_it() -> None:
    early = msgspec.structs.replace(run_of(gemm(500.0)), started="2026-11-18T08:00:00Z", suite="full")
    save_run(early)
    save_run(msgspec.structs.replace(early, started="2026-11-17T08:00:00Z", suite="quick"))
    now = msgspec.structs.replace(run_of(gemm(500.0)), started="2026-11-19T08:00:00Z")
    judgement = judge_measurements(h100_node(), now, load_baselines("node17"))
    assert [one.source for one in judgement.comparisons if one.to == "previous"] == [
        f"run of {early.started}"
    ]


def test_a_run_of_failures_is_no_baseline() -> None:
    save_run(msgspec.structs.replace(failed("gemm"), machine="node17"))
    assert load_baselines("node17") == ()


@pytest.mark.parametrize("name", ["node17", "a/b/../c", "x" * 300, "", "..", "knoten-ü", "UNNAMED host"])
def test_each_machine_has_its_own_files(name: str, tmp_path: Path) -> None:
    path = save_run(msgspec.structs.replace(run_of(gemm(720.0)), machine=name))
    assert path.resolve().is_relative_to(tmp_path.resolve())
    assert len(load_baselines(name)) == 1
    assert load_baselines(f"{name}2") == ()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "contains no benchmark runs"),
        (b"\xff\xfe not json", "contains no benchmark runs"),
        (
            b'{"schema_version": 1, "machine": "node17", "runs": [{"measurements": 3}]}',
            "contains no benchmark runs",
        ),
        (b'{"schema_version": 99, "machine": "node17", "runs": []}', "another version of rigtune"),
        (b'{"schema_version": 1, "machine": "node18", "runs": []}', "node18"),
    ],
)
def test_damaged_and_foreign_files_are_reported_and_ignored(content: bytes, words: str) -> None:
    pin(run_of(gemm(720.0)))
    path = save_run(run_of(gemm(720.0)))
    path.write_bytes(content)
    reports: list[str] = []
    assert [one.kind for one in load_baselines("node17", reports.append)] == ["pinned"]
    assert len(reports) == 1
    assert words in reports[0]
    assert str(path) in reports[0]
    assert "\n" not in reports[0]
    save_run(run_of(gemm(710.0)))
    assert len(load_baselines("node17", reports.append)) == 2
    assert len(reports) == 1


def test_a_damaged_file_of_verified_steps_says_what_replaces_it() -> None:
    path = save_verified(run_of(gemm(720.0)))
    path.write_bytes(b"no json")
    reports: list[str] = []
    assert verified_steps("node17", reports.append) == ()
    assert "the next `rigtune verify` replaces it" in reports[0]


def test_the_judgement_names_the_sick_part_and_what_it_compares_to() -> None:
    pin(run_of(gemm(720.0, 720.0, 720.0, 720.0)))
    save_run(
        msgspec.structs.replace(run_of(gemm(720.0, 720.0, 720.0, 720.0)), started="2026-11-20T22:00:00Z")
    )
    now = run_of(gemm(720.0, 430.0, 720.0, 720.0))
    judgement = judge_measurements(h100_node(), now, load_baselines("node17"))
    sick = {
        (finding.check_id, finding.subject) for finding in judgement.findings if finding.status is Status.FAIL
    }
    assert sick == {("measured-gemm", "GPU1"), ("equal-devices", "GPU1"), ("measured-baseline", "GPU1")}
    assert {one.to for one in judgement.comparisons} == {"reference", "peers", "previous", "pinned"}
    assert judgement.findings[0].status is Status.FAIL


def test_a_policy_switches_a_judgement_off() -> None:
    policy = Policy(checks=CheckPolicy(off={"measured-gemm": "burn-in of engineering samples"}))
    judgement = judge_measurements(h100_node(), run_of(gemm(300.0)), policy=policy)
    assert {finding.status for finding in judgement.findings if finding.check_id == "measured-gemm"} == {
        Status.SKIP
    }
    assert judge_measurements(h100_node(), run_of()).comparisons == ()
