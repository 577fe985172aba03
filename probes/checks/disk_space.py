"""Is there room for checkpoints?

Source: imbue-ai/cluster-health and Verda documentation; the figures are data rows. Read-only images are full
by design.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from probes.base.record import Unknown, known
from probes.base.units import gib, percent
from probes.facts import Filesystem
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST, Judged, judge_each

JUDGE = Judge(
    check_id="disk-space", why="A checkpoint that does not fit ends the job and may leave half a file behind."
)


def check(evidence: Evidence) -> Iterator[Finding]:
    storage, limits = evidence.facts.storage, evidence.thresholds
    if isinstance(storage, Unknown):
        yield JUDGE.undetermined(HOST, storage, what="the mounted filesystems")
        return
    writable = [
        fs for fs in storage if not (known(fs.kind) and fs.kind in limits.read_only_filesystems.value)
    ]
    if not writable:
        yield JUDGE.skipped(HOST, "no filesystem was found that a job would write to")
        return

    def judge(filesystem: Filesystem) -> Judged:
        total, free = filesystem.total_bytes, filesystem.free_bytes
        if isinstance(total, Unknown):
            return total
        if isinstance(free, Unknown):
            return free
        used = 1 - free / total if total > 0 else 0.0
        warn, fail = limits.disk_used_warn_fraction, limits.disk_used_fail_fraction
        if used < warn.value:
            return f"{percent(used)} used"
        full = used >= fail.value
        row, write = (fail, JUDGE.failed) if full else (warn, JUDGE.warned)
        return write(
            filesystem.mount,
            "the filesystem is full" if full else "the filesystem is nearly full",
            expected=f"less than {percent(row.value)} used",
            observed=f"{percent(used)} used, {gib(free)} free",
            remedy=Remedy(
                text="Free space, or write checkpoints elsewhere.",
                command=f"du -xh --max-depth=1 {shlex.quote(filesystem.mount)}",
            ),
            evidence=(row.ref,),
        )

    yield from judge_each(JUDGE, writable, judge, what="the free space", good="there is free space")
