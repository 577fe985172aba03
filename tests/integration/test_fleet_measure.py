"""Run `rigtune fleet find-bad` with real workers: healthy nodes of a noisy machine, faulty hosts over ssh."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import pair_ranks
from tests.support.ssh_hosts import HEAD, Lab, run, ssh_lab

pytestmark = [pytest.mark.slow]
ROOT = Path(__file__).resolve().parents[2]
RATE, SLOW_RATE = "20mbit", "4mbit"
"""Rates so low that this machine's cores keep up for all hosts at once, and only links limit the speed."""


@pytest.mark.long
def test_healthy_nodes_of_a_busy_machine_are_not_named(torch_python, tmp_path):
    command = (sys.executable, "-m", "assistant", "fleet", "find-bad", "--engine", "exec", "-w", "x[1-4]")
    options = ("--python", torch_python, "--work-directory", tmp_path / "work", "--force", "--format", "json")
    done = subprocess.run(
        (*command, *options), cwd=ROOT, capture_output=True, text=True, timeout=900, check=False
    )
    result = json.loads(done.stdout)
    assert (result["bad_hosts"], result["bad_links"]) == ([], []), done.stderr
    assert 1 <= result["runs"] <= result["all_pairs"] == 6
    assert {len(set(pair["subject"].split("->"))) for pair in result["measurements"]} == {2}


@pytest.fixture(scope="module", params=[8, pytest.param(64, marks=pytest.mark.long)])
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Run hosts of which the second last sends slowly and the last one is down."""
    pytest.importorskip("ClusterShell")
    names = tuple(f"node{number}" for number in range(1, request.param + 1))
    with ssh_lab(tmp_path_factory.mktemp("ssh"), names) as hosts:
        for name in names:
            rate = SLOW_RATE if name == names[-2] else RATE
            limit = ("tbf", "rate", rate, "burst", "16kb", "latency", "400ms")
            run("tc", "-n", hosts.namespaces[name], "qdisc", "add", "dev", "eth0", "root", *limit)
        run("ip", "-n", hosts.namespaces[names[-1]], "link", "set", "eth0", "down")
        yield hosts


@pytest.mark.root
def test_exactly_the_slow_and_the_dead_host_are_named(lab, tmp_path):
    *good, slow, dead = (name for name in lab.namespaces if name != HEAD)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -IS {pair_ranks.__file__} "$@"\n')
    python.chmod(0o755)
    pattern = f"node[1-{len(good) + 2}]"
    words = ("fleet", "find-bad", "-w", pattern, "--engine", "ssh", "--python", python)
    places = ("--work-directory", tmp_path / "work", "-o", tmp_path / "bad.json")
    variables = (f"PYTHONPATH={ROOT}", f"XDG_STATE_HOME={tmp_path}", "RIGTUNE_POLICY=")
    head = lab.start("env", *variables, sys.executable, "-m", "assistant", *words, *places, cwd=tmp_path)
    output, _ = head.communicate(timeout=900)
    assert head.returncode == 1, output
    result = json.loads((tmp_path / "bad.json").read_text())
    faults = {fault["host"]: fault["kind"] for fault in result["bad_hosts"]}
    assert faults == {slow: "slow", dead: "unreachable"}, output
    assert (result["bad_links"], result["unresolved"], result["silent_groups"]) == ([], [], []), output
    assert not result["failures"]
    assert result["rounds"] <= 12
    print(  # noqa: T201 - the figures of this run
        f"{len(good) + 2} hosts over ssh: {slow} slow and {dead} unreachable, nobody else named; "
        f"{result['runs']} runs in {result['rounds']} rounds instead of {result['all_pairs']} pairs"
    )
