"""Check the rates of single GPUs and pairs, whether GPUs keep their rates under load, and all results.

Rates are compared with those of healthy GPUs of the same model. The best case of a sweep over shapes counts.
A GPU that falls short, or slows down within seconds of full load, is named with the facts that may be the
cause: a power limit, heat, a narrow PCIe link, NVLinks that are down. Wrong values are the worst fault:
nothing stops, and the training is lost. Source: `probes/data/bench_references.toml`, `tool_references.toml`;
stas00/ml-engineering (achievable FLOPS, bandwidths); NVIDIA/DCGM (limits at three quarters); facebook's and
Google's reports on silent data corruption (arXiv 2102.11245, "Cores that don't count"); NVML reference, clock
event reasons; memtest86 (patterns).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from probes.base.statistics import quantile
from probes.base.units import percent
from probes.compare.comparing import Beside, beside_references
from probes.compare.measured_findings import (
    WRONG,
    Aspect,
    Parts,
    by_subject,
    failures,
    judge_references,
    observed,
    of,
    on_measured,
    refs_of,
)
from probes.compare.reference_values import gpu_named, gpus_in
from probes.compare.slow_causes import held_down, narrow_link, of_compute, of_host_copy, of_peer_copy
from probes.compare.slow_parts import blamed, pair_of
from probes.facts.measurements import Measurement
from probes.judging.findings import Evidence, Finding, Judge, Remedy, Status
from probes.judging.reporting import HOST, SMI_LINK, fold_names, smi_name

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
_MEMORY_CLOCK = Remedy(
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
SUSTAINED = Judge(
    check_id="measured-sustained", why="Training runs for days: what counts is the rate of a warm machine."
)
RESULTS = Judge(
    check_id="measured-results",
    why="Hardware that computes or keeps wrong values ruins training without a word.",
)

_CHECKED = frozenset({
    "memory-test", "collectives", "isolation", "pairs", "across-nodes", "peer-copy", "host-device", "gemm",
    "attention", "memory-copy", "host-memory", "sustained",
})  # fmt: skip
"""Benchmarks that compare what they computed or moved with what it must be."""
_WRONG_ANYWHERE = Remedy(
    text="Drain the machine. Repeat on single GPUs and on pairs to find the one that is in every wrong "
    "result; look at ECC and NVLink errors.",
    command="nvidia-smi -q -d ECC,ROW_REMAPPER",
)
_HOT = ("thermal", "hw_slowdown")
_POWER = ("power",)
_QUARTERS = 4


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
        remedy=_MEMORY_CLOCK,
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


@on_measured(
    SUSTAINED, ("sustained",), ("sustained",), "sustained_fraction", absent="no sustained load was measured"
)
def measured_sustained(fractions: tuple[Measurement, ...], evidence: Evidence) -> Iterator[Finding]:
    limit = 1 - evidence.thresholds.sustained_drop_fraction.value
    steady: list[Measurement] = []
    for measurement in fractions:
        if measurement.median < limit:
            yield _sags(evidence, measurement)
        else:
            steady.append(measurement)
    if steady:
        left = (
            f"{percent(round(min(measurement.median for measurement in steady), 3))} or more of the "
            "first rate is left at the end"
        )
        yield SUSTAINED.passed(
            fold_names([measurement.subject for measurement in steady]),
            "the rate holds under load",
            observed=left,
            evidence=refs_of(steady),
        )


def _sags(evidence: Evidence, fraction: Measurement) -> Finding:
    """Report one device that slows down under load."""
    fails = fraction.median < evidence.thresholds.measured_fail_fraction.value
    rates = [
        measurement
        for measurement in of(evidence, ("sustained",), "gemm_flops_per_s")
        if measurement.subject == fraction.subject
    ]
    why, remedy = _reason(evidence, fraction.subject)
    sensors = "; ".join(
        reading for measurement in rates for reading in (_clocks(measurement), _heat(measurement)) if reading
    )
    limit = (
        evidence.thresholds.measured_fail_fraction if fails else evidence.thresholds.sustained_drop_fraction
    )
    return SUSTAINED.problem(
        fraction.subject,
        f"slows down under load{why}",
        fails=fails,
        expected=f"at least {percent(1 - evidence.thresholds.sustained_drop_fraction.value)} of the first "
        "seconds' rate",
        observed=f"{percent(round(fraction.median, 2))}{f'; {sensors}' if sensors else ''}",
        remedy=remedy,
        evidence=(*refs_of([fraction, *rates]), limit.ref),
    )


def _reason(evidence: Evidence, subject: str) -> tuple[str, Remedy]:
    """Return heat or power as the reason, by what held the clocks down meanwhile."""
    reasons, gpu = held_down(evidence, subject), gpu_named(evidence, subject)
    place = f"-i {smi_name(gpu)} " if gpu is not None else ""
    command = f"nvidia-smi {place}-q -d PERFORMANCE,TEMPERATURE,POWER"
    if any(word in reason for reason in reasons for word in _HOT):
        text = (
            "Look at fans, air filters, cold plates and the inlet temperature; reseat the heat sink if "
            "this GPU alone is hot."
        )
        return ": it is too hot", Remedy(text=text, command=command)
    if any(word in reason for reason in reasons for word in _POWER):
        text = "Look at the power limit, and at the supplies and cables where the hardware itself brakes."
        return ": power is capped", Remedy(text=text, command=command)
    if gpu is None:
        return "", Remedy(
            text="Look at the temperature and the clock of the processors, and at who else uses them."
        )
    return "", Remedy(text="Watch clocks, temperature and power under load.", command=command)


def _clocks(rates: Measurement) -> str:
    """Return the change of the clock: `SM clock 1980 to 1410 MHz`."""
    clocks = rates.series.get("sm_clock_hz", ())
    quarter = len(clocks) // _QUARTERS
    if not quarter:
        return ""
    first, last = quantile(clocks[:quarter], 0.5), quantile(clocks[-quarter:], 0.5)
    return f"SM clock {first / 1e6:.0f} to {last / 1e6:.0f} MHz"


def _heat(rates: Measurement) -> str:
    temperatures = rates.series.get("temperature_c", ())
    return f"up to {max(temperatures):.0f} degC" if temperatures else ""


def measured_results(evidence: Evidence) -> Iterator[Finding]:
    errors = [record for record in of(evidence, ("memory-test",), "memory_errors") if record.median > 0]
    # A memory test with errors has a finding with its patterns below, so its failure is not reported twice.
    reported = {"memory-test"} if errors else set()
    wrong = [
        record
        for record in evidence.bench_failures
        if record.kind == WRONG and record.bench_id in _CHECKED - reported
    ]
    for failure in wrong:
        gpu = gpu_named(evidence, failure.subject)
        yield RESULTS.failed(
            failure.subject,
            f"{failure.bench_id} gave wrong results",
            expected="right values",
            observed=failure.message,
            remedy=_WRONG_ANYWHERE
            if gpu is None
            else Remedy(
                text="Take this GPU out of use, and look at its ECC errors and remapped rows; measure "
                "again, replace it where it computes wrong again.",
                command=f"nvidia-smi -i {smi_name(gpu)} -q -d ECC,ROW_REMAPPER",
            ),
        )
    by_subject: dict[str, list[Measurement]] = {}
    for record in errors:
        by_subject.setdefault(record.subject, []).append(record)
    for subject, wrong_values in by_subject.items():
        gpu = gpu_named(evidence, subject)
        place = f"-i {smi_name(gpu)} " if gpu is not None else ""
        yield RESULTS.failed(
            subject,
            "memory gives back other values than were written",
            expected="0 errors",
            observed="; ".join(
                f"{record.median:.0f} with {record.parameters.get('pattern', 'a pattern')}"
                for record in wrong_values
            ),
            remedy=Remedy(
                text="Take this part out of use, reset the GPU so that bad rows are remapped, and test "
                "again; replace it if errors come back.",
                command=f"nvidia-smi {place}-q -d ECC,ROW_REMAPPER"
                if gpu is not None
                else "dmesg | grep -iE 'mce|edac'",
            ),
            evidence=refs_of(wrong_values),
        )
    yield from failures(RESULTS, evidence, ("memory-test",))
    checked = of(evidence, _CHECKED)
    if checked and not wrong and not errors:
        benches = ", ".join(dict.fromkeys(record.bench_id for record in checked))
        yield RESULTS.passed(
            HOST, "what was computed, moved and kept is right", observed=benches, evidence=refs_of(checked)
        )
    elif not checked and not wrong:
        yield RESULTS.skipped(HOST, "nothing was measured that is checked for right values")
