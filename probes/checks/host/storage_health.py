"""Check that the filesystems can be written.

The kernel remounts a damaged filesystem read-only. Source: leptonai/gpud and mej/nhc, mount checks; images
that are read-only by design are a data row.
"""

from __future__ import annotations

from probes.base.record import Unknown, known
from probes.facts import Filesystem
from probes.judging.findings import Evidence, Findings, Judge, Remedy
from probes.judging.reporting import HOST, Judged, judge_each

READ_ONLY = Judge(
    check_id="read-only-filesystems",
    why="Checkpoints and logs cannot be written, and the disk below has probably failed.",
)
_LOCAL = ("/dev/",)


def read_only_filesystems(evidence: Evidence) -> Findings:
    storage, images = evidence.facts.storage, evidence.thresholds.read_only_filesystems
    if isinstance(storage, Unknown):
        return READ_ONLY.undetermined(HOST, storage, what="the mounted filesystems")
    wanted = [fs for fs in storage if not (known(fs.kind) and fs.kind in images.value)]
    if not wanted:
        return READ_ONLY.skipped(HOST, "no filesystem was found that a job would write to")
    in_container = isinstance(evidence.facts.container.runtime, str)

    def judge(filesystem: Filesystem) -> Judged:
        if isinstance(filesystem.read_only, Unknown):
            return filesystem.read_only
        if not filesystem.read_only:
            return ""
        is_disk = known(filesystem.device) and filesystem.device.startswith(_LOCAL)
        if in_container or not is_disk:
            return "some are mounted read-only on purpose"
        return READ_ONLY.warned(
            filesystem.mount,
            "the filesystem is read-only",
            expected="writable",
            observed=f"{filesystem.device} is mounted read-only",
            remedy=Remedy(
                text="Unless that is meant, read the kernel's log, then check the disk and the filesystem.",
                command="dmesg | grep -i -e 'I/O error' -e 'remounting'",
                needs_root=True,
            ),
        )

    return judge_each(READ_ONLY, wanted, judge, what="how it is mounted", good="the filesystems are writable")
