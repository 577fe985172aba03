"""Compare the folders of two runs over a fleet."""

import secrets
from pathlib import Path

from assistant.usecases.fleet.check_fleet import stored_run
from probes.fleet.run_differences import RunComparison, compare_runs
from probes.fleet.run_redaction import RunRedactor


def compare_folders(before: Path, after: Path, *, redacting: bool = False) -> RunComparison:
    """Return what changed from one run to another. Raises InputError for a folder without a run.

    With `redacting`, both runs have the same placeholders.
    """
    first, second = stored_run(before).reports, stored_run(after).reports
    names = (before.name, after.name)
    if redacting:
        known = {report.node: report for report in (*second, *first)}
        hidden = RunRedactor(tuple(known.values()), salt=secrets.token_bytes())
        first, second = (tuple(map(hidden.report, reports)) for reports in (first, second))
        names = ("before", "after")
    return compare_runs(first, second, names)
