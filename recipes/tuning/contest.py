"""Find the fastest of several candidates with few trials: successive halving, then a test for chance.

A contest is a value: the candidates, the rules and the trials that were run. All other information, such as
the next trial, the remaining candidates and the result, is computed from this value. Therefore a contest that
was interrupted continues with the same trials.

In each round all remaining candidates run once, in an order that a seed shuffles, with the baseline among
them, so that a slow drift of the machine affects all of them. After a round of selection about one third of
the challengers remain (successive halving: K. Jamieson, A. Talwalkar, AISTATS 2016; with a factor of three as
in Hyperband: L. Li et al., JMLR 18, 2018). When one challenger remains, the finalist, only the rounds after
that moment decide whether the finalist is faster by more than chance. Selection and test use different data,
so the number of candidates does not raise the probability of a false winner.
"""

import math
import random
import statistics
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, NamedTuple

import msgspec

from probes.base.record import Record
from probes.base.units import plural
from recipes.tuning.chance import is_faster

Outcome = Literal["measured", "out_of_memory", "failed", "too_slow"]
"""Result of a trial: a step time, or the reason why the candidate has none."""
Decision = Literal["", "winner", "baseline", "baseline-failed"]
"""Result of a contest: undecided, the finalist, the baseline (also in a draw), or a failed baseline."""


_Seconds = Annotated[float, msgspec.Meta(ge=1e-9, le=1e9)]
"""A time that a step can have; ratios of such times and their logarithms are finite."""
_Part = Annotated[float, msgspec.Meta(gt=0, lt=1)]
_ROUNDING = 1e-9
"""A number of candidates that is larger than a whole number by no more than this is that whole number."""
MOST_ROUNDS = 16
"""Largest number of rounds: the test for chance goes through two to the power of this many patterns."""


class Rules(Record, kw_only=True):
    """The rules of a contest."""

    seed: int = 0
    """Seed of the order inside each round."""
    alpha: _Part = 0.05
    """Largest probability of a winner if all candidates are equally fast."""
    most_rounds: Annotated[int, msgspec.Meta(ge=1, le=MOST_ROUNDS)] = 12
    """Number of rounds after which a contest without a winner ends."""
    survivors: _Part = 1 / 3
    """Part of the challengers that remains after each round of selection, rounded up."""
    hopeless: Annotated[float, msgspec.Meta(ge=0, le=1e3)] = 0.2
    """Challengers slower than the fastest challenger by more than this part are dropped at once."""
    worthwhile: _Part = 0.02
    """Part of a step that a winner must save; the contest ends early if the finalist saves less."""


class Trial(Record, kw_only=True):
    """One run of one candidate."""

    round: Annotated[int, msgspec.Meta(ge=1, le=MOST_ROUNDS)]
    candidate: str
    outcome: Outcome
    step_time_s: _Seconds | None = None
    """Median of the steps after warm-up; None unless the trial was measured."""
    steps_s: tuple[_Seconds, ...] = ()
    """Seconds of all steps, with those of the warm-up."""
    peak_memory_bytes: Annotated[float, msgspec.Meta(ge=0, le=1e18)] | None = None
    reason: str = ""
    """Reason why there is no step time."""
    took_s: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 0.0
    """Seconds of the whole run, with its start."""


class Contest(Record, kw_only=True):
    """Candidates, rules and trials."""

    baseline: str
    challengers: tuple[str, ...]
    """The other candidates."""
    rules: Rules = Rules()
    trials: tuple[Trial, ...] = ()


class Standing(NamedTuple):
    """State of a contest after its trials."""

    round: int
    """The present round, from 1."""
    due: tuple[str, ...]
    """Candidates that have not run in this round, the next one first; empty if the contest is decided."""
    remaining: tuple[str, ...]
    """Challengers that were not eliminated, the fastest first as far as known."""
    decision: Decision
    because: str
    """Reason for the decision."""
    finalist: str
    """The last challenger, or the fastest remaining one if the contest is decided; else blank."""
    tested: tuple[float, ...]
    """Logarithms of the finalist's ratios to the baseline, in the rounds after the selection."""


def differences(contest: Contest, last_round: int | None = None) -> dict[str, list[float]]:
    """Return the logarithm of the ratio to the baseline's step time, for each challenger and round.

    Only rounds in which both the challenger and the baseline were measured are counted, up to `last_round`.
    """
    times = _times(contest.trials)
    ratios: dict[str, list[float]] = {name: [] for name in contest.challengers}
    for (number, name), seconds in times.items():
        own = times.get((number, contest.baseline))
        if name in ratios and own is not None and (last_round is None or number <= last_round):
            ratios[name].append(math.log(seconds / own))
    return ratios


def standing(contest: Contest) -> Standing:
    """Return the state of the contest.

    The rounds are evaluated in order: the trials of a round decide which candidates run in the next round.
    """
    rules = contest.rules
    remaining: list[str] = list(contest.challengers)
    alone_from = 1 if len(remaining) == 1 else 0
    runs = {(trial.round, trial.candidate): trial for trial in contest.trials}
    for number in range(1, rules.most_rounds + 1):
        members = (contest.baseline, *remaining)
        remaining = [name for name in remaining if _is_measured(runs.get((number, name)))]
        order = _order(members, rules.seed, number)
        due = tuple(name for name in order if (number, name) not in runs)
        own = runs.get((number, contest.baseline))
        if own is not None and own.outcome != "measured":
            because = f"{contest.baseline} failed: {own.reason}"
            return _decided(number, remaining, "baseline-failed", because)
        if not remaining:
            reason = "every other candidate failed" if contest.challengers else "there is no other candidate"
            return _decided(number, remaining, "baseline", reason)
        if due:
            return _open(contest, number, due, remaining, alone_from)
        means = _means(contest, remaining, number)
        remaining = _selected(remaining, means, rules)
        verdict = _verdict(contest, number, remaining, means, alone_from)
        if verdict is not None:
            return verdict
        if len(remaining) == 1 and not alone_from:
            alone_from = number + 1
    raise AssertionError("the last round always decides")


def _is_measured(trial: Trial | None) -> bool:
    """Return whether a candidate is still in the contest: it has not run yet, or has a step time."""
    return trial is None or trial.outcome == "measured"


def _open(
    contest: Contest, number: int, due: tuple[str, ...], remaining: list[str], alone_from: int
) -> Standing:
    finalist = remaining[0] if alone_from else ""
    tested = _tested(contest, finalist, alone_from, number)
    return Standing(number, due, tuple(remaining), "", "", finalist, tested)


def _decided(
    number: int,
    remaining: list[str],
    decision: Decision,
    because: str,
    tested: tuple[float, ...] = (),
) -> Standing:
    finalist = remaining[0] if remaining else ""
    return Standing(number, (), tuple(remaining), decision, because, finalist, tested)


def _selected(remaining: list[str], means: Mapping[str, float], rules: Rules) -> list[str]:
    """Return the challengers that stay after a round, the fastest first."""
    ranked = sorted(remaining, key=means.__getitem__)
    limit = means[ranked[0]] + math.log1p(rules.hopeless)
    kept = ranked[: max(1, math.ceil(len(ranked) * rules.survivors - _ROUNDING))]
    return [name for name in kept if means[name] <= limit]


_ROUNDS_TO_GIVE_UP = 2
"""Rounds after which a contest ends if every challenger looks slower than the baseline."""
_ROUNDS_TO_BE_SURE = 3
"""Rounds of a finalist after which a contest ends if the finalist saves too little."""


def _verdict(
    contest: Contest, number: int, remaining: list[str], means: Mapping[str, float], alone_from: int
) -> Standing | None:
    """Return the standing if the finished round decides the contest; else None."""
    rules, best = contest.rules, means[remaining[0]]
    # In early rounds, the contest ends only if even the fastest challenger looks clearly slower.
    if best >= (0.0 if number >= _ROUNDS_TO_GIVE_UP else math.log1p(rules.worthwhile)):
        return _decided(number, remaining, "baseline", "no other candidate is faster in these rounds")
    tested = _tested(contest, remaining[0], alone_from, number)
    is_worthwhile = best <= math.log1p(-rules.worthwhile)
    planned = rules.most_rounds - alone_from + 1
    if tested and is_worthwhile and is_faster(tested, alpha=rules.alpha, planned=planned):
        return _decided(number, remaining, "winner", "faster by more than chance", tested)
    if len(tested) >= _ROUNDS_TO_BE_SURE and not is_worthwhile:
        because = f"the fastest candidate saves less than {100 * rules.worthwhile:g} %"
        return _decided(number, remaining, "baseline", because, tested)
    if number == rules.most_rounds:
        because = f"after {plural(number, 'round')} the fastest candidate is not faster by more than chance"
        return _decided(number, remaining, "baseline", because, tested)
    return None


def _tested(contest: Contest, finalist: str, first_round: int, last_round: int) -> tuple[float, ...]:
    """Return the finalist's differences in `first_round` to `last_round`; empty if `first_round` is 0."""
    times = _times(contest.trials)
    return tuple(
        math.log(times[number, finalist] / times[number, contest.baseline])
        for number in range(first_round or last_round + 1, last_round + 1)
        if (number, finalist) in times and (number, contest.baseline) in times
    )


def _times(trials: Sequence[Trial]) -> dict[tuple[int, str], float]:
    """Return the step time of every measured trial, by round and candidate."""
    return {
        (trial.round, trial.candidate): trial.step_time_s
        for trial in trials
        if trial.outcome == "measured" and trial.step_time_s is not None
    }


def _means(contest: Contest, names: Sequence[str], last_round: int) -> dict[str, float]:
    known = differences(contest, last_round)
    return {name: math.fsum(known[name]) / len(known[name]) for name in names}


def _order(members: Sequence[str], seed: int, number: int) -> tuple[str, ...]:
    """Return the members in the order of a round.

    In the first round the baseline is first: if it cannot run, nothing else needs to run.
    """
    others = list(members[1:] if number == 1 else members)
    random.Random(f"{seed} {number}").shuffle(others)  # noqa: S311 - an order, no secret
    return (members[0], *others) if number == 1 else tuple(others)


def most_trials(contest: Contest) -> int:
    """Return the largest number of trials that the contest can take."""
    count, total = len(contest.challengers), 0
    for _ in range(contest.rules.most_rounds if count else 0):
        total += count + 1
        count = max(1, math.ceil(count * contest.rules.survivors - _ROUNDING))
    return total


def expected_seconds(contest: Contest, candidate: str) -> float:
    """Return the expected seconds of a candidate's next trial.

    This is the median of its own runs, or else the longest run of any candidate; 0 before the first trial.
    """
    own = [trial.took_s for trial in contest.trials if trial.candidate == candidate]
    return statistics.median(own) if own else max((trial.took_s for trial in contest.trials), default=0.0)
