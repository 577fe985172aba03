"""Test TCP and collectives between hosts: the requests, and the host to which a duration belongs."""

from __future__ import annotations

import pytest

from probes.bench.across_nodes import pairs_request
from probes.bench.bench_requests import DoneLine, StartLine
from tests.support.bench_answers import BENCHES, bench_context, requests, sample, the_one

MIB = 1024**2
HOSTS = ("node1", "node2", "node3")


def across(ranks=1, device="cpu", hosts=HOSTS):
    return pairs_request(bench_context(device, ranks, hosts=hosts), hosts)


def answers(request, durations, hosts=None):
    """Return answer lines by rank; `durations(rank, case)` is the time of a case in seconds.

    `hosts` are the host names in the answers; without them the answers have no host names.
    """
    rates_by_subject = {}
    for rank in range(request.ranks):
        conditions = {"hostname": hosts[rank // request.ranks_per_node]} if hosts else {}
        start = StartLine(rank=rank, world_size=request.ranks, conditions=conditions)
        rates_by_subject[rank] = (
            start,
            *(sample(case, (durations(rank, case),)) for case in request.cases),
            DoneLine(),
        )
    return rates_by_subject


@pytest.mark.parametrize("bench_id", ["network", "across-nodes"])
def test_a_single_host_gets_no_request(bench_id):
    assert requests(bench_id) == requests(bench_id, hosts=("node1",)) == ()


def test_every_direction_of_every_pair_is_measured_by_tcp():
    (request,) = requests("network", hosts=HOSTS, ranks=4)
    assert (request.ranks, request.needs_torch) == (3, False)
    ways = {(case["sender"], case["receiver"]) for case in request.cases}
    assert ways == {(first, second) for first in range(3) for second in range(3) if first != second}
    assert {case["streams"] for case in request.cases} == {1, 8}


def test_tcp_rates_name_the_hosts_that_measured_them():
    """Check that the order of the nodes, which Slurm chooses, does not matter."""
    (request,) = requests("network", hosts=HOSTS)
    lines = answers(
        request, lambda rank, case: 1e-9 / (1 + case["sender"]), hosts=("node3", "node1", "node2")
    )
    rates_by_subject = BENCHES["network"].interpret(request, lines)
    assert the_one(
        [m for m in rates_by_subject if m.subject == "node3->node1"], "tcp_bandwidth_bytes_per_s", streams=8
    ).median == pytest.approx(1e9)
    assert the_one(
        [m for m in rates_by_subject if m.subject == "node2->node3"], "tcp_bandwidth_bytes_per_s", streams=1
    ).median == pytest.approx(3e9)


def test_each_direction_is_timed_by_the_receiver_with_gloo():
    request = across()
    lines = answers(request, lambda rank, case: 1.0 if rank == 2 else 0.01)  # node3 receives slowly
    rates_by_subject = {
        m.subject: m.median for m in BENCHES["across-nodes"].interpret(request, lines) if "->" in m.subject
    }
    assert {subject for subject, rate in rates_by_subject.items() if rate < 100 * MIB} == {
        "node1->node3",
        "node2->node3",
    }
    assert rates_by_subject["node1->node3"] == 8 * MIB


def test_nccl_ends_with_both_directions_so_a_pair_took_no_longer_than_the_faster_of_its_ends():
    request = across(device="cuda")

    def durations(rank, case):
        """Return 1 s for the two ends of the only slow link, node1->node3, and 0.1 s for all others.

        Both ends wait for this link, whatever else they exchange meanwhile.
        """
        ends = {2: (0, 2), 1: (0, 1)}[case["distance"]]
        return 1.0 if case["distance"] == 2 and rank in ends else 0.1

    rates_by_subject = {
        m.subject: m.median
        for m in BENCHES["across-nodes"].interpret(request, answers(request, durations))
        if "->" in m.subject
    }
    assert [subject for subject, rate in rates_by_subject.items() if rate < 1000 * MIB] == ["node1->node3"]


def test_all_ranks_of_a_host_carry_its_rate_and_the_slowest_sets_it():
    request = across(ranks=2, hosts=("node1", "node2"))
    lines = answers(request, lambda rank, case: 0.5 if rank == 3 else 0.25)
    rates_by_subject = {m.subject: m.median for m in BENCHES["across-nodes"].interpret(request, lines)}
    assert rates_by_subject["node1->node2"] == 2 * 8 * MIB / 0.5
    assert rates_by_subject["node2->node1"] == 2 * 8 * MIB / 0.25


def test_a_slow_link_leaves_a_hosts_own_figure_as_it_is():
    hosts = tuple(f"node{number}" for number in range(1, 6))
    request = across(hosts=hosts)
    slow_link = answers(request, lambda rank, case: 1.0 if (rank, case["distance"]) == (1, 1) else 0.1)
    slow_host = answers(
        request, lambda rank, case: 1.0 if 1 in (rank, (rank - case["distance"]) % 5) else 0.1
    )
    for lines, expected in ((slow_link, set()), (slow_host, {"node2"})):
        rates_by_subject = BENCHES["across-nodes"].interpret(request, lines)
        rates = {m.subject: m.median for m in rates_by_subject if m.metric == "host_bandwidth_bytes_per_s"}
        assert set(rates) == set(hosts)
        assert {host for host, rate in rates.items() if rate < 0.75 * max(rates.values())} == expected


def test_a_host_without_answers_makes_the_result_incomplete():
    request = across()
    lines = answers(request, lambda rank, case: 0.1)
    del lines[2]
    result = BENCHES["across-nodes"].interpret(request, lines)
    assert result.kind == "incomplete"
