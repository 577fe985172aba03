"""Test the search for slow hosts and links with simulated hosts whose faults are known."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from probes.bench.group_testing import MOST_HOSTS, Search, SearchResult
from probes.bench.tournament import rounds

GOOD, SLOW = 1.0, 0.2


class Cluster:
    """Simulated hosts: bad hosts are slow with all others, dead hosts end every run; links may be slow."""

    def __init__(self, count: int, bad: int = 0, bad_links: int = 0, seed: int = 0, *, dead: int = 0) -> None:
        self.random = random.Random(seed)  # noqa: S311 - no secret
        self.hosts = [f"n{number}" for number in range(count)]
        chosen = self.random.sample(self.hosts, bad + dead)
        self.bad, self.dead = set(chosen[:bad]), set(chosen[bad:])
        free = [host for host in self.hosts if host not in chosen]
        self.random.shuffle(free)
        self.bad_links = {frozenset((free.pop(), free.pop())) for _ in range(bad_links)}
        self.largest = 0

    def rate(self, first: str, second: str) -> float:
        return SLOW if self.bad & {first, second} or frozenset((first, second)) in self.bad_links else GOOD

    def search(
        self, *, disturbed: float = 0.0, noise: float = 0.0, search: Search | None = None, **options: object
    ) -> SearchResult:
        """Return the result of a search.

        `disturbed` is the share of runs that are slow as a whole, and `noise` the standard deviation of the
        logarithm of each pair's rate.
        """
        search = search or Search(self.hosts, **options)
        while groups := search.next_groups():
            busy = [host for group in groups for host in group]
            assert len(busy) == len(set(busy)), "groups that run at once share no host"
            for group in groups:
                assert len(group) > 1
                self.largest = max(self.largest, len(group))
                search.record(group, {} if self.dead & set(group) else self.measured(group, disturbed, noise))
        assert search.result is not None
        return search.result

    def measured(
        self, group: tuple[str, ...], disturbed: float, noise: float
    ) -> dict[tuple[str, str], float]:
        factor = SLOW if self.random.random() < disturbed else 1.0
        pairs = [(first, second) for at, first in enumerate(group) for second in group[at + 1 :]]
        if not noise:
            return {pair: factor * self.rate(*pair) for pair in pairs}
        ways = (*pairs, *((second, first) for first, second in pairs))
        return {way: factor * self.rate(*way) * math.exp(self.random.gauss(0, noise)) for way in ways}


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    count = draw(st.integers(3, MOST_HOSTS))
    bad = draw(st.integers(0, min(6, count // 2)))
    dead = draw(st.integers(0, 2)) if count - bad >= 6 else 0
    bad_links = draw(st.integers(0, 2)) if count - bad - dead >= 8 else 0
    return Cluster(count, bad, bad_links, draw(st.integers(0, 2**32)), dead=dead)


def links_of(result: SearchResult) -> set[frozenset[str]]:
    return {frozenset(link) for link in result.bad_links}


@settings(max_examples=60, deadline=None)
@given(cluster=clusters())
def test_exactly_the_bad_hosts_and_links_are_found(cluster):
    result = cluster.search()
    assert (set(result.bad_hosts), set(result.silent_hosts)) == (cluster.bad, cluster.dead)
    assert links_of(result) == cluster.bad_links
    assert (result.unresolved, result.silent_groups, result.reference) == ((), (), GOOD)
    if len(cluster.hosts) <= 16:
        assert result.runs <= math.comb(len(cluster.hosts), 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "bad", "dead", "most_runs", "most_rounds"),
    [
        (10_000, 0, 0, 110, 3),
        (10_000, 10, 0, 200, 10),
        (10_000, 0, 10, 400, 10),
        (10_000, 5, 5, 400, 10),
        (1_000, 20, 0, 120, 10),
    ],
)
def test_ten_thousand_hosts_need_few_runs_and_rounds_and_small_groups(
    count, bad, dead, most_runs, most_rounds
):
    """The goal for 10 slow or dead hosts of 10 000 is 400 runs and 10 rounds; 2 % of the runs are disturbed.

    Some rows allow fewer runs or rounds.
    """
    cluster = Cluster(count, bad, seed=count + bad, dead=dead)
    result = cluster.search(disturbed=0.02)
    print(f"{count} hosts, {bad} slow, {dead} dead: {result.runs} runs, {result.rounds} rounds")  # noqa: T201
    assert (set(result.bad_hosts), set(result.silent_hosts)) == (cluster.bad, cluster.dead)
    assert (result.bad_links, result.unresolved, result.silent_groups) == ((), (), ())
    assert result.runs <= most_runs
    assert result.rounds <= most_rounds
    assert cluster.largest <= MOST_HOSTS


@pytest.mark.parametrize("count", [3, 4, 6, 9])
@pytest.mark.parametrize("noise", [0.1, 0.2, 0.3, 0.5])
def test_noise_names_almost_no_host_or_link(count, noise):
    """In 100 searches over healthy hosts with noise, at most two hosts or links are named."""
    accused = []
    for seed in range(100):
        cluster = Cluster(count, seed=seed)
        result = cluster.search(noise=noise)
        accused += [*result.bad_hosts, *result.bad_links]
        assert result.runs <= math.comb(count, 2)
    assert len(accused) <= 2


@pytest.mark.parametrize("count", [3, 4, 8, 40])
def test_in_noise_a_bad_host_is_nearly_always_found_and_no_other_is_named(count):
    results = []
    for seed in range(20):
        cluster = Cluster(count, 1, seed=seed)
        result = cluster.search(noise=0.2)
        assert set(result.bad_hosts) <= cluster.bad
        results.append(bool(result.bad_hosts))
    assert sum(results) >= 17


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), bad=st.integers(0, 3))
@example(seed=292997272, bad=1)  # the first run of all hosts is disturbed
def test_disturbed_runs_accuse_no_healthy_host(seed, bad):
    cluster = Cluster(100, bad, 0, seed)
    result = cluster.search(disturbed=0.05)
    assert (set(result.bad_hosts), result.bad_links) == (cluster.bad, ())


def test_a_group_without_any_fast_pair_is_measured_again():
    """One of the first groups of 200 hosts is disturbed as a whole."""
    cluster, disturbed = Cluster(200), [True]
    search = Search(cluster.hosts)
    while groups := search.next_groups():
        for group in groups:
            factor = SLOW if disturbed.pop() else 1.0
            search.record(
                group, {pair: factor * rate for pair, rate in cluster.measured(group, 0, 0).items()}
            )
            disturbed = [False]
    assert search.result is not None
    undisturbed = Cluster(200).search()
    assert search.result.runs == undisturbed.runs + 1
    assert (search.result.bad_hosts, search.result.unresolved) == ((), ())


@pytest.mark.parametrize("count", [2, 9])
def test_hosts_that_are_all_equally_slow_are_not_named(count):
    result = Cluster(count, count).search()
    assert (result.bad_hosts, result.unresolved, result.reference) == ((), (), SLOW)


def test_two_thirds_of_the_hosts_may_be_bad():
    cluster = Cluster(12, 8, seed=3)
    assert set(cluster.search().bad_hosts) == cluster.bad


@pytest.mark.parametrize("count", [2, 4, 16, 100])
def test_with_no_host_answering_none_is_slow(count):
    result = Cluster(count, dead=count).search()
    assert (result.bad_hosts, result.silent_hosts, result.unresolved) == ((), (), ())
    assert {host for group in result.silent_groups for host in group} == {f"n{n}" for n in range(count)}
    assert result.rounds <= 5


@pytest.mark.parametrize("count", [3, 4, 8, 30])
def test_a_host_with_which_nothing_runs_gives_no_answer(count):
    cluster = Cluster(count, dead=1)
    result = cluster.search()
    assert (result.bad_hosts, set(result.silent_hosts)) == ((), cluster.dead)


def test_a_host_that_works_only_in_small_groups_is_not_called_silent():
    """The run of all hosts fails each time, and every smaller run works."""
    cluster = Cluster(20)
    search = Search(cluster.hosts)
    while groups := search.next_groups():
        for group in groups:
            search.record(group, {} if len(group) == 20 else cluster.measured(group, 0, 0))
    assert search.result is not None
    assert (search.result.silent_hosts, search.result.silent_groups) == ((), (tuple(cluster.hosts),))


@pytest.mark.parametrize(("noise", "most_rounds"), [(0.0, 7), (0.2, 25), (0.3, 40)])
def test_a_site_where_no_large_group_works_does_not_repeat_them(noise, most_rounds):
    """Noise makes links suspects; a group of all of them would fail again and again."""

    class Small(Cluster):
        def measured(self, group, disturbed, noise):
            return {} if len(group) > 20 else super().measured(group, disturbed, noise)

    for seed in range(3):
        cluster = Small(63, 1, seed=seed)
        result = cluster.search(noise=noise)
        assert (set(result.bad_hosts), result.bad_links) == (cluster.bad, ())
        assert result.rounds <= most_rounds
        assert {len(group) > 20 for group in result.silent_groups} == {True}


def test_a_slow_host_that_ends_every_later_run_does_not_cost_all_runs():
    class Dying(Cluster):
        is_first = True

        def measured(self, group, disturbed, noise):
            if self.bad & set(group) and not self.is_first:
                return {}
            self.is_first = False
            return super().measured(group, disturbed, noise)

    cluster = Dying(63, 1, seed=1)
    result = cluster.search()
    assert (result.bad_hosts, result.unresolved) == ((), (tuple(cluster.bad),))
    assert result.runs <= 12


def test_racks_are_measured_first_and_joined_by_their_representatives():
    hosts = [f"n{number}" for number in range(200)]
    racks = {host: f"r{number % 5}" for number, host in enumerate(hosts)}
    search = Search(hosts, racks=racks)
    groups = search.next_groups()
    assert sorted(len(group) for group in groups) == [40] * 5
    assert all(len({racks[host] for host in group}) == 1 for group in groups)
    for group in groups:
        search.record(group, Cluster(200).measured(group, 0, 0))
    (join,) = search.next_groups()
    assert {racks[host] for host in join} == set(racks.values())


def test_hosts_behind_a_slow_uplink_are_bad_although_they_are_fast_among_themselves():
    rack = {f"n{number}" for number in range(8)}
    cluster = Cluster(40)
    cluster.rate = lambda first, second: SLOW if (first in rack) != (second in rack) else GOOD  # type: ignore[method-assign]
    result = cluster.search()
    assert (set(result.bad_hosts), result.bad_links, result.unresolved) == (rack, (), ())


def test_every_screening_group_has_two_hosts_whatever_the_racks():
    hosts = [f"n{number}" for number in range(150)]
    racks = dict.fromkeys(hosts[:149], "a") | {hosts[149]: "b"}
    groups = Search(hosts, racks=racks).next_groups()
    assert sorted(host for group in groups for host in group) == sorted(hosts)
    assert all(2 <= len(group) <= MOST_HOSTS for group in groups)


@given(players=st.integers(2, 40))
def test_in_a_tournament_each_two_meet_once_and_nobody_twice_in_a_round(players):
    meetings = rounds(players)
    met = [pair for meeting in meetings for pair in meeting]
    assert len(met) == len(set(met)) == math.comb(players, 2)
    assert all(
        len({player for pair in meeting for player in pair}) == 2 * len(meeting) for meeting in meetings
    )
    assert len(meetings) == players - 1 + players % 2
