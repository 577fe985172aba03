"""Measure matrix multiplication on the CPUs of GPU machines: `gemm_flops_per_s` of each NUMA node.

The benchmark `gemm` measures the CPUs of machines without GPUs.
"""

from probes.bench.answers import case_answers, failure_of
from probes.bench.bench_requests import BenchContext, BenchRequest, LinesByRank, Outcome
from probes.bench.numa_nodes import most_threads, node_indices, numa_cpus

_SIZES = (1024, 2048, 4096)
"""Sizes in ascending order, so that small products show whether large products are affordable."""
_DTYPES = ("fp32", "bf16")
_BUDGET_S = {"quick": 5.0, "full": 10.0}


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """Return one request for one rank, which measures the nodes one after the other; none without GPUs."""
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


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> Outcome:
    """Return the rate of every node and case, with 2 m n k floating-point operations per product."""
    measurements = []
    for answer in case_answers(request, lines_by_rank):
        # The node is the subject and not a parameter, so that equal nodes are compared.
        parameters = {name: value for name, value in answer.case.items() if name != "numa_node"}
        parameters["threads"] = int(answer.sample.figures.get("threads", 0))
        flops = 2.0 * float(parameters["m"]) * float(parameters["n"]) * float(parameters["k"])
        measurements.append(
            answer.measurement(
                "gemm_flops_per_s",
                "flop/s",
                answer.rates(flops),
                parameters,
                subject=f"NUMA node {answer.case['numa_node']}",
            )
        )
    return tuple(measurements) or failure_of(request, lines_by_rank)
