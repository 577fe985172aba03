"""Is the host itself well: its clock, its processes, its power and its sensors?

Source: AMD-AGI/Primus (time daemons), leptonai/gpud (zombies, processes in uninterruptible sleep),
NVIDIA/NVSentinel#695 (settling after a start), IPMI 2.0 (sensors); the figures are data rows.
"""

from __future__ import annotations

from collections.abc import Iterator

from probes.base.record import Reason, Unknown, known
from probes.base.units import duration
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST, gpus_of

TIME_SYNC = Judge(
    check_id="time-sync",
    why="Logs of several nodes cannot be compared, and certificates, tickets and file times are refused.",
)
ZOMBIES = Judge(
    check_id="zombies",
    why="Every dead process that nobody reaps keeps its number; when they run out nothing starts.",
)
BLOCKED = Judge(
    check_id="blocked-processes",
    why="A process that hangs in the driver cannot be killed, and its GPU is not released.",
)
UPTIME = Judge(
    check_id="uptime",
    why="Right after a start links still train and services still start, and counters are too young to tell.",
)
SUPPLIES = Judge(
    check_id="power-supplies",
    why="Without a spare supply the machine brakes its GPUs under load, or goes off with the next failure.",
)
HEADROOM = Judge(
    check_id="power-headroom",
    why="When all GPUs draw their limit at once, an overloaded supply brakes the clocks or goes off.",
)
SENSORS = Judge(
    check_id="sensors", why="Beyond its critical limit hardware slows down, goes off, or is damaged."
)


def time_sync(evidence: Evidence) -> Iterator[Finding]:
    clock = evidence.facts.clock
    if clock.synchronized is False:
        yield TIME_SYNC.warned(
            HOST,
            "the clock is not synchronised",
            expected="a synchronised clock",
            observed=clock.daemon if isinstance(clock.daemon, str) else "no time daemon",
            remedy=Remedy(
                text="Look why the time daemon has no source.",
                command="timedatectl timesync-status || chronyc tracking",
            ),
            evidence=clock.evidence,
        )
    elif clock.synchronized is True:
        observed = clock.daemon if isinstance(clock.daemon, str) else "by the kernel's word"
        yield TIME_SYNC.passed(HOST, "the clock is kept", observed=observed, evidence=clock.evidence)
    elif isinstance(clock.daemon, str):
        yield TIME_SYNC.passed(HOST, "a time daemon runs", observed=clock.daemon, evidence=clock.evidence)
    elif isinstance(evidence.facts.container.runtime, str):
        yield TIME_SYNC.skipped(HOST, "the host of the container keeps the clock")
    elif clock.daemon is None:
        yield TIME_SYNC.warned(
            HOST,
            "nobody keeps the clock",
            expected="chronyd, ntpd or systemd-timesyncd",
            observed="none runs",
            remedy=Remedy(
                text="Install and start one.",
                command="systemctl enable --now systemd-timesyncd",
                needs_root=True,
            ),
            evidence=clock.evidence,
        )
    else:
        yield TIME_SYNC.undetermined(HOST, clock.daemon, what="who keeps the clock", evidence=clock.evidence)


def zombies(evidence: Evidence) -> Iterator[Finding]:
    kernel, limit = evidence.facts.kernel, evidence.thresholds.zombies_maximum
    number = kernel.zombie_processes
    if isinstance(number, Unknown):
        yield ZOMBIES.undetermined(HOST, number, what="the processes", evidence=kernel.evidence)
    elif number <= limit.value:
        yield ZOMBIES.passed(
            HOST, "dead processes are reaped", observed=f"{number} zombies", evidence=kernel.evidence
        )
    else:
        yield ZOMBIES.warned(
            HOST,
            "dead processes pile up",
            expected=f"at most {limit.value:.0f}",
            observed=f"{number} zombies",
            remedy=Remedy(
                text="Find their parent and restart it.",
                command="ps -eo ppid,stat,comm | awk '$2 ~ /^Z/' | sort | uniq -c",
            ),
            evidence=(*kernel.evidence, limit.ref),
        )


def blocked_processes(evidence: Evidence) -> Iterator[Finding]:
    kernel = evidence.facts.kernel
    blocked = kernel.blocked_processes
    if isinstance(blocked, Unknown):
        yield BLOCKED.undetermined(HOST, blocked, what="the processes", evidence=kernel.evidence)
    elif not blocked:
        yield BLOCKED.passed(HOST, "no process of the driver or of training hangs", evidence=kernel.evidence)
    else:
        yield BLOCKED.warned(
            HOST,
            "processes are in uninterruptible sleep",
            expected="none of the driver or of training",
            observed=", ".join(blocked[:8]),
            remedy=Remedy(
                text="Look again in a minute. When they still hang, reboot; only that ends them.",
                command="ps -eo pid,stat,wchan:32,comm | awk '$2 ~ /^D/'",
            ),
            evidence=kernel.evidence,
        )


def uptime(evidence: Evidence) -> Iterator[Finding]:
    kernel, limit = evidence.facts.kernel, evidence.thresholds.uptime_minimum_s
    seconds = kernel.uptime_s
    if isinstance(seconds, Unknown):
        yield UPTIME.undetermined(HOST, seconds, what="the time since the start", evidence=kernel.evidence)
    elif seconds >= limit.value or isinstance(evidence.facts.container.runtime, str):
        yield UPTIME.passed(
            HOST, "the machine has settled", observed=f"up for {duration(seconds)}", evidence=kernel.evidence
        )
    else:
        yield UPTIME.warned(
            HOST,
            "the machine has only just started",
            expected=f"up for {duration(limit.value)}",
            observed=duration(seconds),
            remedy=Remedy(text="Check again later."),
            evidence=(*kernel.evidence, limit.ref),
        )


def power_supplies(evidence: Evidence) -> Iterator[Finding]:
    power = evidence.facts.power
    failed = power.failed_supplies
    if isinstance(failed, Unknown):
        yield _unread(SUPPLIES, failed, "the power supplies")
    elif not failed:
        yield SUPPLIES.passed(HOST, "no power supply reports a failure", evidence=power.evidence)
    else:
        yield SUPPLIES.warned(
            HOST,
            "power supplies failed or have no input",
            expected="all supplies working",
            observed=", ".join(failed),
            remedy=Remedy(
                text="Check cables and the distribution unit, then replace the supply.",
                command="ipmitool sdr type 'Power Supply'",
                needs_root=True,
            ),
            evidence=power.evidence,
        )


def power_headroom(evidence: Evidence) -> Iterator[Finding]:
    gpus = yield from gpus_of(HEADROOM, evidence)
    if not gpus:
        return
    power, per_socket = evidence.facts.power, evidence.thresholds.host_power_per_socket_w
    capacity = power.supply_capacity_w
    limits = [gpu.power_limit_w for gpu in gpus]
    unread = next((limit for limit in limits if isinstance(limit, Unknown)), None)
    if isinstance(capacity, Unknown):
        yield _unread(HEADROOM, capacity, "what the power supplies give")
    elif unread is not None:
        yield HEADROOM.undetermined(HOST, unread, what="the power limits of the GPUs")
    else:
        sockets = evidence.facts.cpu.sockets
        host_w = per_socket.value * (sockets if known(sockets) else 1)
        gpus_w = sum(limit for limit in limits if not isinstance(limit, Unknown))
        observed = f"GPUs {gpus_w:.0f} W and host about {host_w:.0f} W; supplies {capacity:.0f} W"
        if gpus_w + host_w <= capacity:
            yield HEADROOM.passed(
                HOST,
                "the power supplies carry all GPUs",
                observed=observed,
                evidence=(*power.evidence, per_socket.ref),
            )
        else:
            yield HEADROOM.warned(
                HOST,
                "the power supplies do not carry all GPUs at their limit",
                expected=f"at least {gpus_w + host_w:.0f} W",
                observed=observed,
                remedy=Remedy(
                    text="Add or replace supplies; until then lower the power limits of the GPUs.",
                    needs_root=True,
                ),
                evidence=(*power.evidence, per_socket.ref),
            )


def sensors(evidence: Evidence) -> Iterator[Finding]:
    power = evidence.facts.power
    alarms = power.sensor_alarms
    if isinstance(alarms, Unknown):
        yield _unread(SENSORS, alarms, "the sensors")
    elif not alarms:
        yield SENSORS.passed(HOST, "no sensor is beyond a critical limit", evidence=power.evidence)
    else:
        yield SENSORS.warned(
            HOST,
            "sensors are beyond their critical limit",
            expected="all within their limits",
            observed=", ".join(alarms[:8]),
            remedy=Remedy(
                text="Look at fans, inlet temperature and supplies.",
                command="ipmitool sdr elist",
                needs_root=True,
            ),
            evidence=power.evidence,
        )


def _unread(judge: Judge, unknown: Unknown, what: str) -> Finding:
    """Where no tool talks to a management controller there is none to ask, as in virtual machines."""
    if unknown.reason is Reason.TOOL_MISSING:
        return judge.skipped(HOST, f"nothing here tells: {unknown.detail or what}")
    if unknown.reason is Reason.NOT_SUPPORTED:
        return judge.skipped(HOST, f"not supported here: {unknown.detail or what}")
    return judge.undetermined(HOST, unknown, what=what)
