"""Test a fleet of 16 nodes of a real Slurm, some of which misbehave. Needs root and Slurm's daemons."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from assistant.engines import slurm_engine
from assistant.engines.engine_table import Wanted, choose_engine
from assistant.engines.shipping import Archive, Shipment
from assistant.usecases.fleet.check_fleet import FleetRun, check_fleet
from probes.base.errors import UsageError
from probes.fleet.node_report import NodeLine
from tests.support.slurm import slurm_cluster

pytestmark = [pytest.mark.root, pytest.mark.slow]
SIZE = 16
LIMIT_S = 15

NODE = """
import json, os, sys, time
node = os.environ["SLURMD_NODENAME"]
line = "@rigtune " + json.dumps({"node": node, "outcome": "ok", "verdict": "PASS", "version": "1"})
print("noise")
if node == "n3":
    time.sleep(600)
if node == "n4":
    sys.exit("refused")
if node == "n5":
    line = "@rigtune }{"
if node == "n6":
    print(line[:40], end="", flush=True)
    time.sleep(600)
if node == "n8":
    while True:
        sys.stdout.write("x" * 65536)
print(line, flush=True)
"""


@pytest.fixture(scope="module")
def slurm() -> Iterator[dict[str, str]]:
    with slurm_cluster(size=SIZE) as environment:
        yield environment


def processes_of(script: Path) -> list[psutil.Process]:
    return [each for each in psutil.process_iter(["cmdline"]) if str(script) in (each.info["cmdline"] or [])]


def test_sixteen_nodes_have_sixteen_outcomes_and_nothing_is_left_running(slurm, tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_CONF", slurm["SLURM_CONF"])
    script = tmp_path / "node.py"
    script.write_text(NODE)
    folder = Path(slurm["SLURM_CONF"]).parent
    psutil.Process(int((folder / "slurmd-n7.pid").read_text())).kill()
    row, _ = choose_engine("slurm", has_pattern=True)
    run = FleetRun(
        engine=row,
        engine_reason="test",
        nodes=slurm_engine.nodes("n[1-16]"),
        command=(sys.executable, str(script)),
        limit_s=LIMIT_S,
        folder=tmp_path / "run",
    )
    began = time.monotonic()
    *_, end = check_fleet(run)
    took_s = time.monotonic() - began
    outcomes = {node.node: node.outcome for node in end.result.nodes}
    assert len(outcomes) == SIZE
    expected = {"n3": "timed-out", "n4": "exit", "n5": "exit", "n6": "timed-out", "n8": "exit"}
    assert {node: outcomes[node] for node in expected} == expected
    assert outcomes["n7"] in ("no-answer", "not-started")
    assert len(end.result.good) == SIZE - 6, outcomes
    assert {node.detail for node in end.result.nodes if node.node == "n8"} == {
        "the node sent more than 4 MiB"
    }
    assert not end.result.bad
    print(f"{SIZE} nodes, 6 of them odd: {took_s:.1f} s with a limit of {LIMIT_S} s")  # noqa: T201 - the figure of this run
    assert not processes_of(script)


def test_a_job_that_the_partition_does_not_allow_is_refused(slurm, monkeypatch):
    """The partition of the cluster has MaxTime=24:00:00."""
    monkeypatch.setenv("SLURM_CONF", slurm["SLURM_CONF"])
    with pytest.raises(UsageError, match="4322 minutes, but the partition main allows 1440 minutes"):
        slurm_engine.run(Wanted(("n1",), ("true",), 86400), lambda _: None)


def in_daemon(environment: dict[str, str], node: str, *command: str) -> str:
    """Run a command where the daemon of a node sees its own file system."""
    daemon = (Path(environment["SLURM_CONF"]).parent / f"slurmd-{node}.pid").read_text().strip()
    return subprocess.run(
        ("nsenter", "--target", daemon, "--mount", *command), capture_output=True, text=True, check=True
    ).stdout


def test_an_archive_goes_to_every_node_and_a_node_without_space_reports_it(slurm, tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_CONF", slurm["SLURM_CONF"])
    local = str(Path(slurm["SLURM_CONF"]).parent / "local")
    program = b"import os; own = os.path.dirname(__file__); print('@rigtune', own, oct(os.stat(own).st_mode))"
    packed = tmp_path / "rigtune.pyz"
    packed.write_bytes(program)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    archive = Archive(packed, version, hashlib.sha256(program).hexdigest(), len(program), platform.machine())
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / f"python{version}").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    in_daemon(slurm, "n2", "mount", "-o", "remount,ro", local)
    lines, ends = {}, {}
    ship = Shipment((archive,), "rigtune 9", (local,))
    wanted = Wanted(("n1", "n2", "n4"), ("/nowhere/rigtune",), 20, {}, ship)
    slurm_engine.run(
        wanted,
        lambda event: (lines if isinstance(event, NodeLine) else ends).update({event.node: event}),
    )
    assert {node: end.outcome for node, end in ends.items()} == {"n1": "ok", "n2": "exit", "n4": "ok"}
    assert "no folder of this node has 64 MiB free and lets programs run" in ends["n2"].detail
    for node in ("n1", "n4"):
        assert lines[node].text.startswith(f"{local}/rigtune-".encode())
        assert lines[node].text.endswith(b"0o40700")
        assert in_daemon(slurm, node, "ls", local) == ""
