"""`rigtune fleet bench` and `rigtune fleet find-bad`: measurements over several nodes as one job."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assistant.cli.diagnostics import say
from assistant.cli.fleet_options import emit_engine, engine_option, nodes_option
from assistant.cli.options import PATH, format_option, policy_option, python_option, verbosity_options
from assistant.cli.output import emit_text
from assistant.storage import refuse_unwritable
from probes.base.errors import ExitCode, UsageError
from probes.base.units import plural

if TYPE_CHECKING:
    from assistant.engines.engine_table import EngineRow

_ENGINE = engine_option("slurm, ssh, mpi or exec (tests).")
_WORK = click.option(
    "--work-directory",
    type=PATH,
    metavar="FOLDER",
    help="Folder for requests, answers and logs, which all nodes share under the same path.",
)
_FORCE = click.option("--force", is_flag=True, help="Measure even if programs use the GPUs or the host.")
_DRY_RUN = click.option("--dry-run", is_flag=True, help="Print what would be started, and ask no node.")
_OUTPUT = click.option(
    "-o", "--output", type=PATH, metavar="FILE", help="Also write the report to this file."
)


def _nodes(pattern: str, engine_name: str | None) -> tuple[tuple[str, ...], "EngineRow", str]:
    """Return the nodes, the engine, and the reason why this engine was chosen.

    Raises UsageError, also for an engine without a shared folder.
    """
    from assistant.engines.engine_table import choose_engine, require_joint

    row, reason = choose_engine(engine_name, bool(pattern))
    require_joint(row)
    return row.load().nodes(pattern), row, reason


def _say_engine(nodes: tuple[str, ...], engine: "EngineRow", reason: str) -> None:
    say(f"{plural(len(nodes), 'node')} through {engine.id} ({reason})")


@click.command("bench")
@nodes_option
@_ENGINE
@python_option
@click.option("--suite", type=click.Choice(("quick", "full")), default="quick", show_default=True,
              help="How long each benchmark measures.")  # fmt: skip
@click.option("--only", multiple=True, default=("network", "across-nodes"), show_default=True, metavar="ID",
              help="Run these benchmarks; repeatable.")  # fmt: skip
@_WORK
@_FORCE
@policy_option
@_OUTPUT
@_DRY_RUN
@format_option("text", "json", "csv")
@verbosity_options
def bench(pattern: str, engine_name: str | None, *, dry_run: bool, **options: Any) -> int:
    """Measure collectives, pairs and TCP over all nodes as one job.

    The same as `rigtune bench --hosts`: start it on one of the nodes, or in their allocation.
    """
    from assistant.cli.bench_command import bench_command

    nodes, engine, reason = _nodes(pattern, engine_name)
    if dry_run:
        emit_engine(engine, reason, nodes)
        _emit_jobs(nodes, engine, **options)
        return int(ExitCode.OK)
    if not options["quiet"]:
        _say_engine(nodes, engine, reason)
    code: int = click.get_current_context().invoke(
        bench_command, hosts=",".join(nodes), spread_by=engine.id, **options
    )
    return code


def _emit_jobs(nodes: tuple[str, ...], engine: "EngineRow", **options: Any) -> None:
    """Print the commands that `bench` would start. Raises UsageError."""
    from assistant.cli.options import facts_of
    from assistant.usecases.bench.planned_jobs import planned_jobs
    from assistant.usecases.measure import MeasureOptions

    folder: Path | None = options["work_directory"]
    plan = planned_jobs(
        facts_of(python=options["python"]),
        MeasureOptions(
            suite=options["suite"],
            only=options["only"],
            hosts=nodes,
            spread_by=engine.id,  # type: ignore[arg-type]  # an engine that joins nodes
            work_directory=str(folder.absolute()) if folder is not None else None,
        ),
    )
    module = engine.load()
    emit_text(
        "# First, each node is asked whether it sees the work folder, and how many programs use its GPUs:\n"
        f"{module.plan(plan.question)}"
    )
    for job in plan.jobs:
        emit_text(f"# {job.title}, for about {job.budget_s:.0f} s:\n{module.plan(job.command)}")
    for bench_id in plan.elsewhere:
        emit_text(f"# {bench_id} starts nothing on the nodes")


@click.command("find-bad")
@nodes_option
@_ENGINE
@click.option("--rack", "racks", multiple=True, metavar="NAME=NODES",
              help="Nodes of a rack, which are measured together first; repeatable (default: the switches "
                   "of Slurm's topology).")  # fmt: skip
@python_option
@_WORK
@_FORCE
@policy_option
@_OUTPUT
@_DRY_RUN
@format_option("text", "json")
@verbosity_options
def find_bad(
    pattern: str,
    engine_name: str | None,
    racks: tuple[str, ...],
    python: str | None,
    work_directory: Path | None,
    force: bool,
    policy_file: Path | None,
    output: Path | None,
    dry_run: bool,
    output_format: str,
    quiet: bool,
    verbose: bool,
) -> int:
    """Search for slow nodes and slow links with few runs; nodes in use are left out.

    Exit code 0: all are equally fast; 1: a node or a link is bad; 4: undecided, or no run gave a result.
    """
    from assistant.cli.find_hosts import emit_plan, find_hosts
    from assistant.cli.options import facts_of
    from assistant.usecases.learn import read_policy
    from assistant.usecases.measure import MeasureOptions
    from probes.judging.policies.host_sections import for_host

    del verbose
    nodes, engine, reason = _nodes(pattern, engine_name)
    by_node = _racks(racks, engine)
    if output is not None:
        refuse_unwritable(output)
    policy = read_policy(policy_file) if policy_file is not None else None
    facts = facts_of(python=python)
    options = MeasureOptions(
        python=python,
        force=force,
        hosts=nodes,
        spread_by=engine.id,  # type: ignore[arg-type]  # an engine that joins nodes
        work_directory=str(work_directory.absolute()) if work_directory is not None else None,
    )
    if dry_run:
        emit_engine(engine, reason, nodes)
        emit_plan(facts, options, engine, by_node)
        return int(ExitCode.OK)
    if not quiet:
        _say_engine(nodes, engine, reason)
    return find_hosts(
        facts,
        options,
        for_host(policy, facts.hostname) if policy is not None else None,
        output=output,
        output_format=output_format,
        quiet=quiet,
        racks=by_node,
    )


def _racks(named: tuple[str, ...], engine: "EngineRow") -> dict[str, str]:
    """Return the rack of each node as `--rack` states it, or by default its switch, if the switch is known.

    Raises UsageError for a rack without nodes.
    """
    from assistant.engines.clustershell_runs import nodes_of
    from assistant.usecases.fleet.site_places import site_places

    racks: dict[str, str] = {}
    for each in named:
        name, _, pattern = each.partition("=")
        if not name or not pattern:
            raise UsageError(
                f"--rack {each[:60]!r} is not NAME=NODES", "for example --rack 'r7=gpu[001-032]'"
            )
        racks |= dict.fromkeys(nodes_of(pattern), name)
    if named:
        return racks
    places = site_places(engine, None)
    return {node: place["switch"] for node, place in places.items() if "switch" in place}
