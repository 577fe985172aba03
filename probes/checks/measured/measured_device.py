"""Compare the compute and copy rates of the GPUs with those of healthy GPUs of the same model.

The best case of a sweep over shapes counts. A GPU that falls short is named with the facts that may be the
cause: a power limit, a narrow PCIe link, NVLinks that are down. Source: `probes/data/bench_references.toml`,
`tool_references.toml`; stas00/ml-engineering (achievable FLOPS, bandwidths); NVIDIA/DCGM (limits at three
quarters).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from probes.compare.comparing import Beside, beside_references
from probes.compare.measured_findings import Aspect, Parts, by_subject, judge_references, observed, refs_of
from probes.compare.reference_values import gpu_named, gpus_in
from probes.compare.slow_causes import narrow_link, of_compute, of_host_copy, of_peer_copy
from probes.compare.slow_pairs import blamed, pair_of
from probes.judging.findings import Evidence, Finding, Judge, Remedy, Status
from probes.judging.reporting import SMI_LINK, fold_names

GEMM = Judge(
    check_id="measured-gemm",
    why="Matrix products are most of a training step; all ranks wait for the slowest GPU.",
)
ATTENTION = Judge(
    check_id="measured-attention", why="Attention grows with the square of the sequence length."
)
MEMORY = Judge(
    check_id="measured-memory",
    why="The optimizer, normalisations and activations are bound by the bandwidth of GPU memory.",
)
HOST_DEVICE = Judge(
    check_id="measured-host-device", why="Batches, checkpoints and offloaded states cross this link."
)
PEERS = Judge(
    check_id="measured-peer-copy",
    why="A slow pair of GPUs slows every ring that passes it, and with it all GPUs.",
)

_COMPUTE = Remedy(
    text="Look at clocks, power and temperature under load; compare the GPU with the others, and have it "
    "replaced if it stays.",
    command="nvidia-smi -q -d CLOCK,POWER,TEMPERATURE,PERFORMANCE",
)
_MEMORY = Remedy(
    text="Look at the memory clock, remapped rows and ECC errors; compare the GPU with the others.",
    command="nvidia-smi -q -d CLOCK,ECC,ROW_REMAPPER",
)
_PCIE = Remedy(
    text="Look at the PCIe link's speed and width under load, and at the NUMA node that the copy ran on.",
    command=SMI_LINK,
)
_NVLINK = Remedy(
    text="Look at the NVLinks' state, speed and errors of both GPUs, and at the fabric.",
    command="nvidia-smi nvlink -s",
)

_MOST_PAIRS = 4
"""Slow pairs that are named one by one."""


def measured_gemm(evidence: Evidence) -> Iterable[Finding]:
    aspect = Aspect(
        what="matrix product",
        good="matrix products are as fast as on such hardware",
        slow="matrix products are slow",
        remedy=_COMPUTE,
        cause=of_compute,
        belongs=lambda measurement: measurement.metric == "gemm_flops_per_s",
    )
    return judge_references(GEMM, evidence, ("gemm", "cpu-gemm"), aspect)


def measured_attention(evidence: Evidence) -> Iterable[Finding]:
    aspect = Aspect(
        what="attention",
        good="attention is as fast as on such hardware",
        slow="attention is slow",
        remedy=Remedy(
            text="See which kernel torch takes (torch.nn.attention.sdpa_kernel), and whether a newer torch "
            "has a faster one."
        ),
        cause=of_compute,
        belongs=lambda measurement: measurement.metric == "attention_flops_per_s",
    )
    return judge_references(ATTENTION, evidence, ("attention",), aspect)


def measured_memory(evidence: Evidence) -> Iterable[Finding]:
    aspect = Aspect(
        what="memory bandwidth",
        good="memory is as fast as on such hardware",
        slow="memory is slow",
        remedy=_MEMORY,
        cause=of_compute,
        belongs=lambda measurement: measurement.metric == "memory_bandwidth_bytes_per_s",
    )
    return judge_references(MEMORY, evidence, ("memory-copy", "host-memory"), aspect)


def measured_host_device(evidence: Evidence) -> Iterator[Finding]:
    aspect = Aspect(
        what="copy between host and GPU",
        good="host copies are as fast as the PCIe link",
        slow="host copies are slow",
        remedy=_PCIE,
        cause=of_host_copy,
        belongs=lambda measurement: measurement.metric == "memory_bandwidth_bytes_per_s",
    )
    yield from judge_references(HOST_DEVICE, evidence, ("host-device",), aspect)
    yield from _narrow(evidence)


def _narrow(evidence: Evidence) -> Iterator[Finding]:
    """Warn about copies that are as fast as a link which is narrower than it could be."""
    reported = set()
    for beside in beside_references(evidence):
        measurement = beside.measured
        gpu = gpu_named(evidence, measurement.subject)
        link = narrow_link(gpu) if gpu is not None else None
        if (
            measurement.bench_id != "host-device"
            or link is None
            or beside.status is not Status.PASS
            or measurement.subject in reported
        ):
            continue
        reported.add(measurement.subject)
        yield HOST_DEVICE.warned(
            measurement.subject,
            f"host copies are as fast as a PCIe link with {link[0]} of {link[1]} lanes",
            expected=f"x{link[1]}, so {link[1] / link[0]:g} times as fast",
            observed=observed([measurement]),
            remedy=_PCIE,
            evidence=refs_of([measurement]),
        )


def measured_peer_copy(evidence: Evidence) -> Iterable[Finding]:
    aspect = Aspect(
        what="copy between two GPUs",
        good="copies between GPUs are as fast as their links",
        slow="copies between GPUs are slow",
        remedy=_NVLINK,
        cause=lambda all_facts, subject: of_peer_copy(all_facts, gpus_in(subject)),
        belongs=lambda measurement: measurement.metric == "peer_bandwidth_bytes_per_s",
        parts=_pairs,
    )
    return judge_references(PEERS, evidence, ("peer-copy",), aspect)


def _pairs(short: Sequence[Beside], well: Sequence[Beside]) -> Parts:
    """Report a GPU once if all its pairs are slow, and all GPUs together if most of their pairs are slow."""
    slow = {pair: beside for beside in short if (pair := pair_of(beside.measured.subject)) is not None}
    fine = {pair for beside in well if (pair := pair_of(beside.measured.subject)) is not None}
    parts: Parts = {}
    rest = list(short)
    for member in blamed(slow, {*slow, *fine}):
        if isinstance(member, str):
            parts[member] = [beside for beside in rest if member in gpus_in(beside.measured.subject)]
            rest = [beside for beside in rest if beside not in parts[member]]
    if len(rest) > _MOST_PAIRS:
        names = {name for beside in rest for name in gpus_in(beside.measured.subject)}
        return {**parts, fold_names(sorted(names)): rest}
    return {**parts, **by_subject(rest)}
