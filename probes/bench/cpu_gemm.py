"""Measure matrix multiplication on the CPUs beside GPUs: `gemm_flops_per_s` of each NUMA node.

The benchmark `gemm` measures the CPUs of machines without GPUs.
"""

from __future__ import annotations

from probes.bench.answers import failure_of, measurement, samples_of, start_of
from probes.bench.bench_requests import BenchContext, BenchRequest
from probes.bench.numa_nodes import most_threads, node_indices, numa_cpus
from probes.bench.worker_answers import LinesByRank
from probes.facts.measurements import BenchFailure, Measurement, Parameter

_SIZES = (1024, 2048, 4096)
"""Sizes in ascending order, so that the small products show whether the large ones are affordable."""
_DTYPES = ("fp32", "bf16")
_BUDGET_S = {"quick": 5.0, "full": 10.0}


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """Return one request of one rank that measures the nodes in turn; none without GPUs."""
    if context.device != "cuda":
        return ()
    return (
        BenchRequest(
            bench_id="cpu-gemm",
            title="matrix multiply on the CPUs of each NUMA node",
            device="cpu",
            backend="gloo",
            ranks=1,
            threads_per_rank=most_threads(context.facts),
            budget_s=_BUDGET_S[context.suite],
            cases=tuple(
                {"numa_node": node, "dtype": dtype, "m": size, "n": size, "k": size}
                for node in node_indices(context.facts)
                for dtype in _DTYPES
                for size in _SIZES
            ),
            numa_cpus=numa_cpus(context.facts),
        ),
    )


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> tuple[Measurement, ...] | BenchFailure:
    """Return the rate of every node and case, with 2 m n k floating-point operations per product."""
    lines = lines_by_rank.get(0, ())
    start = start_of(lines)
    if start is None:
        return failure_of(request, lines_by_rank)
    measurements = []
    for sample in samples_of(request, lines):
        case = sample.case
        flops = 2.0 * float(case["m"]) * float(case["n"]) * float(case["k"])
        # The node is the subject and not a parameter, so that equal nodes are compared.
        parameters: dict[str, Parameter] = {
            name: value for name, value in case.items() if name != "numa_node"
        }
        parameters["threads"] = int(sample.figures.get("threads", 0))
        measurements.append(
            measurement(
                request,
                start,
                parameters,
                "gemm_flops_per_s",
                unit="flop/s",
                samples=tuple(flops / duration_s for duration_s in sample.durations_s),
                subject=f"NUMA node {case['numa_node']}",
            )
        )
    return tuple(measurements) or failure_of(request, lines_by_rank)
