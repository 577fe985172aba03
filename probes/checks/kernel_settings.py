"""Do the kernel's settings suit training?

Source: ROCm/cvs (NUMA balancing), facebookresearch/gcm (clock source), NCCL user guide, troubleshooting (RemoveIPC), Linux
6.12 documentation, transparent hugepages and clock sources.
"""

from __future__ import annotations

from collections.abc import Iterator

from probes.base.record import Reason, Unknown, known
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST

NUMA = Judge(
    check_id="numa-balancing",
    why="To move pages the kernel takes them away from the process for a moment, and ranks wait for each other's pauses.",
)
PAGES = Judge(
    check_id="transparent-hugepages",
    why="With pages of 4 KiB only, host buffers of many GiB cost time in every access.",
)
CLOCK = Judge(
    check_id="clocksource",
    why="A slow clock source takes a microsecond for every look at the time, of which NCCL and profilers take many.",
)
IPC = Judge(
    check_id="remove-ipc",
    why="When the user logs out, the shared memory of a running job is removed, and it ends or hangs.",
)
_FAST_CLOCKS = {
    "x86_64": ("tsc", "kvm-clock", "hyperv_clocksource_tsc_page"),
    "aarch64": ("arch_sys_counter",),
}
"""Those that a program reads without a call into the kernel."""


def numa_balancing(evidence: Evidence) -> Iterator[Finding]:
    facts, kernel = evidence.facts, evidence.facts.kernel
    setting = kernel.numa_balancing
    if known(facts.numa_nodes) and len(facts.numa_nodes) == 1:
        yield NUMA.skipped(HOST, "this machine has one NUMA node")
    elif isinstance(setting, Unknown):
        yield _unread(NUMA, setting, "the setting", evidence)
    elif not setting:
        yield NUMA.passed(
            HOST, "the kernel does not move memory between nodes", observed="off", evidence=kernel.evidence
        )
    else:
        yield NUMA.warned(
            HOST,
            "the kernel moves memory between NUMA nodes",
            expected="off",
            observed="on",
            remedy=Remedy(
                text="Switch it off, and keep that in /etc/sysctl.d.",
                command="sysctl -w kernel.numa_balancing=0",
                needs_root=True,
            ),
            evidence=kernel.evidence,
        )


def transparent_hugepages(evidence: Evidence) -> Iterator[Finding]:
    kernel = evidence.facts.kernel
    setting = kernel.transparent_hugepages
    if isinstance(setting, Unknown):
        yield _unread(PAGES, setting, "the setting", evidence)
    elif setting != "never":
        yield PAGES.passed(HOST, "large pages are allowed", observed=setting, evidence=kernel.evidence)
    else:
        yield PAGES.warned(
            HOST,
            "large pages are switched off",
            expected="madvise or always",
            observed=setting,
            remedy=Remedy(
                text="Allow them to programs that ask.",
                command="echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
                needs_root=True,
            ),
            evidence=kernel.evidence,
        )


def clocksource(evidence: Evidence) -> Iterator[Finding]:
    kernel, architecture = evidence.facts.kernel, evidence.facts.cpu.architecture
    source = kernel.clocksource
    if isinstance(source, Unknown):
        yield _unread(CLOCK, source, "the clock source", evidence)
        return
    if isinstance(architecture, Unknown):
        yield CLOCK.undetermined(
            HOST, architecture, what="the processor's architecture", evidence=kernel.evidence
        )
        return
    fast = _FAST_CLOCKS.get(architecture)
    if fast is None:
        yield CLOCK.skipped(HOST, f"no rule for {architecture}")
    elif source in fast:
        yield CLOCK.passed(HOST, "the clock source is fast", observed=source, evidence=kernel.evidence)
    else:
        yield CLOCK.warned(
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


def remove_ipc(evidence: Evidence) -> Iterator[Finding]:
    kernel = evidence.facts.kernel
    setting = kernel.remove_ipc
    if isinstance(setting, Unknown):
        yield _unread(IPC, setting, "the setting of systemd-logind", evidence)
    elif isinstance(evidence.facts.container.runtime, str):
        yield IPC.skipped(HOST, "nobody logs in to a container")
    elif not setting:
        yield IPC.passed(
            HOST, "shared memory outlives a logout", observed="RemoveIPC=no", evidence=kernel.evidence
        )
    else:
        yield IPC.warned(
            HOST,
            "systemd-logind removes the shared memory of users who log out",
            expected="RemoveIPC=no",
            observed="RemoveIPC=yes",
            remedy=Remedy(
                text="Set it, and restart systemd-logind.",
                command="install -d /etc/systemd/logind.conf.d && "
                "printf '[Login]\\nRemoveIPC=no\\n' > /etc/systemd/logind.conf.d/remove-ipc.conf",
                needs_root=True,
            ),
            evidence=kernel.evidence,
        )


def _unread(judge: Judge, unknown: Unknown, what: str, evidence: Evidence) -> Finding:
    if unknown.reason is Reason.NOT_SUPPORTED:
        return judge.skipped(HOST, f"not supported here: {unknown.detail or what}")
    return judge.undetermined(HOST, unknown, what=what, evidence=evidence.facts.kernel.evidence)
