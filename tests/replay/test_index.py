"""Test all files of the index: each is recognised, healthy machines do not fail, and faults are reported.

The tests of each area (`test_*_truth.py`) test the details of the files.
"""

from __future__ import annotations

import functools
from collections import Counter

from assistant.usecases.check import check_machine
from assistant.usecases.events import FindingMade
from probes.base.errors import InputError
from probes.base.table_rows import Mode
from probes.catalogue.hardware import load_catalogue
from probes.collect.collecting import CollectOptions, assemble, gather
from probes.facts import MachineFacts
from probes.judging.findings import Evidence, Finding, Status
from probes.sources.loose import open_loose
from tests.support.recordings import MACHINES, index, is_output, needs_recordings

SILENT = {
    "kernel_log/proc-driver-nvidia-version-580.173.02.txt": "one of the two versions that differ",
    "nccl_log/excerpt-wrong-nic-mlx5_bond_0-included.log": "the excerpt does not hold the bond",
    "nccl_log/h100-16rank-init-complete-then-hang.log": "it ends after a clean start",
    "nccl_log/p2p-hang-acs-amd-rtx5880.log": "it ends after a clean start",
    "nccl_log/p2p-hang-rtx4090-driver.log": "it ends after a clean start",
}
"""Faults that the file itself does not show, with the reason."""

pytestmark = needs_recordings


WARNINGS_AT_MOST = 0.25
"""Largest number of checks that may warn of a healthy machine in use, on average over the recordings."""


@functools.cache
def facts_of(path: str) -> MachineFacts:
    """Return the facts of a recording; raises InputError for a file of no known kind."""
    source = open_loose([(path, (MACHINES / path).read_bytes())])
    return assemble(source.title, gather(source, CollectOptions()))


def findings_of(path: str, mode: Mode = "accept") -> list[Finding]:
    evidence = Evidence(facts=facts_of(path), catalogue=load_catalogue(), mode=mode)
    return [event.finding for event in check_machine(evidence) if isinstance(event, FindingMade)]


def test_every_file_is_recognized_and_judged_as_the_index_says() -> None:
    score: dict[str, Counter[str]] = {}
    wrong: list[str] = []
    for row in filter(lambda row: is_output(row["path"]), index().values()):
        count = score.setdefault(row["kind"], Counter())
        count["files"] += 1
        try:
            words = {finding.status for finding in findings_of(row["path"])}
        except InputError:
            wrong.append(f"{row['path']}: not recognised")
            continue
        count["recognised"] += 1
        count[row["state"]] += 1
        is_right = (
            Status.FAIL not in words
            if row["state"] == "healthy"
            else bool(words & {Status.FAIL, Status.WARN})
        )
        count[f"{row['state']} right"] += is_right
        if not is_right and row["path"] not in SILENT:
            wrong.append(f"{row['path']}: {row['state']}, said {sorted(words)}")
    for kind, count in sorted(score.items()):
        print(f"{kind:12}", *(f"{word} {number}" for word, number in count.items()), sep="  ")  # noqa: T201 - the score
    assert wrong == []


def test_monitoring_warns_of_few_healthy_machines() -> None:
    healthy = [path for path, row in index().items() if is_output(path) and row["state"] == "healthy"]
    warning = Counter[str]()
    for path in healthy:
        findings = findings_of(path, "monitor")
        warning.update({finding.check_id for finding in findings if finding.status is Status.WARN})
    per_machine = warning.total() / len(healthy)
    print(f"{per_machine:.3f} checks warn of a healthy machine:", *warning.most_common(8))  # noqa: T201 - the score
    assert per_machine <= WARNINGS_AT_MOST
