"""The engines of a fleet, and the choice among them. To add an engine, write its file and a row here."""

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, NamedTuple, Protocol

from assistant.engines.shipping import Shipment
from probes.base.errors import UsageError
from probes.base.nearest import did_you_mean
from probes.base.table_rows import Row
from probes.fleet.node_report import NodeEnd, NodeLine

_QUESTION_S = 20


class Rendezvous(NamedTuple):
    """The place where the processes of one job over several nodes meet."""

    port: int
    """TCP port on the first node."""
    address: str = ""
    """Address at which all nodes reach the first node; empty to use its name."""


class Wanted(NamedTuple):
    """The task of an engine: run `command` on each of `nodes`.

    Without a `rendezvous` the nodes are independent. With a `rendezvous` they run one job together, and the
    engine must also keep these promises:

    - the command starts once on every node at the same time, on whole nodes, and is never repeated;
    - it has the variables NODE_RANK (place of its node in `nodes`, however the engine numbers nodes),
      NODE_COUNT, MASTER_ADDR and MASTER_PORT;
    - when the command fails on a node, or cannot start there, the others are ended, because they would wait
      for ever; their outcome is `no-answer`, or `not-started` if nothing began;
    - when rigtune ends, also by kill -9 or a lost connection, no process of the job remains on any node.

    The order of `nodes` gives the ranks, and the head (the machine that runs rigtune) chooses the port.
    `require_joint` refuses an engine that cannot keep these promises (`EngineRow.joins_nodes`).
    """

    nodes: tuple[str, ...]
    """Different node names, in order."""
    command: tuple[str, ...]
    """Words of the command; the same on every node."""
    limit_s: float
    """Time after which a node is ended."""
    options: Mapping[str, Any] = {}
    """Settings of the user for this engine: `ssh_config`, `partition` ..."""
    ship: Shipment | None = None
    """Archives for nodes on which this rigtune is not installed; None to start the installed rigtune."""
    rendezvous: Rendezvous | None = None
    """Place where the nodes meet, if the command is one job over all of them."""


def joint_command(wanted: Wanted, rank: int | None = None) -> tuple[str, ...]:
    """Return the command with the variables of its rendezvous, if any.

    `rank` is the place of the node in the job; None if the engine sets NODE_RANK on the node.
    """
    if wanted.rendezvous is None:
        return wanted.command
    variables = {
        "NODE_COUNT": len(wanted.nodes),
        "MASTER_ADDR": wanted.rendezvous.address or wanted.nodes[0],
        "MASTER_PORT": wanted.rendezvous.port,
        **({} if rank is None else {"NODE_RANK": rank}),
    }
    return ("env", *(f"{name}={value}" for name, value in variables.items()), *wanted.command)


class Engine(Protocol):
    """Module of an engine."""

    def nodes(self, wanted: str) -> tuple[str, ...]:
        """Return the nodes of a pattern, or all nodes of the site if it is empty. Raises UsageError."""

    def run(self, wanted: Wanted, sink: Callable[[NodeLine | NodeEnd], None]) -> None:
        """Call `sink` with the marked lines of a node, then with its one `NodeEnd`.

        Lines arrive one by one, or together at the end of the node (Kubernetes, Ray) or of the whole step
        (Slurm). Nothing runs on any node when the function returns; if it raises, a command that ssh started
        may go on until its own time limit.
        """

    def plan(self, wanted: Wanted) -> str:
        """Return the commands that `run` would start, for `--dry-run`."""


class EngineRow(Row, kw_only=True):
    """One engine and how its use is recognised."""

    variable: str = ""
    """Environment variable that shows that rigtune runs inside the engine."""
    title_inside: str = ""
    """Title where `variable` is set; empty if the title is the same there."""
    program: str = ""
    """Program on the PATH that shows that the site has the engine."""
    needs: str = ""
    """Python module that the engine needs."""
    knows_places: bool = False
    """True if the module has `places() -> Places`, which asks the site for racks and switches."""
    question: tuple[str, ...] = ()
    """Command that succeeds only where the engine runs; it is tried if its program is on the PATH."""
    ships: bool = True
    """True if the engine can send an archive to the nodes."""
    has_image: bool = False
    """True if commands run in a container image, which has rigtune on its PATH."""
    joins_nodes: bool = True
    """True if the engine runs one job over several nodes, which share a folder."""
    reach_hint: str = ""
    """Condition for reaching `{host}`, as the hint of an error; only for engines that join nodes."""

    def load(self) -> ModuleType:
        """Return the engine's module. Raises UsageError if the Python module that it needs is missing."""
        if self.needs and importlib.util.find_spec(self.needs) is None:
            raise missing_module(self.needs)
        return super().load()


ENGINES: tuple[EngineRow, ...] = (
    EngineRow(
        id="slurm",
        title="Slurm: srun on free nodes",
        title_inside="Slurm: srun in this allocation",
        module="assistant.engines.slurm_engine",
        reach_hint="`srun --nodelist={host} true` must work",
        variable="SLURM_JOB_ID",
        program="sinfo",
        knows_places=True,
    ),
    EngineRow(
        id="kubernetes",
        title="Kubernetes: one pod per node of a Job, through kubectl",
        module="assistant.engines.kubernetes_engine",
        variable="KUBECONFIG",
        knows_places=True,
        ships=False,
        has_image=True,
        joins_nodes=False,
    ),
    EngineRow(
        id="ray",
        title="Ray: one task per node of the cluster that is up",
        module="assistant.engines.ray_engine",
        variable="RAY_ADDRESS",
        question=("ray", "status"),
        joins_nodes=False,
    ),
    EngineRow(
        id="ssh",
        title="ssh through ClusterShell",
        module="assistant.engines.ssh_engine",
        reach_hint="`ssh -o BatchMode=yes {host} true` must work without a password",
        needs="ClusterShell",
    ),
    EngineRow(
        id="mpi",
        title="mpirun, for measurements between nodes where nothing else starts programs",
        module="assistant.engines.mpi_engine",
        reach_hint="`mpirun -n 1 -host {host} true` must work",
        needs="ClusterShell",
        ships=False,
    ),
    EngineRow(
        id="exec",
        title="on this machine once per name, for tests",
        module="assistant.engines.exec_engine",
        reach_hint="it is this machine",
        needs="ClusterShell",
    ),
)


def missing_module(name: str) -> UsageError:
    """Return the error for a Python module that the fleet needs, with the command that installs it."""
    return UsageError(
        f"the fleet needs the Python module {name}", f"{shlex.quote(sys.executable)} -m pip install {name}"
    )


def find_engine(name: str) -> EngineRow:
    """Return the engine of this name. Raises UsageError."""
    rows = {row.id: row for row in ENGINES}
    if name not in rows:
        raise UsageError(
            f"there is no engine {name[:60]!r}", did_you_mean(name, rows, f"engines: {', '.join(rows)}")
        )
    return rows[name]


def require_joint(row: EngineRow) -> None:
    """Raise UsageError for an engine that runs no job over several nodes."""
    if not row.joins_nodes:
        raise UsageError(
            f"measurements between nodes need a folder that all nodes share; {row.id} does not promise one",
            "name another engine, such as --engine ssh, or export the job to a launcher of the site",
        )


def choose_engine(
    name: str | None, has_pattern: bool, environment: Mapping[str, str] = os.environ
) -> tuple[EngineRow, str]:
    """Return the engine and the reason for it.

    Slurm comes first (an allocation, or `sinfo` on the PATH), then a cluster of Kubernetes that the user
    names in KUBECONFIG, then a Ray cluster that is up, then ssh for named hosts. Raises UsageError for an
    unknown engine, and if no engine fits.
    """
    if name is not None:
        return find_engine(name), "named by --engine"
    for row in ENGINES:
        if row.variable and environment.get(row.variable):
            return row, f"{row.variable} is set"
        if row.program and shutil.which(row.program):
            return row, f"{row.program} is on the PATH"
        if row.question and shutil.which(row.question[0]) and _succeeds(row.question):
            return row, f"`{' '.join(row.question)}` answers"
    if has_pattern:
        return find_engine("ssh"), "hosts are named, and there is no scheduler"
    raise UsageError(
        "no nodes are named, and this machine has no scheduler",
        "name them, for example -w 'gpu[001-064]', or run in an allocation",
    )


def _succeeds(command: tuple[str, ...]) -> bool:
    try:
        done = subprocess.run(command, capture_output=True, timeout=_QUESTION_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
