"""Check that the training step scales over the ranks, and that storage and data loaders keep up with it.

The right speed of a step depends on the model, so there is no reference: one rank alone is compared with all
ranks together. Storage and loaders must deliver what the step consumes. The measured step of the
convolutional network gives the required images per second; loading an image counts as one random read.
Source: PyTorch, DDP design notes (overlap of all-reduce and backward); health reports of clusters that
compare the step of one rank with the step of all ranks; NVIDIA DALI and MLPerf Storage (a loader must outrun
the accelerator); PyTorch, DataLoader, num_workers.
"""

from collections.abc import Iterator

from probes.base.units import count, percent
from probes.compare.comparing import is_sound
from probes.compare.measured_findings import failures, observed, on_measured
from probes.compare.slow_causes import of_collective
from probes.facts.measurements import Measurement, Parameter
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.measurement_evidence import measurements_of, refs_of, words_of
from probes.judging.reporting import HOST

STEP = Judge(
    check_id="measured-train-step",
    why="If each GPU is slower when all ranks train together, every step of the job is slower on every GPU.",
)

_BENCHES = ("train-step", "train-cnn")
_GROWTH = Remedy(
    text="See which part becomes slower: measure the collectives and their overlap, and watch clocks and "
    "CPUs while all ranks train.",
    command="rigtune bench --only collectives --only overlap --only sustained --suite full",
)
STORAGE = Judge(
    check_id="measured-storage",
    why="If reading is slower than training, the GPUs wait for data in every step.",
)
LOADER = Judge(check_id="measured-data-loader", why="The GPUs are idle while a step waits for its batch.")

_IMAGE_BYTES = 128 * 1024
"""Block size of `storage` that represents an image.

Images of ImageNet have 110 KB on average (image-net.org, ILSVRC 2012).
"""


def measured_train_step(evidence: Evidence) -> Iterator[Finding]:
    yield from failures(STEP, evidence, (*_BENCHES, "own-step", "micro-batch"))
    rates = [
        measurement
        for measurement in measurements_of(evidence, _BENCHES, "model_flops_per_s")
        if is_sound(measurement)
    ]
    if not rates:
        yield STEP.skipped(HOST, "no training step was measured")
        return
    together = [measurement for measurement in rates if _whole(measurement, "world_size") > 1]
    alone = {_case(rate): rate for rate in rates if _whole(rate, "world_size") == 1}
    limit = evidence.thresholds.scaling_warn_fraction
    # The last pair of a benchmark has the largest micro-batch, which training would use.
    best = {rate.bench_id: (alone[_case(rate)], rate) for rate in together if _case(rate) in alone}
    slow = {bench: pair for bench, pair in best.items() if pair[1].median < limit.value * pair[0].median}
    for bench, (one_rank, all_ranks) in slow.items():
        cause = of_collective(evidence)
        yield STEP.warned(
            all_ranks.subject,
            f"{bench}: each of {_whole(all_ranks, 'world_size')} ranks reaches "
            f"{percent(round(all_ranks.median / one_rank.median, 2))} of the rate that one rank reaches "
            f"alone{f': {cause.words}' if cause else ''}",
            expected=f"at least {percent(limit.value)}",
            observed=f"{observed([all_ranks])}, alone {observed([one_rank])} ({words_of(all_ranks)})",
            remedy=cause.remedy if cause else _GROWTH,
            evidence=(*refs_of([one_rank, all_ranks]), limit.ref),
        )
    if best and not slow:
        shares = "; ".join(
            f"{bench} {percent(round(pair[1].median / pair[0].median, 2))}" for bench, pair in best.items()
        )
        yield STEP.passed(
            HOST, "the training step scales over the ranks", observed=shares, evidence=refs_of(together)
        )
    elif not best:
        yield STEP.skipped(
            HOST,
            f"no step was measured both with one rank and with several: {observed(rates)}",
            evidence=refs_of(rates),
        )


def _case(measured: Measurement) -> tuple[str, tuple[tuple[str, Parameter], ...]]:
    return measured.bench_id, tuple(
        sorted((name, value) for name, value in measured.parameters.items() if name != "world_size")
    )


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
        absent = "the rate that training needs was" if step is None else "reads of the size of an image were"
        return STORAGE.skipped(_where(measured[0]), f"{absent} not measured: {observed(measured)}")
    best = max(reads, key=lambda measurement: measurement.median)
    facts = f"{count(round(best.median))} image-sized reads per second, {observed(measured)}"
    if best.median >= step.median:
        return STORAGE.passed(
            _where(best),
            "storage keeps up with the training step",
            observed=facts,
            evidence=refs_of([best, step]),
        )
    return STORAGE.warned(
        _where(best),
        f"random reads reach {percent(round(best.median / step.median, 2))} of the rate that the measured "
        "step needs",
        expected=f"{count(round(step.median))} images per second, the training speed of {step.subject}",
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
    # Without workers the training process itself loads the data, so loading and training do not overlap.
    beside_training = [rate for rate in rates if rate.parameters.get("num_workers") != 0]
    best = max(beside_training or rates, key=_samples_per_s)
    rate, step = _samples_per_s(best), _images(evidence)
    observed = f"{count(round(rate))} samples per second{_advice(evidence, best)}"
    if step is None:
        return LOADER.skipped(HOST, f"the rate that training needs was not measured: {observed}")
    if rate >= step.median:
        return LOADER.passed(
            HOST,
            "the loaders keep up with the training step",
            observed=observed,
            evidence=refs_of([best, step]),
        )
    return LOADER.warned(
        HOST,
        f"the loaders deliver {percent(round(rate / step.median, 2))} of the rate that the measured step "
        "needs",
        expected=f"{count(round(step.median))} images per second, the training speed of {step.subject}",
        observed=observed,
        remedy=Remedy(
            text="Decode and resize the data once in advance, decode on the GPU (NVIDIA DALI, "
            "torchvision.io), or give each rank more CPUs.",
        ),
        evidence=refs_of([best, step]),
    )


def _images(evidence: Evidence) -> Measurement | None:
    """Return the fastest step measured with the most ranks, in images per second of all ranks."""
    steps = measurements_of(evidence, ("train-cnn",), "images_per_s")
    return max(
        steps, key=lambda measurement: (_whole(measurement, "world_size"), measurement.median), default=None
    )


def _samples_per_s(loader: Measurement) -> float:
    """Return the samples per second of all ranks together, as if every rank were as slow as the slowest."""
    return loader.median * _whole(loader, "batch_size") * _whole(loader, "world_size")


def _whole(measured: Measurement, name: str) -> int:
    value = measured.parameters.get(name, 1)
    return value if isinstance(value, int) else 1


def _advice(evidence: Evidence, best: Measurement) -> str:
    """Return the best number of workers as text: `, best with num_workers=8 in each rank`."""
    advised = measurements_of(evidence, ("data-loader",), "recommended_workers")
    workers = round(advised[0].median) if advised else best.parameters.get("num_workers")
    return f", best with num_workers={workers} in each rank" if workers is not None else ""


def _where(measured: Measurement) -> str:
    return str(measured.conditions.get("mount_point") or measured.parameters.get("data_path", HOST))
