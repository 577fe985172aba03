"""Test a contest: who runs next, who is eliminated and who wins; a stored contest continues."""

from __future__ import annotations

import itertools
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipes.tuning.contest import (
    Contest,
    Rules,
    Trial,
    differences,
    expected_seconds,
    most_trials,
    standing,
)
from tests.support.recorded_layouts import drawing, play

TIMES = st.lists(st.floats(0.1, 10.0), min_size=1, max_size=12)
SIMULATIONS = 400


def trial(number, name, seconds=1.0, **fields):
    outcome = "measured" if seconds else fields.pop("outcome", "out_of_memory")
    return Trial(
        round=number, candidate=name, outcome=outcome, step_time_s=seconds or None, took_s=10.0, **fields
    )


def contest(*trials, others=("a", "b", "c"), **rules):
    return Contest(baseline="base", challengers=others, rules=Rules(**rules), trials=trials)


@given(TIMES, st.integers(0, 1000))
def test_without_noise_the_best_is_never_eliminated(times, seed):
    played = play(tuple(times), 0, 0.0, drawing(seed))
    best = min(times)
    if played.end.decision == "winner":
        assert times[played.chosen] <= best * (1 + 1e-9)  # the contest compares logarithms
    else:
        assert times[0] <= best / (1 - played.contest.rules.worthwhile) * (1 + 1e-9)


@given(TIMES | st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=12), st.integers(), st.floats(0.0, 2.0))
def test_a_contest_ends_and_takes_no_more_trials_than_announced(times, seed, noise):
    played = play(tuple(times), 0, noise, drawing(seed))
    assert played.end.decision in ("winner", "baseline")
    assert len(played.contest.trials) <= most_trials(played.contest)


@given(TIMES, st.integers(0, 1000), st.integers(0, 40))
def test_a_contest_that_was_stored_continues_with_the_same_trials(times, seed, kept):
    played = play(tuple(times), 0, 0.05, drawing(seed))
    for part in (kept, len(played.contest.trials)):
        cut = msgspec.structs.replace(played.contest, trials=played.contest.trials[:part])
        again = msgspec.json.decode(msgspec.json.encode(cut), type=Contest)
        assert standing(again) == standing(cut)
        if part < len(played.contest.trials):
            following = played.contest.trials[part]
            assert (standing(again).round, standing(again).due[0]) == (following.round, following.candidate)


@given(TIMES, st.integers(0, 1000))
def test_in_each_round_every_remaining_candidate_runs_once_with_the_baseline(times, seed):
    played = play(tuple(times), 0, 0.03, drawing(seed))
    runs = [(each.round, each.candidate) for each in played.contest.trials]
    assert len(set(runs)) == len(runs)
    rounds = [{name for number, name in runs if number == each} for each in sorted({n for n, _ in runs})]
    assert all("0" in members for members in rounds)
    assert all(later <= earlier for earlier, later in itertools.pairwise(rounds))


@pytest.mark.parametrize("count", [2, 4, 9])
@pytest.mark.parametrize("noise", [0.02, 0.05])
def test_equal_candidates_have_a_winner_at_most_as_often_as_alpha(count, noise):
    draw, alpha = drawing(count), 0.05
    ends = [play((1.0,) * count, 0, noise, draw, worthwhile=0.0) for _ in range(SIMULATIONS)]
    assert sum(each.end.decision == "winner" for each in ends) <= alpha * SIMULATIONS


def test_noise_with_stragglers_causes_no_more_false_winners():
    """One run in five is slower by half, for whatever reason."""
    draw, winners = drawing(11), 0
    for _ in range(SIMULATIONS):
        state = standing(game := contest(others=("a", "b", "c", "d"), worthwhile=0.0))
        while state.due:
            seconds = math.exp(draw.gauss(0.0, 0.02)) * (1.5 if draw.random() < 0.2 else 1.0)
            added = trial(state.round, state.due[0], seconds)
            game = msgspec.structs.replace(game, trials=(*game.trials, added))
            state = standing(game)
        winners += state.decision == "winner"
    assert winners <= 0.05 * SIMULATIONS


def test_a_clear_gain_is_confirmed():
    draw = drawing(5)
    ends = [play((1.0, 0.85, 0.99, 1.2), 0, 0.03, draw) for _ in range(100)]
    assert sum(each.chosen == 1 for each in ends) >= 97


def test_the_baseline_runs_first_and_the_order_depends_on_the_seed():
    orders = {standing(contest(seed=seed)).due for seed in range(20)}
    assert {order[0] for order in orders} == {"base"}
    assert len(orders) > 3
    assert {frozenset(order) for order in orders} == {frozenset(("base", "a", "b", "c"))}


def test_a_candidate_without_memory_is_eliminated_with_the_first_trial():
    state = standing(contest(*(trial(1, name) for name in ("base", "a", "c")), trial(1, "b", 0)))
    assert "b" not in state.remaining
    assert state.round == 2


@pytest.mark.parametrize("outcome", ["out_of_memory", "failed", "too_slow"])
def test_if_every_other_candidate_fails_the_baseline_stays(outcome):
    failed = (trial(1, name, 0, outcome=outcome) for name in "abc")
    state = standing(contest(trial(1, "base"), *failed))
    assert (state.decision, state.due) == ("baseline", ())
    assert "failed" in state.because


def test_a_baseline_that_fails_ends_the_contest():
    state = standing(contest(trial(1, "base", 0, outcome="failed", reason="no torch")))
    assert state.decision == "baseline-failed"
    assert "no torch" in state.because


def test_a_contest_without_candidates_needs_no_trial():
    state = standing(contest(others=()))
    assert (state.decision, state.due) == ("baseline", ())
    assert most_trials(contest(others=())) == 0


def test_two_thirds_are_eliminated_after_a_round_and_hopeless_ones_too():
    names = tuple("abcdef")
    seconds = dict(zip(names, (0.9, 0.92, 0.95, 1.0, 1.1, 1.2), strict=True))
    first = [trial(1, "base"), *(trial(1, name, value) for name, value in seconds.items())]
    assert standing(contest(*first, others=names)).remaining == ("a", "b")
    slow = [
        trial(1, "base"),
        *(trial(1, name, value * 1.25) for name, value in seconds.items() if name != "a"),
    ]
    assert standing(contest(*slow, trial(1, "a", 0.9), others=names)).remaining == ("a",)
    near = [
        trial(1, "base"),
        *(trial(1, name, value * 1.15) for name, value in seconds.items() if name != "a"),
    ]
    assert standing(contest(*near, trial(1, "a", 0.9), others=names)).remaining == ("a", "b")


def test_rounds_of_the_selection_do_not_count_as_evidence():
    rounds = [trial(1, name, 0.5 if name == "a" else 1.0) for name in ("base", "a", "b")]
    for number in range(2, 6):
        rounds += [trial(number, "base"), trial(number, "a", 0.5)]
    state = standing(contest(*rounds, others=("a", "b")))
    assert (state.decision, state.finalist, len(state.tested)) == ("", "a", 4)
    state = standing(contest(*rounds, trial(6, "base"), trial(6, "a", 0.5), others=("a", "b")))
    assert (state.decision, state.finalist, len(state.tested)) == ("winner", "a", 5)


def test_a_gain_that_is_not_worthwhile_ends_the_contest():
    rounds = [
        trial(number, name, 0.99 if name == "a" else 1.0) for number in (1, 2, 3) for name in ("base", "a")
    ]
    state = standing(contest(*rounds, others=("a",)))
    assert state.decision == "baseline"
    assert "less than 2 %" in state.because


def test_a_candidate_that_looks_slower_ends_the_contest_early():
    one = contest(trial(1, "base"), trial(1, "a", 1.05), others=("a",))
    assert standing(one).decision == "baseline"
    near = contest(trial(1, "base"), trial(1, "a", 1.01), others=("a",))
    assert standing(near).decision == ""


def test_without_a_significant_gain_the_last_round_decides_for_the_baseline():
    rounds = []
    for number in range(1, 13):
        rounds += [trial(number, "base"), trial(number, "a", 0.8 if number % 3 else 1.3)]
    game = contest(*rounds, others=("a",), worthwhile=0.0)
    states = [standing(msgspec.structs.replace(game, trials=game.trials[:count])) for count in range(1, 24)]
    assert all(state.decision != "winner" for state in states)
    assert standing(game).decision == "baseline"


@pytest.mark.parametrize(
    ("others", "rules", "count"),
    [
        ("abc", {}, 4 + 11 * 2),
        ("abcdefghi", {"most_rounds": 3}, 10 + 4 + 2),
        ("abcdefghi", {"most_rounds": 1}, 10),
        ("abcd", {"survivors": 0.5, "most_rounds": 4}, 5 + 3 + 2 + 2),
        ("a", {}, 12 * 2),
    ],
)
def test_the_announced_number_of_trials_adds_up_the_rounds(others, rules, count):
    assert most_trials(contest(others=tuple(others), **rules)) == count


def first_round(**seconds):
    return [trial(1, name, value) for name, value in {"base": 1.0, **seconds}.items()]


def test_a_challenger_exactly_at_the_limit_is_not_hopeless_yet():
    game = contest(*first_round(a=0.75, b=0.9375), others=("a", "b"), survivors=0.9, hopeless=0.25)
    assert standing(game).remaining == ("a", "b")
    game = contest(*first_round(a=0.75, b=0.9376), others=("a", "b"), survivors=0.9, hopeless=0.25)
    assert standing(game).remaining == ("a",)


def test_a_challenger_is_given_up_early_only_if_it_looks_slower_by_what_is_worthwhile():
    assert standing(contest(*first_round(a=1.25), others=("a",), worthwhile=0.25)).decision == "baseline"
    assert standing(contest(*first_round(a=1.2499), others=("a",), worthwhile=0.25)).decision == ""
    rounds = [*first_round(a=1.0), trial(2, "base"), trial(2, "a")]
    assert "no other candidate is faster" in standing(contest(*rounds, others=("a",))).because
    rounds[-1] = trial(2, "a", 0.99)
    assert standing(contest(*rounds, others=("a",))).decision == ""


@pytest.mark.parametrize(("last", "decision"), [(0.97, "winner"), (0.999, "baseline")])
def test_a_finalist_wins_only_with_a_worthwhile_gain_over_all_rounds(last, decision):
    rounds = [
        trial(number, name, seconds)
        for number, own in enumerate((0.978, 0.978, 0.978, 0.978, last), 1)
        for name, seconds in (("base", 1.0), ("a", own))
    ]
    assert standing(contest(*rounds[:-2], others=("a",))).decision == ""
    assert standing(contest(*rounds, others=("a",))).decision == decision


def test_a_gain_of_exactly_what_is_worthwhile_wins():
    rounds = [
        trial(number, name, seconds)
        for number in range(1, 6)
        for name, seconds in (("base", 1.0), ("a", 0.75))
    ]
    state = standing(contest(*rounds, others=("a",), worthwhile=0.25))
    assert (state.decision, state.because) == ("winner", "faster by more than chance")
    assert "less than 25.1 %" in standing(contest(*rounds, others=("a",), worthwhile=0.251)).because


def test_ratios_come_from_rounds_in_which_both_ran():
    game = contest(trial(1, "base", 2.0), trial(1, "a", 1.0), trial(2, "a", 1.0))
    assert differences(game)["a"] == [pytest.approx(math.log(0.5))]


def test_the_expected_duration_is_that_of_earlier_runs():
    game = contest(trial(1, "base"), msgspec.structs.replace(trial(1, "a"), took_s=30.0))
    assert [expected_seconds(game, name) for name in ("base", "a", "b")] == [10.0, 30.0, 30.0]
    assert expected_seconds(contest(), "base") == 0.0
