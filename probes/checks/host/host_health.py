"""Check the host itself: its clock, power, shared memory, stack limit, filesystems and services.

Data loader workers and NCCL pass data between processes through /dev/shm; containers give it 64 MiB by
default. If the stack is unlimited, the C library gives threads 2 MiB each, and NCCL before 2.28 needs more
than this at its start. The kernel remounts a damaged filesystem read-only. Only installed services are
judged: a failed service does not do the work for which it was installed. Source: AMD-AGI/Primus (time
daemons, shared memory); IPMI 2.0 (power); NCCL user guide, troubleshooting; leptonai/gpud and mej/nhc, mount
checks; systemctl(1); NVIDIA driver and DCGM documentation. The limits, and the images that are read-only by
design, are data rows.
"""

import shlex
from collections.abc import Iterator

from probes.base.record import Reason, Unknown, first_unknown, items_of, known, only_known, value_or
from probes.base.units import gib
from probes.base.versions import at_least
from probes.facts import Filesystem, Gpu
from probes.judging.environment_values import judged_nccl_version
from probes.judging.findings import Evidence, Finding, Findings, Judge, Remedy
from probes.judging.reporting import HOST, Judged, judge_each, on_fact, on_gpus

TIME_SYNC = Judge(
    check_id="time-sync",
    why="Logs of several nodes cannot be compared, and certificates, tickets and file times are refused.",
)
HEADROOM = Judge(
    check_id="power-headroom",
    why="When all GPUs draw their limit at once, an overloaded supply makes the GPUs lower their clocks, "
    "or it switches off.",
)
SHM = Judge(
    check_id="shm-size",
    why="When /dev/shm is full, data loader workers die with a bus error and NCCL fails to start.",
)
STACK = Judge(
    check_id="stack-limit",
    why="With an unlimited stack threads get 2 MiB, and older NCCL versions crash while they connect.",
)
READ_ONLY = Judge(
    check_id="read-only-filesystems",
    why="Checkpoints and logs cannot be written, and the disk below has probably failed.",
)
_LOCAL = ("/dev/",)
SERVICES = Judge(
    check_id="services",
    why="The part that the service manages (drivers, memory exchange, the batch system) does not work.",
)


def time_sync(evidence: Evidence) -> Finding:
    clock = evidence.facts.clock
    if clock.synchronized is False:
        return TIME_SYNC.warned(
            HOST,
            "the clock is not synchronised",
            expected="a synchronised clock",
            observed=_daemon_words(clock.daemon),
            remedy=Remedy(
                text="Find out why the time daemon has no time source.",
                command="timedatectl timesync-status || chronyc tracking",
            ),
            evidence=clock.evidence,
        )
    if clock.synchronized is True:
        observed = clock.daemon if isinstance(clock.daemon, str) else "the kernel reports it"
        return TIME_SYNC.passed(HOST, "the clock is synchronised", observed=observed, evidence=clock.evidence)
    if isinstance(clock.daemon, str):
        return TIME_SYNC.passed(HOST, "a time daemon runs", observed=clock.daemon, evidence=clock.evidence)
    if isinstance(evidence.facts.container.runtime, str):
        return TIME_SYNC.skipped(HOST, "the clock of a container is that of its host, which synchronises it")
    if clock.daemon is None:
        return TIME_SYNC.warned(
            HOST,
            "no service synchronises the clock",
            expected="chronyd, ntpd or systemd-timesyncd",
            observed="none runs",
            remedy=Remedy(
                text="Install and start one of these services.",
                command="systemctl enable --now systemd-timesyncd",
                needs_root=True,
            ),
            evidence=clock.evidence,
        )
    return TIME_SYNC.undetermined(
        HOST, clock.daemon, what="which service synchronises the clock", evidence=clock.evidence
    )


def _daemon_words(daemon: str | Unknown | None) -> str:
    if isinstance(daemon, Unknown):
        return "which time daemon runs is not known"
    return daemon or "no time daemon"


@on_gpus(HEADROOM)
def power_headroom(gpus: tuple[Gpu, ...], evidence: Evidence) -> Finding:
    power, per_socket = evidence.facts.power, evidence.thresholds.host_power_per_socket_w
    capacity, what = power.supply_capacity_w, "the capacity of the power supplies"
    limits = [gpu.power_limit_w for gpu in gpus]
    unread = first_unknown(*limits)
    if isinstance(capacity, Unknown):
        # Virtual machines have neither the tool nor the value.
        if capacity.reason is Reason.TOOL_MISSING:
            return HEADROOM.skipped(
                HOST, f"no tool here reports {what}" + (f": {capacity.detail}" if capacity.detail else "")
            )
        if capacity.reason is Reason.NOT_SUPPORTED:
            return HEADROOM.skipped(HOST, f"not supported here: {capacity.detail or what}")
        return HEADROOM.undetermined(HOST, capacity, what=what)
    if unread is not None:
        return HEADROOM.undetermined(HOST, unread, what="the power limits of the GPUs")
    host_w = per_socket.value * value_or(evidence.facts.cpu.sockets, 1)
    gpus_w = sum(only_known(limits))
    observed = f"GPUs {gpus_w:.0f} W and host about {host_w:.0f} W; supplies {capacity:.0f} W"
    if gpus_w + host_w <= capacity:
        return HEADROOM.passed(
            HOST,
            "the power supplies are sufficient for all GPUs",
            observed=observed,
            evidence=(*power.evidence, per_socket.ref),
        )
    return HEADROOM.warned(
        HOST,
        "the power supplies are too weak for all GPUs at their limit",
        expected=f"at least {gpus_w + host_w:.0f} W",
        observed=observed,
        remedy=Remedy(
            text="Add or replace supplies; until then lower the power limits of the GPUs.", needs_root=True
        ),
        evidence=(*power.evidence, per_socket.ref),
    )


@on_fact(SHM, "the size of /dev/shm", lambda facts: facts.limits.shm_bytes, "limits")
def shm_size(size: int, evidence: Evidence) -> Finding:
    limits, minimum = evidence.facts.limits, evidence.thresholds.shm_minimum_bytes
    with_gpus = len(items_of(evidence.facts.gpus)) > 0
    wanted = evidence.thresholds.shm_recommended_bytes if with_gpus else minimum
    if size < wanted.value:
        row = minimum if size < minimum.value else wanted
        in_container = isinstance(evidence.facts.container.runtime, str)
        return SHM.problem(
            HOST,
            "shared memory (/dev/shm) is small",
            fails=size < minimum.value and with_gpus,
            expected=f"at least {gib(row.value)}",
            observed=gib(size),
            remedy=_in_container(row.value) if in_container else _on_host(row.value),
            evidence=(*limits.evidence, row.ref),
        )
    if known(limits.shm_free_bytes) and limits.shm_free_bytes < minimum.value:
        return SHM.warned(
            HOST,
            "shared memory (/dev/shm) is nearly full",
            expected=f"at least {gib(minimum.value)} free",
            observed=f"{gib(limits.shm_free_bytes)} of {gib(size)} free",
            remedy=Remedy(
                text="Remove files that ended jobs left there, if nobody uses them.",
                command="ls -lS /dev/shm | head",
                reversible=False,
            ),
            evidence=(*limits.evidence, minimum.ref),
        )
    return SHM.passed(
        HOST, "shared memory (/dev/shm) is large enough", observed=gib(size), evidence=limits.evidence
    )


def _in_container(size_bytes: float) -> Remedy:
    return Remedy(
        text=f"Start the container with --shm-size={size_bytes / 2**30:.0f}g, or with an emptyDir of medium "
        "Memory in Kubernetes."
    )


def _on_host(size_bytes: float) -> Remedy:
    return Remedy(
        text="Remount it with a larger size, and set this size in /etc/fstab too.",
        command=f"mount -o remount,size={size_bytes / 2**30:.0f}G /dev/shm",
        needs_root=True,
    )


@on_gpus(STACK)
def stack_limit(gpus: tuple[Gpu, ...], evidence: Evidence) -> Finding:
    limits, fixed = evidence.facts.limits, evidence.thresholds.nccl_stack_fixed
    limit = limits.stack_bytes
    if isinstance(limit, Unknown):
        return STACK.undetermined(HOST, limit, what="the stack limit", evidence=limits.evidence)
    if limit != "unlimited":
        return STACK.passed(
            HOST, "the stack is limited", observed=f"{limit // 1024} KiB", evidence=limits.evidence
        )
    nccl = judged_nccl_version(evidence, STACK.check_id)
    if nccl is None:
        return STACK.skipped(HOST, "the stack is unlimited, but no NCCL was found that this affects")
    fine = nccl if isinstance(nccl, Unknown) else at_least(nccl, fixed.value)
    if isinstance(fine, Unknown):
        return STACK.undetermined(
            HOST, fine, what="the stack is unlimited, and the NCCL version", evidence=limits.evidence
        )
    if fine:
        return STACK.passed(
            HOST,
            "the stack is unlimited, which this NCCL accepts",
            observed=f"NCCL {nccl}",
            evidence=(*limits.evidence, fixed.ref),
        )
    return STACK.warned(
        HOST,
        "the stack is unlimited, and this NCCL crashes with it on large machines",
        expected=f"a limit such as 8192 KiB, or NCCL {fixed.value}",
        observed=f"unlimited, NCCL {nccl}",
        remedy=Remedy(text="Set a limit in the shell that starts training.", command="ulimit -s 8192"),
        evidence=(*limits.evidence, fixed.ref),
    )


@on_fact(READ_ONLY, "the mounted filesystems", lambda facts: facts.storage)
def read_only_filesystems(storage: tuple[Filesystem, ...], evidence: Evidence) -> Findings:
    images = evidence.thresholds.read_only_filesystems
    wanted = [fs for fs in storage if not (known(fs.kind) and fs.kind in images.value)]
    if not wanted:
        return READ_ONLY.skipped(HOST, "no filesystem was found that a job would write to")
    in_container = isinstance(evidence.facts.container.runtime, str)

    def judge(filesystem: Filesystem) -> Judged:
        if isinstance(filesystem.read_only, Unknown):
            return filesystem.read_only
        if not filesystem.read_only:
            return ""
        if in_container or not value_or(filesystem.device, "").startswith(_LOCAL):
            return "some network filesystems, or mounts of a container, are read-only"
        return READ_ONLY.warned(
            filesystem.mount,
            "the filesystem is read-only",
            expected="writable",
            observed=f"{filesystem.device} is mounted read-only",
            remedy=Remedy(
                text="Unless this is intended, read the kernel log, then check the disk and the filesystem.",
                command="dmesg | grep -i -e 'I/O error' -e 'remounting'",
                needs_root=True,
            ),
        )

    return judge_each(
        READ_ONLY, wanted, judge, what="how it is mounted", good="no local filesystem is read-only"
    )


@on_gpus(SERVICES)
def services(gpus: tuple[Gpu, ...], evidence: Evidence) -> Iterator[Finding]:
    software = evidence.facts.software
    services = software.services
    if isinstance(services, Unknown):
        if services.reason is Reason.NOT_SUPPORTED:
            yield SERVICES.skipped(HOST, f"not supported here: {services.detail or 'services'}")
        else:
            yield SERVICES.undetermined(HOST, services, what="the services", evidence=software.evidence)
        return
    failed = [service for service in services if service.value == "failed"]
    for service in failed:
        yield SERVICES.warned(
            service.name,
            "the service failed",
            expected="active, or not installed",
            observed=service.value,
            remedy=Remedy(
                text="Find out why it failed, then start it.",
                command=f"journalctl -b -u {shlex.quote(service.name)} | tail -n 30",
                needs_root=True,
            ),
            evidence=software.evidence,
        )
    if not failed:
        yield SERVICES.passed(
            HOST,
            "no installed service failed",
            observed=", ".join(f"{service.name} {service.value}" for service in services),
            evidence=software.evidence,
        )
