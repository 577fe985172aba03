"""Ray: one task per node of a cluster that is already up. rigtune never starts Ray."""

import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from assistant.engines.clustershell_runs import Sink, nodes_of
from assistant.engines.engine_table import Wanted
from assistant.engines.node_command import end_of, last_words, one_line
from assistant.engines.shipping import node_line
from assistant.storage import scratch_folder, write_bytes
from probes.base.errors import UsageError, WorkerError
from probes.fleet.node_report import LONGEST_ANSWER_BYTES, NodeEnd, NodeLine

_SCRIPT = Path(__file__).with_name("ray_tasks.py")
_MARK = "@rigtune-ray "
"""Start of a line of the script that is meant for this module."""
_VARIABLE = "RIGTUNE_RAY_PYTHON"


def _python() -> str:
    """Return the interpreter that has Ray. Raises UsageError."""
    if named := os.environ.get(_VARIABLE):
        return named
    if importlib.util.find_spec("ray") is not None:
        return sys.executable
    if program := shutil.which("ray"):
        beside = Path(program).with_name("python3")
        if beside.exists():
            return str(beside)
    raise UsageError(
        "no Python interpreter with Ray is known",
        f"activate the environment of the Ray cluster, or name its interpreter in {_VARIABLE}",
    )


def _answers(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the answers of the script as they arrive. Raises WorkerError if it fails, and OutputError."""
    hint = "check RAY_ADDRESS, and that `ray status` shows the cluster"
    with scratch_folder("rigtune-ray-") as folder:
        asked, errors = folder / "request", folder / "errors"
        write_bytes(asked, json.dumps(request).encode())
        try:
            with asked.open("rb") as stdin, errors.open("wb") as stderr:
                process = subprocess.Popen(
                    (_python(), str(_SCRIPT)), stdin=stdin, stdout=subprocess.PIPE, stderr=stderr
                )
        except OSError as error:
            raise WorkerError(f"the interpreter of Ray cannot be started: {error}", hint) from None
        with process:
            try:
                for line in process.stdout or ():
                    text = line.decode("utf-8", "replace")
                    if text.startswith(_MARK):
                        yield json.loads(text[len(_MARK) :])
                process.wait()
            finally:
                process.terminate()  # Ray ends the tasks of a program that has ended
        if process.returncode:
            raise WorkerError(f"Ray gives no answer: {last_words(errors)}", hint)


def nodes(wanted: str) -> tuple[str, ...]:
    """Return the nodes of a pattern, or all alive nodes of the Ray cluster.

    Raises UsageError for a wrong pattern, and WorkerError if no Ray cluster answers.
    """
    if wanted:
        return nodes_of(wanted)
    return tuple(name for answer in _answers({"nodes": None}) for name in answer["nodes"])


def plan(wanted: Wanted) -> str:
    """Return the command that starts the tasks, and the line that each task runs."""
    line = node_line(wanted.command, wanted.limit_s, wanted.ship)
    return f"{shlex.join((_python(), str(_SCRIPT)))}  # one task per node, with max_retries=0:\n{line}"


def run(wanted: Wanted, sink: Sink) -> None:
    """Run the command as one task on every node.

    Raises UsageError if no interpreter with Ray is known, and WorkerError if no Ray cluster answers.
    """
    request = {
        "nodes": wanted.nodes,
        "line": node_line(wanted.command, wanted.limit_s, wanted.ship),
        "limit_s": wanted.limit_s,
        "files": [str(archive.path) for archive in wanted.ship.archives] if wanted.ship else [],
        "most_bytes": LONGEST_ANSWER_BYTES,
    }
    missing = dict.fromkeys(wanted.nodes)
    for answer in _answers(request):
        node = answer["node"]
        if "record" in answer:
            sink(NodeLine(node, answer["record"].encode()))
            continue
        missing.pop(node, None)
        detail = one_line(answer["detail"])
        if "outcome" in answer:
            sink(NodeEnd(node, answer["outcome"], None, detail))
        else:
            sink(end_of(node, answer["code"], detail, answer["size"]))
    for node in missing:
        sink(NodeEnd(node, "no-answer", None, "Ray ended without an answer of the task"))
