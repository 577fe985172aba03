"""The exported hooks, with a rigtune that works, one that is broken, and a Slurm of two small scripts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import jinja2
import pytest
import yaml

from recipes.launch.provision import ProvisionOptions, find_provision, render_provision

BAD = "RIGTUNE CRITICAL - nvlink-active GPU2: NVLinks are down (17 up; down: link 7) | failed=1;;0\nmore\n"
FIT = "RIGTUNE OK - fit to train, 1 passed | failed=0;;0\n"
BROKEN = {
    "the package is gone": f"#!{sys.executable} -IS\nimport rigtune_that_is_not_installed\n",
    "memory is low": f"#!{sys.executable} -IS\nraise MemoryError\n",
    "words on stdout": "#!/bin/sh\necho 'Traceback (most recent call last):'; exit 1\n",
    "a reason without proof": "#!/bin/sh\necho 'nvlink-active GPU2: NVLinks are down'; exit 1\n",
    "a verdict of another code": f"#!/bin/sh\nprintf '%s' '{BAD}'; exit 0\n",
    "silent success": "#!/bin/sh\nexit 0\n",
    "killed": "#!/bin/sh\nkill -KILL $$\n",
    "not there": "",
}
SCONTROL = """#!/bin/bash
# Keeps state and reason of one node as slurmctld does.
case $1 in
  show)
    reason=; [ -s {folder}/reason ] && reason="Reason=$(cat {folder}/reason) [root@$(cat {folder}/since)] "
    echo "NodeName=n1 State=$(cat {folder}/state) Partitions=main,test ${{reason}}Comment=none"
    ;;
  update)
    for word in "$@"; do
      case $word in
        State=RESUME) echo IDLE >{folder}/state; : >{folder}/reason ;;
        State=DRAIN) echo IDLE+DRAIN >{folder}/state ;;
        Reason=*) printf '%s' "${{word#Reason=}}" >{folder}/reason; date +%Y-%m-%dT%H:%M:%S >{folder}/since ;;
      esac
    done
    ;;
esac
"""


class Node:
    """A node with the exported hooks, whose rigtune and Slurm are scripts in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.marker = folder / "run" / "prolog-failed-n1"
        self.script("scontrol", SCONTROL.format(folder=folder))
        self.crowd(marked=0, others=9)
        self.put("IDLE")
        options = ProvisionOptions(rigtune=str(folder / "rigtune"), expect_gpus=8)
        for kind in ("slurm-health", "slurm-prolog"):
            for artifact in render_provision(find_provision(kind), options):
                text = artifact.text.replace("/run/rigtune", str(self.marker.parent))
                self.script(artifact.path, re.sub(r"(?m)^export PATH=", f"export PATH={folder}:", text))

    def script(self, name: str, text: str) -> None:
        path = self.folder / name
        path.unlink(missing_ok=True)
        if text:
            path.write_text(text)
            path.chmod(0o755)

    def judged(self, line: str, code: int) -> None:
        """Let rigtune give this verdict from now on."""
        self.script("rigtune", f"#!/bin/sh\ncat <<'END'\n{line}END\nexit {code}\n")

    def crowd(self, *, marked: int, others: int) -> None:
        """Set the number of nodes of each partition that rigtune has drained."""
        lines = [f"a{n} rigtune: x #1" for n in range(marked)] + [f"b{n} none" for n in range(others)]
        self.script(
            "sinfo",
            "#!/bin/sh\ncat <<'END'\n{}\nEND\n".format("\n".join(lines)) if lines else "#!/bin/sh\nexit 1\n",
        )

    def put(self, state: str, reason: str = "", *, drained: float | None = None) -> None:
        """Let somebody else set the node's state, at the moment `drained`."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(drained))
        for name, text in (("state", state), ("reason", reason), ("since", moment)):
            (self.folder / name).write_text(text)

    def refused(self, moment: float) -> None:
        """Leave the marker of a job that our prolog refused at `moment`."""
        self.marker.parent.mkdir(exist_ok=True)
        self.marker.write_text("x\n")
        os.utime(self.marker, (moment, moment))

    def run(self, hook: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {"SLURMD_NODENAME": "n1", "PATH": os.environ["PATH"], **variables}
        argv = (str(self.folder / hook), *arguments)
        return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=60)

    def health_twice(self) -> None:
        """Run the health check twice, as it acts on what two consecutive runs report."""
        for _ in range(2):
            self.run("rigtune-health")

    @property
    def state(self) -> str:
        return (self.folder / "state").read_text().strip()

    @property
    def reason(self) -> str:
        return (self.folder / "reason").read_text().strip()


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


def faulty(*faults: str) -> str:
    """Return a verdict with these faults, and a warning that does not count."""
    first, *others = (*faults, "nofile host: the limit is low (1024)")
    return "\n".join(
        (f"RIGTUNE CRITICAL - {first} (and more) | failed=1 blocking={len(faults)}", *others, "")
    )


GPU2, GPU3 = "nvlink-active GPU2: NVLinks are down (17 up)", "gpu-lost GPU3: the driver has lost this GPU"


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


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_broken_image_keeps_no_pod_from_starting(node: Node, broken: str) -> None:
    node.script("rigtune", broken)
    assert container(node, "kubernetes-init").returncode == 0


def test_a_pod_does_not_start_on_a_bad_node(node: Node) -> None:
    node.judged(BAD, 1)
    done = container(node, "kubernetes-init")
    assert (done.returncode, done.stdout) == (1, BAD)
    node.judged(FIT, 0)
    assert container(node, "kubernetes-init").returncode == 0


@pytest.mark.parametrize(
    "broken", [text for name, text in BROKEN.items() if name != "a verdict of another code"]
)
def test_a_job_without_a_report_ends_with_a_code_of_its_own(node: Node, broken: str) -> None:
    node.script("rigtune", broken)
    assert container(node, "kubernetes-job").returncode == 2


@pytest.mark.parametrize("code", [0, 1, 3])
def test_a_job_prints_its_report_and_ends_as_rigtune_does(node: Node, code: int) -> None:
    node.script(
        "rigtune", f'#!/bin/sh\nfor word; do :; done\necho report >"${{word#--output=}}"\nexit {code}\n'
    )
    done = container(node, "kubernetes-job")
    assert (done.returncode, done.stdout) == (code, "report\n")


@pytest.mark.parametrize(
    ("broken", "code"), [(BROKEN["the package is gone"], "2"), ("", "2"), ("reports", "1")]
)
def test_the_first_boot_distinguishes_no_verdict_from_a_bad_one(node: Node, broken: str, code: str) -> None:
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


def container(node: Node, kind: str) -> subprocess.CompletedProcess[str]:
    """Run what the pod's container runs."""
    text = render_provision(find_provision(kind), ProvisionOptions(expect_gpus=8))[0].text
    pod = yaml.safe_load(text)["spec"]["template"]["spec"]
    (described,) = pod.get("initContainers") or pod["containers"]
    argv = [*described["command"], *described["args"]]
    argv = [word.replace("/tmp/rigtune-report", str(node.folder / "report")) for word in argv]  # noqa: S108
    environment = {"PATH": f"{node.folder}:{os.environ['PATH']}"}
    return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=60)
