"""Test site checks of a policy with real commands: results, how commands end, and which are never run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from assistant.processes.runner import output_of
from probes.base.errors import ExitCode
from tests.contracts.test_wrong_input import ROOT, assert_one_line, rigtune

PATIENCE_S = 20.0
"""Longest time that a test waits for an event that usually takes milliseconds."""
TREE = (
    "echo $$ >>{pids}; sleep 98761 & echo $! >>{pids}; setsid sh -c 'echo $$ >>{pids}; exec sleep 98761' & "
)


def policy(folder: Path, *checks: dict[str, Any], more: str = "") -> Path:
    path = folder / "site.toml"
    tables = ["\n".join(f"{key} = {json.dumps(value)}" for key, value in check.items()) for check in checks]
    path.write_text(more + "".join(f"\n[[site_checks]]\n{table}\n" for table in tables))
    path.chmod(0o600)
    return path


def sh(name: str, script: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "command": ["sh", "-c", script], **more}


def results(folder: Path, *arguments: str | Path) -> dict[str, tuple[str, str]]:
    """Return status and observed value of each site check."""
    argv = ("--policy", "site.toml", "--only", "site-checks", "--format", "json")
    done = rigtune("check", *argv, *arguments, cwd=folder)
    assert done.returncode in (0, 1, 3), done.stderr
    findings = json.loads(done.stdout)["findings"]
    return {each["subject"]: (each["status"], each["observed"]) for each in findings}


def processes(pids: Path) -> list[psutil.Process]:
    return [psutil.Process(int(pid)) for pid in pids.read_text().split() if psutil.pid_exists(int(pid))]


def assert_gone(pids: Path) -> None:
    assert len(pids.read_text().split()) == 3
    _, alive = psutil.wait_procs(processes(pids), timeout=PATIENCE_S)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]


def test_results_by_exit_code_and_line(tmp_path: Path) -> None:
    no_program = tmp_path / "plain.txt"
    no_program.write_text("no program")
    policy(
        tmp_path,
        sh("fine", "echo one; echo 'state: 3 ready'; echo three", line="state: * ready"),
        sh("on-stderr", "echo ready >&2; exit 3", line="ready", exit_code=3),
        sh("other-line", "echo 'state: 3 waiting'", line="state: * ready"),
        sh("other-code", "echo broken; exit 4"),
        sh("only-warned", "exit 1", status="warn"),
        sh("killed", "kill -KILL $$", exit_code=128 + signal.SIGKILL),
        sh("place", 'test $PWD = / && test $LC_ALL = C && test -z "$(cat)"'),
        sh("escape", r"printf 'a\033[2Jb\n'; exit 1"),
        {"name": "absent", "command": ["no-such-program-here"]},
        {"name": "no-program", "command": [str(no_program)]},
        {"name": "folder", "command": [str(tmp_path)]},
    )
    assert results(tmp_path) == {
        "fine": ("PASS", "exit code 0, state: 3 ready"),
        "on-stderr": ("PASS", "exit code 3, ready"),
        "other-line": ("FAIL", "exit code 0, state: 3 waiting"),
        "other-code": ("FAIL", "exit code 4, broken"),
        "only-warned": ("WARN", "exit code 1, no output"),
        "killed": ("PASS", "exit code 137, no output"),
        "place": ("PASS", "exit code 0, no output"),
        "escape": ("FAIL", "exit code 1, a\N{REPLACEMENT CHARACTER}[2Jb"),
        "absent": ("UNKNOWN", "tool missing: no-such-program-here is not installed"),
        "no-program": ("UNKNOWN", f"permission: {no_program} is not executable for this user"),
        "folder": ("UNKNOWN", f"permission: {tmp_path} is not executable for this user"),
    }


def test_a_hanging_command_is_killed_with_its_children_and_refuses_no_job(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = "trap '' TERM; " + TREE.format(pids=pids) + "while true; do wait; done"
    policy(tmp_path, sh("hangs", script, timeout_s=1.5), sh("fine", "true"))
    arguments = ("check", "--policy", "site.toml", "--only", "site-checks")
    done = rigtune(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout.count("took longer than 1.5 s")) == (ExitCode.UNKNOWN, 1)
    assert_gone(pids)
    pids.unlink()
    assert rigtune(*arguments, "--exit-profile", "slurm", cwd=tmp_path).returncode == 0


def test_processes_that_a_command_leaves_behind_are_killed(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    policy(tmp_path, sh("leaves", TREE.format(pids=pids) + f"until test $(wc -l <{pids}) = 3; do :; done"))
    assert results(tmp_path) == {"leaves": ("PASS", "exit code 0, no output")}
    assert_gone(pids)


def test_the_budget_bounds_the_commands(tmp_path: Path) -> None:
    policy(tmp_path, sh("hangs", "exec sleep 98762", timeout_s=600))
    begun = time.monotonic()
    status, observed = results(tmp_path, "--budget", "3")["hangs"]
    assert (status, observed.startswith("timeout: ")) == ("UNKNOWN", True)
    assert time.monotonic() - begun < 3 + PATIENCE_S


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_no_command_outlives_rigtune(number: int, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    policy(tmp_path, sh("hangs", TREE.format(pids=pids) + "wait", timeout_s=300))
    argv = [sys.executable, "-m", "assistant", "check", "--policy", "site.toml", "--only", "site-checks"]
    started = subprocess.Popen(
        argv, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.DEVNULL
    )
    until = time.monotonic() + PATIENCE_S
    while not pids.exists() or len(pids.read_text().split()) < 3:
        assert started.poll() is None
        assert time.monotonic() < until
    started.send_signal(number)
    started.wait(PATIENCE_S)
    assert_gone(pids)


def test_a_program_that_cannot_be_ended_does_not_hold_rigtune(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"echo $$ $PPID >{pids}; kill -STOP $PPID; exec sleep 98763"
    begun = time.monotonic()
    code, _ = output_of(("sh", "-c", script), directory=tmp_path, environment={}, deadline_s=0.5)
    took_s = time.monotonic() - begun
    for process in processes(pids):
        process.kill()
    assert code is None
    assert took_s < PATIENCE_S


@pytest.mark.parametrize(
    "arguments", [("--machine", "dgx-h100"), ("--from", "recorded.json"), ("--from", "-")]
)
def test_nothing_runs_for_a_machine_that_is_not_here(arguments: tuple[str, ...], tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    path = policy(tmp_path, sh("marks", f"touch {ran}"))
    path.chmod(0o666)  # it need not be trusted, because nothing runs
    text = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-11111111-2222-3333-4444-555555555555)\n"
    if arguments[-1] == "recorded.json":
        assert rigtune("probe", "--record", "recorded.json", "-q", cwd=tmp_path).returncode == 0
    argv = [
        sys.executable,
        "-m",
        "assistant",
        "check",
        "--policy",
        "site.toml",
        "--only",
        "site-checks",
        "-v",
        *arguments,
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        argv,
        cwd=tmp_path,
        env=environment,
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == ExitCode.UNKNOWN, done.stderr
    assert "only on the machine that they judge" in " ".join(done.stdout.split())
    assert not ran.exists()


@pytest.mark.parametrize("arguments", [("--skip", "site-checks"), ("--only", "nofile")])
def test_nothing_runs_for_a_check_that_is_left_out(arguments: tuple[str, ...], tmp_path: Path) -> None:
    policy(tmp_path, sh("marks", f"touch {tmp_path}/ran"))
    rigtune("check", "--policy", "site.toml", *arguments, cwd=tmp_path)
    off = policy(tmp_path, sh("marks", f"touch {tmp_path}/ran"), more="checks.off.site-checks = 'not here'\n")
    rigtune("check", "--policy", off, cwd=tmp_path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("opened", ["file", "folder", "link"])
def test_a_policy_that_others_can_write_is_refused(opened: str, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    path = policy(folder, sh("marks", f"touch {tmp_path}/ran"))
    if opened == "file":
        path.chmod(0o662)
    elif opened == "folder":
        folder.chmod(0o777)
    else:
        shared = tmp_path / "shared"
        shared.mkdir()
        (shared / "link.toml").symlink_to(path)
        shared.chmod(0o777)
        path = shared / "link.toml"
    done = rigtune("check", "--policy", path, "--only", "policy", cwd=tmp_path)
    assert_one_line(done, "its site checks are not run", "everybody can write", "--skip site-checks")
    assert not (tmp_path / "ran").exists()


def test_a_program_that_others_can_write_is_not_started(tmp_path: Path) -> None:
    program = tmp_path / "check-it"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    program.chmod(0o777)
    policy(tmp_path, {"name": "open", "command": [str(program)]})
    assert results(tmp_path) == {
        "open": ("UNKNOWN", f"permission: not started: everybody can write {program}")
    }
    program.chmod(0o755)
    assert results(tmp_path) == {"open": ("PASS", "exit code 0, no output")}
    assert (tmp_path / "ran").exists()


def test_a_section_for_this_host_adds_its_commands(tmp_path: Path) -> None:
    host = Path("/proc/sys/kernel/hostname").read_text().strip()
    sections = f'hosts = [{{names = ["{host}"], site_checks = [{{name = "here", command = ["true"]}}]}}, '
    sections += '{names = ["no-such-host-*"], site_checks = [{name = "there", command = ["false"]}]}]\n'
    policy(tmp_path, sh("everywhere", "true"), more=sections)
    assert {name: status for name, (status, _) in results(tmp_path).items()} == {
        "everywhere": "PASS",
        "here": "PASS",
    }
