"""Test that every pair of ranks is measured once, and the fraction of hidden communication."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.bench import overlap, pairs
from tests.support.bench_answers import answer, requests, the_one


@given(st.integers(2, 40))
def test_every_two_ranks_meet_once_and_none_meets_two_in_a_round(ranks):
    turns = pairs.rounds(ranks)
    met = [pair for turn in turns for pair in turn]
    assert sorted(met) == [(first, second) for first in range(ranks) for second in range(first + 1, ranks)]
    assert all(len({rank for pair in turn for rank in pair}) == 2 * len(turn) for turn in turns)
    assert len(turns) == ranks - 1 + ranks % 2  # the fewest there can be


def test_a_pair_is_as_fast_as_its_slower_rank_and_differs_in_the_subject_alone():
    (request,) = requests("pairs", ranks=4)
    measurements = pairs.interpret(request, {rank: answer(request, rank, (rank + 1.0,)) for rank in range(4)})
    alone = {m.subject: m for m in measurements if m.parameters["pairs"] == "alone"}
    assert set(alone) == {f"rank {a}-rank {b}" for a in range(4) for b in range(a + 1, 4)}
    size = request.cases[0]["bytes"]
    assert (alone["rank 0-rank 3"].median, alone["rank 1-rank 2"].median) == (size / 4, size / 3)
    assert len({tuple(m.parameters.items()) for m in alone.values()}) == 1
    assert len(measurements) == 12


def test_pairs_of_gpus_have_the_drivers_names():
    (request,) = requests("pairs", "cuda", subjects={"GPU-b": "GPU5", "GPU-a": "GPU2"})
    lines = {rank: answer(request, rank, uuid=uuid) for rank, uuid in enumerate(("GPU-a", "GPU-b"))}
    assert [m.subject for m in pairs.interpret(request, lines)] == ["GPU2-GPU5"]


def test_a_pair_that_one_of_the_two_did_not_finish_is_not_measured():
    (request,) = requests("pairs", ranks=3)
    lines = {rank: answer(request, rank, cases=request.cases if rank else ()) for rank in range(3)}
    assert [m.subject for m in pairs.interpret(request, lines)] == ["rank 1-rank 2"]


def test_many_ranks_meet_disjoint_only_and_few_alone_only():
    assert {case["pairs"] for case in requests("pairs", ranks=16)[0].cases} == {"disjoint"}
    assert {case["pairs"] for case in requests("pairs", ranks=3)[0].cases} == {"alone"}
    assert requests("pairs", ranks=1) == ()


# Seconds of computation alone, of communication alone, and of both together. In the rows the communication
# is hidden, follows the computation, is half hidden, and slows the computation down.
@pytest.mark.parametrize(
    ("parts", "fraction", "exposed"),
    [
        ((4.0, 1.0, 4.0), 1.0, 0.0),
        ((4.0, 1.0, 5.0), 0.0, 1.0),
        ((1.0, 4.0, 4.5), 0.5, 0.875),
        ((4.0, 1.0, 6.0), -1.0, 2.0),
        ((8.0, 2.0, 9.0), 0.5, 0.5),
        ((2.0, 8.0, 9.0), 0.5, 0.875),
    ],
)
def test_hidden_and_exposed_communication_are_computed(parts, fraction, exposed):
    (request,) = requests("overlap")
    by_part = dict(zip(("computation", "communication", "both"), parts, strict=True))
    lines = {rank: answer(request, rank, lambda case: (by_part[case["part"]],)) for rank in range(2)}
    measurements = overlap.interpret(request, lines)
    assert the_one(measurements, "overlap_fraction", model="mini", world_size=2).samples == (fraction,)
    assert the_one(measurements, "exposed_communication_fraction", micro_batch=1).samples == (exposed,)
    assert the_one(measurements, "pass_time_s", part="both").samples == (parts[2],)


def test_communication_shorter_than_the_noise_gives_no_overlap():
    (request,) = requests("overlap")
    times = {"computation": (1.0, 2.0, 3.0, 4.0), "communication": (0.1,) * 4, "both": (2.0, 2.0, 2.0, 2.0)}
    lines = {rank: answer(request, rank, lambda case: times[case["part"]]) for rank in range(2)}
    assert {m.metric for m in overlap.interpret(request, lines)} == {"pass_time_s"}


def test_overlap_needs_all_three_parts():
    (request,) = requests("overlap")
    lines = {rank: answer(request, rank, cases=request.cases[:2]) for rank in range(2)}
    assert overlap.interpret(request, lines).kind == "incomplete"


@pytest.mark.parametrize(
    ("communication", "is_measured"), [((0.2, 0.2, 0.9, 0.9), True), ((0.25, 0.25, 0.25, 0.9), False)]
)
def test_noise_is_the_middle_half_of_the_computations(
    communication: tuple[float, ...], is_measured: bool
) -> None:
    """The quartiles of the computations are 0.3 s apart; the medians of the communication 0.55 and 0.25 s."""
    (request,) = requests("overlap")
    times = {"computation": (1.0, 1.2, 1.4, 1.6), "communication": communication, "both": (2.0,) * 4}
    lines = {rank: answer(request, rank, lambda case: times[case["part"]]) for rank in range(2)}
    metrics = {m.metric for m in overlap.interpret(request, lines)}
    assert ("overlap_fraction" in metrics) is is_measured
