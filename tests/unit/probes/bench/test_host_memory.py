"""Test the copies by NUMA node: the requests for each machine, and the count of bytes."""

from __future__ import annotations

import pytest

from probes.bench.host_memory import interpret, requests
from probes.catalogue.hardware import load_catalogue
from probes.compare.comparing import beside_peers
from probes.facts import Cpu, MachineFacts, NumaNode
from probes.facts.measurements import BenchFailure
from probes.judging.findings import Evidence
from tests.support.bench_answers import bench_context, lines_of, sample, the_one

METRIC = "memory_bandwidth_bytes_per_s"
TWO_SOCKETS = MachineFacts(
    cpu=Cpu(allowed_cpus=8),
    numa_nodes=(
        NumaNode(index=0, cpus="0-1,4-5", distances=(10, 21, 80)),
        NumaNode(index=1, cpus="2-3,6-7", distances=(21, 10, 80)),
        NumaNode(index=2, cpus="", distances=(80, 80, 10), is_gpu_memory=True),
    ),
)


def asked(suite="quick", facts=TWO_SOCKETS):
    (request,) = requests(bench_context(facts=facts, suite=suite))
    return request


def ends(request):
    return [
        (case["operation"], case["numa_node"], case["memory_node"], case.get("distance"))
        for case in request.cases
    ]


def test_quick_looks_at_each_nodes_own_memory_and_full_at_the_others_too():
    near = [("copy", 0, 0, 10), ("triad", 0, 0, 10), ("copy", 1, 1, 10), ("triad", 1, 1, 10)]
    assert ends(asked()) == near
    assert set(ends(asked("full"))) == {*near, ("copy", 0, 1, 21), ("copy", 1, 0, 21)}


@pytest.mark.parametrize("suite", ["quick", "full"])
def test_the_cases_of_one_memory_follow_each_other_so_that_it_is_placed_once(suite):
    memories = [case["memory_node"] for case in asked(suite).cases]
    assert memories == sorted(memories)


def test_a_gpus_memory_has_no_cpus_that_could_touch_it():
    assert asked().numa_cpus == {"0": (0, 1, 4, 5), "1": (2, 3, 6, 7)}
    assert asked().threads_per_rank == 8


def test_a_machine_with_unknown_numa_nodes_counts_as_one_node():
    request = asked(facts=MachineFacts())
    assert (ends(request), request.numa_cpus) == ([("copy", 0, 0, None), ("triad", 0, 0, None)], {})


def test_a_copy_moves_two_arrays_and_a_triad_three():
    request = asked()
    lines = {
        0: lines_of(
            request, *(sample(case, (0.5,), array_bytes=100.0, threads=2.0) for case in request.cases)
        )
    }
    measured = interpret(request, lines)
    assert the_one(measured, METRIC, operation="copy", numa_node=1).median == 400
    triad = the_one(measured, METRIC, operation="triad", numa_node=1)
    assert (triad.median, triad.subject, triad.parameters["threads"]) == (600, "NUMA node 1", 2)


def test_the_time_grows_with_cases_and_nodes_up_to_a_limit():
    """1.2 s or 1.5 s for each case and half a second for each node, but at most 4 s or 15 s."""
    assert asked(facts=MachineFacts()).budget_s == pytest.approx(2 * 1.2 + 0.5)
    assert asked().budget_s == 4
    assert asked("full").budget_s == pytest.approx(6 * 1.5 + 2 * 0.5)


def test_an_answer_without_figures_has_no_bandwidth():
    request = asked()
    measured = interpret(request, {0: lines_of(request, sample(request.cases[0], (0.5,)))})
    (row,) = measured
    assert (row.median, row.parameters["threads"], row.parameters["bytes"]) == (0, 0, 0)


def test_equal_nodes_and_equally_far_pairs_are_peers():
    request = asked("full")
    lines = {0: lines_of(request, *(sample(case, array_bytes=100.0, threads=2.0) for case in request.cases))}
    evidence = Evidence(facts=TWO_SOCKETS, catalogue=load_catalogue(), measurements=interpret(request, lines))
    groups = [{member.subject for member in peers.members} for peers in beside_peers(evidence)]
    nodes = {"NUMA node 0", "NUMA node 1"}
    assert sorted(groups, key=sorted) == [
        nodes,
        nodes,
        {"NUMA node 0-NUMA node 1", "NUMA node 1-NUMA node 0"},
    ]


def test_without_an_answer_it_is_a_failure():
    assert isinstance(interpret(asked(), {}), BenchFailure)
