"""Rates for the prediction models, taken from measurements on this machine."""

import math
from collections.abc import Iterable, Iterator

from probes.base.units import percent
from probes.bench.latency_bandwidth import Fit, fits
from probes.facts.measurements import Measurement, Parameter, others_share
from recipes.constants import constant
from recipes.machine.cluster_records import AttentionRate, Figure, ImageAnchor, StepAnchor

_LARGEST_RESIDUAL = 0.2
"""Largest relative residual of a usable fit.

If the residual is larger for half of the sizes, the fit is not used.
"""
_STEPS = ("train-step", "micro-batch")
"""Benchmarks that run optimizer steps of the reference workload."""
OTHER_DEVICES = ("cpu-gemm", "host-memory", "host-device")
"""Benchmarks of devices that are not used for training, but whose metrics have the same names."""


def _of(measurements: Iterable[Measurement], metric: str) -> list[Measurement]:
    """Return the measurements of this metric on the training devices."""
    return [
        measurement
        for measurement in measurements
        if measurement.metric == metric and measurement.samples and measurement.bench_id not in OTHER_DEVICES
    ]


def _over_ranks(measurements: Iterable[Measurement], metric: str, ranks: int) -> list[Measurement]:
    """Return the measurements of this metric that were taken on `ranks` ranks at the same time."""
    return [m for m in _of(measurements, metric) if m.parameters.get("world_size") == ranks]


def _figure(value: float, source: str) -> Figure | None:
    """Return a measured rate; None if nothing was measured or the rate is 0."""
    return Figure(value=value, basis="measured", source=source) if value > 0 else None


def _latest(measurements: list[Measurement], source: str) -> Figure | None:
    """Return the last measurement as a figure; None if there is no measurement."""
    last = [Figure(value=each.median, basis="measured", source=source) for each in measurements[-1:]]
    return last[0] if last else None


def whole_of(value: Parameter | None) -> int:
    """Return a stated size as a whole number; 0 if it is not a number."""
    return int(_number(value))


def threads_of(measurement: Measurement) -> int:
    """Return the number of threads of the rank that measured; 0 if the rank did not state it."""
    return whole_of(measurement.conditions.get("threads"))


def _share_of_rank(measurement: Measurement, threads: int | None) -> float:
    """Return `threads` divided by the number of threads of the rank that measured; 1 for GPUs (None).

    All ranks measure at the same time, so a rank with twice the threads has twice the cores and twice the
    bandwidth.
    """
    measured = threads_of(measurement)
    return threads / measured if threads and measured else 1.0


def measured_flops(measurements: tuple[Measurement, ...], threads: int | None = None) -> dict[str, Figure]:
    """Return the slowest device's best rate of matrix products (GEMM) by dtype over the measured shapes.

    All ranks wait for this device. On a CPU `threads` is the number of threads of one rank.
    """
    best: dict[str, dict[str, float]] = {}
    for measurement in _of(measurements, "gemm_flops_per_s"):
        by_subject = best.setdefault(str(measurement.parameters.get("dtype")), {})
        rate = measurement.median * _share_of_rank(measurement, threads)
        by_subject[measurement.subject] = max(rate, by_subject.get(measurement.subject, 0.0))
    return {
        dtype: Figure(
            value=min(rates.values()),
            basis="measured",
            source="benchmark gemm, best shape of the slowest device",
        )
        for dtype, rates in best.items()
        if min(rates.values()) > 0
    }


def measured_attention(
    measurements: tuple[Measurement, ...], threads: int | None = None
) -> tuple[AttentionRate, ...]:
    """Return the slowest device's rates of fused attention, one for each measured case.

    Cases differ in precision, pass, sequence length and head size.
    """
    rates: dict[tuple[str, bool, int, int], float] = {}
    for measurement in _of(measurements, "attention_flops_per_s"):
        case = measurement.parameters
        length, head_dim = (whole_of(case.get(name)) for name in ("sequence_length", "head_dim"))
        rate = measurement.median * _share_of_rank(measurement, threads)
        if case.get("kernel") == "math" or min(length, head_dim) < 1 or rate <= 0:
            continue
        key = str(case.get("dtype")), case.get("pass") == "backward", length, head_dim
        rates[key] = min(rate, rates.get(key, rate))
    return tuple(
        AttentionRate(
            precision=dtype, backward=backward, sequence_length=length, head_dim=head_dim, flops_per_s=rate
        )
        for (dtype, backward, length, head_dim), rate in sorted(rates.items())
    )


def measured_overlap(measurements: tuple[Measurement, ...], ranks: int) -> Figure | None:
    """Return the overlap of communication and computation, as a fraction of the shorter of the two times."""
    overlaps = _over_ranks(measurements, "overlap_fraction", ranks)
    return _latest(overlaps, f"benchmark overlap over {ranks} ranks")


def measured_memory_bandwidth(
    measurements: tuple[Measurement, ...], threads: int | None = None
) -> Figure | None:
    """Return the slowest device's copy bandwidth within its memory; triads and host copies are excluded."""
    by_subject: dict[str, float] = {}
    for measurement in _of(measurements, "memory_bandwidth_bytes_per_s"):
        parameters = measurement.parameters
        is_copy = parameters.get("operation", "copy") == "copy"
        if is_copy and parameters.get("direction", "device_to_device") == "device_to_device":
            rate = measurement.median * _share_of_rank(measurement, threads)
            by_subject[measurement.subject] = max(rate, by_subject.get(measurement.subject, 0.0))
    return _figure(min(by_subject.values(), default=0.0), "benchmark memory-copy, slowest device")


def measured_host_bandwidth(measurements: tuple[Measurement, ...]) -> Figure | None:
    """Return the bandwidth of copies with page-locked host memory, in the slower direction, slowest GPU."""
    by_case: dict[tuple[str, str], float] = {}
    for measurement in measurements:
        parameters = measurement.parameters
        direction = str(parameters.get("direction"))
        if measurement.metric != "memory_bandwidth_bytes_per_s" or direction not in (
            "host_to_device",
            "device_to_host",
        ):
            continue
        if measurement.samples and parameters.get("pinned", True) is True:
            case = (measurement.subject, direction)
            by_case[case] = max(measurement.median, by_case.get(case, 0.0))
    return _figure(min(by_case.values(), default=0.0), "benchmark host-device, slowest GPU and direction")


def all_reduces(measurements: tuple[Measurement, ...], metric: str, ranks: int) -> list[Measurement]:
    """Return all-reduce measurements of this metric over `ranks` ranks of one node, smallest size first."""
    reductions = [
        measurement
        for measurement in _of(measurements, metric)
        if measurement.bench_id == "collectives"
        and measurement.parameters.get("collective", "all_reduce") == "all_reduce"
        and measurement.parameters.get("world_size") == ranks
        and measurement.parameters.get("layers", "all") == "all"
        and _number(measurement.parameters.get("bytes")) > 0
    ]
    return sorted(reductions, key=lambda measurement: _number(measurement.parameters["bytes"]))


def measured_ring(measurements: tuple[Measurement, ...], ranks: int) -> Figure | None:
    """Return the best all-reduce bus bandwidth over `ranks` ranks of this machine."""
    curve = all_reduces(measurements, "bus_bandwidth_bytes_per_s", ranks)
    ascending = sorted(curve, key=lambda measurement: measurement.median)
    return _latest(ascending, f"benchmark collectives, all-reduce over {ranks} ranks, best size")


def measured_hop(measurements: tuple[Measurement, ...], ranks: int) -> Figure | None:
    """Return the latency of one hop: the time of the smallest all-reduce divided by its number of hops."""
    times = all_reduces(measurements, "collective_time_s", ranks)
    if not times or ranks < 2:
        return None
    source = f"benchmark collectives, all-reduce over {ranks} ranks, smallest size"
    return Figure(value=times[0].median / (2 * (ranks - 1)), basis="measured", source=source)


def collective_fits(measurements: tuple[Measurement, ...], ranks: int) -> dict[str, Fit]:
    """Return the fitted cost of each collective over `ranks` ranks; bad fits are left out."""
    mine = [measurement for measurement in measurements if measurement.bench_id == "collectives"]
    return {
        str(fit.parameters["collective"]): fit
        for fit in fits(mine)
        if fit.parameters.get("world_size") == ranks
        and "collective" in fit.parameters
        and fit.residual <= _LARGEST_RESIDUAL
    }


def _steps(
    measurements: tuple[Measurement, ...], benchmarks: tuple[str, ...], length: str
) -> Iterator[tuple[Measurement, int, int, int]]:
    """Yield the measured steps of some benchmarks with micro-batch, `length` and world size, all above 0."""
    for measurement in _of(measurements, "step_time_s"):
        names = ("micro_batch", length, "world_size")
        micro_batch, size, ranks = (_number(measurement.parameters.get(name)) for name in names)
        is_whole = min(micro_batch, size, ranks) >= 1 and measurement.median > 0
        if measurement.bench_id in benchmarks and is_whole:
            yield measurement, int(micro_batch), int(size), int(ranks)


def step_anchors(measurements: tuple[Measurement, ...]) -> tuple[StepAnchor, ...]:
    """Return the training steps that were measured, each with the spread of its samples."""
    return tuple(
        StepAnchor(
            model=str(step.parameters.get("model")),
            strategy=str(step.parameters.get("strategy")),
            micro_batch=micro_batch,
            grad_accum=max(1, whole_of(step.parameters.get("grad_accum", 1))),
            sequence_length=length,
            precision=str(step.parameters.get("precision")),
            world_size=ranks,
            activation_checkpointing="full"
            if step.parameters.get("activation_checkpointing") == "full"
            else "none",
            threads=threads_of(step),
            step_time_s=step.median,
            low_s=step.quantile(0.1),
            high_s=step.quantile(0.9),
            source=f"benchmark {step.bench_id} on {step.subject}",
        )
        for step, micro_batch, length, ranks in _steps(measurements, _STEPS, "sequence_length")
    )


def image_anchors(measurements: tuple[Measurement, ...]) -> tuple[ImageAnchor, ...]:
    """Return the training steps on images that were measured."""
    return tuple(
        ImageAnchor(
            model=str(step.parameters.get("model")),
            micro_batch=micro_batch,
            image_size=size,
            precision=str(step.parameters.get("precision")),
            world_size=ranks,
            threads=threads_of(step),
            step_time_s=step.median,
            source=f"benchmark {step.bench_id} on {step.subject}",
        )
        for step, micro_batch, size, ranks in _steps(measurements, ("train-cnn",), "image_size")
    )


def measured_noise_scale(measurements: tuple[Measurement, ...]) -> Figure | None:
    """Return the gradient noise scale of the user's own step, in sequences.

    The data of the reference model are synthetic, so its noise scale has no meaning.
    """
    own = [m for m in _of(measurements, "noise_scale_sequences") if "step" in m.parameters]
    return _latest(own, f"benchmark noise-scale of {own[-1].parameters['step']}") if own else None


def measured_workers(measurements: tuple[Measurement, ...], ranks: int) -> Figure | None:
    """Return the smallest number of DataLoader workers per rank that reaches the full rate while `ranks`
    ranks load at the same time.
    """
    recommended = _over_ranks(measurements, "recommended_workers", ranks)
    if not recommended:
        return None
    path = recommended[-1].parameters.get("data_path")
    return _latest(recommended, f"benchmark data-loader, {path or 'a made-up data set'}")


def measured_reads(measurements: tuple[Measurement, ...]) -> Figure | None:
    """Return the random reads of `read_request_bytes` that the data's storage answered per second."""
    size = constant("read_request_bytes")
    reads = [
        m
        for m in _of(measurements, "read_rate_per_s")
        if m.bench_id == "storage" and m.parameters.get("block_bytes") == size and m.median > 0
    ]
    return _latest(reads, f"benchmark storage, {reads[-1].parameters.get('data_path')}") if reads else None


def measured_writes(measurements: tuple[Measurement, ...]) -> Figure | None:
    """Return the bytes per second at which one node wrote large files to the data's storage."""
    writes = [m for m in _of(measurements, "write_bandwidth_bytes_per_s") if m.median > 0]
    return _latest(writes, f"benchmark storage, {writes[-1].parameters.get('data_path')}") if writes else None


def measured_loading(measurements: tuple[Measurement, ...], ranks: int) -> Figure | None:
    """Return the samples per second of one rank with the best number of workers, while `ranks` ranks load at
    the same time.
    """
    # Without workers the training process itself loads the samples.
    rates = [
        m.median * _number(m.parameters.get("batch_size"))
        for m in _over_ranks(measurements, "batch_rate_per_s", ranks)
        if _number(m.parameters.get("num_workers")) > 0
    ]
    return _figure(max(rates, default=0.0), "benchmark data-loader, the best number of workers")


def disturbances(measurements: tuple[Measurement, ...]) -> tuple[str, ...]:
    """Return a warning that names the benchmarks that other programs disturbed; empty if there are none."""
    disturbed = [measurement for measurement in measurements if measurement.was_disturbed]
    if not disturbed:
        return ()
    benches = ", ".join(dict.fromkeys(measurement.bench_id for measurement in disturbed))
    share = others_share(disturbed)
    who = f"others used up to {percent(round(share, 2))} of the CPUs" if share else "others used the machine"
    return (
        f"{who} during {benches}: the machine may be faster than this plan assumes; "
        "measure again when the machine is idle",
    )


def _number(value: Parameter | None) -> float:
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else 0.0
