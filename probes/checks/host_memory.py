"""Is the host's memory free, whole, and evenly spread?

Source: imbue-ai/cluster-health (no swap), facebookresearch/gcm (free blocks), mej/nhc (corrected errors),
Linux EDAC documentation; the figures are data rows.
"""

from __future__ import annotations

from collections.abc import Iterator

from probes.base.record import Reason, Unknown, known
from probes.base.units import gib, percent
from probes.facts import NumaNode
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST

SWAP = Judge(
    check_id="swap",
    why="A rank whose pages are swapped out stops all others, where an error would say that memory is short.",
)
AVAILABLE = Judge(
    check_id="memory-available",
    why="Data loaders, pinned buffers and checkpoints end the job when memory is short.",
)
FRAGMENTATION = Judge(
    check_id="memory-fragmentation",
    why="Drivers need whole blocks to register buffers; without them starts are slow or fail.",
)
BALANCE = Judge(
    check_id="memory-balance",
    why="A node with less memory has lost a module: its channels are slower, and its ranks run short first.",
)
ERRORS = Judge(
    check_id="memory-errors",
    why="Memory that errs ends jobs with machine checks, or changes data where nobody checks.",
)
_DAY_S = 86400.0


def swap(evidence: Evidence) -> Iterator[Finding]:
    memory, facts = evidence.facts.memory, evidence.facts
    size = memory.swap_total_bytes
    if isinstance(size, Unknown):
        yield SWAP.undetermined(HOST, size, what="the swap space", evidence=memory.evidence)
    elif size == 0:
        yield SWAP.passed(HOST, "there is no swap space", evidence=memory.evidence)
    elif not known(facts.gpus) or not facts.gpus:
        yield SWAP.passed(
            HOST, "swap space does no harm without GPUs", observed=gib(size), evidence=memory.evidence
        )
    else:
        yield SWAP.warned(
            HOST,
            "this machine swaps",
            expected="no swap space",
            observed=gib(size),
            remedy=Remedy(
                text="Switch it off, and remove it from /etc/fstab.", command="swapoff -a", needs_root=True
            ),
            evidence=memory.evidence,
        )


def memory_available(evidence: Evidence) -> Iterator[Finding]:
    memory, minimum = evidence.facts.memory, evidence.thresholds.memory_available_minimum_fraction
    total, free = memory.total_bytes, memory.available_bytes
    if isinstance(total, Unknown) or isinstance(free, Unknown):
        unknown = next(value for value in (total, free) if isinstance(value, Unknown))
        yield AVAILABLE.undetermined(HOST, unknown, what="the host's memory", evidence=memory.evidence)
    elif total <= 0:
        yield AVAILABLE.undetermined(
            HOST, Unknown(Reason.UNPARSABLE, "a total of 0"), what="the host's memory"
        )
    elif free >= minimum.value * total:
        observed = f"{gib(free)} of {gib(total)}"
        yield AVAILABLE.passed(
            HOST, "enough host memory is free", observed=observed, evidence=memory.evidence
        )
    else:
        yield AVAILABLE.warned(
            HOST,
            "little host memory is free",
            expected=f"at least {percent(minimum.value)} free",
            observed=f"{gib(free)} of {gib(total)}",
            remedy=Remedy(text="Find who uses it.", command="ps -eo rss,pid,user,comm --sort=-rss | head"),
            evidence=(*memory.evidence, minimum.ref),
        )


def memory_fragmentation(evidence: Evidence) -> Iterator[Finding]:
    kernel, minimum = evidence.facts.kernel, evidence.thresholds.free_blocks_minimum
    blocks = kernel.free_blocks_1mib
    if isinstance(blocks, Unknown):
        if blocks.reason is Reason.NOT_SUPPORTED:
            yield FRAGMENTATION.skipped(HOST, f"not supported here: {blocks.detail or 'free blocks'}")
        else:
            yield FRAGMENTATION.undetermined(
                HOST, blocks, what="the free blocks of memory", evidence=kernel.evidence
            )
    elif blocks >= minimum.value:
        observed = f"{blocks} of 1 MiB or more"
        yield FRAGMENTATION.passed(
            HOST, "large blocks of memory are free", observed=observed, evidence=kernel.evidence
        )
    else:
        yield FRAGMENTATION.warned(
            HOST,
            "memory is fragmented",
            expected=f"at least {minimum.value:.0f} free blocks of 1 MiB",
            observed=str(blocks),
            remedy=Remedy(
                text="Let the kernel compact memory.",
                command="echo 1 > /proc/sys/vm/compact_memory",
                needs_root=True,
            ),
            evidence=(*kernel.evidence, minimum.ref),
        )


def memory_balance(evidence: Evidence) -> Iterator[Finding]:
    nodes, spread = evidence.facts.numa_nodes, evidence.thresholds.numa_memory_spread
    if isinstance(nodes, Unknown):
        yield BALANCE.undetermined(HOST, nodes, what="the NUMA nodes")
        return
    own = [node for node in nodes if node.is_gpu_memory is not True and node.cpus != ""]
    if len(own) < 2:
        yield BALANCE.skipped(HOST, "this machine has one NUMA node")
        return
    sizes: list[tuple[NumaNode, int]] = []
    for node in own:
        if isinstance(node.memory_bytes, Unknown):
            yield BALANCE.undetermined(HOST, node.memory_bytes, what=f"the memory of NUMA node {node.index}")
            return
        sizes.append((node, node.memory_bytes))
    most = max(size for _, size in sizes)
    observed = ", ".join(f"node {node.index} {gib(size)}" for node, size in sizes)
    if all(size >= (1 - spread.value) * most for _, size in sizes):
        yield BALANCE.passed(HOST, "NUMA nodes have equal memory", observed=observed)
    else:
        yield BALANCE.warned(
            HOST,
            "a NUMA node has less memory than the others",
            expected=f"within {percent(spread.value)} of {gib(most)}",
            observed=observed,
            remedy=Remedy(
                text="Look for modules that are missing or switched off.",
                command="dmidecode -t memory",
                needs_root=True,
            ),
            evidence=(spread.ref,),
        )


def memory_errors(evidence: Evidence) -> Iterator[Finding]:
    kernel, per_day = evidence.facts.kernel, evidence.thresholds.memory_errors_corrected_per_day
    fatal, corrected = kernel.memory_errors_uncorrected, kernel.memory_errors_corrected
    if isinstance(fatal, Unknown) or isinstance(corrected, Unknown):
        unknown = next(value for value in (fatal, corrected) if isinstance(value, Unknown))
        if unknown.reason is Reason.NOT_SUPPORTED:
            yield ERRORS.skipped(HOST, f"not supported here: {unknown.detail or 'memory errors'}")
        else:
            yield ERRORS.undetermined(
                HOST, unknown, what="the errors of the memory controllers", evidence=kernel.evidence
            )
        return
    days = max(1.0, kernel.uptime_s / _DAY_S) if known(kernel.uptime_s) else 1.0
    remedy = Remedy(
        text="Find the module and replace it.",
        command="grep . /sys/devices/system/edac/mc/mc*/dimm*/dimm_*e_count",
        needs_root=True,
    )
    observed = f"{fatal} uncorrected, {corrected} corrected since the start"
    if fatal > 0:
        yield ERRORS.failed(
            HOST,
            "host memory has uncorrected errors",
            expected="none",
            observed=observed,
            remedy=remedy,
            evidence=kernel.evidence,
        )
    elif corrected > per_day.value * days:
        yield ERRORS.warned(
            HOST,
            "host memory has many corrected errors",
            expected=f"at most {per_day.value:.0f} a day",
            observed=observed,
            remedy=remedy,
            evidence=(*kernel.evidence, per_day.ref),
        )
    else:
        yield ERRORS.passed(HOST, "host memory is well", observed=observed, evidence=kernel.evidence)
