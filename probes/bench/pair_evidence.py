"""Conclude from the rates of pairs which hosts are slow, and whether chance explains this."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

Group = tuple[str, ...]
"""Hosts that are measured together, in their given order."""
Link = tuple[str, str]

_UPPER = 0.75
"""Quantile of the rates of a host's pairs that represents the host.

A good host keeps its rate although up to three quarters of its partners are slow.
"""
_WIDE = 4
"""Smallest number of hosts in a run whose median describes the fleet rather than these hosts."""
_CHANCE = 0.006
"""Expected number of good hosts (or links) that a search reports by chance."""
_FEWEST = 4
"""Number of runs in which a host or a link must be slow; fewer if the hosts form fewer pairs."""


def pair_of(first: str, second: str) -> Link:
    """Return the pair of two hosts, in alphabetical order."""
    return (first, second) if first < second else (second, first)


class GroupRun(NamedTuple):
    """The rate of each pair in one run of a group; no pairs if the run gave no result."""

    group: Group
    pairs: Mapping[Link, float]
    """Rate of the slower direction, by the two hosts in alphabetical order."""
    scores: Mapping[str, float]
    """Rate that represents each host: the upper quartile of its pairs."""


def upper(values: Sequence[float]) -> float:
    """Return the upper quartile, rounded up to one of the values."""
    return sorted(values)[math.ceil(_UPPER * (len(values) - 1))]


class Evidence:
    """The conclusions about the hosts of a search from its runs so far."""

    def __init__(self, hosts: Group, runs: Sequence[GroupRun], slow_below: float) -> None:
        self._hosts, self._runs = hosts, runs
        answered = {host for run in runs for host in run.scores}
        self.reference = self._fast_level(slow_below)
        self._limit = slow_below * self.reference
        self._slow_below = slow_below
        self._valid = [run for run in runs if self.is_valid(run)]
        fast = {host for run in self._valid for host, score in run.scores.items() if score >= self._limit}
        self.good = tuple(host for host in hosts if host in fast)
        self.slow = tuple(host for host in hosts if host in answered and host not in fast)
        """Hosts that gave results but were never fast."""
        self.silent = tuple(host for host in hosts if host not in answered)
        """Hosts without any result."""
        self._links = self._slow_pairs()
        self.suspected_links = tuple(link for link in self._links if not self._was_fast(link))
        """Pairs of good hosts that were slow in all their runs."""
        self._fewest = min(_FEWEST, math.comb(len(hosts), 2))

    def _fast_level(self, slow_below: float) -> float:
        """Return the upper quartile of the first score of each host, 0 without scores.

        If this level is slow compared with the median host of another run, the first runs were disturbed as a
        whole, and that median is returned.
        """
        first: dict[str, float] = {}
        for run in self._runs:
            first = {**run.scores, **first}
        level = upper(list(first.values())) if first else 0.0
        wide = [run.scores.values() for run in self._runs if len(run.scores) >= _WIDE]
        fastest = max(map(statistics.median, wide), default=0.0)
        return fastest if fastest * slow_below > level else level

    def is_valid(self, run: GroupRun) -> bool:
        """Return whether a fast pair shows that the whole run was not disturbed."""
        return any(rate >= self._limit for rate in run.pairs.values())

    @property
    def slow_share(self) -> float:
        """Share of the runs of good hosts in which they were slow."""
        scores = self._good_scores(self._valid)
        return sum(score < self._limit for score in scores) / max(1, len(scores))

    def _good_scores(self, runs: Sequence[GroupRun]) -> list[float]:
        good = set(self.good)
        return [score for run in runs for host, score in run.scores.items() if host in good]

    def slow_runs(self, host: str) -> Sequence[GroupRun]:
        """Return the runs of a host in which some pair was clearly faster than this host ever was."""
        return [run for run in self._runs_above(self._best(host)) if host in run.scores]

    def _best(self, host: str) -> float:
        return max(run.scores[host] for run in self._runs if host in run.scores)

    def _runs_above(self, rate: float) -> list[GroupRun]:
        """Return the runs that were not disturbed as a whole: a pair is clearly faster than `rate`."""
        faster = rate / self._slow_below
        return [run for run in self._runs if any(each >= faster for each in run.pairs.values())]

    def is_named(self, host: str) -> bool:
        """Return whether chance does not explain that a host was slow in all its runs.

        By chance a good host is as slow as the best run of this host in a share f of the runs, as the good
        hosts of the search show (with one run added to each side, by Laplace's rule of succession). Of n good
        hosts, n f^k are that slow k times in a row.
        """
        times, best = len(self.slow_runs(host)), self._best(host)
        scores = self._good_scores(self._runs_above(best))
        share = (sum(score <= best for score in scores) + 1) / (len(scores) + 2)
        return times >= self._fewest and len(self._hosts) * share**times < _CHANCE

    def _slow_pairs(self) -> dict[Link, int]:
        """Return how often pairs of good hosts were slow, in valid runs."""
        good, times = set(self.good), dict[Link, int]()
        for run in self._valid:
            for pair, rate in run.pairs.items():
                if rate < self._limit and pair[0] in good and pair[1] in good:
                    times[pair] = times.get(pair, 0) + 1
        return times

    def _was_fast(self, link: Link) -> bool:
        return any(run.pairs.get(link, 0.0) >= self._limit for run in self._valid)

    def is_measured(self, link: Link) -> bool:
        """Return whether a valid run measured this pair."""
        return any(link in run.pairs for run in self._valid)

    def slow_times(self, link: Link) -> int:
        """Return how often a pair was slow."""
        return self._links[link]

    def is_link_named(self, link: Link) -> bool:
        """Return whether chance does not explain that a link was slow in all its runs, as for hosts."""
        times = self.slow_times(link)
        suspected = sum(self._links[each] for each in self.suspected_links)
        pairs = sum(len(run.pairs) for run in self._valid) - suspected
        share = (sum(self._links.values()) - suspected + 1) / (pairs + 2)
        return times >= self._fewest and pairs * share**times < _CHANCE

    @property
    def smallest_failure(self) -> int:
        """Size of the smallest group that gave no result although all its hosts gave results in others.

        Without such a group, the value is twice the number of hosts.
        """
        silent = set(self.silent)
        failed = (len(run.group) for run in self._runs if not run.pairs and silent.isdisjoint(run.group))
        return min(failed, default=2 * len(self._hosts))

    def times_silent(self, host: str) -> int:
        """Return how often a group with this host gave no result."""
        return sum(not run.pairs and host in run.group for run in self._runs)

    def silent_parts(self) -> list[Group]:
        """Return the hosts without a result, divided by the smallest group in which each of them failed.

        A failed pair counts only if neither host has given a result.
        """
        smallest: dict[str, Group] = {}
        silent = set(self.silent)
        for run in self._runs:
            if run.pairs:
                continue
            members = tuple(host for host in run.group if host in silent)
            if len(run.group) > 2 or len(members) == 2:
                for host in members:
                    if host not in smallest or len(run.group) < len(smallest[host]):
                        smallest[host] = run.group
        parts: dict[Group, list[str]] = {}
        for host, group in smallest.items():
            parts.setdefault(group, []).append(host)
        return [tuple(members) for members in parts.values()]

    def fails_with_good(self, host: str) -> Group:
        """Return the partners that answer without this host, and not together with it."""
        answered = {*self.good, *self.slow}
        return tuple(
            other
            for run in self._runs
            if not run.pairs and len(run.group) == 2 and host in run.group
            for other in run.group
            if other in answered
        )


def scores_of(pairs: Mapping[Link, float]) -> dict[str, float]:
    """Return the rate that represents each host of a run."""
    rates: dict[str, list[float]] = {}
    for pair, rate in pairs.items():
        for host in pair:
            rates.setdefault(host, []).append(rate)
    return {host: upper(values) for host, values in rates.items()}
