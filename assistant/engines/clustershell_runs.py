"""One run of ClusterShell, over ssh or as local processes."""

import contextlib
import logging
import shlex
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from assistant.engines.engine_table import Wanted, joint_command, missing_module
from assistant.engines.node_command import GRACE_S, HEAD_MARGIN_S, Records, bounded, end_of, one_line, timed
from assistant.engines.shipping import Shipment, node_line
from assistant.processes.guard import PR_SET_CHILD_SUBREAPER, prctl
from assistant.storage import scratch_folder, write_bytes
from probes.base.errors import UsageError
from probes.fleet.node_report import LONGEST_ANSWER_BYTES, NodeEnd, NodeLine, is_node_name

_LOST = 76
"""ClusterShell's exit code if the connection to a node is lost, which does not show a fault of the node."""
_SSH_FAILED = 255
_KILLED = 137
"""Exit code of `timeout` for a command that signal 9 ended, sent by `timeout` itself or by others."""
FANOUT = 64
"""Maximum number of nodes that are asked at the same time."""

Sink = Callable[[NodeLine | NodeEnd], None]


def nodes_of(pattern: str) -> tuple[str, ...]:
    """Return the nodes of a NodeSet pattern such as `gpu[001-064]` or `@rack3`. Raises UsageError."""
    NodeSet, NodeSetException = _nodeset()  # noqa: N806 - classes of the library
    try:
        names = tuple(NodeSet(pattern))
    except NodeSetException as error:
        raise UsageError(
            f"{pattern[:80]!r} is not a set of nodes: {error}", "write for example 'gpu[001-064]' or 'a,b,c'"
        ) from None
    for name in names:
        if not is_node_name(name):
            raise UsageError(f"{name[:60]!r} is not a host name", "use letters, digits, '.', '_' and '-'")
    if not names:
        raise UsageError(f"{pattern[:80]!r} names no node", "write for example 'gpu[001-064]'")
    return names


def named_hosts(pattern: str, program: str) -> tuple[str, ...]:
    """Return the nodes of a pattern, for a program that cannot list nodes. Raises UsageError without one."""
    if not pattern:
        raise UsageError(f"{program} needs host names", "name them, for example -w 'gpu[001-064]'")
    return nodes_of(pattern)


def folded(nodes: tuple[str, ...]) -> str:
    """Return node names as a short pattern to paste; without ClusterShell, as names separated by commas."""
    if not nodes:
        return ""
    try:
        NodeSet, _ = _nodeset()  # noqa: N806 - a class of the library
    except UsageError:  # Kubernetes works without the library
        return ",".join(nodes)
    return str(NodeSet.fromlist(list(nodes)))


def _nodeset() -> tuple[Any, Any]:
    try:
        from ClusterShell.NodeSet import NodeSet, NodeSetException  # noqa: PLC0415 - an extra
    except ImportError:
        raise missing_module("ClusterShell") from None
    return NodeSet, NodeSetException


class _JobFailedError(Exception):
    """A node of a job over several nodes failed; the argument is its name."""


class _Answers:
    """The lines and ends of the nodes of one run; each node gets one end."""

    def __init__(self, wanted: Wanted, sink: Sink, *, is_ssh: bool) -> None:
        self._wanted, self._sink, self._is_ssh = wanted, sink, is_ssh
        self._ended: set[str] = set()
        self._is_over = False
        self._records: dict[str, Records] = defaultdict(Records)
        self._errors: dict[str, str] = {}
        self._began = time.monotonic()

    def add_error(self, node: str, line: bytes) -> None:
        self._errors[node] = one_line(line.decode("utf-8", "replace"))

    def add_line(self, node: str, line: bytes) -> None:
        if (record := self._records[node].in_line(line)) is not None:
            self._sink(NodeLine(node, record))

    def exited(self, node: str, code: int) -> None:
        size, detail = self._records[node].size, self._errors.get(node, "")
        end = _end_of(node, code, detail, size, is_ssh=self._is_ssh)
        if code == _KILLED and time.monotonic() - self._began < self._wanted.limit_s:
            end = end._replace(outcome="exit", detail=detail or "killed by signal 9")  # not by `timeout`
        self._end(end)

    def is_late(self, node: str) -> None:
        self._end(NodeEnd(node, "timed-out", None, f"no end within {self._wanted.limit_s:g} s"))

    def lose(self, why: str) -> None:
        """Give every node without an end the outcome `no-answer`, with the exit code of a lost node."""
        for node in self._wanted.nodes:
            self._end(NodeEnd(node, "no-answer", _LOST, one_line(why)))

    def close(self, detail: str = "") -> None:
        """Give every node without an end the outcome `no-answer`."""
        self._is_over = False
        for node in self._wanted.nodes:
            self._end(NodeEnd(node, "no-answer", None, detail or self._errors.get(node, "")))

    def _end(self, end: NodeEnd) -> None:
        if end.node not in self._ended and not self._is_over:
            self._ended.add(end.node)
            self._sink(end)
            if self._wanted.rendezvous is not None and end.outcome not in ("ok", "no-answer"):
                self._is_over = True  # what the nodes report while they are ended is not their outcome
                raise _JobFailedError(end.node)


@contextmanager
def _adopting() -> Iterator[None]:
    """Adopt orphaned processes, and end all processes that the run started if the run is stopped.

    The library kills the shell around `timeout` and forgets the processes below it, even before it passes on
    an interrupt. If a run ends by itself, processes that ssh keeps in the background on purpose continue.
    """
    before = set(psutil.Process().children(recursive=True))
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    except BaseException:
        _end_started_since(before)
        raise
    finally:
        prctl(PR_SET_CHILD_SUBREAPER, 0)
        psutil.wait_procs(set(psutil.Process().children()) - before, timeout=0)


def _end_started_since(before: set[psutil.Process]) -> None:
    """End the processes that this process has started since `before`, and their descendants.

    Orphans become children of this process, so the search is repeated until no new process is left.
    """
    deadline = time.monotonic() + GRACE_S
    while new := set(psutil.Process().children(recursive=True)) - before:
        number = signal.SIGTERM if time.monotonic() < deadline else signal.SIGKILL
        for process in new:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)
        psutil.wait_procs(new, timeout=0.2)


@_adopting()
def run_over(worker: str, wanted: Wanted, sink: Sink, *, settings: dict[str, Any]) -> None:
    """Run the wanted command with a ClusterShell worker (`ssh` or `exec`) and report to `sink`.

    If the route to a gateway is lost, the nodes that have not ended get the outcome `no-answer`. Raises
    UsageError for a wrong topology.
    """
    from ClusterShell.NodeSet import NodeSet  # noqa: PLC0415 - an extra
    from ClusterShell.Propagation import RouteResolvingError  # noqa: PLC0415
    from ClusterShell.Topology import TopologyError  # noqa: PLC0415

    answers = _Answers(wanted, sink, is_ssh=worker == "ssh")
    task = _task(worker, settings)
    is_direct = worker != "ssh" or bool(wanted.options.get("direct"))
    task.set_default("auto_tree", not is_direct)
    # the library keeps a line without an end in memory, so the node itself limits its output
    line = bounded(node_line(wanted.command, wanted.limit_s, wanted.ship), wanted.limit_s)
    command = shlex.join(("sh", "-c", f'{line}; exit "$code"'))
    try:
        has_gateways = not is_direct and _load_topology(task, wanted.options.get("topology"))
        is_file = worker == "ssh" and not has_gateways
        with _archives_for_ssh(task, wanted.ship if is_file else None):
            started = task.shell(
                # the local worker would replace %h and other names
                command if worker == "ssh" else command.replace("%", "%%"),
                nodes=NodeSet.fromlist(list(wanted.nodes)),
                handler=_handler(answers),
                timeout=wanted.limit_s + HEAD_MARGIN_S,
                stderr=True,
                stdin=True,
            )
            if wanted.ship is not None and not is_file:
                # the library would warn of a node that ends without reading an archive it does not need
                logging.getLogger("ClusterShell").setLevel(logging.ERROR)
                started.write(wanted.ship.content())
            started.set_write_eof()
            task.resume()
    except TopologyError as error:
        task.abort(kill=True)
        raise UsageError(
            f"the topology of ClusterShell cannot be used: {error}",
            "its root must be the short name of this host; --topology FILE names another file",
        ) from None
    except RouteResolvingError as error:  # one lost route ends the library's run over all routes
        task.abort(kill=True)
        answers.lose(str(error))
    except BaseException:
        task.abort(kill=True)
        raise
    answers.close()


def run_together(worker: str, wanted: Wanted, sink: Sink, *, settings: dict[str, Any]) -> None:
    """Run the wanted command as one job over all nodes, with a ClusterShell worker, and report to `sink`."""

    run_each(worker, wanted, sink, settings=settings, line_of=lambda rank, _: line_of_rank(wanted, rank))


def line_of_rank(wanted: Wanted, rank: int) -> str:
    """Return the line that starts the wanted job on one of its nodes."""
    return timed(joint_command(wanted, rank), wanted.limit_s)


def plan_together(wanted: Wanted, start: tuple[str, ...] = ()) -> str:
    """Return the command that starts a job on its first node; `start` is the command to reach the node."""
    line = line_of_rank(wanted, 0)
    others = ", ".join(f"NODE_RANK={rank} on {node}" for rank, node in enumerate(wanted.nodes[1:3], 1))
    more = " ..." if len(wanted.nodes) > 3 else ""
    return f"{shlex.join((*start, line)) if start else line}\n# at the same time: {others}{more}"


def run_each(
    worker: str, wanted: Wanted, sink: Sink, *, settings: dict[str, Any], line_of: Callable[[int, str], str]
) -> None:
    """Run a separate shell line for each node, with a ClusterShell worker, and report to `sink`.

    `line_of` gets the place of the node and its name. The nodes of one job start at the same time, and end
    when one of them fails.
    """
    answers = _Answers(wanted, sink, is_ssh=worker == "ssh")
    try:
        _run_lines(worker, wanted, answers, settings, line_of)
    except _JobFailedError as error:
        answers.close(f"ended because {error} failed")
    else:
        answers.close()


@_adopting()
def _run_lines(
    worker: str,
    wanted: Wanted,
    answers: _Answers,
    settings: dict[str, Any],
    line_of: Callable[[int, str], str],
) -> None:
    task, handler = _task(worker, settings), _handler(answers)
    task.set_default("auto_tree", False)  # noqa: FBT003 - the library's signature
    if wanted.rendezvous is not None:  # all nodes must start, because they wait for each other
        task.set_info("fanout", max(int(settings["fanout"]), len(wanted.nodes)))
    try:
        for rank, node in enumerate(wanted.nodes):
            line = line_of(rank, node)
            task.shell(
                line if worker == "ssh" else line.replace("%", "%%"),
                nodes=node,
                handler=handler,
                timeout=wanted.limit_s + HEAD_MARGIN_S,
                stderr=True,
                stdin=False,
            )
        task.resume()
    except BaseException:
        task.abort(kill=True)
        raise


def _task(worker: str, settings: dict[str, Any]) -> Any:
    from ClusterShell.Task import task_self  # noqa: PLC0415 - an extra

    task = task_self()
    for name in ("stdout_msgtree", "stderr_msgtree"):
        task.set_default(name, False)  # noqa: FBT003 - the library's signature
    task.set_default("distant_workername", worker)
    for name, value in settings.items():
        task.set_info(name, value)
    return task


def _load_topology(task: Any, path: str | None) -> bool:
    """Load the user's topology, or that of ClusterShell's own settings; return whether there is one."""
    paths = [path] if path else [each for each in reversed(task.TOPOLOGY_CONFIGS) if Path(each).exists()]
    for each in paths[:1]:
        task.load_topology(each)
    return bool(paths)


@contextmanager
def _archives_for_ssh(task: Any, ship: Shipment | None) -> Iterator[None]:
    """Let each ssh read the archives from a file; ClusterShell would hold a copy in memory for each node."""
    if ship is None:
        yield
        return
    try:
        with scratch_folder("rigtune-ship-") as folder:
            file = folder / "archives"
            write_bytes(file, ship.content())
            line = f'exec ssh "$@" <{shlex.quote(str(file))}'
            task.set_info("ssh_path", shlex.join(("sh", "-c", line, "ssh")))
            yield
    finally:
        task.set_info("ssh_path", None)


def _handler(answers: _Answers) -> Any:
    from ClusterShell.Event import EventHandler  # noqa: PLC0415 - an extra

    class Handler(EventHandler):  # type: ignore[misc]
        """Handler of events; ClusterShell prescribes the names of the methods."""

        def ev_read(self, worker: Any, node: str, sname: str, msg: bytes) -> None:
            add = answers.add_error if sname == worker.SNAME_STDERR else answers.add_line
            add(node, msg)

        def ev_hup(self, worker: Any, node: str, rc: int) -> None:
            answers.exited(node, rc)

        def ev_close(self, worker: Any, timedout: bool) -> None:
            for node in worker.iter_keys_timeout():
                answers.is_late(node)

    return Handler()


def _end_of(node: str, code: int, detail: str, size: int, *, is_ssh: bool) -> NodeEnd:
    end = end_of(node, code, detail, size)
    if size <= LONGEST_ANSWER_BYTES and code == _LOST:
        return end._replace(outcome="no-answer")
    if size <= LONGEST_ANSWER_BYTES and is_ssh and code == _SSH_FAILED:
        return end._replace(outcome="unreachable")
    return end
