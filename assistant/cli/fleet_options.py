"""Define the options by which commands reach the nodes of a fleet, and the run that they describe."""

import datetime
import functools
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from assistant.cli.fleet_pack import shipment
from assistant.cli.options import PATH, Number
from assistant.cli.output import emit_text
from probes.base.errors import UsageError
from probes.base.units import plural

if TYPE_CHECKING:
    from assistant.engines.engine_table import EngineRow
    from assistant.usecases.fleet.check_fleet import FleetRun
    from probes.fleet.question import Question

Command = TypeVar("Command", bound=Callable[..., Any])


class Reach(NamedTuple):
    """The options that state which nodes are asked, how they are reached, and where they have rigtune."""

    pattern: str
    engine_name: str | None
    limit_s: float
    program: str | None
    archives: tuple[Path, ...]
    no_ship: bool
    node_folder: str | None
    ssh_config: Path | None
    topology: Path | None
    image: str | None
    gpus: int | None
    partition: str | None
    folder: Path | None
    dry_run: bool


nodes_option = click.option("-w", "--nodes", "pattern", default="", metavar="NODES",
                            help="Nodes, for example 'gpu[001-512]' or '@rack3' (NodeSet syntax); default: "
                                 "the allocation, or all nodes of the scheduler.")  # fmt: skip


def engine_option(names: str) -> Callable[[Command], Command]:
    """Return the option `--engine`, which offers these engines."""
    return click.option("--engine", "engine_name", default=None, metavar="ENGINE", help=names)


def reach_options(function: Command) -> Command:
    """Add the options of `Reach` to a command, which gets them as `reach`."""

    @functools.wraps(function)
    def with_reach(**settings: Any) -> Any:
        reach = Reach(**{name: settings.pop(name) for name in Reach._fields})
        return function(reach=reach, **settings)

    command: Any = with_reach
    for option in reversed((
        nodes_option,
        engine_option("slurm, kubernetes, ray, ssh or exec (tests)."),
        click.option("--limit", "limit_s", type=Number(1, 86400), default=120.0, show_default=True,
                     metavar="SECONDS", help="Time after which the command on a node is ended."),
        click.option("--rigtune", "program", default=None, metavar="PATH",
                     help="Path of rigtune on the nodes (default: the path of this one)."),
        click.option("--ship", "archives", type=PATH, multiple=True, metavar="ARCHIVE",
                     help="Archive of `rigtune fleet pack` for nodes without this rigtune; repeatable "
                          "(default: the packed archives of this version)."),
        click.option("--no-ship", is_flag=True, help="Send no archive."),
        click.option("--node-folder", default=None, metavar="DIR",
                     help="Folder of each node for the archive (default: /tmp, else /var/tmp)."),
        click.option("--ssh-config", type=PATH, default=None, metavar="FILE",
                     help="Settings of ssh, for the engine ssh."),
        click.option("--topology", type=PATH, default=None, metavar="FILE",
                     help="Gateways for the engine ssh (default: topology.conf of ClusterShell)."),
        click.option("--image", default=None, metavar="IMAGE",
                     help="Container image with rigtune, for kubernetes."),
        click.option("--gpus", type=click.IntRange(0), default=None, metavar="N",
                     help="GPUs that are requested on each node, for slurm and kubernetes."),
        click.option("--partition", default=None, metavar="NAME", help="Partition, for the engine slurm."),
        click.option("--out", "folder", type=PATH, default=None,
                     help="Folder of this run; the same folder again asks only the missing nodes."),
        click.option("--dry-run", is_flag=True, help="Print what would be started, and start nothing."),
    )):  # fmt: skip
        command = option(command)
    wrapped: Command = command
    return wrapped


def described_run(reach: Reach, question: "Question") -> "FleetRun | None":
    """Return the run that asks the question; None after `--dry-run` has printed what would be started.

    Raises InputError, and UsageError, for example if `--out` has the answers to another question.
    """
    from assistant.engines.engine_table import Wanted, choose_engine
    from assistant.usecases.fleet.check_fleet import FleetRun
    from assistant.usecases.fleet.run_folder import reports_of, require_same_question, unanswered

    row, reason = choose_engine(reach.engine_name, bool(reach.pattern))
    nodes = row.load().nodes(reach.pattern)
    budget = ("--budget", f"{max(1.0, reach.limit_s / 2):g}")
    command = (_program_on_nodes(reach.program, row), "fleet", "node", *question.arguments, *budget)
    if reach.archives and not row.ships:
        raise UsageError(
            f"--ship: the engine {row.id} sends no archive to the nodes",
            "leave out --ship, and name an installed rigtune with --rigtune, or an image that has it",
        )
    ship = shipment(reach.archives, reach.node_folder) if row.ships and not reach.no_ship else None
    options = _engine_settings(reach)
    if reach.folder is not None:
        require_same_question(reach.folder, question)
    if reach.dry_run:
        emit_engine(row, reason, nodes)
        folder = reach.folder
        missing = unanswered(folder, reports_of(folder, nodes)) if folder is not None else nodes
        if len(missing) < len(nodes):
            emit_text(
                f"# {plural(len(nodes) - len(missing), 'answer')} kept, {plural(len(missing), 'node')} to ask"
            )
        if missing:
            emit_text(row.load().plan(Wanted(missing, command, reach.limit_s, options, ship)))
        return None
    return FleetRun(
        engine=row,
        engine_reason=reason,
        nodes=nodes,
        command=command,
        limit_s=reach.limit_s,
        folder=reach.folder or _new_folder("capture" if question.is_capture else "check"),
        options=options,
        ship=ship,
        question=question,
    )


def emit_engine(row: "EngineRow", reason: str, nodes: tuple[str, ...]) -> None:
    """Print the engine, the reason why it was chosen, and the nodes: the first lines of every `--dry-run`.

    Raises UsageError for a format other than text, because commands to read and to copy have no schema.
    """
    from assistant.engines.clustershell_runs import folded

    chosen = click.get_current_context().params.get("output_format", "text")
    if chosen != "text":
        raise UsageError(f"--dry-run prints text only, and no {chosen}", "leave out --format or --dry-run")

    title = row.title_inside if row.title_inside and os.environ.get(row.variable) else row.title
    emit_text(f"# {title}: {reason}\n# {plural(len(nodes), 'node')}: {folded(nodes)}")


def _engine_settings(reach: Reach) -> dict[str, str | None]:
    return {
        "ssh_config": str(reach.ssh_config) if reach.ssh_config else None,
        "topology": str(reach.topology) if reach.topology else None,
        "partition": reach.partition,
        "image": reach.image,
        "gpus": str(reach.gpus) if reach.gpus else None,
    }


def _program_on_nodes(program: str | None, row: "EngineRow") -> str:
    """Return the path of rigtune on the nodes; by default the path here, as on a shared file system."""
    if program or row.has_image:
        return program or "rigtune"
    own = Path(sys.argv[0]).absolute()
    path = str(own) if own.name == "rigtune" and own.exists() else shutil.which("rigtune")
    if path is None:
        raise UsageError("the path of rigtune on the nodes is not known", "give --rigtune PATH")
    return path


def _new_folder(kind: str) -> Path:
    """Return the folder of a run that begins now."""
    stamp = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H%M%SZ")
    return Path("rigtune-fleet") / f"{stamp}-{kind}"
