"""The exported hooks, with a rigtune that works, one that is broken, and a Slurm of two small scripts."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import jinja2
import pytest
import yaml

from recipes.launch.provision import ProvisionOptions, find_provision, render_provision
from tests.support.provisioned_node import BAD, BROKEN, FIT, GPU2, GPU3, Node, container, faulty


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_broken_installation_leaves_every_node_as_it_is(node: Node, broken: str) -> None:
    node.judged(BAD, 1)
    node.health_twice()
    drained_by_us = node.reason
    node.script("rigtune", broken)
    assert node.run("rigtune-health").returncode == 0
    assert (node.state, node.reason) == ("IDLE+DRAIN", drained_by_us)
    node.put("IDLE")
    assert node.run("rigtune-health").returncode == 0
    assert (node.state, node.reason) == ("IDLE", "")
    assert node.run("rigtune-prolog", SLURM_JOB_ID="1").returncode == 0
    assert node.run("rigtune-health", SLURM_JOB_ID="1").returncode == 2


def test_a_bad_node_is_drained_and_the_repaired_one_resumed(node: Node) -> None:
    node.judged(BAD, 1)
    assert node.run("rigtune-health", SLURM_JOB_ID="1").returncode == 1
    node.health_twice()
    assert node.state == "IDLE+DRAIN"
    assert re.fullmatch(
        r"rigtune: nvlink-active GPU2: NVLinks are down \(17 up; down: link 7\) #\d+", node.reason
    )
    node.judged(FIT, 0)
    node.run("rigtune-health")
    assert (node.state, node.reason) == ("IDLE", "")


@pytest.mark.parametrize(
    "words",
    ["broken fan, ask Eva", "rigtune: nvlink-active GPU2", "{} - RMA, keep", "{} [hold]", "Prolog error"],
)
def test_a_reason_that_is_not_exactly_ours_keeps_the_drain(node: Node, words: str) -> None:
    node.judged(BAD, 1)
    node.health_twice()
    node.put("IDLE+DRAIN", words.format(node.reason))
    node.judged(FIT, 0)
    node.run("rigtune-health")
    assert (node.state, node.reason[-5:]) == ("IDLE+DRAIN", words[-5:])


def test_a_drain_after_our_prolog_gets_its_reason_and_is_lifted(node: Node) -> None:
    node.judged(BAD, 1)
    assert node.run("rigtune-prolog", SLURM_JOB_ID="1").returncode == 1
    node.put("IDLE+DRAIN", "Prolog error")
    node.run("rigtune-health")
    assert node.reason.startswith("rigtune: nvlink-active GPU2")
    assert not node.marker.exists()
    node.judged(FIT, 0)
    node.run("rigtune-health")
    assert node.state == "IDLE"


def test_a_drain_after_our_prolog_is_lifted_at_once_where_the_cause_is_gone(node: Node) -> None:
    now = time.time()
    node.refused(now)
    node.put("IDLE+DRAIN", "Prolog error", drained=now + 2)
    node.judged(FIT, 0)
    node.run("rigtune-health")
    assert (node.state, node.marker.exists()) == ("IDLE", False)


def test_the_sites_own_prolog_is_not_ours(node: Node) -> None:
    node.judged(FIT, 0)
    node.refused(time.time())
    node.run("rigtune-prolog", SLURM_JOB_ID="2")
    assert not node.marker.exists()
    node.refused(time.time())
    node.run("rigtune-health")
    assert not node.marker.exists()
    now = time.time()
    node.refused(now - 3600)
    node.put("IDLE+DRAIN", "Prolog error", drained=now)
    node.run("rigtune-health")
    assert (node.state, node.reason) == ("IDLE+DRAIN", "Prolog error")


@pytest.mark.parametrize(
    ("marked", "others", "state"),
    [(25, 75, "IDLE+DRAIN"), (26, 74, "IDLE"), (0, 1, "IDLE+DRAIN"), (0, 0, "IDLE")],
)
def test_a_share_of_the_partition_is_never_exceeded(node: Node, marked: int, others: int, state: str) -> None:
    node.crowd(marked=marked, others=others)
    node.judged(BAD, 1)
    node.health_twice()
    assert node.state == state


def test_a_dry_run_says_what_it_would_do_and_does_nothing(node: Node) -> None:
    node.judged(BAD, 1)
    done = node.run("rigtune-health", "--dry-run")
    assert "would run: scontrol update NodeName=n1 State=DRAIN" in done.stdout
    assert (node.state, node.reason, done.returncode) == ("IDLE", "", 0)
    node.judged(FIT, 0)
    assert "nothing to do" in node.run("rigtune-health", "--dry-run").stdout
    node.crowd(marked=9, others=1)
    node.judged(BAD, 1)
    assert "more than 25%" in node.run("rigtune-health", "--dry-run").stdout


@pytest.mark.parametrize(
    ("runs", "reason"),
    [
        ([(GPU2,)], ""),
        ([(GPU2,), (GPU3,)], ""),
        ([(GPU2,), (GPU2.replace("17", "16"),)], "nvlink-active GPU2: NVLinks are down (16 up)"),
        ([(GPU2, GPU3), (GPU3,)], GPU3),
        ([(GPU3,), (GPU2, GPU3)], GPU3),
        ([(GPU2,), (), (GPU2,)], ""),
        ([(GPU2,), (), (GPU2,), (GPU2,)], GPU2),
    ],
)
def test_a_node_is_drained_for_what_two_runs_report(
    node: Node, runs: list[tuple[str, ...]], reason: str
) -> None:
    for faults in runs:
        node.judged(faulty(*faults) if faults else FIT, 1 if faults else 0)
        node.run("rigtune-health")
    assert (node.state == "IDLE+DRAIN") is bool(reason)
    assert node.reason.startswith(f"rigtune: {reason}" if reason else "")


@pytest.mark.parametrize("left", ["", "nvlink-active GP", "\x00\xff\n" * 9])
def test_a_damaged_state_file_delays_the_drain_by_one_run(node: Node, left: str) -> None:
    last = node.marker.parent / "last-faults-n1"
    last.parent.mkdir()
    last.write_bytes(left.encode("latin-1"))
    node.judged(faulty(GPU2), 1)
    node.run("rigtune-health")
    assert node.state == "IDLE"
    node.run("rigtune-health")
    assert node.state == "IDLE+DRAIN"
    assert [path.name for path in last.parent.iterdir()] == ["last-faults-n1"]


def test_a_state_that_cannot_be_stored_makes_the_check_run_twice(node: Node) -> None:
    node.marker.parent.write_text("no folder")
    node.judged(faulty(GPU2), 1)
    node.run("rigtune-health")
    assert node.state == "IDLE+DRAIN"


@pytest.mark.parametrize(
    ("second", "code", "is_refused"), [(faulty(GPU2), 1, True), (faulty(GPU3), 1, False), (FIT, 0, False)]
)
def test_a_job_is_refused_for_what_two_runs_at_once_report(
    node: Node, second: str, code: int, is_refused: bool
) -> None:
    (node.folder / "1").write_text(faulty(GPU2))
    (node.folder / "2").write_text(second)
    script = "#!/bin/sh\ncd {0}; if rm new 2>/dev/null; then cat 1; exit 1; fi; cat 2; exit {1}\n"
    node.script("rigtune", script.format(node.folder, code))
    (node.folder / "new").touch()
    assert container(node, "kubernetes-init").returncode == is_refused
    (node.folder / "new").touch()
    assert node.run("rigtune-prolog", SLURM_JOB_ID="1").returncode == is_refused
    assert (node.marker.parent / "last-faults-n1").exists() is is_refused


@pytest.mark.parametrize(
    ("broken", "code"), [(BROKEN["the package is gone"], "2"), ("", "2"), ("reports", "1")]
)
def test_the_first_boot_distinguishes_a_missing_verdict_from_a_bad_one(
    node: Node, broken: str, code: str
) -> None:
    report = '#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\necho "{}" >"$2"\nexit 1\n'
    node.script("rigtune", report if broken == "reports" else broken)
    (artifact,) = render_provision(
        find_provision("cloud-init"), ProvisionOptions(rigtune=str(node.folder / "rigtune"), expect_gpus=8)
    )
    command = yaml.safe_load(artifact.text)["runcmd"][-1].replace("/var/lib/rigtune", str(node.folder))
    (node.folder / "check.json").write_text("of an earlier boot")
    subprocess.run(("sh", "-c", command), check=True, capture_output=True, timeout=60)
    assert (node.folder / "verdict").read_text().strip() == code


@pytest.mark.parametrize(
    ("code", "stdout", "is_failed"),
    [
        (1, "", True),
        (1, '{"verdict": "FAIL"}', False),
        (0, '{"verdict": "PASS"}', False),
        (0, "", True),
        (2, "", True),
    ],
)
def test_a_play_reads_no_verdict_from_an_exit_code_alone(code: int, stdout: str, is_failed: bool) -> None:
    (artifact,) = render_provision(find_provision("ansible"), ProvisionOptions(expect_gpus=8))
    (check,) = (task for task in yaml.safe_load(artifact.text) if task["name"] == "Check the machine")
    condition = jinja2.Environment(autoescape=True).compile_expression(check["failed_when"])
    assert condition(rigtune_check={"rc": code, "stdout": stdout}) is is_failed
