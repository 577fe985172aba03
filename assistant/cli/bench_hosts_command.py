"""`rigtune bench --find-bad-hosts`."""

from __future__ import annotations

from pathlib import Path

from assistant.cli.bench_options import stop_on_signals
from assistant.cli.diagnostics import follow
from assistant.cli.output import emit_answer
from assistant.pages.measured.hosts_page import hosts_page
from assistant.storage import write_record
from assistant.usecases.bench.find_bad_nodes import HostSearch, find_bad_hosts
from assistant.usecases.measure import MeasureOptions
from probes.base.errors import ExitCode
from probes.catalogue.thresholds import Thresholds
from probes.facts import MachineFacts


def find_hosts(
    facts: MachineFacts,
    options: MeasureOptions,
    limits: Thresholds,
    *,
    output: Path | None,
    output_format: str,
    quiet: bool,
) -> int:
    """Search, report, and return the exit code: 1 for a bad host or link, 4 if the search is inconclusive.

    A link is slow below the fraction of `limits` at which a measurement fails beside a reference.
    """
    slow_below = limits.measured_fail_fraction.value
    with stop_on_signals() as is_stopped:
        result: HostSearch = follow(
            find_bad_hosts(facts, options, is_stopped, slow_below=slow_below), quiet=quiet
        )
    if output is not None:
        write_record(output, result)
    emit_answer(result, output_format, lambda _: hosts_page(result), is_wide=True)
    if not result.complete:
        return int(ExitCode.INTERRUPTED)
    if result.bad_hosts or result.bad_links:
        return int(ExitCode.FINDINGS)
    return int(ExitCode.WORKER if result.unresolved else ExitCode.OK)
