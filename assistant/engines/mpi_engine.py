"""mpirun: one start per node for separate commands, and one start over all nodes for a job."""

import os
import shlex
import subprocess

from assistant.engines.clustershell_runs import FANOUT, Sink, named_hosts, run_each
from assistant.engines.engine_table import Wanted, joint_command
from assistant.engines.node_command import HEAD_MARGIN_S, end_of, one_line, timed
from probes.base.errors import WorkerError
from probes.fleet.node_report import NodeEnd

_UNBOUND = {
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
    "I_MPI_PIN": "0",
}
"""Settings of Open MPI 4, Open MPI 5 and Intel MPI that leave a node's program all cores."""


def nodes(wanted: str) -> tuple[str, ...]:
    """Return the hosts of a pattern. Raises UsageError without one."""
    return named_hosts(wanted, "mpirun")


def _words(wanted: Wanted) -> tuple[str, ...]:
    """Return the command of a job: a group of arguments for each host, which sets the rank of the host."""
    words = ["mpirun"]
    for rank, node in enumerate(wanted.nodes):
        line = timed(joint_command(wanted, rank), wanted.limit_s)
        words += [*([":"] if rank else []), "-n", "1", "-host", node, "sh", "-c", line]
    return tuple(words)


def _alone(node: str, command: str) -> str:
    return shlex.join(("mpirun", "-n", "1", "-host", node, "sh", "-c", command))


def plan(wanted: Wanted) -> str:
    """Return the commands of mpirun."""
    if wanted.rendezvous is not None:
        return shlex.join(_words(wanted))
    first = _alone(wanted.nodes[0], timed(wanted.command, wanted.limit_s))
    return f"{first}\n# the same for each other node" if len(wanted.nodes) > 1 else first


def run(wanted: Wanted, sink: Sink) -> None:
    """Run the command on every host; a job's hosts share one exit code, and their lines are not collected.

    Separate commands are started one by one, because mpirun starts nothing if one host is down.
    Raises WorkerError if mpirun cannot be started.
    """
    if wanted.rendezvous is None:
        line = timed(wanted.command, wanted.limit_s)
        run_each(
            "exec", wanted, sink, settings={"fanout": FANOUT}, line_of=lambda _, node: _alone(node, line)
        )
        return
    try:
        job = subprocess.run(
            _words(wanted),
            env={**os.environ, **_UNBOUND},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=wanted.limit_s + HEAD_MARGIN_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        for node in wanted.nodes:
            sink(NodeEnd(node, "timed-out", None, f"no end within {wanted.limit_s:g} s"))
        return
    except OSError as error:
        raise WorkerError(f"mpirun cannot be started: {error}", "load the module of your MPI") from None
    lines = [line for line in job.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    for node in wanted.nodes:
        sink(end_of(node, job.returncode, one_line(lines[-1]) if lines else "", 0))
