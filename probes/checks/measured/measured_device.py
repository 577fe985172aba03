"""Check the rates of single GPUs and pairs, their rates under load, and that all results are right.

Rates are compared with the rates of healthy GPUs of the same model. The best case of a sweep over shapes
counts. A GPU that falls short, or slows down within seconds of full load, is named with the facts that may be
the cause: a power limit, heat, a narrow PCIe link, NVLinks that are down. Wrong values are the worst fault:
no program stops, and the training result is useless. Source: `probes/data/bench_references.toml`,
`tool_references.toml`; stas00/ml-engineering (achievable FLOPS, bandwidths); NVIDIA/DCGM (limits at three
quarters); Facebook's and Google's reports on silent data corruption (arXiv 2102.11245, "Cores that don't
count"); NVML reference, clock event reasons; memtest86 (patterns).
"""

import functools
from collections.abc import Iterator, Sequence

from probes.base.grouping import grouped
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
    on_measured,
)
from probes.compare.reference_values import gpu_named
from probes.compare.slow_causes import held_down, narrow_link, of_compute, of_host_copy, of_peer_copy
from probes.compare.slow_parts import blamed, pair_of
from probes.facts.measurements import Measurement
from probes.judging.findings import Evidence, Finding, Judge, Remedy, Status
from probes.judging.measurement_evidence import gpus_in, measurements_of, refs_of
from probes.judging.reporting import HOST, SMI_LINK, fold_names, smi_name

HOST_DEVICE = Judge(
    check_id="measured-host-device", why="Batches, checkpoints and offloaded states cross this link."
)

_COMPUTE = Remedy(
    text="Look at clocks, power and temperature under load; compare the GPU with the others, and have it "
    "replaced if it stays slow.",
    command="nvidia-smi -q -d CLOCK,POWER,TEMPERATURE,PERFORMANCE",
)
_MEMORY_CLOCK = Remedy(
    text="Look at the memory clock, remapped rows and ECC errors; compare the GPU with the others.",
    command="nvidia-smi -q -d CLOCK,ECC,ROW_REMAPPER",
)
_PCIE = Remedy(
    text="Look at the PCIe link's speed and width under load, and at the NUMA node on which the copy ran.",
    command=SMI_LINK,
)
_NVLINK = Remedy(
    text="Look at the NVLinks' state, speed and errors of both GPUs, and at the fabric.",
    command="nvidia-smi nvlink -s",
)

_MOST_PAIRS = 4
"""Maximum number of slow pairs that are reported separately."""
SUSTAINED = Judge(
    check_id="measured-sustained", why="Training runs for days, so the rate of a warm machine counts."
)
RESULTS = Judge(
    check_id="measured-results",
    why="Hardware that computes or stores wrong values ruins training without any message.",
)

_CHECKED = frozenset({
    "memory-test", "collectives", "isolation", "pairs", "across-nodes", "peer-copy", "host-device", "gemm",
    "attention", "memory-copy", "host-memory", "sustained",
})  # fmt: skip
"""Benchmarks that compare computed or copied values with the right values."""
_WRONG_ANYWHERE = Remedy(
    text="Drain the machine. Repeat on single GPUs and on pairs to find the GPU that takes part in every "
    "wrong result; look at ECC and NVLink errors.",
    command="nvidia-smi -q -d ECC,ROW_REMAPPER",
)
_GENERAL = "hw_slowdown"
"""Reason that the hardware reports together with heat and with the power brake."""
_QUARTERS = 4


measured_gemm = functools.partial(
    judge_references,
    Aspect(
        judge=Judge(
            check_id="measured-gemm",
            why="Matrix products take most of a training step; all ranks wait for the slowest GPU.",
        ),
        bench_ids=("gemm", "cpu-gemm"),
        metric="gemm_flops_per_s",
        what="matrix product",
        good="matrix products are as fast as on equal hardware",
        slow="matrix products are slow",
        remedy=_COMPUTE,
        cause=of_compute,
    ),
)


measured_attention = functools.partial(
    judge_references,
    Aspect(
        judge=Judge(
            check_id="measured-attention",
            why="The time for attention grows with the square of the sequence length.",
        ),
        bench_ids=("attention",),
        metric="attention_flops_per_s",
        what="attention",
        good="attention is as fast as on equal hardware",
        slow="attention is slow",
        remedy=Remedy(
            text="See which kernel torch uses (torch.nn.attention.sdpa_kernel), and whether a newer torch "
            "has a faster kernel."
        ),
        cause=of_compute,
    ),
)


measured_memory = functools.partial(
    judge_references,
    Aspect(
        judge=Judge(
            check_id="measured-memory",
            why="The bandwidth of GPU memory limits the optimizer, normalisations and activations.",
        ),
        bench_ids=("memory-copy", "host-memory"),
        metric="memory_bandwidth_bytes_per_s",
        what="memory bandwidth",
        good="memory is as fast as on equal hardware",
        slow="memory is slow",
        remedy=_MEMORY_CLOCK,
        cause=of_compute,
    ),
)


def measured_host_device(evidence: Evidence) -> Iterator[Finding]:
    """Compare host copies with the PCIe link, and warn about a link that is narrower than it could be."""
    aspect = Aspect(
        judge=HOST_DEVICE,
        bench_ids=("host-device",),
        metric="memory_bandwidth_bytes_per_s",
        what="copy between host and GPU",
        good="host copies are as fast as the PCIe link",
        slow="host copies are slow",
        remedy=_PCIE,
        cause=of_host_copy,
    )
    yield from judge_references(aspect, evidence)
    copies = [
        beside.measured
        for beside in beside_references(evidence)
        if beside.measured.bench_id == "host-device" and beside.status is Status.PASS
    ]
    first_copies: dict[str, Measurement] = {}
    for copy in copies:
        first_copies.setdefault(copy.subject, copy)
    for measurement in first_copies.values():
        gpu = gpu_named(evidence, measurement.subject)
        link = narrow_link(gpu) if gpu is not None else None
        if link is None:
            continue
        yield HOST_DEVICE.warned(
            measurement.subject,
            f"host copies are as fast as a PCIe link with {link[0]} of {link[1]} lanes",
            expected=f"x{link[1]}, so {link[1] / link[0]:g} times as fast",
            observed=observed([measurement]),
            remedy=_PCIE,
            evidence=refs_of([measurement]),
        )


def _pairs(short: Sequence[Beside], well: Sequence[Beside]) -> Parts:
    """Report a GPU once if all its pairs are slow.

    If more than four other pairs are slow, report these pairs in one finding.
    """
    slow = {pair for beside in short if (pair := pair_of(beside.measured.subject)) is not None}
    fine = {pair for beside in well if (pair := pair_of(beside.measured.subject)) is not None}
    parts: Parts = {}
    rest = list(short)
    for member in blamed(slow, slow | fine):
        if isinstance(member, str):
            parts[member] = [beside for beside in rest if member in gpus_in(beside.measured.subject)]
            rest = [beside for beside in rest if beside not in parts[member]]
    if len(rest) > _MOST_PAIRS:
        names = {name for beside in rest for name in gpus_in(beside.measured.subject)}
        return {**parts, fold_names(sorted(names)): rest}
    return {**parts, **by_subject(rest)}


measured_peer_copy = functools.partial(
    judge_references,
    Aspect(
        judge=Judge(
            check_id="measured-peer-copy",
            why="A slow pair of GPUs slows every ring that passes through it, and thus all GPUs.",
        ),
        bench_ids=("peer-copy",),
        metric="peer_bandwidth_bytes_per_s",
        what="copy between two GPUs",
        good="copies between GPUs are as fast as their links",
        slow="copies between GPUs are slow",
        remedy=_NVLINK,
        cause=lambda all_facts, subject: of_peer_copy(all_facts, gpus_in(subject)),
        parts=_pairs,
    ),
)


@on_measured(
    SUSTAINED, ("sustained",), ("sustained",), "sustained_fraction", absent="no sustained load was measured"
)
def measured_sustained(fractions: tuple[Measurement, ...], evidence: Evidence) -> Iterator[Finding]:
    least = 1 - evidence.thresholds.sustained_drop_fraction.value
    yield from (_sags(evidence, measurement) for measurement in fractions if measurement.median < least)
    steady = [measurement for measurement in fractions if not measurement.median < least]
    if steady:
        left = (
            f"{percent(round(min(measurement.median for measurement in steady), 3))} or more of the first "
            "rate remains at the end"
        )
        yield SUSTAINED.passed(
            fold_names([measurement.subject for measurement in steady]),
            "the rate stays nearly constant under load",
            observed=left,
            evidence=refs_of(steady),
        )


def _sags(evidence: Evidence, fraction: Measurement) -> Finding:
    """Report one device that slows down under load."""
    fails = fraction.median < evidence.thresholds.measured_fail_fraction.value
    rates = [
        measurement
        for measurement in measurements_of(evidence, ("sustained",), "gemm_flops_per_s")
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
    """Return the known reason that held the clocks down during the measurement, or "", and the remedy."""
    reasons, gpu = held_down(evidence, subject), gpu_named(evidence, subject)
    place = f"-i {smi_name(gpu)} " if gpu is not None else ""
    command = f"nvidia-smi {place}-q -d PERFORMANCE,TEMPERATURE,POWER"
    words, text = "", "Watch clocks, temperature and power under load."
    if any("thermal" in reason for reason in reasons):
        words = ": it is too hot"
        text = (
            "Look at fans, air filters, cold plates and the inlet temperature; reseat the heat sink if "
            "this GPU alone is hot."
        )
    elif any("power" in reason for reason in reasons):
        words = ": power is limited"
        text = (
            "Look at the power limit; if the hardware itself slows the GPU, look at the supplies and cables."
        )
    elif _GENERAL in reasons:
        words = ": the hardware cut the clocks"
        text = "Look at temperature, power cabling and power supplies of this GPU."
    elif gpu is None:
        text = "Look at the temperature and the clock of the processors, and at who else uses them."
        command = ""
    return words, Remedy(text=text, command=command)


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
    return f"up to {max(temperatures):.0f} °C" if temperatures else ""


def measured_results(evidence: Evidence) -> Iterator[Finding]:
    errors = [
        record for record in measurements_of(evidence, ("memory-test",), "memory_errors") if record.median > 0
    ]
    # A memory test with errors is reported below with its patterns, so its failure is not reported here too.
    checked_benches = _CHECKED - ({"memory-test"} if errors else set())
    wrong = [
        record
        for record in evidence.bench_failures
        if record.kind == WRONG and record.bench_id in checked_benches
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
                "again, and replace the GPU if it computes wrong values again.",
                command=f"nvidia-smi -i {smi_name(gpu)} -q -d ECC,ROW_REMAPPER",
            ),
        )
    by_subject = grouped((record.subject, record) for record in errors)
    for subject, wrong_values in by_subject.items():
        gpu = gpu_named(evidence, subject)
        yield RESULTS.failed(
            subject,
            "memory returns other values than the written values",
            expected="0 errors",
            observed="; ".join(
                f"{record.median:.0f} with {record.parameters.get('pattern', 'a pattern')}"
                for record in wrong_values
            ),
            remedy=Remedy(
                text="Take this part out of use, reset the GPU so that bad rows are remapped, and test "
                "again; replace it if errors come back.",
                command=f"nvidia-smi -i {smi_name(gpu)} -q -d ECC,ROW_REMAPPER"
                if gpu is not None
                else "dmesg | grep -iE 'mce|edac'",
            ),
            evidence=refs_of(wrong_values),
        )
    yield from failures(RESULTS, evidence, ("memory-test",))
    checked = measurements_of(evidence, _CHECKED)
    if checked and not wrong and not errors:
        benches = ", ".join(dict.fromkeys(record.bench_id for record in checked))
        yield RESULTS.passed(
            HOST,
            "all computed, copied and stored values are right",
            observed=benches,
            evidence=refs_of(checked),
        )
    elif not checked and not wrong:
        yield RESULTS.skipped(HOST, "no benchmark that checks for right values was run")
