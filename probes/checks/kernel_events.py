"""What the kernel log says of memory, hangs, processors, crashes, disks and full tables.

What an earlier boot left in the log is not judged. Source: leptonai/gpud, components for memory, CPU, disk
and kernel; LBNL Node Health Check; Linux sources of the messages.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from probes.facts import LogEvent
from probes.facts.observed import EventKind
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST, events_of

MEMORY = Judge(
    check_id="out-of-memory", why="The kernel ends the largest process first, and that is the training job."
)
HANGS = Judge(
    check_id="lockups", why="A hung processor or task holds up its rank, and the whole job waits for it."
)
PROCESSORS = Judge(
    check_id="machine-check",
    why="Errors of processor or memory end the node sooner or later, or spoil results.",
)
CRASHES = Judge(
    check_id="crashes", why="A crash inside NCCL or CUDA shows in the job as a hang of all other ranks."
)
DISKS = Judge(
    check_id="filesystem-errors", why="Checkpoints and data sets are lost on a file system that fails."
)
LIMITS = Judge(
    check_id="kernel-limits",
    why="A full table refuses files, connections or processes to the job, at any moment.",
)

_DISK_FAILED = (
    "controller is down",
    "Device not ready",
    "medium error",
    "Disk failure",
    "Removing after",
    "kicking",
)

Verdict = Callable[[LogEvent], Finding | None]


def out_of_memory(evidence: Evidence) -> Iterator[Finding]:
    def verdict(event: LogEvent) -> Finding:
        return MEMORY.warned(
            HOST,
            "the kernel killed processes for want of memory",
            expected="no process killed",
            observed=_observed(event),
            remedy=Remedy(
                text="Lower the job's host memory (data loaders, pinned buffers), or raise its memory limit."
            ),
            evidence=event.evidence,
        )

    yield from _judge(MEMORY, evidence, {"out-of-memory"}, verdict, "the kernel killed nothing for memory")


def lockups(evidence: Evidence) -> Iterator[Finding]:
    def verdict(event: LogEvent) -> Finding:
        panic = event.kind == "panic"
        hard = panic or "LOCKUP" in event.message
        return (HANGS.failed if hard else HANGS.warned)(
            HOST,
            "the kernel panicked"
            if panic
            else "a processor hung"
            if hard
            else "a processor or a task did not get on for long",
            expected="no hang",
            observed=_observed(event),
            remedy=Remedy(
                text="Keep the dump, look at the lines before it, and run a burn-in before the node takes jobs again."
                if hard
                else "Look at what the task waits for: a wedged driver, a hung file system, or a shortage of memory."
            ),
            evidence=event.evidence,
        )

    yield from _judge(HANGS, evidence, {"lockup", "panic"}, verdict, "the kernel did not hang")


def machine_check(evidence: Evidence) -> Iterator[Finding]:
    limit = evidence.thresholds.machine_checks_corrected_maximum

    def verdict(event: LogEvent) -> Finding | None:
        if event.fatal is not True and event.count <= limit.value:
            return None
        say = PROCESSORS.failed if event.fatal is True else PROCESSORS.warned
        return say(
            HOST,
            "an error of processor or memory could not be corrected"
            if event.fatal is True
            else "many corrected hardware errors",
            expected=f"at most {limit.value:.0f} corrected errors, none uncorrected",
            observed=_observed(event),
            remedy=Remedy(
                text="Find the module with `ras-mc-ctl --errors` or the management controller's log, and replace it."
            ),
            evidence=(*event.evidence, limit.ref),
        )

    yield from _judge(PROCESSORS, evidence, {"machine-check"}, verdict, "the processors report no fault")


def crashes(evidence: Evidence) -> Iterator[Finding]:
    def verdict(event: LogEvent) -> Finding:
        return CRASHES.warned(
            HOST,
            "a program crashed inside NCCL"
            if event.kind == "nccl-crash"
            else "a training program or its library crashed",
            expected="no crash",
            observed=_observed(event),
            remedy=Remedy(
                text="Look at the job's log at that time; compare the versions of NCCL, plugin and driver with their notes."
            ),
            evidence=event.evidence,
        )

    yield from _judge(CRASHES, evidence, {"nccl-crash", "crash"}, verdict, "no training library crashed")


def filesystem_errors(evidence: Evidence) -> Iterator[Finding]:
    def verdict(event: LogEvent) -> Finding:
        if event.kind == "storage":
            severe = any(words in event.message for words in _DISK_FAILED)
            summary = "a disk fails" if severe else "a disk reports errors"
        else:
            severe = event.fatal is True or ("nfs" not in event.message and event.fatal is not False)
            summary = "a file system is damaged or read-only" if severe else "a file server did not answer"
        return (DISKS.failed if severe else DISKS.warned)(
            event.device or HOST,
            summary,
            expected="no error",
            observed=_observed(event),
            remedy=Remedy(
                text="Save what is on it, look at `smartctl -a` or `nvme smart-log`, and check the file system off line."
            ),
            evidence=event.evidence,
        )

    yield from _judge(
        DISKS, evidence, {"filesystem", "storage"}, verdict, "file systems and disks report no errors"
    )


def kernel_limits(evidence: Evidence) -> Iterator[Finding]:
    def verdict(event: LogEvent) -> Finding:
        return LIMITS.warned(
            HOST,
            "a table of the kernel was full",
            expected="no limit reached",
            observed=_observed(event),
            remedy=Remedy(
                text="Raise the limit that the line names (fs.file-max, net.netfilter.nf_conntrack_max,"
                " net.ipv4.neigh.default.gc_thresh3, the cgroup's pids.max), and look for what leaks."
            ),
            evidence=event.evidence,
        )

    yield from _judge(LIMITS, evidence, {"kernel-limit"}, verdict, "no table of the kernel was full")


def _judge(
    judge: Judge, evidence: Evidence, kinds: Collection[EventKind], verdict: Verdict, good: str
) -> Iterator[Finding]:
    """The verdict on each event of `kinds` since the last boot, or one PASS."""
    events = yield from events_of(judge, evidence)
    if events is None:
        return
    mine = [event for event in events if event.kind in kinds and not event.settled]
    findings = [finding for event in mine if (finding := verdict(event)) is not None]
    seen = "; ".join(_observed(event) for event in mine)
    yield from findings or [judge.passed(HOST, good, observed=seen)]


def _observed(event: LogEvent) -> str:
    words = "once" if event.count == 1 else f"{event.count} times"
    if event.first_time:
        words += (
            f", at {event.first_time}"
            if event.count == 1
            else f", first {event.first_time}, last {event.last_time}"
        )
    return f"{words}: {event.message}"
