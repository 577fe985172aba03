"""Check that storage and data loaders keep up with the training step.

Neither has a right speed of its own: it must deliver what the step consumes. The measured step of the
convolutional network gives the images per second; an image is one random read. Source: NVIDIA DALI and MLPerf
Storage (a loader must outrun the accelerator); PyTorch, DataLoader, num_workers.
"""

from __future__ import annotations

from probes.base.units import count, percent
from probes.compare.measured_findings import observed, of, on_measured, refs_of
from probes.facts.measurements import Measurement
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST

STORAGE = Judge(
    check_id="measured-storage",
    why="Where reading is slower than training, the GPUs wait for data in every step.",
)
LOADER = Judge(check_id="measured-data-loader", why="A step that waits for its batch leaves the GPUs idle.")

_IMAGE_BYTES = 128 * 1024
"""Block size of `storage` that stands for an image.

Images of ImageNet have 110 KB on average (image-net.org, ILSVRC 2012).
"""


@on_measured(STORAGE, ("storage",), ("storage",), absent="storage was not measured")
def measured_storage(measured: tuple[Measurement, ...], evidence: Evidence) -> Finding:
    reads = [
        measurement
        for measurement in measured
        if measurement.metric == "read_rate_per_s"
        and measurement.parameters.get("block_bytes") == _IMAGE_BYTES
    ]
    step = _images(evidence)
    if step is None or not reads:
        return STORAGE.skipped(
            _where(measured[0]), f"what training needs was not measured: {observed(measured)}"
        )
    best = max(reads, key=lambda measurement: measurement.median)
    facts = f"{count(round(best.median))} reads of an image's size per second, {observed(measured)}"
    if best.median >= step.median:
        return STORAGE.passed(
            _where(best),
            "storage keeps up with the training step",
            observed=facts,
            evidence=refs_of([best, step]),
        )
    return STORAGE.warned(
        _where(best),
        f"random reads reach {percent(round(best.median / step.median, 2))} of what the measured step takes",
        expected=f"{count(round(step.median))} images per second, as {step.subject} train",
        observed=facts,
        remedy=Remedy(
            text="Keep the data on local NVMe or in memory, or pack it into large files that are read in "
            "order (tar, WebDataset, MosaicML Streaming).",
            command="df -hT",
        ),
        evidence=refs_of([best, step]),
    )


@on_measured(
    LOADER, ("data-loader",), ("data-loader",), "batch_rate_per_s", absent="data loaders were not measured"
)
def measured_data_loader(rates: tuple[Measurement, ...], evidence: Evidence) -> Finding:
    loads = [
        (measurement, _samples_per_s(measurement))
        for measurement in rates
        if measurement.parameters.get("num_workers") != 0
    ]
    # Without workers the training process itself loads the data, so loading and training do not overlap.
    best, rate = max(
        loads or [(measurement, _samples_per_s(measurement)) for measurement in rates],
        key=lambda load: load[1],
    )
    advice = _advice(evidence, best)
    step = _images(evidence)
    if step is None:
        return LOADER.skipped(
            HOST, f"what training needs was not measured: {count(round(rate))} samples per second{advice}"
        )
    observed = f"{count(round(rate))} samples per second{advice}"
    if rate >= step.median:
        return LOADER.passed(
            HOST,
            "the loaders keep up with the training step",
            observed=observed,
            evidence=refs_of([best, step]),
        )
    return LOADER.warned(
        HOST,
        f"the loaders deliver {percent(round(rate / step.median, 2))} of what the measured step takes",
        expected=f"{count(round(step.median))} images per second, as {step.subject} train",
        observed=observed,
        remedy=Remedy(
            text="Decode and resize the data once beforehand, decode on the GPU (NVIDIA DALI, "
            "torchvision.io), or give each rank more CPUs.",
        ),
        evidence=refs_of([best, step]),
    )


def _images(evidence: Evidence) -> Measurement | None:
    """Return the fastest measured step over most ranks, in images per second of all ranks."""
    steps = of(evidence, ("train-cnn",), "images_per_s")
    return max(
        steps, key=lambda measurement: (_whole(measurement, "world_size"), measurement.median), default=None
    )


def _samples_per_s(loader: Measurement) -> float:
    """Return the samples per second of all ranks, each taken as fast as the slowest."""
    return loader.median * _whole(loader, "batch_size") * _whole(loader, "world_size")


def _whole(measured: Measurement, name: str) -> int:
    value = measured.parameters.get(name, 1)
    return value if isinstance(value, int) else 1


def _advice(evidence: Evidence, best: Measurement) -> str:
    """Return the best number of workers: `, best with 8 workers per rank`."""
    advised = of(evidence, ("data-loader",), "recommended_workers")
    workers = round(advised[0].median) if advised else best.parameters.get("num_workers")
    return f", best with num_workers={workers} in each rank" if workers is not None else ""


def _where(measured: Measurement) -> str:
    return str(measured.conditions.get("mount_point") or measured.parameters.get("data_path", HOST))
