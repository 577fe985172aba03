"""Measure an optimizer step of a residual network on synthetic images: `step_time_s`, `images_per_s`.

The rate `images_per_s` is the total of all ranks; `model_flops_per_s` is the rate of one rank.
`peak_memory_bytes` (allocated) and `peak_reserved_bytes` are the largest of all ranks. A GPU trains ResNet-50
at 224 pixels. A CPU trains a small network of the same family, which takes seconds.
"""

from probes.base.record import known
from probes.base.units import GIB, plural
from probes.bench.answers import StepWork, failure_of, slowest_rank, step_figures
from probes.bench.bench_requests import BenchContext, BenchRequest, Case, LinesByRank, Outcome
from probes.bench.resnet import RESNET_50, SMALL, training_flops
from probes.facts.measurements import Measurement

_CASE_BUDGET_S = {"cuda": 6.0, "cpu": 4.0}
_IMAGE_SIZE = {"cuda": 224, "cpu": 64}
_CPU_MICRO_BATCH = 16
_GPU_MICRO_BATCHES = (64, 256)
_LARGE_FITS_BYTES = 30 * GIB
"""Memory for 256 images in mixed precision.

NVIDIA's DeepLearningExamples (ResNet50 v1.5) train this batch on a V100 of 32 GB.
"""
_NETWORKS = {network.id: network for network in (RESNET_50, SMALL)}


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """Return a request for one rank alone, then a request for all local ranks together."""
    network = RESNET_50 if context.device == "cuda" else SMALL
    cases = _cases(context)
    return tuple(
        BenchRequest(
            bench_id="train-cnn",
            title=f"training step of {network.id} on {plural(ranks, 'rank')}",
            device=context.device,
            backend=context.backend,
            ranks=ranks,
            threads_per_rank=context.threads_per_rank,
            budget_s=_CASE_BUDGET_S[context.device] * len(cases),
            cases=cases,
            model=network.shape,
        )
        for ranks in sorted({1, context.ranks_per_node})
    )


def _cases(context: BenchContext) -> tuple[Case, ...]:
    """Return the cases; CPUs use fp32 because most of them emulate bf16."""
    on_gpu = context.device == "cuda"
    return tuple(
        {
            "micro_batch": micro_batch,
            "image_size": _IMAGE_SIZE[context.device],
            "precision": context.model.precision if on_gpu else "fp32",
        }
        for micro_batch in (_gpu_micro_batches(context) if on_gpu else (_CPU_MICRO_BATCH,))
    )


def _gpu_micro_batches(context: BenchContext) -> tuple[int, ...]:
    least_bytes = min((gpu.memory_bytes for gpu in context.gpus if known(gpu.memory_bytes)), default=0)
    large = least_bytes >= _LARGE_FITS_BYTES * (1 if context.model.precision == "bf16" else 2)
    return _GPU_MICRO_BATCHES if large else _GPU_MICRO_BATCHES[:1]


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> Outcome:
    """Return the step time of the slowest rank, the largest peak memory, and the FLOP rate of a rank."""
    measurements: list[Measurement] = []
    network = _NETWORKS[str(request.model["id"])]
    for answer in slowest_rank(request, lines_by_rank):
        images = float(answer.case["micro_batch"])
        work = StepWork(
            items={"images": images * request.ranks},
            rank_flops=images * training_flops(network, int(answer.case["image_size"])),
        )
        parameters = {"model": network.id, **answer.case, "world_size": request.ranks}
        measurements += step_figures(answer, parameters, work)
    return tuple(measurements) or failure_of(request, lines_by_rank)
