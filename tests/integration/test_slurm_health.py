"""Test on a real Slurm that exported hooks drain bad nodes with a reason and lift only their own drains."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from recipes.launch.provision import ProvisionOptions, find_provision, render_provision
from tests.support.slurm import slurm_cluster

pytestmark = [pytest.mark.root, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
FIT = "--machine dgx-h100 --only nvlink-active"
BAD = f"--from {ROOT}/tests/machines/h100-dead-link/recording.json --only nvlink-active"
PROGRAM = """#!/bin/bash
# The real rigtune over the machine that the file of this node names.
cd {root} || exit 4
read -r source <{folder}/source-"${{SLURMD_NODENAME:-none}}" || exit 4
[ "$source" = gone ] && exec {python} -m rigtune_that_is_not_installed
exec {python} -m assistant "$@" $source
"""
MARKER = Path("/run/rigtune/prolog-failed-n2")
WAIT_S = 60


class Cluster(NamedTuple):
    environment: dict[str, str]
    folder: Path

    def becomes(self, node: str, source: str) -> None:
        """Let rigtune on `node` judge the machine that the options in `source` name."""
        (self.folder / f"source-{node}").write_text(f"{source}\n")

    def run(self, *argv: str) -> str:
        done = subprocess.run(
            argv, env=self.environment, capture_output=True, text=True, timeout=WAIT_S, check=False
        )
        return done.stdout + done.stderr

    def breaks(self, node: str) -> None:
        """Remove rigtune's package on `node`."""
        (self.folder / f"source-{node}").write_text("gone\n")

    def node(self, name: str) -> tuple[str, str]:
        """Return the state and the reason of a node."""
        text = self.run("scontrol", "show", "node", "-o", name)
        reason = re.search(r" Reason=(.*?) \[", text)
        return re.search(r"State=(\S+)", text)[1], reason[1] if reason else ""  # type: ignore[index]

    def drained(self, node: str) -> None:
        """Wait until Slurm's own runs of the health check have drained the node."""
        self.wait(lambda: "DRAIN" in self.node(node)[0])

    def health(self, node: str, **environment: str) -> int:
        """Run the HealthCheckProgram as slurmd does."""
        argv = (str(self.folder / "rigtune-health"),)
        variables = {**self.environment, "SLURMD_NODENAME": node, **environment}
        return subprocess.run(
            argv, env=variables, capture_output=True, text=True, timeout=WAIT_S, check=False
        ).returncode

    def wait(self, condition: Callable[[], bool]) -> None:
        """Wait up to a minute, because Slurm acts with a delay."""
        end = time.monotonic() + WAIT_S
        while not condition():
            if time.monotonic() > end:
                pytest.fail(f"n1 {self.node('n1')}, n2 {self.node('n2')}")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("hooks")
    program = folder / "rigtune"
    program.write_text(PROGRAM.format(root=ROOT, folder=folder, python=sys.executable))
    program.chmod(0o755)
    for node in ("n1", "n2"):
        (folder / f"source-{node}").write_text(f"{FIT}\n")
    settings = f"""
HealthCheckProgram={folder}/rigtune-health
HealthCheckInterval=5
HealthCheckNodeState=ANY,CYCLE
Prolog={folder}/rigtune-prolog
PrologFlags=Alloc
"""

    def write_hooks(conf: Path) -> None:
        options = ProvisionOptions(rigtune=str(program), slurm_conf=str(conf), expect_gpus=8)
        for kind in ("slurm-health", "slurm-prolog"):
            for artifact in render_provision(find_provision(kind), options):
                (folder / artifact.path).write_text(artifact.text)
                (folder / artifact.path).chmod(artifact.mode)

    with slurm_cluster(settings, write_hooks) as environment:
        yield Cluster(environment, folder)


@pytest.fixture(autouse=True)
def all_fit(cluster: Cluster) -> Iterator[None]:
    yield
    for node in ("n1", "n2"):
        cluster.becomes(node, FIT)
        cluster.run("scontrol", "update", f"NodeName={node}", "State=RESUME")
    MARKER.unlink(missing_ok=True)


def test_slurm_drains_a_bad_node_and_resumes_the_repaired_one(cluster: Cluster) -> None:
    cluster.becomes("n1", BAD)
    cluster.wait(lambda: "DRAIN" in cluster.node("n1")[0])
    _, reason = cluster.node("n1")
    assert reason.startswith("rigtune: nvlink-active GPU2")
    assert "\n" not in reason
    assert "DRAIN" not in cluster.node("n2")[0]
    cluster.becomes("n1", FIT)
    cluster.wait(lambda: "DRAIN" not in cluster.node("n1")[0])


def test_a_drain_of_somebody_else_stays(cluster: Cluster) -> None:
    cluster.run("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=broken fan, ask Eva")
    assert cluster.health("n1") == 0
    cluster.becomes("n1", BAD)
    assert cluster.health("n1") == 0
    cluster.becomes("n1", FIT)
    assert cluster.health("n1") == 0
    state, reason = cluster.node("n1")
    assert "DRAIN" in state
    assert reason == "broken fan, ask Eva"


def test_a_tool_that_cannot_run_drains_nothing(cluster: Cluster) -> None:
    cluster.becomes("n1", "--no-such-option")
    assert cluster.health("n1") == 0
    assert "DRAIN" not in cluster.node("n1")[0]


def test_an_installation_whose_package_is_gone_drains_nothing_and_refuses_no_job(cluster: Cluster) -> None:
    cluster.breaks("n1")
    assert cluster.health("n1") == 0
    assert cluster.run("srun", "--nodelist=n1", "hostname").strip()
    assert "DRAIN" not in cluster.node("n1")[0]


def test_no_more_than_a_share_of_the_partition_is_drained(cluster: Cluster) -> None:
    cluster.run(
        "scontrol", "update", "NodeName=n2", "State=DRAIN", "Reason=rigtune: something that all nodes have"
    )
    cluster.becomes("n1", BAD)
    for _ in range(2):
        assert cluster.health("n1") == 0
    assert "DRAIN" not in cluster.node("n1")[0]


def test_a_drain_after_the_sites_own_prolog_stays(cluster: Cluster) -> None:
    MARKER.parent.mkdir(exist_ok=True)
    MARKER.write_text("of a cause that is gone\n")
    assert cluster.run("srun", "--nodelist=n2", "hostname").strip()
    assert not MARKER.exists()
    MARKER.write_text("of a cause that is gone\n")
    os.utime(MARKER, (time.time() - 3600,) * 2)
    cluster.run("scontrol", "update", "NodeName=n2", "State=DRAIN", "Reason=Prolog error")
    assert cluster.health("n2") == 0
    assert cluster.node("n2") == ("IDLE+DRAIN", "Prolog error")
    assert not MARKER.exists()


def test_a_reason_that_a_person_edited_stays(cluster: Cluster) -> None:
    cluster.becomes("n1", BAD)
    cluster.drained("n1")
    _, reason = cluster.node("n1")
    cluster.run("scontrol", "update", "NodeName=n1", f"Reason={reason}, ask Eva")
    cluster.becomes("n1", FIT)
    assert cluster.health("n1") == 0
    assert "DRAIN" in cluster.node("n1")[0]


def test_inside_a_job_the_health_check_only_reports(cluster: Cluster) -> None:
    (cluster.folder / "source-other").write_text(f"{BAD}\n")
    assert cluster.health("other", SLURM_JOB_ID="1") == 1


def test_the_prolog_refuses_a_job_and_the_drain_is_lifted_after_the_repair(cluster: Cluster) -> None:
    assert cluster.run("srun", "--nodelist=n2", "hostname").strip()
    cluster.becomes("n2", BAD)
    argv = ("sbatch", "--nodelist=n2", "--wrap=true")
    subprocess.run(
        argv, env=cluster.environment, cwd=cluster.folder, check=True, timeout=WAIT_S, capture_output=True
    )
    cluster.wait(lambda: cluster.node("n2")[1].startswith("rigtune: nvlink-active"))
    assert "DRAIN" in cluster.node("n2")[0]
    cluster.becomes("n2", FIT)
    cluster.wait(lambda: "DRAIN" not in cluster.node("n2")[0])
    cluster.run("scancel", "--quiet", "--user=root")
