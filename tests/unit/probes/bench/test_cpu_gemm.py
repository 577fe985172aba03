"""Test the matrix products of CPUs on machines with GPUs: the requests and the subjects."""

from __future__ import annotations

from probes.bench.cpu_gemm import interpret, requests
from probes.facts import MachineFacts, NumaNode
from tests.support.bench_answers import bench_context, lines_of, sample

NODES = MachineFacts(numa_nodes=(NumaNode(index=0, cpus="0-3"), NumaNode(index=1, cpus="4-7")))


def test_cpu_products_run_only_on_machines_with_gpus():
    assert requests(bench_context("cpu", facts=NODES)) == ()
    (request,) = requests(bench_context("cuda", facts=NODES))
    assert (request.device, request.backend, request.ranks) == ("cpu", "gloo", 1)
    assert {(case["numa_node"], case["dtype"]) for case in request.cases} == {
        (n, d) for n in (0, 1) for d in ("fp32", "bf16")
    }


def test_the_node_is_the_subject_so_that_equal_nodes_compare():
    (request,) = requests(bench_context("cuda", facts=NODES))
    cases = [case for case in request.cases if (case["dtype"], case["m"]) == ("fp32", 1024)]
    measured = interpret(
        request, {0: lines_of(request, *(sample(case, (0.5,), threads=4.0) for case in cases))}
    )
    assert [m.subject for m in measured] == ["NUMA node 0", "NUMA node 1"]
    assert (
        measured[0].parameters
        == measured[1].parameters
        == {"dtype": "fp32", "m": 1024, "n": 1024, "k": 1024, "threads": 4}
    )
    assert measured[0].samples == (2 * 1024**3 / 0.5,)
