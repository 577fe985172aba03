"""The nodes of Slurm: which of them can run a step now, and why the others cannot."""

import math
import os
import re
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

from assistant.engines.clustershell_runs import folded, nodes_of
from assistant.engines.engine_table import Wanted
from assistant.engines.node_command import one_line
from probes.base.errors import WorkerError
from probes.fleet.node_report import NodeEnd

_SHARED = ("mixed", "allocated", "completing")
_DAEMON_PORT = 6818
"""SlurmdPort by default (slurm.conf manual); `scontrol show node` states another port."""
_CONNECTS_S = 3.0
_CONNECTIONS = 64
_POLL_S = 1.0


def answer_of(*words: str) -> str:
    """Return the output of a command that asks Slurm. Raises WorkerError."""
    hint = "check that the Slurm controller runs, or reach the nodes over ssh: --engine ssh -w NODES"
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise WorkerError(f"{words[0]} gives no answer: {error}", hint) from None
    if done.returncode:
        raise WorkerError(f"{words[0]} failed: {_first_line(done.stderr)}", hint)
    return done.stdout


def _first_line(text: str) -> str:
    """Return the first line of an error output, which names the cause; the other lines repeat it."""
    return one_line(next((line for line in text.splitlines() if line.strip()), "no reason was given"))


def states() -> dict[str, str]:
    """Return the state of every node, such as `idle` or `draining*`. Raises WorkerError."""
    pairs = (line.split() for line in answer_of("sinfo", "-h", "-N", "-o", "%N %T").splitlines())
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def address_of(node: str) -> str:
    """Return the address that Slurm itself uses for a node, because the node's name may not resolve."""
    try:
        address = re.search(r"\bNodeAddr=(\S+)", answer_of("scontrol", "show", "node", node))
    except WorkerError:  # srun will say that there is no such node
        return node
    return address[1] if address else node


def longest_job_s(partition: str | None) -> tuple[str, float]:
    """Return a partition, by default Slurm's own, and how long its jobs may last; infinite if unknown.

    Slurm writes `infinite` or days-hours:minutes:seconds, in which days and hours may be missing.
    """
    for line in answer_of("sinfo", "-h", "-o", "%P %l").splitlines():
        name, _, limit = line.partition(" ")
        parts = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", limit.strip())
        if parts and (name.removesuffix("*") == partition if partition else name.endswith("*")):
            days, hours, minutes, seconds = (int(part or 0) for part in parts.groups())
            return name.removesuffix("*"), ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return partition or "", math.inf


def _settled(wanted: Wanted, limit_s: float) -> dict[str, str]:
    """Wait up to `limit_s` until no wanted node is completing a job; return the state of every node."""
    end = time.monotonic() + limit_s
    while True:
        known = states()
        cleans_up = any(known.get(node) == "completing" for node in wanted.nodes)
        if not cleans_up or time.monotonic() >= end:
            return known
        time.sleep(_POLL_S)


def usable_nodes(wanted: Wanted, completes_s: float = 0.0) -> tuple[tuple[str, ...], list[NodeEnd]]:
    """Return the nodes that a step may use, and the outcome of the others.

    A node that a job has just left gets `completes_s` seconds to become free. Slurm would refuse the whole
    request because of one node that cannot be used, so such nodes are left out.
    """
    if os.environ.get("SLURM_JOB_ID"):
        listed = os.environ.get("SLURM_JOB_NODELIST")
        inside = set(nodes_of(listed) if listed else wanted.nodes)
        allocated = tuple(node for node in wanted.nodes if node in inside)
        return allocated, [
            NodeEnd(node, "not-started", None, "the node is not in this allocation")
            for node in wanted.nodes
            if node not in inside
        ]
    known = _settled(wanted, completes_s)
    # `idle*` does not respond, and `idle~` is powered down: a step would wait for both
    usable = tuple(node for node in wanted.nodes if known.get(node) == "idle")
    return usable, [
        NodeEnd(node, "not-started", None, _why_not(known.get(node)))
        for node in wanted.nodes
        if known.get(node) != "idle"
    ]


def _why_not(state: str | None) -> str:
    if state is None:
        return "Slurm does not know the node"
    is_shared = re.sub(r"[^a-z].*", "", state) in _SHARED
    return f"a job uses the node ({state})" if is_shared else f"Slurm says {state}"


def silent_daemons(nodes: tuple[str, ...]) -> dict[str, str]:
    """Return each node whose slurmd refuses or ignores a connection, with the reason.

    Slurm notices a dead slurmd only after minutes, and a single dead slurmd makes srun wait for ten seconds
    and then abort the step of all nodes. If no node answers, this machine probably cannot connect to the
    nodes at all, and the result is empty.
    """
    listed = answer_of("scontrol", "--oneliner", "show", "node", folded(nodes))
    addresses = {}
    for line in listed.splitlines():
        fields = dict(word.split("=", 1) for word in line.split() if "=" in word)
        if {"NodeName", "NodeAddr"} <= fields.keys():
            port = fields.get("Port", "")
            addresses[fields["NodeName"]] = (
                fields["NodeAddr"],
                int(port) if port.isdigit() else _DAEMON_PORT,
            )
    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        faults = dict(zip(addresses, pool.map(_fault, addresses.values()), strict=True))
    silent = {node: fault for node, fault in faults.items() if fault}
    return silent if len(silent) < len(addresses) else {}


def _fault(address: tuple[str, int]) -> str:
    try:
        socket.create_connection(address, _CONNECTS_S).close()
    except OSError as error:
        return f"slurmd does not answer on {address[0]}:{address[1]} ({error.strerror or error})"
    return ""
