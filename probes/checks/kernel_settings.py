"""Do the kernel's settings suit training?

Source: ROCm/cvs (NUMA balancing), facebookresearch/gcm (clock source), NCCL user guide, troubleshooting (RemoveIPC), Linux
6.12 documentation, transparent hugepages and clock sources.
"""

from __future__ import annotations

from probes.base.record import Reason, Unknown
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST

CLOCK = Judge(
    check_id="clocksource",
    why="A slow clock source takes a microsecond for every look at the time, of which NCCL and profilers take many.",
)
_FAST_CLOCKS = {
    "x86_64": ("tsc", "kvm-clock", "hyperv_clocksource_tsc_page"),
    "aarch64": ("arch_sys_counter",),
}
"""Those that a program reads without a call into the kernel."""


def clocksource(evidence: Evidence) -> Finding:
    kernel, architecture = evidence.facts.kernel, evidence.facts.cpu.architecture
    source = kernel.clocksource
    if isinstance(source, Unknown):
        return _unread(CLOCK, source, "the clock source", evidence)
    if isinstance(architecture, Unknown):
        return CLOCK.undetermined(
            HOST, architecture, what="the processor's architecture", evidence=kernel.evidence
        )
    fast = _FAST_CLOCKS.get(architecture)
    if fast is None:
        return CLOCK.skipped(HOST, f"no rule for {architecture}")
    if source in fast:
        return CLOCK.passed(HOST, "the clock source is fast", observed=source, evidence=kernel.evidence)
    return CLOCK.warned(
        HOST,
        "the clock source is slow",
        expected=" or ".join(fast),
        observed=source,
        remedy=Remedy(
            text="The kernel's log says why it left the fast one; look at BIOS and firmware.",
            command="dmesg | grep -i -e clocksource -e tsc",
            needs_root=True,
        ),
        evidence=kernel.evidence,
    )


def _unread(judge: Judge, unknown: Unknown, what: str, evidence: Evidence) -> Finding:
    if unknown.reason is Reason.NOT_SUPPORTED:
        return judge.skipped(HOST, f"not supported here: {unknown.detail or what}")
    return judge.undetermined(HOST, unknown, what=what, evidence=evidence.facts.kernel.evidence)
