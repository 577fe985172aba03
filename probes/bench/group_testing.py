"""Search for slow hosts by group testing: choose the next groups to measure, and evaluate their results.

A run of a group measures the bandwidth of every pair of its hosts. A host is slow in a run if about three
quarters of its pairs are slow. Up to `MOST_HOSTS` hosts are measured in one group; more hosts are divided
into racks, or into about as many groups as the square root of their number. Suspects are measured again, each
among several hosts that were fast, until chance is excluded as the reason or the tries are used up. A group
without a result is divided until single hosts remain, which are then paired with hosts that answered.
Disjoint groups do not disturb each other and are measured at the same time. Links between groups are measured
too: all of them up to `MOST_HOSTS` hosts, beyond that those between one representative of each group.

The method follows NVIDIA's cluster validation (screen, divide, confirm with known-good partners) and F. K.
Hwang, "A method for detecting all defective members in a population by group testing", 1972.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, starmap

from probes.base.record import Record
from probes.bench.pair_evidence import Evidence, Group, GroupRun, Link, pair_of, scores_of
from probes.bench.tournament import rounds

SLOW_BELOW = 0.75
"""Share of the reference below which a pair is slow.

A link with less than three quarters of the rate of other links has lost lanes, a rail or its speed. Noise
seldom costs as much.
"""
MOST_HOSTS = 128
"""Maximum number of hosts in a group: a larger run takes minutes, and one dead host makes it fail."""
_PARTNERS = 7
"""Number of fast hosts that are measured together with suspects."""
_TRIES = 7
"""Maximum number of runs with a suspect; if chance is not excluded by then, the noise is too large."""
_SILENT_TRIES = 2
"""Number of good partners with which a host without a result is tried, and of tries to measure links between
groups.
"""
_FEW_SILENT = 10
"""Largest group without a result whose hosts are paired with good partners instead of being divided."""
_GIVE_UP_ROUNDS = 4
"""Rounds after which a search without any result ends."""
_MOST_LINKS = 3
"""Maximum number of slow links of a host that are reported one by one.

With more slow links, the host itself is reported as unresolved.
"""
_FEW_HOSTS = 16
"""Number of hosts up to which a search takes no more runs than there are pairs."""


class SearchResult(Record, kw_only=True):
    """The result of the search."""

    bad_hosts: Group = ()
    """Hosts that are slow with good partners, more often than chance explains."""
    silent_hosts: Group = ()
    """Hosts with which no run gives a result, although their partners work without them."""
    bad_links: tuple[Link, ...] = ()
    """Slow links between two hosts that are both fast with other hosts."""
    unresolved: tuple[Group, ...] = ()
    """Slow hosts that chance may explain, one per group, and one group of hosts with many slow links."""
    silent_groups: tuple[Group, ...] = ()
    """Groups that gave no result, and in which no host could be identified as the cause."""
    reference: float = 0.0
    """Rate relative to which pairs are slow: the rate of fast hosts in the search."""
    slow_by_chance: float = 0.0
    """Share of the runs in which a good host was slow."""
    pairs_measured: int = 0
    """Number of different pairs of hosts that have been measured."""
    runs: int = 0
    """Number of measurements of a group."""
    rounds: int = 0
    """Number of rounds; disjoint groups run in the same round."""


class _Plan:
    """Groups of one round, which share no host."""

    def __init__(self) -> None:
        self.groups: list[Group] = []
        self._busy: set[str] = set()

    def free(self, hosts: Sequence[str]) -> list[str]:
        return [host for host in hosts if host not in self._busy]

    def add(self, group: Sequence[str]) -> None:
        """Add a group unless it has a host in common with another, or too few or too many hosts."""
        if 2 <= len(group) <= MOST_HOSTS and self._busy.isdisjoint(group):
            self.groups.append(tuple(group))
            self._busy.update(group)


class Search:
    """The state of a search. Measure and `record` each group of `next_groups` until there are none.

    `hosts` are at least two different names, which are compared with each other. `racks` gives the rack of
    each host where it is known.
    """

    def __init__(
        self,
        hosts: Sequence[str],
        *,
        slow_below: float = SLOW_BELOW,
        racks: Mapping[str, str] | None = None,
    ) -> None:
        self._hosts = tuple(hosts)
        self._slow_below = slow_below
        self._screening = _screening(self._hosts, racks or {})
        few = len(self._hosts) <= _FEW_HOSTS
        self.most_runs = math.comb(len(self._hosts), 2) if few else 64 + len(self._hosts)
        """Number of runs after which the search ends in any case."""
        self._runs: list[GroupRun] = []
        self._rounds = 0
        self.result: SearchResult | None = None
        """The result; None while groups remain to be measured."""

    def next_groups(self) -> tuple[Group, ...]:
        """Return disjoint groups to be measured at the same time; none when the search is over."""
        # All runs are judged again in each round, so that a better reference corrects every earlier step.
        evidence = Evidence(self._hosts, self._runs, self._slow_below)
        groups = self._wanted(evidence)[: self.most_runs - len(self._runs)]
        if not groups:
            self.result = self._conclude(evidence)
            return ()
        self._rounds += 1
        return tuple(groups)

    def record(self, group: Group, rates: Mapping[Link, float]) -> None:
        """Record the rate of each pair of a group by sender and receiver; empty without a result."""
        pairs: dict[Link, float] = {}
        for (sender, receiver), rate in rates.items():
            pair = pair_of(sender, receiver)
            pairs[pair] = min(rate, pairs.get(pair, rate))  # the slower direction decides
        self._runs.append(GroupRun(group, pairs, scores_of(pairs)))

    def _wanted(self, evidence: Evidence) -> list[Group]:
        if not self._runs:
            return self._screening
        if not any(run.pairs for run in self._runs) and self._rounds >= _GIVE_UP_ROUNDS:
            return []
        plan = _Plan()
        for group in self._voids(evidence):
            plan.add(group)
        self._plan_silent(evidence, plan)
        self._plan_suspects(evidence, plan)
        self._plan_links(evidence, plan)
        if not plan.groups:
            for group in self._joins(evidence):
                plan.add(group)
        return plan.groups

    def _times(self, group: Group) -> int:
        return sum(run.group == group for run in self._runs)

    def _voids(self, evidence: Evidence) -> Iterator[Group]:
        """Yield groups that were measured once, with all pairs slow: the run may have been disturbed."""
        for run in self._runs:
            if run.pairs and not evidence.is_valid(run) and self._times(run.group) == 1:
                yield run.group

    def _plan_silent(self, evidence: Evidence, plan: _Plan) -> None:
        """Divide groups without a result down to single hosts, and pair these with hosts that answered."""
        answered = (*evidence.good, *evidence.slow)
        singles: list[str] = []
        for members in evidence.silent_parts():
            enough = len(plan.free(answered)) >= min(len(members), 2)
            if len(members) == 1 or (len(members) <= _FEW_SILENT and enough):
                singles += members
            elif len(members) > 2:
                for part in _parts(members, max(2, math.isqrt(len(members)))):
                    if len(part) == 1:
                        singles += part
                    plan.add(part)
        for host in singles:
            tries = evidence.fails_with_good(host)
            partners = [each for each in plan.free(answered) if each not in tries]
            if len(tries) < _SILENT_TRIES and partners:
                plan.add((host, partners[0]))
        if not answered and not plan.groups and len(self._hosts) <= _FEW_HOSTS:
            self._plan_meeting(plan)

    def _plan_meeting(self, plan: _Plan) -> None:
        """Pair the hosts as in a tournament while none has answered: two good hosts may not have met yet."""
        for meeting in rounds(len(self._hosts)):
            pairs = [(self._hosts[first], self._hosts[second]) for first, second in meeting]
            fresh = [pair for pair in pairs if not self._times(pair)]
            for pair in fresh:
                plan.add(pair)
            if fresh:
                return

    def _plan_suspects(self, evidence: Evidence, plan: _Plan) -> None:
        """Measure slow hosts together with good hosts, in each round with different good hosts."""
        suspects = [
            host
            for host in plan.free(evidence.slow)
            if max(len(evidence.slow_runs(host)), evidence.times_silent(host)) < _TRIES
            and not evidence.is_named(host)
        ]
        if not suspects:
            return
        good = plan.free(evidence.good)
        turn = self._rounds * _PARTNERS % max(1, len(good))
        good = good[turn:] + good[:turn]
        groups = max(1, min(len(suspects), len(good) // _PARTNERS))
        if len(suspects) > _FEW_HOSTS:
            groups = min(groups, -(-len(suspects) // _PARTNERS))
        for number in range(groups):
            own = suspects[number::groups][:_PARTNERS]
            partners = good[number * _PARTNERS : (number + 1) * _PARTNERS]
            if len(partners) >= 2:
                plan.add(self._in_order((*own, *partners)))

    def _plan_links(self, evidence: Evidence, plan: _Plan) -> None:
        """Repeat the measurement of slow pairs of good hosts, together with other good hosts.

        At some sites large groups never give a result although every host works. After such a run, groups
        have at most half its size, so that the search ends.
        """
        most = min(MOST_HOSTS, evidence.smallest_failure // 2)
        links = [
            link
            for link in evidence.suspected_links
            if evidence.slow_times(link) < _TRIES and len(plan.free(link)) == 2
        ]
        groups = _groups_of(links, most)
        used = {host for group in groups for host in group}
        for group in groups:
            missing = max(0, min(_PARTNERS, most) - len(group))
            others = [host for host in plan.free(evidence.good) if host not in used][:missing]
            plan.add(self._in_order((*group, *others)))

    def _joins(self, evidence: Evidence) -> Iterator[Group]:
        """Yield groups that measure the links between the groups of the screening."""
        good = set(evidence.good)
        if len(good) <= MOST_HOSTS:
            joins = [evidence.good]
        else:
            first = [next((host for host in group if host in good), "") for group in self._screening]
            present = [host for host in first if host]
            joins = list(_parts(present, -(-len(present) // MOST_HOSTS)))
        for join in joins:
            is_measured = all(evidence.is_measured(pair) for pair in starmap(pair_of, combinations(join, 2)))
            if not is_measured and self._times(self._in_order(join)) < _SILENT_TRIES:
                yield self._in_order(join)

    def _in_order(self, hosts: Sequence[str]) -> Group:
        members = set(hosts)
        return tuple(host for host in self._hosts if host in members)

    def _conclude(self, evidence: Evidence) -> SearchResult:
        bad = tuple(host for host in evidence.slow if evidence.is_named(host))
        # One failed try is enough here: a host has had only one try if the permitted runs were used up.
        silent = tuple(host for host in evidence.silent if evidence.fails_with_good(host))
        links = [link for link in evidence.suspected_links if evidence.is_link_named(link)]
        many = _cover(links)
        unresolved = [group for group in (self._in_order(many),) if group]
        kept = sorted(link for link in links if not set(link) & set(many))
        unresolved += [(host,) for host in evidence.slow if host not in bad]
        together = [run.group for run in self._runs if not run.pairs and set(run.group) <= set(evidence.good)]
        joined = {run.group for run in self._runs if run.pairs}
        lost = tuple(host for host in evidence.silent if host not in silent)
        return SearchResult(
            bad_hosts=bad,
            silent_hosts=silent,
            bad_links=tuple(kept),
            unresolved=tuple(unresolved),
            silent_groups=(
                *((lost,) if lost else ()),
                *(group for group in dict.fromkeys(together) if group not in joined),
            ),
            reference=evidence.reference,
            slow_by_chance=evidence.slow_share,
            pairs_measured=len({pair for run in self._runs for pair in run.pairs}),
            runs=len(self._runs),
            rounds=self._rounds,
        )


def _groups_of(links: Sequence[Link], most: int) -> list[list[str]]:
    """Return groups of at most `most` hosts that share no host; a link whose hosts do not fit is left out."""
    groups: list[list[str]] = []
    home: dict[str, list[str]] = {}
    for link in links if most >= 2 else ():
        own = next((home[host] for host in link if host in home), None)
        if own is None:
            own = next((group for group in groups if len(group) + 2 <= most), [])
            groups += [] if own else [own]
        fresh = [host for host in link if host not in home]
        if len(own) + len(fresh) <= most:
            own += fresh
            home |= dict.fromkeys(fresh, own)
    return groups


def _screening(hosts: Group, racks: Mapping[str, str]) -> list[Group]:
    """Return the first groups: all hosts together if they are few, else racks.

    Hosts without a known rack, or alone in their rack, are divided into groups of about equal size.
    """
    if len(hosts) <= MOST_HOSTS:
        return [hosts]
    size = min(MOST_HOSTS, math.isqrt(len(hosts)))
    by_rack: dict[str, list[str]] = {}
    for host in hosts:
        by_rack.setdefault(racks.get(host, ""), []).append(host)
    groups: list[Group] = []
    alone: list[str] = []
    for rack, members in by_rack.items():
        longest = MOST_HOSTS if rack else size
        parts = _parts(members, -(-len(members) // longest))
        groups += [part for part in parts if len(part) > 1]
        alone += [part[0] for part in parts if len(part) == 1]
    if len(alone) == 1:  # the one host of a rack joins the smallest group
        smallest = min(groups, key=len)
        groups[groups.index(smallest)] = (*smallest, *alone)
    elif alone:
        groups += _parts(alone, -(-len(alone) // size))
    return groups


def _parts(members: Sequence[str], count: int) -> list[Group]:
    """Return `count` parts whose sizes differ by at most 1."""
    edges = [len(members) * number // count for number in range(count + 1)]
    return [tuple(members[edges[number] : edges[number + 1]]) for number in range(count)]


def _cover(links: Sequence[Link]) -> list[str]:
    """Return hosts with many slow links, repeatedly the one with the most remaining links."""
    left, chosen = list(links), []
    while left:
        ends = [host for link in left for host in link]
        most = max(dict.fromkeys(ends), key=ends.count)
        if ends.count(most) <= _MOST_LINKS:
            break
        chosen.append(most)
        left = [link for link in left if most not in link]
    return chosen
