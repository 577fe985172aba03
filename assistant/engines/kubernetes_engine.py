"""Kubernetes: one pod per node of an indexed Job, through kubectl and the user's own rights.

The Job leaves out nodes that are cordoned or not ready, requests GPUs only if the user does, and is deleted
at the end.
"""

import json
import math
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from assistant.engines.clustershell_runs import Sink, nodes_of
from assistant.engines.engine_table import Wanted
from assistant.engines.node_command import (
    HEAD_MARGIN_S,
    MOST_OUTPUT_BYTES,
    Records,
    end_of,
    one_line,
    timed_words,
)
from probes.base.errors import UsageError, WorkerError
from probes.fleet.node_report import NodeEnd, NodeLine
from probes.fleet.places import Places, places_of_labels

_LABEL = "rigtune-fleet"
_POLL_S = 2.0
_STARTS_WITHIN_S = 120.0
"""Time for scheduling and for pulling the image."""
_SCRATCH = "/scratch"
"""The one folder of the container to which the program may write."""


def _kubectl(*words: str, stdin: str | None = None) -> str:
    """Return the output of kubectl. Raises WorkerError."""
    try:
        done = subprocess.run(
            ("kubectl", *words),
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            errors="replace",  # a node may send anything
            timeout=120,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise WorkerError(f"kubectl gives no answer: {error}", "check KUBECONFIG and your network") from None
    if done.returncode:
        raise WorkerError(
            f"kubectl {words[0]} failed: {one_line(done.stderr)}", "check your rights and names"
        )
    return done.stdout


def _items(*words: str) -> list[dict[str, Any]]:
    """Return the objects that `kubectl get` lists. Raises WorkerError."""
    items: list[dict[str, Any]] = json.loads(_kubectl("get", *words, "-o", "json"))["items"]
    return items


def _all_nodes() -> dict[str, str]:
    """Return each node with the reason why it takes no pods; the reason is empty if the node takes pods."""
    nodes = {}
    for node in _items("nodes"):
        conditions = {each["type"]: each["status"] for each in node.get("status", {}).get("conditions", ())}
        is_cordoned = node.get("spec", {}).get("unschedulable", False)
        why = "the node is cordoned" if is_cordoned else ""
        nodes[node["metadata"]["name"]] = why or ("" if conditions.get("Ready") == "True" else "not ready")
    return nodes


def places() -> Places:
    """Return the places that the nodes' labels give."""
    labels = {item["metadata"]["name"]: item["metadata"].get("labels", {}) for item in _items("nodes")}
    return {node: place for node, each in labels.items() if (place := places_of_labels(each))}


def nodes(wanted: str) -> tuple[str, ...]:
    """Return the nodes of a pattern, or all nodes of the cluster."""
    return nodes_of(wanted) if wanted else tuple(_all_nodes())


def manifest(wanted: Wanted, usable: tuple[str, ...], name: str) -> dict[str, Any]:
    """Return the Job, which puts one pod on each usable node. Raises UsageError."""
    image = wanted.options.get("image")
    if not image:
        raise UsageError("Kubernetes needs a container image that contains rigtune", "give --image IMAGE")
    gpus = wanted.options.get("gpus")
    labels = {"app": _LABEL, "run": name}
    container = {
        "name": "rigtune",
        "image": image,
        "command": list(timed_words(wanted.command, wanted.limit_s)),
        "resources": {"limits": {"nvidia.com/gpu": int(gpus)}} if gpus else {},
        "env": [{"name": "HOME", "value": _SCRATCH}],
        "volumeMounts": [{"name": "scratch", "mountPath": _SCRATCH}],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    hostname = "kubernetes.io/hostname"
    pod = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "containers": [container],
        "volumes": [{"name": "scratch", "emptyDir": {}}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": hostname, "operator": "In", "values": list(usable)}]}
                    ]
                }
            },
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": {"matchLabels": labels}, "topologyKey": hostname}
                ]
            },
        },
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "completions": len(usable),
            "parallelism": len(usable),
            "completionMode": "Indexed",
            "backoffLimitPerIndex": 0,
            "maxFailedIndexes": len(usable),
            "activeDeadlineSeconds": math.ceil(wanted.limit_s + _STARTS_WITHIN_S + HEAD_MARGIN_S),
            "ttlSecondsAfterFinished": 600,
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def plan(wanted: Wanted) -> str:
    """Return the manifest that would be applied."""
    text = json.dumps(manifest(wanted, wanted.nodes, f"{_LABEL}-RUN"), indent=2)
    return f"kubectl apply -f - <<'JOB'\n{text}\nJOB"


def run(wanted: Wanted, sink: Sink) -> None:
    """Run the Job, report every node, and delete the Job. Raises WorkerError if kubectl fails."""
    states = _all_nodes()
    usable = tuple(node for node in wanted.nodes if states.get(node, "-") == "")
    for node in wanted.nodes:
        if node not in usable:
            sink(NodeEnd(node, "not-started", None, states.get(node, "Kubernetes does not know the node")))
    if not usable:
        return
    name = f"{_LABEL}-{time.time_ns() // 1_000_000:x}"
    text = json.dumps(manifest(wanted, usable, name))
    try:
        _kubectl("apply", "-f", "-", stdin=text)
        _follow(name, usable, wanted.limit_s, sink)
    finally:
        with suppress(WorkerError):  # the answers count, and the Job ends and is removed by its own limits
            _kubectl("delete", "job", name, "--ignore-not-found", "--wait=false", "--cascade=background")


def _follow(name: str, usable: tuple[str, ...], limit_s: float, sink: Sink) -> None:
    """Report each pod when it ends, before the Job and its logs are deleted, or at the time limit."""
    end = time.monotonic() + limit_s + _STARTS_WITHIN_S
    waiting = list(usable)
    while True:
        items = _items("pods", "-l", f"run={name}")
        pods = {pod["spec"]["nodeName"]: pod for pod in items if pod["spec"].get("nodeName")}
        count = sum(map(_has_ended, items))  # a pod can fail before it has a node
        is_over = count >= len(usable) or time.monotonic() > end
        for node in tuple(waiting):
            if is_over or _has_ended(pods.get(node)):
                _report(node, pods.get(node), sink)
                waiting.remove(node)
        if is_over:
            return
        time.sleep(_POLL_S)


def _has_ended(pod: Mapping[str, Any] | None) -> bool:
    return pod is not None and pod["status"].get("phase") in ("Succeeded", "Failed")


def _report(node: str, pod: Mapping[str, Any] | None, sink: Sink) -> None:
    if pod is None:
        sink(NodeEnd(node, "not-started", None, "no pod was placed on the node: are its GPUs in use?"))
        return
    states = [each.get("state", {}) for each in pod["status"].get("containerStatuses", ())]
    ended = next((state["terminated"] for state in states if "terminated" in state), None)
    if ended is None:
        # a container without a state has not been created, and has no log either
        waiting = [state.get("waiting", {}).get("reason", "") for state in states if "running" not in state]
        is_running = bool(states) and not waiting
        detail = "" if is_running else one_line("".join(waiting)) or "the container was not created"
        sink(NodeEnd(node, "timed-out" if is_running else "not-started", None, detail))
        return
    try:
        log = _kubectl("logs", pod["metadata"]["name"], f"--limit-bytes={MOST_OUTPUT_BYTES}")
    except WorkerError as error:  # the other nodes still have answers
        sink(NodeEnd(node, "no-answer", None, one_line(str(error))))
        return
    output, records = log.encode(), Records()
    for line in output.split(b"\n")[:-1]:  # what follows the last newline is half a record
        if (record := records.in_line(line)) is not None:
            sink(NodeLine(node, record))
    # beyond the limit, the rest was cut off
    size = len(output) if len(output) >= MOST_OUTPUT_BYTES else records.size
    code = int(ended.get("exitCode", 1))
    detail = one_line(str(ended.get("message") or ended.get("reason") or ""))
    sink(end_of(node, code, detail, size))
