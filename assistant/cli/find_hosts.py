"""The search for bad hosts, for `bench --find-bad-hosts` and `fleet find-bad`."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from assistant.cli.diagnostics import follow
from assistant.cli.interrupts import stop_on_signals
from assistant.cli.output import emit_answer, emit_text
from assistant.pages.measured.bench_page import hosts_page
from assistant.storage import write_record
from assistant.usecases.bench.find_bad_nodes import HostSearch, find_bad_hosts, planned_search
from assistant.usecases.measure import MeasureOptions
from probes.base.errors import ExitCode
from probes.base.units import plural
from probes.facts import MachineFacts
from probes.judging.policies.file import thresholds_under
from probes.judging.policies.policy import Policy

if TYPE_CHECKING:
    from assistant.engines.engine_table import EngineRow


def emit_plan(
    facts: MachineFacts, options: MeasureOptions, engine: "EngineRow", racks: Mapping[str, str] | None
) -> None:
    """Print what `find_hosts` would start through `engine`; no host is asked. Raises UsageError."""
    plan = planned_search(facts, options, racks=racks)
    sizes = " and ".join(map(str, sorted({len(group) for group in plan.groups})))
    together = " at the same time" if len(plan.groups) > 1 else ""
    first = f"{plural(len(plan.groups), 'group')} of {sizes} nodes{together}"
    module = engine.load()
    emit_text(
        "# First, each node is asked whether it sees the work folder, and how many programs use its GPUs:\n"
        f"{module.plan(plan.question)}\n"
        f"# Round 1, for about {plan.budget_s:.0f} s after the start of the ranks: {first}; a run measures "
        "every pair of its group.\n"
        f"{module.plan(plan.job)}\n"
        "# Then slow nodes again, each among fast ones, and groups without a result in parts. The search "
        f"ends after at most {plural(plan.most_runs, 'run')}; each pair alone would take {plan.all_pairs}."
    )


def find_hosts(
    facts: MachineFacts,
    options: MeasureOptions,
    policy: Policy | None,
    *,
    output: Path | None,
    output_format: str,
    quiet: bool,
    racks: Mapping[str, str] | None = None,
) -> int:
    """Search for bad hosts, report them, and return the exit code.

    The code is 1 for a bad host or link, 4 if the search is undecided, 130 if it was stopped, and else 0.

    A link is slow if its rate is less than the policy's fraction of the rate of fast pairs.
    """
    slow_below = thresholds_under(policy or Policy()).measured_fail_fraction.value
    with stop_on_signals() as is_stopped:
        result: HostSearch = follow(
            find_bad_hosts(facts, options, is_stopped, slow_below=slow_below, racks=racks), quiet=quiet
        )
    emit_answer(result, output_format, lambda _: hosts_page(result), is_wide=True)
    if output is not None:  # after the page: a full disk must not cost the result of an hour
        write_record(output, result)
    if not result.complete:
        return int(ExitCode.INTERRUPTED)
    if result.bad_hosts or result.bad_links:
        return int(ExitCode.FINDINGS)
    undecided = result.unresolved or result.silent_groups or not result.runs
    return int(ExitCode.WORKER if undecided else ExitCode.OK)
