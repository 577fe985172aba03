"""Slurm: one task per node by srun, on nodes that no job uses or in the present allocation."""

import math
import os
import re
import secrets
import shlex
import subprocess
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from assistant.engines.clustershell_runs import Sink, folded, nodes_of
from assistant.engines.engine_table import Wanted, joint_command
from assistant.engines.node_command import HEAD_MARGIN_S, bounded, one_line, timed
from assistant.engines.shipping import node_line
from assistant.engines.slurm_answers import framed, report_answers
from assistant.engines.slurm_nodes import (
    address_of,
    answer_of,
    longest_job_s,
    silent_daemons,
    states,
    usable_nodes,
)
from assistant.storage import scratch_folder
from probes.base.errors import UsageError, WorkerError
from probes.fleet.node_report import NodeEnd
from probes.fleet.places import Places, parse_slurm_topology

_PASSES = 3
"""Maximum number of job steps; a later step asks only nodes that Slurm cut off because of another node."""
_CLEANS_S = 60
"""Time limit for the removal of the archives from all nodes of the job."""
_WAITS_S = 30
"""Seconds that srun waits for free nodes; in a job over all nodes, also for tasks after the first ends."""


def nodes(wanted: str) -> tuple[str, ...]:
    """Return the nodes of a pattern, of the allocation, or all nodes of the cluster."""
    pattern = wanted or os.environ.get("SLURM_JOB_NODELIST", "")
    return nodes_of(pattern) if pattern else tuple(states())


def places() -> Places:
    """Return the switches and blocks of Slurm's topology; empty for a site without one."""
    try:
        return parse_slurm_topology(answer_of("scontrol", "show", "topology"), nodes_of)
    except WorkerError:
        return {}


def _allocate(wanted: Wanted, usable: tuple[str, ...]) -> tuple[str, ...]:
    return (
        *("salloc", "--no-shell", f"--nodes={len(usable)}", f"--nodelist={folded(usable)}"),
        *(f"--time={_minutes(wanted, _PASSES)}", f"--immediate={_WAITS_S}", "--no-kill"),
        *_resources(wanted),
    )


def _minutes(wanted: Wanted, passes: int) -> int:
    """Return the time limit for Slurm: the longest time that copies, steps and the removal can take."""
    count = len(wanted.ship.archives) if wanted.ship is not None else 0
    pass_s = (count + 1) * wanted.limit_s + _WAITS_S + HEAD_MARGIN_S
    return math.ceil((passes * pass_s + (_CLEANS_S if count else 0)) / 60)


def _require_time(wanted: Wanted, passes: int) -> None:
    """Raise UsageError if the partition allows no job of the needed length; such a job would wait for ever.

    Nothing is checked in an allocation, or if Slurm's own variables name a partition.
    """
    if {"SLURM_JOB_ID", "SALLOC_PARTITION", "SLURM_PARTITION"} & os.environ.keys():
        return
    minutes = _minutes(wanted, passes)
    partition, longest_s = longest_job_s(wanted.options.get("partition"))
    if minutes * 60 > longest_s:
        raise UsageError(
            f"a limit of {wanted.limit_s:g} s for each node needs a job of {minutes} minutes, but the "
            f"partition {partition} allows {longest_s / 60:g} minutes (MaxTime)",
            "give a smaller --limit or another --partition, or start inside an allocation",
        )


def _resources(wanted: Wanted) -> tuple[str, ...]:
    """Return the options for the partition and the GPUs that the user requests."""
    partition = wanted.options.get("partition")
    return (*((f"--partition={partition}",) if partition else ()), *_gpus(wanted))


def _gpus(wanted: Wanted) -> tuple[str, ...]:
    """Return the request for GPUs; where Slurm confines devices, a step sees only those that it requests."""
    gpus = wanted.options.get("gpus")
    return (f"--gres=gpu:{gpus}",) if gpus else ()


def _copies(wanted: Wanted, job: str, files: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the commands that copy the archives to all nodes of an allocation."""
    archives = wanted.ship.archives if wanted.ship is not None else ()
    return [
        ("sbcast", f"--jobid={job}", "--force", str(archive.path), file)
        for archive, file in zip(archives, files, strict=True)
    ]


def _step(
    wanted: Wanted, job: str, usable: tuple[str, ...], folder: Path, files: Sequence[str]
) -> tuple[str, ...]:
    command = node_line(wanted.command, wanted.limit_s, wanted.ship, files)
    line = framed(bounded(command, wanted.limit_s))
    return (
        *_on_each(job, usable),
        *_gpus(wanted),
        *(f"--output={folder}/%t.out", f"--error={folder}/%t.err"),
        *("sh", "-c", line),
    )


def _files(wanted: Wanted, token: str) -> tuple[str, ...]:
    """Return the paths of the archives on a node; nobody can guess them before they exist."""
    if wanted.ship is None:
        return ()
    return tuple(
        f"{wanted.ship.folders[0]}/rigtune-{token}-{number}.pyz"
        for number, _ in enumerate(wanted.ship.archives)
    )


def plan(wanted: Wanted) -> str:
    """Return the commands of Slurm."""
    if wanted.rendezvous is not None:
        _require_time(wanted, 1)
        return shlex.join(_joint_step(wanted, Path("FOLDER")))
    _require_time(wanted, _PASSES)
    usable, left = usable_nodes(wanted)
    own = os.environ.get("SLURM_JOB_ID")
    files = _files(wanted, "TOKEN")
    commands = [
        *(() if own else (_allocate(wanted, usable),)),
        *_copies(wanted, own or "JOB", files),
        _step(wanted, own or "JOB", usable, Path("FOLDER"), files),
        *((_removal(own or "JOB", usable, files),) if files else ()),
        *(() if own else (("scancel", "JOB"),)),
    ]
    lines = [shlex.join(command) for command in commands] if usable else []
    return "\n".join((*lines, *(f"# {end.node}: {end.detail}" for end in left)))


def run(wanted: Wanted, sink: Sink) -> None:
    """Run the command on every usable node.

    Because of a single dead slurmd, Slurm aborts the step of all nodes. Nodes with a dead slurmd are left
    out; if one dies during the step, the nodes that were cut off are asked again without it. Raises
    WorkerError if a command of Slurm cannot be started, UsageError for a limit that the partition does not
    allow, and OutputError.
    """
    if wanted.rendezvous is not None:
        _run_together(wanted, sink)
        return
    _require_time(wanted, _PASSES)
    usable, left = usable_nodes(wanted, _WAITS_S)
    silent = silent_daemons(usable) if usable else {}
    for end in (*left, *(NodeEnd(node, "no-answer", None, why) for node, why in silent.items())):
        sink(end)
    usable = tuple(node for node in usable if node not in silent)
    if not usable:
        return
    with _allocation(wanted, usable) as (job, refusal):
        if job is None:
            for node in usable:
                sink(NodeEnd(node, "not-started", None, refusal))
            return
        files = _files(wanted, secrets.token_hex(8))
        removal = _removal(job, usable, files, silent)
        cleans_s = HEAD_MARGIN_S  # for a run that is stopped
        try:
            for _ in range(_PASSES):
                if usable:
                    usable = _one_pass(wanted, job, usable, files, sink)
            cleans_s = _CLEANS_S
        finally:
            if files:
                with suppress(WorkerError):  # a failed removal must not lose the answers
                    _ended(removal, cleans_s)
    for node in usable:
        sink(NodeEnd(node, "no-answer", None, "Slurm aborted the step because of other nodes"))


def _run_together(wanted: Wanted, sink: Sink) -> None:
    """Run one job over all nodes by one srun, which refuses nodes in use, and ends all nodes if one fails."""
    _require_time(wanted, 1)
    limit_s = wanted.limit_s + 2 * _WAITS_S + HEAD_MARGIN_S
    _reported(lambda folder: _joint_step(wanted, folder), wanted.nodes, limit_s, sink, may_repeat=False)


def _joint_step(wanted: Wanted, folder: Path) -> tuple[str, ...]:
    """Return the srun command of a job: whole nodes, all cores, and all nodes end when one fails."""
    if wanted.rendezvous is not None:
        meeting = wanted.rendezvous._replace(address=address_of(wanted.nodes[0]))
        wanted = wanted._replace(rendezvous=meeting)
    # Slurm numbers nodes in its own order; the name gives the rank.
    places = " ".join(f"{shlex.quote(node)}) NODE_RANK={rank};;" for rank, node in enumerate(wanted.nodes))
    command = timed(joint_command(wanted), wanted.limit_s)
    rank = f"case $SLURMD_NODENAME in {places} esac; export NODE_RANK"
    line = f"{framed(f'{rank}; {command}; code=$?')}; exit $code"
    count = len(wanted.nodes)
    return (
        *("srun", f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1"),
        *(f"--nodelist={folded(wanted.nodes)}", f"--time={_minutes(wanted, 1)}", f"--immediate={_WAITS_S}"),
        *(f"--wait={_WAITS_S}", "--quiet", "--kill-on-bad-exit=1", "--cpu-bind=none"),
        "--overlap" if os.environ.get("SLURM_JOB_ID") else "--exclusive",
        *_resources(wanted),
        *(f"--output={folder}/%t.out", f"--error={folder}/%t.err"),
        *("sh", "-c", line),
    )


@contextmanager
def _allocation(wanted: Wanted, usable: tuple[str, ...]) -> Iterator[tuple[str | None, str]]:
    """Yield the id of the present job, or of a job with these nodes that ends with the body.

    If Slurm grants no job, yield None and the reason.
    """
    if own := os.environ.get("SLURM_JOB_ID"):
        yield own, ""
        return
    job = None
    try:
        stderr = _ended(_allocate(wanted, usable), _WAITS_S + HEAD_MARGIN_S)
        granted = re.search(r"Granted job allocation (\d+)", stderr)
        job = granted[1] if granted else None
        yield job, one_line((stderr.splitlines() or [""])[-1])
    finally:
        if job is not None:
            _ended(("scancel", job), 60)


def _removal(
    job: str, usable: tuple[str, ...], files: Sequence[str], silent: Container[str] = ()
) -> tuple[str, ...]:
    """Return the step that removes the archives; sbcast copies to all nodes of the job, not only `usable`."""
    inside = os.environ.get("SLURM_JOB_NODELIST", "") if os.environ.get("SLURM_JOB_ID") else ""
    holders = tuple(node for node in (nodes_of(inside) if inside else usable) if node not in silent)
    return (*_on_each(job, holders), "rm", "-f", "--", *files)


def _on_each(job: str, nodes: tuple[str, ...]) -> tuple[str, ...]:
    """Return the first words of an srun command with one task on each node; the tasks end independently."""
    return (
        *("srun", f"--jobid={job}", f"--nodes={len(nodes)}", f"--ntasks={len(nodes)}"),
        *("--ntasks-per-node=1", f"--nodelist={folded(nodes)}"),
        # no limit after the end of the first task, because other nodes may be slower
        *("--wait=0", "--kill-on-bad-exit=0", "--no-kill", "--overlap", "--quiet"),
    )


def _one_pass(
    wanted: Wanted, job: str, usable: tuple[str, ...], files: Sequence[str], sink: Sink
) -> tuple[str, ...]:
    """Run one step, report the nodes that ended, and return those that were cut off by others."""
    for copy in _copies(wanted, job, files):  # in each pass, because every node removes its copy
        _ended(copy, wanted.limit_s)  # a node without the archive reports this itself
    return _reported(
        lambda folder: _step(wanted, job, usable, folder, files),
        usable,
        wanted.limit_s + _WAITS_S + HEAD_MARGIN_S,
        sink,
        may_repeat=True,
    )


def _reported(
    argv_in: Callable[[Path], tuple[str, ...]],
    nodes: tuple[str, ...],
    limit_s: float,
    sink: Sink,
    *,
    may_repeat: bool,
) -> tuple[str, ...]:
    """Run a step that writes its answers to a folder; report the answers, and return nodes to ask again."""
    with scratch_folder("rigtune-fleet-") as folder:
        stderr, is_whole = "", False
        try:
            stderr = _ended(argv_in(folder), limit_s)
            is_whole = True
        finally:
            again = report_answers(folder, nodes, stderr, sink, may_repeat=may_repeat and is_whole)
    return again


def _ended(argv: tuple[str, ...], limit_s: float) -> str:
    """Run a command of Slurm to its end and return its error output. Raises WorkerError."""
    try:
        with subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                return process.communicate(timeout=limit_s)[1]
            except subprocess.TimeoutExpired:
                process.terminate()
                return process.communicate()[1]
            except BaseException:
                process.terminate()  # srun ends its tasks, and salloc gives its nodes back
                raise
    except OSError as error:
        raise WorkerError(f"{argv[0]} cannot be started: {error}", "load the module of Slurm") from None
