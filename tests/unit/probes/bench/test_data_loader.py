"""Test the sweep over DataLoader workers, and the number that it recommends."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from probes.bench.data_loader import interpret, requests
from probes.facts import Cpu, MachineFacts
from tests.support.bench_answers import bench_context, lines_of, sample, the_one


def asked(cpus=16, ranks=2):
    (request,) = requests(
        bench_context(ranks=ranks, facts=MachineFacts(cpu=Cpu(allowed_cpus=cpus)), suite="full")
    )
    return request


def workers(request):
    return [case["num_workers"] for case in request.cases]


def swept(rates, ranks=1):
    """Return measurements in which n workers deliver `rates[n]` batches per second on each rank.

    If there are several ranks, the last rank reaches half of that.
    """
    request = asked(ranks=ranks, cpus=ranks * max(rates))
    lines = {}
    for rank in range(ranks):
        slower = 2 if rank == ranks - 1 > 0 else 1
        cases = [case for case in request.cases if case["num_workers"] in rates]
        samples = [sample(case, (slower / rates[case["num_workers"]],) * 3) for case in cases]
        lines[rank] = lines_of(request, *samples, rank=rank)
    return interpret(request, lines)


@given(st.integers(1, 1024), st.integers(1, 16))
def test_workers_double_from_none_to_the_ranks_share_of_the_cpus(cpus, ranks):
    counts = workers(asked(cpus, ranks))
    assert counts[:2] == [0, 1]
    assert counts == sorted(set(counts))
    assert counts[-1] == min(64, max(1, cpus // ranks))
    assert all(after <= 2 * before for before, after in itertools.pairwise(counts[1:]))


def test_the_fewest_workers_within_five_percent_of_the_best_are_enough():
    measured = swept({0: 10, 1: 9, 2: 18, 4: 33, 8: 34})
    assert the_one(measured, "recommended_workers").samples == (4,)
    assert the_one(measured, "batch_rate_per_s", num_workers=8).median == 34


def test_no_workers_are_never_enough_because_the_step_would_wait():
    assert the_one(swept({0: 50, 1: 10, 2: 9}), "recommended_workers").samples == (1,)


def test_the_rate_is_that_of_the_slowest_rank():
    measured = swept({0: 10, 1: 8}, ranks=2)
    rate = the_one(measured, "batch_rate_per_s", num_workers=1)
    assert (rate.median, rate.subject, rate.parameters["world_size"]) == (4, "2 ranks", 2)


def test_where_no_worker_could_start_nothing_is_recommended():
    assert [m.metric for m in swept({0: 10})] == ["batch_rate_per_s"]


def test_a_rate_of_exactly_95_percent_is_enough():
    assert the_one(swept({1: 9, 2: 19, 4: 20}), "recommended_workers").samples == (2,)
    assert the_one(swept({1: 9, 2: 18.9, 4: 20}), "recommended_workers").samples == (4,)


def test_the_median_of_the_samples_counts():
    request = asked(ranks=1, cpus=2)
    times = {0: (1.0,), 1: (0.1, 0.1, 9.0), 2: (0.1, 8.0, 9.0)}
    lines = {0: lines_of(request, *(sample(case, times[case["num_workers"]]) for case in request.cases))}
    assert the_one(interpret(request, lines), "recommended_workers").samples == (1,)
