"""Test mistakes of new users of `rigtune fleet`, such as old answers in a folder or no expected machine."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from assistant.cli import command_line
from assistant.usecases.fleet.run_folder import RAW, RunMeta, write_meta
from probes.fleet.node_report import NodeReport
from probes.judging.findings import Status
from tests.support.simulated_fleet import write_run

pytest.importorskip("ClusterShell")

FIT = {"node": "vm", "outcome": "ok", "verdict": "PASS", "version": "1"}
NODE = """#!/bin/sh
echo x >> "$0.asked"
cat "$0.answer"
"""


def answer(folder: Path, report: dict[str, object]) -> None:
    """Let every node send this report."""
    (folder / "rigtune.answer").write_text(f"@rigtune {json.dumps(report)}\n")


def warning(summary: str, subject: str = "host", status: str = "WARN") -> dict[str, str]:
    return {"check_id": "c", "subject": subject, "status": status, "summary": summary}


@pytest.fixture
def fleet(tmp_path, capsys, monkeypatch):
    """Return a function that runs `rigtune fleet WORDS` over good nodes and returns code and both streams."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rigtune").write_text(NODE)
    answer(tmp_path, FIT)
    (tmp_path / "rigtune").chmod(0o755)
    reach = ("-w", "n[1-4]", "--engine", "exec", "--no-ship", "--rigtune", str(tmp_path / "rigtune"))

    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = command_line(["fleet", *words, *(reach if words[0] in ("check", "capture") else ())])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    run.asked = lambda: len((tmp_path / "rigtune.asked").read_text().split())
    return run


@pytest.mark.parametrize(
    "words",
    [("--tier", "deep"), ("--suite", "quick"), ("--policy", "site.toml"), ("--expect", "dgx-h100")],
    ids=" ".join,
)
def test_a_folder_with_other_answers_is_refused(fleet, tmp_path, words):
    (tmp_path / "site.toml").write_text("[gpu]\ncount = 8\n")
    assert fleet("check", "--out", "accept")[0] == 0
    for dry in ((), ("--dry-run",)):
        code, _, err = fleet("check", "--out", "accept", *words, *dry)
        assert code == 2
        assert "the answers in accept are of another check (--tier quick, no --suite, no --policy;" in err
        assert "give another --out" in err
    assert fleet.asked() == 4
    assert fleet("check", "--out", "accept-2", *words)[0] == 0


def test_a_changed_policy_needs_a_new_folder_and_a_moved_one_does_not(fleet, tmp_path):
    policy = tmp_path / "site.toml"
    policy.write_text("[gpu]\ncount = 8\n")
    assert fleet("check", "--out", "accept", "--policy", "site.toml")[0] == 0
    policy.rename(tmp_path / "moved.toml")
    assert fleet("check", "--out", "accept", "--policy", "moved.toml")[0] == 0
    (tmp_path / "moved.toml").write_text("[gpu]\ncount = 4\n")
    code, _, err = fleet("check", "--out", "accept", "--policy", "moved.toml")
    assert (code, fleet.asked()) == (2, 4)
    assert len(set(re.findall(r"--policy \w+\.toml \(sha256 (\w{12})\)", err))) == 2


def test_a_capture_is_no_check(fleet):
    assert fleet("check", "--out", "accept")[0] == 0
    assert "of another check" in fleet("capture", "--tier", "quick", "--out", "accept")[2]


def test_the_output_says_how_many_nodes_are_asked(fleet):
    assert "0 answers kept, 4 nodes asked" in fleet("check", "--out", "accept")[2]
    assert "4 answers kept, 0 nodes asked" in fleet("check", "--out", "accept")[2]
    _, out, _ = fleet("check", "--out", "accept", "--dry-run")
    assert "4 answers kept, 0 nodes to ask" in out
    assert "fleet node" not in out


def test_the_hand_over_says_first_that_nobody_stated_what_was_ordered(fleet):
    fleet("check", "--out", "accept")
    code, text, _ = fleet("accept", "accept")
    assert code == 0
    gaps = text.split("## Not measured\n\n")[1]
    assert gaps.startswith("- nobody stated what was ordered: number and model of GPUs were not compared")
    assert "Asked: --tier quick, no --suite, no --policy." in text.replace("\\", "")


def test_the_hand_over_names_the_policy(fleet, tmp_path):
    (tmp_path / "site-of-somebody.toml").write_text("[gpu]\ncount = 8\n")
    fleet("check", "--out", "accept", "--policy", "site-of-somebody.toml", "--tier", "deep")
    text = fleet("accept", "accept")[1].replace("\\", "")
    assert "nobody stated" not in text
    assert re.search(
        r"Asked: --tier deep, no --suite, --policy site-of-somebody.toml \(sha256 \w{12}\)", text
    )
    redacted = fleet("accept", "accept", "--redact")[1]
    assert "somebody" not in redacted
    assert "--tier deep" in redacted


def test_an_unknown_machine_is_refused_before_any_node_is_asked(fleet, tmp_path):
    code, _, err = fleet("check", "--out", "accept", "--expect", "dgx-h1000")
    assert code == 2
    assert "dgx-h100" in err
    assert not (tmp_path / "rigtune.asked").exists()


def test_a_node_without_gpus_fails_where_a_machine_was_expected(capsys):
    def verdict(*words: str) -> dict[str, object]:
        capsys.readouterr()
        assert command_line(["fleet", "node", *words]) == 0
        return json.loads(capsys.readouterr().out.removeprefix("@rigtune "))

    if verdict()["attributes"].get("gpus", "0") != "0":
        pytest.skip("this machine has GPUs")
    report = verdict("--expect", "dgx-h100")
    assert report["verdict"] == "FAIL"
    assert any("--expect dgx-h100" in reason["summary"] for reason in report["reasons"]), report["reasons"]


def test_warnings_of_fit_nodes_are_listed_once_with_their_nodes(fleet, tmp_path):
    common = (warning("IOMMU is on"), warning("slow clock", "GPU0"), warning("slow clock", "GPU1"))
    answer(tmp_path, {**FIT, "verdict": "WARN", "reasons": common})
    fleet("check", "--out", "accept")
    few = {**FIT, "verdict": "WARN", "reasons": [warning(f"number {each}") for each in range(12)]}
    answer(tmp_path, {**few, "reasons": [*few["reasons"], warning("no fact", status="UNKNOWN")]})
    assert command_line(["fleet", "check", "-w", "n[5-6]", "--engine", "exec", "--no-ship",
                         "--rigtune", str(tmp_path / "rigtune"), "--out", "accept"]) == 0  # fmt: skip
    for words in (("show", "accept"), ("report", "accept"), ("accept", "accept")):
        _, text, _ = fleet(*words)
        listed = text.replace("\\", "").split("Warnings in common\n")[1]
        lines = [line.removeprefix("- ") for line in listed.splitlines() if line][:11]
        assert lines[:3] == ["IOMMU is on: n[1-4]", "slow clock: n[1-4]", "number 0: n[5-6]"]
        assert lines[10] == "and 4 more warnings"
    assert "n[1-4]" not in fleet("report", "accept", "--redact")[1]


def test_nodes_without_warnings_have_no_such_section(fleet):
    assert "Warnings in common" not in fleet("check", "--out", "accept")[1]


def run_of(folder: Path, engine: str, **values: object) -> Path:
    """Write a run in which both nodes send the same report."""
    reports = [NodeReport(node=name, outcome="ok", verdict=Status.PASS, **values) for name in ("n1", "n2")]
    write_run(folder, reports)
    write_meta(folder, RunMeta(engine=engine, engine_reason="", wanted=("n1", "n2")))
    raw = folder / RAW
    raw.write_text(raw.read_text().replace('\\"node\\":\\"n2\\"', '\\"node\\":\\"secret-vm\\"'))
    return folder


@pytest.mark.parametrize("command", ["show", "report", "accept"])
def test_names_that_lead_to_another_machine_are_noted(fleet, tmp_path, command):
    folder = str(run_of(tmp_path / "run", "ssh", parts={"GPU0": "GPU-8f6d2a1c-1b2c-4d5e-9f00-a1b2c3d4e5f6"}))
    text = fleet(command, folder)[1]
    assert "1 node calls itself secret-vm: n2" in text.replace("\\", "")
    assert "2 names lead to the same machine, because all have GPU-8f6d2a1c" in text
    assert "n1, n2" in text
    redacted = fleet(command, folder, "--redact")[1]
    assert "2 names lead to the same machine" in redacted
    assert "secret-vm" not in redacted
    assert "8f6d2a1c" not in redacted


def test_invented_node_names_of_the_trial_engine_cause_no_note(fleet, tmp_path):
    parts = {"GPU0": "GPU-8f6d2a1c-1b2c-4d5e-9f00-a1b2c3d4e5f6"}
    text = fleet("show", str(run_of(tmp_path / "run", "exec", parts=parts)))[1]
    assert "calls itself" not in text
    assert "same machine" not in text


def test_a_missing_module_is_installed_by_the_interpreter_that_lacks_the_module(fleet, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("ClusterShell")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ClusterShell", None)
    for words in (("check",), ("bench", "-w", "n[1-2]", "--engine", "exec")):
        code, _, err = fleet(*words)
        assert code == 2
        assert f"(hint: {shlex.quote(sys.executable)} -m pip install ClusterShell)" in err


def test_slurm_without_a_controller_names_another_way(tmp_path, monkeypatch, capsys):
    program = tmp_path / "sinfo"
    program.write_text("#!/bin/sh\nprintf 'error: no address\\nfatal: no source\\n' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert command_line(["fleet", "check", "--dry-run", "--rigtune", "x", "--no-ship"]) != 0
    err = capsys.readouterr().err
    assert "sinfo failed: error: no address (hint:" in err
    assert "or reach the nodes over ssh: --engine ssh -w NODES" in err
    assert "fatal" not in err


def test_an_allocation_is_named_only_inside_one(tmp_path, monkeypatch, capsys):
    program = tmp_path / "sinfo"
    program.write_text("#!/bin/sh\nprintf 'g1 idle\\n'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    words = ["fleet", "check", "--dry-run", "--rigtune", "x", "--no-ship"]
    for job, expected in (("", "# Slurm: srun on free nodes: "), ("7", "# Slurm: srun in this allocation: ")):
        monkeypatch.setenv("SLURM_JOB_ID", job)
        monkeypatch.setenv("SLURM_JOB_NODELIST", "g1" if job else "")
        assert command_line(words) == 0
        assert capsys.readouterr().out.startswith(expected)


def test_many_other_names_are_one_note(fleet, tmp_path):
    folder = run_of(tmp_path / "run", "ssh")
    raw = folder / RAW
    raw.write_text(raw.read_text().replace('\\"node\\":\\"n1\\"', '\\"node\\":\\"vm-1\\"'))
    text = fleet("show", str(folder))[1]
    assert "2 nodes call themselves by other names: n1 (vm-1), n2 (secret-vm)" in text
