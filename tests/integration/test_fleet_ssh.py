"""Test a fleet of hosts in network namespaces over real ssh. Needs root."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.ssh_hosts import Lab, ssh_lab

pytestmark = [pytest.mark.root, pytest.mark.slow]
ROOT = Path(__file__).resolve().parents[2]
HOSTS = tuple(f"rigtune-f{number}" for number in range(1, 9))

NODE = """#!{python}
import json, os, socket, sys, time
host = socket.gethostname()
report = {{"node": host, "outcome": "ok", "verdict": "PASS", "version": "1", "clock_s": time.time()}}
print("motd of", host)
if host == "rigtune-f2":
    report.update(verdict="FAIL", reasons=[
        {{"check_id": "xid", "subject": "GPU1", "status": "FAIL", "summary": "Xid 79"}}])
if host == "rigtune-f3":
    time.sleep(600)
if host == "rigtune-f4":
    report["node"] = "rigtune-f5"
print("@rigtune " + json.dumps(report), flush=True)
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with ssh_lab(tmp_path_factory.mktemp("ssh"), HOSTS) as hosts:
        yield hosts


def test_every_host_has_one_outcome_and_only_the_failing_host_has_a_verdict_against_it(lab, tmp_path):
    pytest.importorskip("ClusterShell")
    program = tmp_path / "rig tune"
    program.write_text(NODE.format(python=sys.executable))
    program.chmod(0o755)
    words = ("fleet", "check", "--engine", "ssh", "-w", "rigtune-f[1-8],nowhere", "--limit", 10)
    options = ("--rigtune", program, "--out", tmp_path / "run", "--format", "json", "-q")
    launcher = tmp_path / "head.sh"
    launcher.write_text(
        f'cd "{tmp_path}" && PYTHONPATH={ROOT} exec {sys.executable} -m assistant "$@" 2>err\n'
    )
    head = lab.start("sh", launcher, *words, *options, cwd=tmp_path)
    output, _ = head.communicate(timeout=200)
    result = json.loads(output)
    outcomes = {node["node"]: node["outcome"] for node in result["nodes"]}
    assert len(outcomes) == 9
    assert (outcomes["rigtune-f3"], outcomes["nowhere"]) == ("timed-out", "unreachable")
    assert [node for node, outcome in outcomes.items() if outcome == "ok"] == [
        host for host in HOSTS if host != "rigtune-f3"
    ]
    details = {node["node"]: node["detail"] for node in result["nodes"]}
    assert "calls itself rigtune-f5" in details["rigtune-f4"]
    assert details["nowhere"]
    (failed,) = (node for node in result["nodes"] if node["verdict"] == "FAIL")
    assert (failed["node"], failed["reasons"][0]["summary"]) == ("rigtune-f2", "Xid 79")
    assert head.returncode == 1
    left = [each for each in psutil.process_iter(["cmdline"]) if str(program) in (each.info["cmdline"] or [])]
    assert not left
    assert (tmp_path / "run" / "raw.jsonl").exists()
