"""Run one line of shell on each node of a Ray cluster that is already up.

The interpreter that has Ray runs this script; it needs only Ray and the standard library of Python 3.9. The
request is JSON on standard input: `nodes` (names, or null to list the nodes), `line`, `limit_s`, `files`
(archives that the line reads from its standard input) and `most_bytes`. Each answer is a line of JSON behind
a mark, because Ray prints lines of its own.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any, Optional

MARK = "@rigtune-ray "
RECORD = b"@rigtune "
STARTS_WITHIN_S = 30.0
"""Time for Ray to start a worker process on a node."""
SET_BY_RAY = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
"""Values that Ray gives to a task that requests no GPU and no CPU; with them, nothing could be measured."""


def send(**values: Any) -> None:
    sys.stdout.write("\n" + MARK + json.dumps(values) + "\n")
    sys.stdout.flush()


def work(line: str, data: Optional[bytes], most_bytes: int) -> tuple[list[str], int, int, str]:
    """Return the marked records, their size, the exit code, and the last line of the error output."""
    environment = {name: value for name, value in os.environ.items() if SET_BY_RAY.get(name) != value}
    size = 0
    records: list[str] = []
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as errors:
        given.write(data or b"")
        given.seek(0)
        process = subprocess.Popen(
            ["sh", "-c", line], stdin=given, stdout=subprocess.PIPE, stderr=errors, env=environment
        )
        with process:
            # a line without an end must not fill the memory; what follows the last newline is half a record
            for record in (
                iter(partial(process.stdout.readline, most_bytes + 1), b"") if process.stdout else ()
            ):
                if record.startswith(RECORD) and (record.endswith(b"\n") or len(record) > most_bytes):
                    size += len(record) - record.endswith(b"\n")
                    if size <= most_bytes:
                        records.append(record[len(RECORD) : -1].decode("utf-8", "replace"))
        errors.seek(max(0, errors.seek(0, os.SEEK_END) - 2000))
        words = errors.read().decode("utf-8", "replace").strip().splitlines()
    return records, size, process.returncode, words[-1] if words else ""


def names(ray: Any) -> dict[str, str]:
    """Return the alive nodes by name: the host name, with a part of Ray's id if several have this name."""
    alive = [node for node in ray.nodes() if node["Alive"]]
    count = Counter(node["NodeManagerHostname"] for node in alive)
    return {
        host if count[host] == 1 else host + "-" + node["NodeID"][:8]: node["NodeID"]
        for node in alive
        for host in [node["NodeManagerHostname"]]
    }


def run(ray: Any, request: dict[str, Any]) -> None:
    from ray.util.scheduling_strategies import (  # noqa: PLC0415 - not in rigtune's own interpreter
        NodeAffinitySchedulingStrategy,
    )

    known = names(ray)
    data = b"".join(Path(path).read_bytes() for path in request["files"])
    sent = ray.put(data) if data else None
    task = ray.remote(work)
    pending = {}
    for node in request["nodes"]:
        if node not in known:
            send(node=node, outcome="not-started", detail="Ray has no alive node of this name")
            continue
        strategy = NodeAffinitySchedulingStrategy(node_id=known[node], soft=False)
        options = {"num_cpus": 0, "max_retries": 0, "scheduling_strategy": strategy}
        pending[task.options(**options).remote(request["line"], sent, request["most_bytes"])] = node
    end = time.monotonic() + request["limit_s"] + STARTS_WITHIN_S
    while pending:
        ready, _ = ray.wait(list(pending), num_returns=1, timeout=max(0.0, end - time.monotonic()))
        if not ready:
            break
        report(ray, ready[0], pending.pop(ready[0]))
    for reference, node in pending.items():
        ray.cancel(reference, force=True)
        send(node=node, outcome="no-answer", detail="Ray reported no end of the task")


def report(ray: Any, reference: Any, node: str) -> None:
    try:
        records, size, code, detail = ray.get(reference)
    except ray.exceptions.TaskUnschedulableError:
        send(node=node, outcome="not-started", detail="the node left the Ray cluster")
    except ray.exceptions.RayError as error:
        detail = type(error).__name__ + ": " + (str(error).splitlines() or [""])[0]
        send(node=node, outcome="no-answer", detail=detail)
    else:
        for record in records:
            send(node=node, record=record)
        send(node=node, code=code, size=size, detail=detail)


def main() -> None:
    request = json.load(sys.stdin)
    address = os.environ.get("RAY_ADDRESS") or "auto"
    if address == "local":
        sys.exit("RAY_ADDRESS=local would start a new Ray; name the address of a running cluster")
    import ray  # noqa: PLC0415 - not in rigtune's own interpreter

    # neither "auto" nor an address starts Ray: the call fails if no cluster answers
    ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    if request["nodes"] is None:
        send(nodes=sorted(names(ray)))
    else:
        run(ray, request)
    ray.shutdown()


if __name__ == "__main__":
    main()
