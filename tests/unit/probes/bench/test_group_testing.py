"""The search for slow hosts and links, against hosts whose faults are known."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.bench.group_testing import Search, SearchResult
from probes.bench.tournament import rounds

GOOD, SLOW = 1.0, 0.2


class Cluster:
    """Hosts of which some are slow with everybody, and links that are slow between good hosts."""

    def __init__(self, count: int, bad: int, bad_links: int, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - no secret
        self.hosts = [f"n{number}" for number in range(count)]
        self.bad = set(self.random.sample(self.hosts, bad))
        free = [host for host in self.hosts if host not in self.bad]
        self.random.shuffle(free)
        self.bad_links = {frozenset((free.pop(), free.pop())) for _ in range(bad_links)}

    def rate(self, first: str, second: str) -> float:
        return SLOW if self.bad & {first, second} or frozenset((first, second)) in self.bad_links else GOOD

    def search(self, *, false_alarms: float = 0.0, **options: float) -> SearchResult:
        search = Search(self.hosts, **options)
        while groups := search.next_groups():
            busy = [host for group in groups for host in group]
            assert len(busy) == len(set(busy)), "groups that run at once share no host"
            for group in groups:
                assert len(group) > 1
                rates = [
                    self.rate(first, second) for at, first in enumerate(group) for second in group[at + 1 :]
                ]
                slowest = SLOW if self.random.random() < false_alarms else min(rates)
                search.record(group, slowest, best=max(rates))
        assert search.result is not None
        return search.result


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    count = draw(st.integers(3, 256))
    bad = draw(st.integers(0, min(6, count - 2)))
    bad_links = draw(st.integers(0, 2)) if count - bad >= 6 else 0
    return Cluster(count, bad, bad_links, draw(st.integers(0, 2**32)))


def links_of(result: SearchResult) -> set[frozenset[str]]:
    return {frozenset(link) for link in result.bad_links}


@settings(max_examples=60)
@given(cluster=clusters())
def test_exactly_the_bad_hosts_and_links_are_found(cluster):
    result = cluster.search()
    assert (set(result.bad_hosts), links_of(result), result.unresolved) == (
        cluster.bad,
        cluster.bad_links,
        (),
    )
    assert result.reference == GOOD


@pytest.mark.parametrize(
    ("count", "bad", "most_runs"), [(64, 0, 10), (64, 2, 45), (256, 0, 18), (256, 1, 40), (256, 6, 130)]
)
def test_far_fewer_runs_than_pairs(count, bad, most_runs):
    """Count both runs of every slow group."""
    worst = max((Cluster(count, bad, 0, seed).search() for seed in range(20)), key=lambda result: result.runs)
    assert worst.runs <= most_runs < math.comb(count, 2) / 30
    assert worst.rounds <= 20


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32), bad=st.integers(0, 3))
def test_false_alarms_accuse_nobody(seed, bad):
    """Check that one false alarm in twenty runs, after repetition, names no host."""
    cluster = Cluster(100, bad, 0, seed)
    result = cluster.search(false_alarms=0.05, repeats=3)
    assert set(result.bad_hosts) == cluster.bad
    assert not result.bad_links


def test_of_two_hosts_nobody_can_tell_which():
    pair = Cluster(2, 1, 0, seed=0)
    assert pair.search(expected=GOOD).unresolved == (("n0", "n1"),)
    alone = pair.search()
    assert (alone.bad_hosts, alone.unresolved) == ((), ())  # they are all there is to compare with


def test_without_any_good_pair_nobody_is_accused():
    result = Cluster(9, 9, 0, seed=0).search(expected=GOOD)
    assert (result.bad_hosts, result.unresolved) == ((), (tuple(f"n{number}" for number in range(9)),))


def test_a_single_good_pair_among_many_is_enough():
    cluster = Cluster(12, 10, 0, seed=3)
    assert set(cluster.search(expected=GOOD).bad_hosts) == cluster.bad


def test_a_host_with_which_nothing_runs_is_bad():
    cluster = Cluster(8, 0, 0, seed=0)
    search = Search(cluster.hosts)
    while groups := search.next_groups():
        for group in groups:
            search.record(group, 0.0 if "n5" in group else GOOD, best=0.0 if "n5" in group else GOOD)
    assert search.result is not None
    assert search.result.bad_hosts == ("n5",)


def test_a_better_pair_that_comes_late_changes_the_verdict_on_what_was_before():
    """Check three hosts, whose first pair has no reference yet."""
    cluster = Cluster(3, 1, 0, seed=0)
    for slow in cluster.hosts:
        cluster.bad = {slow}
        assert cluster.search().bad_hosts == (slow,)


@given(players=st.integers(2, 40))
def test_in_a_tournament_each_two_meet_once_and_nobody_twice_in_a_round(players):
    meetings = rounds(players)
    met = [pair for meeting in meetings for pair in meeting]
    assert len(met) == len(set(met)) == math.comb(players, 2)
    assert all(
        len({player for pair in meeting for player in pair}) == 2 * len(meeting) for meeting in meetings
    )
    assert len(meetings) == players - 1 + players % 2
