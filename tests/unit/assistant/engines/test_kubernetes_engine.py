"""The Kubernetes engine, driven through a stand-in for kubectl that keeps its objects in files."""

from __future__ import annotations

import json
import sys
import time
from types import SimpleNamespace

import pytest

from assistant.cli import command_line
from assistant.engines import kubernetes_engine
from assistant.engines.engine_table import Wanted, choose_engine
from assistant.usecases.fleet.check_fleet import FleetRun, check_fleet
from probes.base.errors import UsageError, WorkerError
from probes.fleet.node_report import LONGEST_ANSWER_BYTES, NodeEnd, NodeLine

pytest.importorskip("ClusterShell")

KUBECTL = """#!{python}
import json, os, sys
folder, words = {folder!r}, sys.argv[1:]
job = os.path.join(folder, "job.json")
def ready(name, **spec):
    status = {{"conditions": [{{"type": "Ready", "status": "False" if name == "g4" else "True"}}]}}
    return {{"metadata": {{"name": name}}, "spec": spec, "status": status}}
with open(os.path.join(folder, "calls"), "a") as calls:
    calls.write(" ".join(words[:2]) + chr(10))
if words[:2] == ["get", "nodes"]:
    items = [ready("g1"), ready("g2"), ready("g3", unschedulable=True), ready("g4"), ready("g5"), ready("g6")]
    items += [ready("g7"), ready("g8")]
    print(json.dumps({{"items": items}}))
elif words[0] == "apply":
    open(job, "w").write(sys.stdin.read())
elif words[:2] == ["get", "pods"]:
    def pod(name, phase, code, **more):
        state = {{"terminated": {{"exitCode": code, **more}}}}
        status = {{"phase": phase, "containerStatuses": [{{"state": state}}]}}
        return {{"metadata": {{"name": "pod-" + name}}, "spec": {{"nodeName": name}}, "status": status}}
    items = [pod("g1", "Succeeded", 0), pod("g2", "Failed", 124, reason="Error")]
    items.append(pod("g5", "Failed", 1, message="boom"))
    items.append({{"metadata": {{"name": "p6"}}, "spec": {{}}, "status": {{"phase": "Failed"}}}})
    items.append(pod("g7", "Failed", 0))
    items[-1]["status"]["containerStatuses"] = [{{"state": {{"waiting": {{"reason": "ImagePullBackOff"}}}}}}]
    items.append(pod("g8", "Failed", 1))
    print(json.dumps({{"items": items}}))
elif words[0] == "logs" and words[1] == "pod-g1":
    print("noise")
    if words[2] != "--limit-bytes={most}":
        sys.exit("the log may fill the memory of the head")
    print("@rigtune " + json.dumps({{"node": "g1", "outcome": "ok", "verdict": "PASS"}}))
elif words[0] == "logs" and words[1] == "pod-g2":
    os.write(1, bytes([255, 10]))
elif words[0] == "logs" and words[1] in ("pod-g7", "pod-g8"):
    sys.exit("container is waiting to start")
elif words[0] == "delete":
    os.remove(job)
"""


@pytest.fixture
def kubectl(tmp_path, monkeypatch):
    folder = tmp_path / "cluster"
    folder.mkdir()
    program = tmp_path / "bin" / "kubectl"
    program.parent.mkdir()
    program.write_text(
        KUBECTL.format(python=sys.executable, folder=str(folder), most=2 * LONGEST_ANSWER_BYTES)
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    return folder


def test_every_node_has_an_outcome_and_the_job_is_deleted(kubectl, tmp_path):
    run = FleetRun(
        engine=choose_engine("kubernetes", has_pattern=False)[0],
        engine_reason="test",
        nodes=kubernetes_engine.nodes(""),
        command=("rigtune", "fleet", "node"),
        limit_s=5,
        folder=tmp_path / "run",
        options={"image": "site/rigtune:1"},
    )
    *_, end = check_fleet(run)
    nodes = {node.node: (node.outcome, node.detail) for node in end.result.nodes}
    assert nodes["g1"] == ("ok", "")
    assert nodes["g2"] == ("timed-out", "Error")
    assert nodes["g3"] == ("not-started", "the node is cordoned")
    assert nodes["g4"] == ("not-started", "not ready")
    assert nodes["g5"] == ("exit", "boom")
    assert nodes["g6"][0] == "not-started"
    assert nodes["g7"] == ("not-started", "ImagePullBackOff")
    assert nodes["g8"][0] == "no-answer"
    assert "waiting to start" in nodes["g8"][1]
    assert not (kubectl / "job.json").exists()


def test_the_job_asks_for_nothing_that_it_does_not_need():
    wanted = Wanted(("g1", "g2"), ("rigtune", "it's $HOME"), 60, {"image": "site/rigtune:1", "gpus": "8"})
    job = kubernetes_engine.manifest(wanted, ("g1", "g2"), "run-1")
    spec = job["spec"]
    assert (spec["completions"], spec["parallelism"], spec["completionMode"]) == (2, 2, "Indexed")
    pod = spec["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    (container,) = pod["containers"]
    assert container["command"] == ["timeout", "-k", "5", "60", "rigtune", "it's $HOME"]
    assert container["resources"] == {"limits": {"nvidia.com/gpu": 8}}
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    (rule,) = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert rule["topologyKey"] == "kubernetes.io/hostname"
    with pytest.raises(UsageError, match="container image"):
        kubernetes_engine.manifest(wanted._replace(options={}), ("g1",), "run-1")


def test_the_command_line_drives_the_whole_path(kubectl, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["fleet", "check", "--engine", "kubernetes", "--image", "site/rigtune:1", "--limit", "5"]
    assert command_line([*words, "--format", "json", "-q"]) == 3
    assert json.loads(capsys.readouterr().out)["engine"] == "kubernetes"
    assert command_line([*words, "-w", "g[1-2]", "--dry-run"]) == 0
    assert '"image": "site/rigtune:1"' in capsys.readouterr().out


def test_a_stop_while_a_pod_runs_keeps_what_others_have_answered(kubectl, monkeypatch):
    """The stand-in also refuses to delete the Job; this error must not hide the interrupt of the user."""
    program = kubectl.parent / "bin" / "kubectl"
    text = program.read_text().replace('pod("g2", "Failed", 124', 'pod("g2", "Running", 124')
    program.write_text(text.replace("os.remove(job)", "sys.exit(1)"))

    def stop(_: float) -> None:
        raise KeyboardInterrupt

    clock = SimpleNamespace(sleep=stop, monotonic=time.monotonic, time_ns=time.time_ns)
    monkeypatch.setattr(kubernetes_engine, "time", clock)
    events: list[NodeLine | NodeEnd] = []
    wanted = Wanted(("g1", "g2", "g5", "g6", "g7", "g8"), ("true",), 5, {"image": "site/rigtune:1"})
    with pytest.raises(KeyboardInterrupt):
        kubernetes_engine.run(wanted, events.append)
    assert [type(event) for event in events if event.node == "g1"][:2] == [NodeLine, NodeEnd]
    assert not [event for event in events if event.node == "g2"]


def test_a_failing_kubectl_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(WorkerError, match="kubectl gives no answer"):
        kubernetes_engine.nodes("")
