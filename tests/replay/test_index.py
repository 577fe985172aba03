"""The whole index of recorded servers in one table: every file is told, healthy ones do not fail, faults are
seen.

What each file says in detail is held by the tests of its area (`test_*_truth.py`).
"""

from __future__ import annotations

from collections import Counter

from assistant.usecases.check import check_machine
from assistant.usecases.events import FindingMade
from probes.base.errors import InputError
from probes.catalogue.hardware import load_catalogue
from probes.collect.collecting import CollectOptions, assemble, gather
from probes.judging.findings import Evidence, Status
from probes.sources.loose import open_loose
from tests.support.recordings import MACHINES, index, is_output, needs_recordings

SILENT = {
    "kernel_log/proc-driver-nvidia-version-580.173.02.txt": "one of the two versions that differ",
    "nccl_log/excerpt-wrong-nic-mlx5_bond_0-included.log": "the excerpt does not hold the bond",
    "nccl_log/h100-16rank-init-complete-then-hang.log": "it ends after a clean start",
    "nccl_log/p2p-hang-acs-amd-rtx5880.log": "it ends after a clean start",
    "nccl_log/p2p-hang-rtx4090-driver.log": "it ends after a clean start",
}
"""Faults that the file itself does not show."""

pytestmark = needs_recordings


def words_of(path: str) -> set[Status]:
    """The status of every finding; raises InputError for a file of no known kind."""
    source = open_loose([(path, (MACHINES / path).read_bytes())])
    facts = assemble(source.title, gather(source, CollectOptions()))
    events = check_machine(Evidence(facts=facts, catalogue=load_catalogue()))
    return {event.finding.status for event in events if isinstance(event, FindingMade)}


def test_every_file_is_told_and_judged_as_the_index_says() -> None:
    score: dict[str, Counter[str]] = {}
    wrong: list[str] = []
    for row in filter(lambda row: is_output(row["path"]), index().values()):
        count = score.setdefault(row["kind"], Counter())
        count["files"] += 1
        try:
            words = words_of(row["path"])
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
