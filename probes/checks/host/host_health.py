"""Check the host itself: its clock, its processes, its power and its sensors.

Source: AMD-AGI/Primus (time daemons), leptonai/gpud (zombies, processes in uninterruptible sleep),
NVIDIA/NVSentinel#695 (settling after a start), IPMI 2.0 (sensors); the figures are data rows.
"""

from __future__ import annotations

from probes.base.record import Reason, Unknown, known
from probes.facts import Gpu
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST, on_gpus

TIME_SYNC = Judge(
    check_id="time-sync",
    why="Logs of several nodes cannot be compared, and certificates, tickets and file times are refused.",
)
HEADROOM = Judge(
    check_id="power-headroom",
    why="When all GPUs draw their limit at once, an overloaded supply brakes the clocks or goes off.",
)


def time_sync(evidence: Evidence) -> Finding:
    clock = evidence.facts.clock
    if clock.synchronized is False:
        return TIME_SYNC.warned(
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
    if clock.synchronized is True:
        observed = clock.daemon if isinstance(clock.daemon, str) else "by the kernel's word"
        return TIME_SYNC.passed(HOST, "the clock is synchronised", observed=observed, evidence=clock.evidence)
    if isinstance(clock.daemon, str):
        return TIME_SYNC.passed(HOST, "a time daemon runs", observed=clock.daemon, evidence=clock.evidence)
    if isinstance(evidence.facts.container.runtime, str):
        return TIME_SYNC.skipped(HOST, "the host of the container keeps the clock")
    if clock.daemon is None:
        return TIME_SYNC.warned(
            HOST,
            "no service synchronises the clock",
            expected="chronyd, ntpd or systemd-timesyncd",
            observed="none runs",
            remedy=Remedy(
                text="Install and start one.",
                command="systemctl enable --now systemd-timesyncd",
                needs_root=True,
            ),
            evidence=clock.evidence,
        )
    return TIME_SYNC.undetermined(HOST, clock.daemon, what="who keeps the clock", evidence=clock.evidence)


@on_gpus(HEADROOM)
def power_headroom(gpus: tuple[Gpu, ...], evidence: Evidence) -> Finding:
    power, per_socket = evidence.facts.power, evidence.thresholds.host_power_per_socket_w
    capacity = power.supply_capacity_w
    limits = [gpu.power_limit_w for gpu in gpus]
    unread = next((limit for limit in limits if isinstance(limit, Unknown)), None)
    if isinstance(capacity, Unknown):
        return _unread(HEADROOM, capacity, "what the power supplies give")
    if unread is not None:
        return HEADROOM.undetermined(HOST, unread, what="the power limits of the GPUs")
    sockets = evidence.facts.cpu.sockets
    host_w = per_socket.value * (sockets if known(sockets) else 1)
    gpus_w = sum(limit for limit in limits if not isinstance(limit, Unknown))
    observed = f"GPUs {gpus_w:.0f} W and host about {host_w:.0f} W; supplies {capacity:.0f} W"
    if gpus_w + host_w <= capacity:
        return HEADROOM.passed(
            HOST,
            "the power supplies carry all GPUs",
            observed=observed,
            evidence=(*power.evidence, per_socket.ref),
        )
    return HEADROOM.warned(
        HOST,
        "the power supplies do not carry all GPUs at their limit",
        expected=f"at least {gpus_w + host_w:.0f} W",
        observed=observed,
        remedy=Remedy(
            text="Add or replace supplies; until then lower the power limits of the GPUs.", needs_root=True
        ),
        evidence=(*power.evidence, per_socket.ref),
    )


def _unread(judge: Judge, unknown: Unknown, what: str) -> Finding:
    """Return SKIP if the tool is missing or the value is not supported, as in virtual machines."""
    if unknown.reason is Reason.TOOL_MISSING:
        return judge.skipped(HOST, f"no tool here reports it: {unknown.detail or what}")
    if unknown.reason is Reason.NOT_SUPPORTED:
        return judge.skipped(HOST, f"not supported here: {unknown.detail or what}")
    return judge.undetermined(HOST, unknown, what=what)
