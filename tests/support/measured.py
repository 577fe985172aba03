"""Measurements for tests: one call makes the measurements of a benchmark."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from probes.facts.measurements import Baseline, BenchFailure, Measurement, MeasurementSet, Parameter

JITTER = (0.99, 1.0, 1.01, 0.995, 1.005, 1.0)
"""Samples of a quiet machine, as multiples of the median."""
QUIET: dict[str, Parameter] = {
    "host_busy": False,
    "others_cpu_share": 0.01,
    "torch_version": "2.5.1",
    "nccl_version": "2.27.3",
}


def measured(
    bench_id: str,
    metric: str,
    subject: str,
    median: float,
    *,
    conditions: dict[str, Parameter] | None = None,
    series: dict[str, tuple[float, ...]] | None = None,
    **parameters: Parameter,
) -> Measurement:
    """Return a measurement with samples around `median`, or only `median` if its unit is 1.

    The unit follows from the name of the metric.
    """
    unit = (
        "flop/s"
        if "flops" in metric
        else "byte/s"
        if "bytes_per_s" in metric
        else "1/s"
        if metric.endswith("per_s")
        else ""
    )
    unit = unit or ("s" if metric.endswith("_s") else "byte" if metric.endswith("_bytes") else "1")
    return Measurement(
        bench_id=bench_id,
        subject=subject,
        metric=metric,
        unit="image/s" if metric == "images_per_s" else unit,
        samples=(median,) if unit == "1" else tuple(median * factor for factor in JITTER),
        parameters=parameters,
        conditions={**QUIET, **(conditions or {})},
        series=series or {},
    )


def scattered(entry: Measurement, factors: tuple[float, ...] = (0.3, 0.5, 1.0, 1.0, 1.6, 1.7)) -> Measurement:
    """Return the measurement with samples that scatter around its median; the default factors give a
    `Measurement.spread` of 66 %.
    """
    return msgspec.structs.replace(entry, samples=tuple(entry.median * factor for factor in factors))


def run_of(
    *measurements: Measurement | Iterable[Measurement], failures: tuple[BenchFailure, ...] = ()
) -> MeasurementSet:
    """Return one run of the benchmarks."""
    flat = [
        measurement
        for part in measurements
        for measurement in ((part,) if isinstance(part, Measurement) else part)
    ]
    return MeasurementSet(
        started="2026-11-20T21:14:03Z", machine="node17", measurements=tuple(flat), failures=failures
    )


def earlier(
    kind: str, *measurements: Measurement | Iterable[Measurement], started: str = "2026-11-19T08:00:00Z"
) -> tuple[Baseline, ...]:
    run = msgspec.structs.replace(run_of(*measurements), started=started)
    return (Baseline(kind=kind, measured=run),)  # type: ignore[arg-type]


def failed(
    bench_id: str,
    kind: str = "crashed",
    subject: str = "8 ranks",
    message: str = "the worker ended by signal 9",
) -> MeasurementSet:
    """Return a run in which one benchmark gave no result."""
    return run_of(failures=(BenchFailure(bench_id=bench_id, subject=subject, kind=kind, message=message),))


def gemm(
    *tflops: float, dtype: str = "bf16", size: int = 8192, kind: str = "GPU", bench: str = "gemm"
) -> list[Measurement]:
    """Return matrix products, with one rate per device."""
    return [
        measured(
            bench, "gemm_flops_per_s", f"{kind}{index}", rate * 1e12, dtype=dtype, m=size, n=size, k=size
        )
        for index, rate in enumerate(tflops)
    ]


def copies(*rates: float, bench: str = "memory-copy", **parameters: Parameter) -> list[Measurement]:
    """Return copies in GB/s, one per GPU."""
    case: dict[str, Parameter] = {"direction": "device_to_device", "bytes": 2**29, **parameters}
    return [
        measured(bench, "memory_bandwidth_bytes_per_s", f"GPU{index}", rate * 1e9, **case)
        for index, rate in enumerate(rates)
    ]


def host_copies(*rates: float, **parameters: Parameter) -> list[Measurement]:
    case: dict[str, Parameter] = {
        "direction": "host_to_device",
        "pinned": True,
        "near": True,
        "concurrent": False,
        **parameters,
    }
    return copies(*rates, bench="host-device", **case)


def peer_copies(rates: dict[tuple[int, int], float], direction: str = "one_way") -> list[Measurement]:
    """Return copies in GB/s by sender and receiver."""
    return [
        measured(
            "peer-copy",
            "peer_bandwidth_bytes_per_s",
            f"GPU{min(ends)}-GPU{max(ends)}",
            rate * 1e9,
            direction=direction,
            bytes=2**28,
            **{"from": f"GPU{ends[0]}", "to": f"GPU{ends[1]}"},
        )
        for ends, rate in rates.items()
    ]


def collective(
    *points: tuple[int, float],
    name: str = "all_reduce",
    ranks: int = 8,
    bench: str = "collectives",
    backend: str = "nccl",
    conditions: dict[str, Parameter] | None = None,
    **parameters: Parameter,
) -> list[Measurement]:
    """Return bus bandwidths in GB/s by size in MiB."""
    return [
        measured(
            bench,
            "bus_bandwidth_bytes_per_s",
            f"{ranks} ranks",
            rate * 1e9,
            conditions=conditions,
            collective=name,
            bytes=size * 2**20,
            world_size=ranks,
            backend=backend,
            **parameters,
        )
        for size, rate in points
    ]


def pairs(
    rates: dict[str, float], bench: str = "pairs", metric: str = "pair_bandwidth_bytes_per_s"
) -> list[Measurement]:
    """Return bandwidths in GB/s by subject."""
    return [
        measured(bench, metric, subject, rate * 1e9, bytes=2**28, pairs="alone")
        for subject, rate in rates.items()
    ]


def sustained(*fractions: float, **conditions: Parameter) -> list[Measurement]:
    """Return the rate of each GPU and the fraction that remains at the end, to which its clock falls too."""
    measurements = []
    for index, fraction in enumerate(fractions):
        clocks = tuple(1980e6 * (1 - (1 - fraction) * second / 19) for second in range(20))
        changes = {"sm_clock_hz": clocks, "temperature_c": (60.0,) * 10 + (88.0,) * 10}
        rates = measured(
            "sustained",
            "gemm_flops_per_s",
            f"GPU{index}",
            7e14,
            conditions=conditions,
            series=changes,
            dtype="bf16",
        )
        measurements += [
            rates,
            measured("sustained", "sustained_fraction", f"GPU{index}", fraction, conditions=conditions),
        ]
    return measurements
