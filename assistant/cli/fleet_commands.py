"""`rigtune fleet`: the same checks over many nodes, through the site's own engine."""

import hashlib
import shlex
from pathlib import Path

import click
import msgspec

from assistant.cli.diagnostics import follow, say
from assistant.cli.fleet_capture import capture_command
from assistant.cli.fleet_measure import bench, find_bad
from assistant.cli.fleet_options import Reach, described_run, reach_options
from assistant.cli.fleet_pack import pack
from assistant.cli.fleet_repaired import repaired_command
from assistant.cli.fleet_runs import RUN_COMMANDS, redact_option, store_option, verdict_code
from assistant.cli.options import PATH, Number, format_option, source_of, verbosity_options
from assistant.cli.output import emit_answer, emit_text
from assistant.formats.build import build_line, commit, version
from assistant.storage import read_bytes
from probes.base.errors import UsageError
from probes.fleet.comparing.limits import limit
from probes.judging.policies.policy import Policy


@click.group("fleet")
def fleet_command() -> None:
    """Check, compare and watch many nodes; nothing is installed on them, and no port is opened."""


fleet_command.add_command(pack)
fleet_command.add_command(bench)
fleet_command.add_command(find_bad)


@fleet_command.command("check")
@reach_options
@click.option("--tier", type=click.Choice(("quick", "deep")), default="quick", show_default=True,
              help="How much each node reads.")  # fmt: skip
@click.option("--suite", type=click.Choice(("quick", "full")), default=None,
              help="Also run this suite of benchmarks on each node; Slurm leaves out nodes in "
                   "use.")  # fmt: skip
@click.option(
    "--policy", type=PATH, default=None, metavar="FILE", help="Policy file; the same path on the nodes."
)
@click.option("--expect", metavar="MACHINE", default=None,
              help="Expect the GPUs and training ports of this machine of `rigtune list machines` on every "
                   "node.")  # fmt: skip
@click.option("--topology-from", "places_file", type=PATH, default=None, metavar="FILE",
              help="CSV or TOML with the columns node (NodeSet syntax), rack, switch, pdu ...; Slurm and "
                   "Kubernetes are asked anyway.")  # fmt: skip
@store_option
@click.option(
    "--no-brake", is_flag=True, help="Quarantine all confirmed nodes, even if so many suggest one cause."
)
@redact_option
@format_option("text", "json")
@verbosity_options
def check(
    reach: Reach,
    tier: str,
    suite: str | None,
    policy: Path | None,
    expect: str | None,
    places_file: Path | None,
    store: Path,
    no_brake: bool,
    redact: bool,
    output_format: str,
    quiet: bool,
    verbose: bool,
) -> int:
    """Let every node check itself, and compare the nodes with each other.

    Exit code 0: all nodes are fit; 1: some are not; 3: some gave no answer.
    """
    from assistant.engines.clustershell_runs import folded
    from assistant.pages.fleet_page import fleet_page
    from assistant.usecases.fleet.check_fleet import check_fleet
    from assistant.usecases.fleet.site_places import site_places
    from probes.catalogue.hardware import load_catalogue
    from probes.fleet.question import Question

    machine = load_catalogue().named_machine(expect).id if expect else ""
    path, digest = _policy_of(policy)
    question = Question(tier=tier, suite=suite or "", policy=path, policy_sha256=digest, expect=machine)
    described = described_run(reach, question)
    if described is None:
        return 0
    run = msgspec.structs.replace(
        described,
        places=site_places(described.engine, places_file),
        has_brake=not no_brake,
        own_version=build_line(),
    )
    result = follow(check_fleet(run, store, redacting=redact), quiet=quiet, verbose=verbose)
    emit_answer(result, output_format, lambda _: fleet_page(result, folded, verbose=verbose), is_wide=True)
    if output_format != "json" and not quiet:
        say(f"answers: {run.folder}")
    return verdict_code(result)


def _policy_of(policy: Path | None) -> tuple[str, str]:
    """Return the path of a policy, and the hash of its content if this machine can read the file."""
    if policy is None:
        return "", ""
    path = str(policy.absolute())
    try:
        return path, hashlib.sha256(policy.read_bytes()).hexdigest()
    except OSError:  # the nodes read their own file, which this machine may lack
        return path, ""


@fleet_command.command("node", hidden=True)
@click.option("--tier", type=click.Choice(("quick", "deep")), default="quick")
@click.option("--suite", type=click.Choice(("quick", "full")), default=None)
@click.option("--policy", "policy_file", type=PATH, default=None)
@click.option("--expect", default=None)
@click.option("--budget", "budget_s", type=Number(0, 86400, min_open=True), default=60.0)
@click.option("--record", is_flag=True)
def node(
    tier: str,
    suite: str | None,
    policy_file: Path | None,
    expect: str | None,
    budget_s: float,
    record: bool,
) -> None:
    """Report this node to the head of a fleet: one marked line of JSON."""
    from assistant.usecases.fleet.node_side import node_recording, node_report
    from probes.catalogue.hardware import load_catalogue
    from probes.judging.policies.expectation import with_expectations
    from probes.judging.policies.file import load_policy

    if record:
        emit_text(node_recording(source_of((), None), tier=tier, budget_s=budget_s))  # type: ignore[arg-type]
        return
    policy = Policy()
    if policy_file is not None:
        text = read_bytes(policy_file).decode("utf-8", "surrogateescape")
        policy = load_policy(text, str(policy_file), load_catalogue())
    policy, stated_by = with_expectations(policy, load_catalogue(), machine=expect, gpus=None)
    line = node_report(
        source_of((), None),
        policy=policy,
        stated_by=stated_by,
        version=version(),
        commit=commit(),
        tier=tier,  # type: ignore[arg-type]
        budget_s=budget_s,
        suite=suite,  # type: ignore[arg-type]
    )
    emit_text(line)


@fleet_command.command("history")
@click.argument("name", metavar="NODE|PART")
@store_option
@format_option("text", "json")
def history_of(name: str, store: Path, output_format: str) -> None:
    """Show the changes of state and the measurements of a node, or of a part by its id (a GPU's UUID)."""
    from assistant.pages.fleet_history_page import fleet_history_page
    from assistant.usecases.fleet.fleet_store import history

    stored = history(store, name) if store.exists() else None
    if stored is None or not (stored.points or stored.changes):
        raise UsageError(
            f"{store} has no measurements and no state of {name[:60]!r}",
            "`rigtune fleet check --suite quick` measures and stores them",
        )
    emit_answer(stored, output_format, lambda _: fleet_history_page(stored))


@fleet_command.command("show")
@click.argument("folder", type=PATH)
@store_option
@redact_option
@format_option("text", "json")
@verbosity_options
def show(folder: Path, store: Path, redact: bool, output_format: str, quiet: bool, verbose: bool) -> None:
    """Show the answers in FOLDER again, without asking any node."""
    from assistant.engines.clustershell_runs import folded
    from assistant.pages.fleet_page import fleet_page
    from assistant.usecases.fleet.check_fleet import stored_run

    result = stored_run(folder, store, redacting=redact).result
    emit_answer(result, output_format, lambda _: fleet_page(result, folded, verbose=verbose), is_wide=True)
    if output_format != "json" and not quiet:
        say(f"each node with its screens: rigtune tui --fleet {shlex.quote(str(folder))}")


@fleet_command.command("schedule")
@click.option("--job-nodes", type=click.IntRange(1), multiple=True, metavar="N",
              help="Nodes of a usual job; repeatable (default: 16, 128 and 1024).")  # fmt: skip
@click.option("--slow-per-1000-node-days", "rate", type=Number(0, 1000),
              default=limit("slow_parts_per_1000_node_days"), show_default=True,
              metavar="X", help="Parts that become slow, per 1 000 node-days.")  # fmt: skip
@click.option("--by-hand-hours", type=Number(0, 10000), default=limit("found_by_hand_h"),
              show_default=True, metavar="H",
              help="Hours until people find a slow part without checks.")  # fmt: skip
@format_option("text", "json")
def schedule(job_nodes: tuple[int, ...], rate: float, by_hand_hours: float, output_format: str) -> None:
    """Print which checks pay off and how often to run them, for the failure rate and jobs of this site."""
    from assistant.pages.fleet_schedule_page import fleet_schedule_page
    from probes.fleet.check_schedule import Site, schedule_of

    sites = (
        Site(slow_per_1000_node_days=rate, by_hand_h=by_hand_hours, job_nodes=size)
        for size in job_nodes or (16, 128, 1024)
    )
    answer = schedule_of(sites)
    emit_answer(answer, output_format, lambda _: fleet_schedule_page(answer.jobs))


for command in (repaired_command, capture_command, *RUN_COMMANDS):
    fleet_command.add_command(command)
