"""Figures of the models taken from measurements of this machine."""

from __future__ import annotations

from collections.abc import Iterable

from probes.measurements import Measurement, Parameter
from recipes.plan import Figure, StepAnchor

_HOST_COPIES = ("host_to_device", "device_to_host")


def _of(measurements: Iterable[Measurement], metric: str) -> list[Measurement]:
    return [measurement for measurement in measurements if measurement.metric == metric and measurement.samples]


def measured_flops(measurements: tuple[Measurement, ...]) -> dict[str, Figure]:
    """Best GEMM rate by dtype over the measured shapes, of the slowest device: all ranks wait for it."""
    best: dict[str, dict[str, float]] = {}
    for measurement in _of(measurements, "gemm_flops_per_s"):
        by_subject = best.setdefault(str(measurement.parameters.get("dtype")), {})
        by_subject[measurement.subject] = max(measurement.median, by_subject.get(measurement.subject, 0.0))
    return {
        dtype: Figure(value=min(rates.values()), basis="measured", source="benchmark gemm, best shape of the slowest device")
        for dtype, rates in best.items()
        if min(rates.values()) > 0
    }


def measured_memory_bandwidth(measurements: tuple[Measurement, ...]) -> Figure | None:
    """Copy bandwidth within the device's memory, of the slowest device; copies between host and device do not count."""
    by_subject: dict[str, float] = {}
    for measurement in _of(measurements, "memory_bandwidth_bytes_per_s"):
        if measurement.parameters.get("direction") not in _HOST_COPIES:
            by_subject[measurement.subject] = max(measurement.median, by_subject.get(measurement.subject, 0.0))
    if not by_subject or min(by_subject.values()) <= 0:
        return None
    return Figure(value=min(by_subject.values()), basis="measured", source="benchmark memory-copy, slowest device")


def measured_step_efficiency(measurements: tuple[Measurement, ...], flops: dict[str, Figure]) -> Figure | None:
    """Best FLOP rate of a measured training step over the measured GEMM rate of its precision; for people, not for the model."""
    best = None
    for measurement in _of(measurements, "model_flops_per_s"):
        gemm = flops.get(str(measurement.parameters.get("precision")))
        if gemm is not None:
            best = max(measurement.median / gemm.value, best or 0.0)
    return Figure(value=best, basis="measured", source="benchmark train-step over benchmark gemm") if best else None


def all_reduces(measurements: tuple[Measurement, ...], metric: str, ranks: int) -> list[Measurement]:
    """All-reduce measurements of this metric over `ranks` ranks of this machine, by ascending size."""
    found = [
        measurement
        for measurement in _of(measurements, metric)
        if measurement.parameters.get("collective", "all_reduce") == "all_reduce"
        and measurement.parameters.get("world_size") == ranks
        and _number(measurement.parameters.get("bytes")) > 0
    ]
    return sorted(found, key=lambda measurement: _number(measurement.parameters["bytes"]))


def step_anchors(measurements: tuple[Measurement, ...]) -> tuple[StepAnchor, ...]:
    """The training steps that were measured, each with the spread of its samples."""
    anchors = []
    for measurement in _of(measurements, "step_time_s"):
        parameters = measurement.parameters
        sizes = [_number(parameters.get(name)) for name in ("micro_batch", "sequence_length", "world_size")]
        if measurement.bench_id != "train-step" or min(sizes) < 1 or measurement.median <= 0:
            continue
        anchors.append(
            StepAnchor(
                model=str(parameters.get("model")),
                strategy=str(parameters.get("strategy")),
                micro_batch=int(sizes[0]),
                grad_accum=max(1, int(_number(parameters.get("grad_accum", 1)))),
                sequence_length=int(sizes[1]),
                precision=str(parameters.get("precision")),
                world_size=int(sizes[2]),
                activation_checkpointing="full" if parameters.get("activation_checkpointing") == "full" else "none",
                step_time_s=measurement.median,
                low_s=measurement.quantile(0.1),
                high_s=measurement.quantile(0.9),
                source=f"benchmark train-step on {measurement.subject}",
            )
        )
    return tuple(anchors)


def _number(value: Parameter | None) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
