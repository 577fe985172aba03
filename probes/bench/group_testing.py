"""Search for slow hosts by group testing: choose the next groups to measure, and evaluate their results.

A group is slow if a host or a link between its hosts is slow. Most hosts are good, so the search measures
groups instead of pairs. It begins with about as many groups as the square root of the number of hosts,
continues with halves of the slow groups, and ends with single suspects, each together with two partners that
were fast in other groups. At the end the search joins the fast groups, which shows slow links between good
hosts. It locates these links by halving both sides. Disjoint groups do not disturb each other and are
measured at the same time. The method follows NVIDIA's cluster validation (screen, bisect, confirm with a
known-good partner) and the generalised binary splitting of F. K. Hwang, "A method for detecting all defective
members in a population by group testing", 1972.
"""

import itertools
import math
from collections.abc import Sequence

from probes.base.record import Record
from probes.bench.tournament import rounds

Group = tuple[str, ...]
"""Hosts that are measured together, in their given order."""
Link = tuple[str, str]

SLOW_BELOW = 0.75
"""Share of the reference below which a group is slow.

A link with less than three quarters of the rate of other links has lost lanes, a rail or its speed. Noise
seldom costs as much.
"""
REPEATS = 1
"""Number of repetitions that confirm a slow group, because single network measurements vary."""
_PARTNERS = 2
"""Number of good partners with which a host must be slow.

With a single partner, the link between both may be slow and not the host.
"""


class SearchResult(Record, kw_only=True):
    """The result of the search."""

    bad_hosts: Group = ()
    """Hosts that are slow with every good partner."""
    bad_links: tuple[Link, ...] = ()
    """Slow links between two hosts that are both fast with other hosts."""
    unresolved: tuple[Group, ...] = ()
    """Slow groups in which no host and no link could be identified."""
    reference: float = 0.0
    """Rate relative to which groups are slow: the best pair of the search, or the expected rate."""
    runs: int = 0
    """Number of measurements of a group."""
    rounds: int = 0
    """Number of rounds; disjoint groups run in the same round."""


class Search:
    """The state of a search. Measure `next_groups` and `record` each until `next_groups` is empty.

    `hosts` are at least two different names. `expected` is a rate that good hosts are known to reach. If it
    is 0, the best pair so far is the reference, and earlier results are judged again whenever the reference
    rises.
    """

    def __init__(
        self,
        hosts: Sequence[str],
        *,
        expected: float = 0.0,
        slow_below: float = SLOW_BELOW,
        repeats: int = REPEATS,
    ) -> None:
        self._hosts = tuple(hosts)
        self._order = {host: number for number, host in enumerate(self._hosts)}
        self._slow_below, self._repeats = slow_below, repeats
        self._reference = expected
        self._rates: dict[Group, list[float]] = {}
        self._wanted: list[Group] = []
        self._links: list[Link] = []
        self._unresolved: list[Group] = []
        self._rounds = 0
        self.result: SearchResult | None = None
        """The result; None while groups remain to be measured."""

    def next_groups(self) -> tuple[Group, ...]:
        """Return disjoint groups to be measured at the same time; none when the search is over."""
        # The whole search runs again over the known rates, so that a higher reference corrects every
        # earlier step.
        self._wanted, self._links, self._unresolved = [], [], []
        bad = self._search()
        if bad is not None:
            self.result = self._conclude(bad)
            return ()
        chosen: list[Group] = []
        busy: set[str] = set()
        for group in self._wanted:
            if busy.isdisjoint(group):
                chosen.append(group)
                busy.update(group)
        self._rounds += 1
        return tuple(chosen)

    def record(self, group: Group, rate: float, *, best: float = 0.0) -> None:
        """Record the rates of the slowest and of the `best` pair of a group, 0 without a result."""
        self._rates.setdefault(group, []).append(rate)
        self._reference = max(self._reference, rate, best)

    def _conclude(self, bad: Sequence[str]) -> SearchResult:
        links = {self._sorted(link) for link in self._links}
        in_order = sorted(links, key=lambda link: [self._order[host] for host in link])
        return SearchResult(
            bad_hosts=self._sorted(bad),
            bad_links=tuple((first, second) for first, second in in_order),
            unresolved=tuple(dict.fromkeys(self._unresolved)),
            reference=self._reference,
            runs=sum(map(len, self._rates.values())),
            rounds=self._rounds,
        )

    def _sorted(self, hosts: Sequence[str]) -> Group:
        return tuple(sorted(set(hosts), key=self._order.__getitem__))

    def _slow(self, hosts: Sequence[str]) -> bool | None:
        """Return whether a group is slow; None if the group must be measured first."""
        group = self._sorted(hosts)
        rates = self._rates.get(group, [])
        if rates and max(rates) > 0 and max(rates) >= self._slow_below * self._reference:
            return False
        if len(rates) > self._repeats:
            return True
        if group not in self._wanted:
            self._wanted.append(group)
        return None

    def _search(self) -> list[str] | None:
        """Return the slow hosts; None if groups must be measured first.

        Each step continues in all branches, so that as many groups as possible are requested together.
        """
        groups = _screening(self._hosts)
        verdicts = [self._slow(group) for group in groups if len(group) > 1]
        if None in verdicts:
            return None
        clean = [group for group in groups if len(group) > 1 and not self._slow(group)]
        suspects = [group for group in groups if group not in clean]
        if not clean:
            fast_pairs = self._any_fast_pairs()
            if fast_pairs is None:
                return None
            if not fast_pairs:
                self._unresolved.append(self._hosts)
                return []
            clean = fast_pairs
            fast = {host for pair in fast_pairs for host in pair}
            suspects = [
                remaining
                for group in groups
                if (remaining := tuple(host for host in group if host not in fast))
            ]
        parts = self._isolate(suspects, partners=[host for group in clean for host in group])
        if parts is None or not self._join(clean + parts[1]):
            return None
        return parts[0]

    def _any_fast_pairs(self) -> list[Group] | None:
        """Return the fast pairs of the first tournament round with fast pairs; none if all pairs are slow."""
        for meeting in rounds(len(self._hosts)):
            matching = [(self._hosts[first], self._hosts[second]) for first, second in meeting]
            verdicts = [self._slow(pair) for pair in matching]
            if None in verdicts:
                return None
            fast: list[Group] = [pair for pair, slow in zip(matching, verdicts, strict=True) if not slow]
            if fast:
                return fast
        return []

    def _isolate(
        self, slow_groups: Sequence[Group], partners: list[str]
    ) -> tuple[list[str], list[Group]] | None:
        """Return the slow hosts of slow groups, and the parts of the groups that are fast together.

        Return None if groups must be measured first.
        """
        bad: list[str] = []
        clean: list[Group] = []
        pending = False
        for half in (half for group in slow_groups for half in _halves(group) if half):
            parts: tuple[list[str], list[Group]] | None = ([], [half])
            if len(half) == 1:
                parts = self._confirm(half[0], partners)
            elif (slow := self._slow(half)) is not False:
                parts = self._isolate([half], partners) if slow else None
            if parts is None:
                pending = True
            else:
                bad += parts[0]
                clean += parts[1]
        return None if pending else (bad, clean)

    def _confirm(self, host: str, partners: list[str]) -> tuple[list[str], list[Group]] | None:
        """Measure one suspect with good partners; neighbouring suspects get different partners."""
        first = self._order[host]
        for number in range(min(_PARTNERS, len(partners))):
            slow = self._slow((host, partners[(first + number) % len(partners)]))
            if slow is None:
                return None
            if not slow:
                return [], [(host,)]
        return [host], []

    def _join(self, clean: list[Group]) -> bool:
        """Locate slow links between good hosts; return False if groups must be measured first."""
        aside: list[str] = []
        joined = self._merge(clean, aside)
        if joined is None:
            return False
        done = True
        for number, host in enumerate(aside):
            others = tuple(other for other in joined if not self._is_bad(host, other))
            slow = self._slow((host, *others)) if others else False
            if slow is None or (slow and not self._between((host,), others)):
                done = False
            for other in aside[:number]:
                slow = self._slow((host, other))
                done = done and slow is not None
                if slow and not self._is_bad(host, other):
                    self._links.append((other, host))
        return done

    def _is_bad(self, host: str, other: str) -> bool:
        return (host, other) in self._links or (other, host) in self._links

    def _merge(self, clean: Sequence[Group], aside: list[str]) -> Group | None:
        """Return the hosts of `clean` that are fast together, and put one end of each slow link `aside`."""
        if len(clean) == 1:
            return clean[0]
        whole = [host for group in clean for host in group]
        slow = self._slow(whole)
        if slow is None:
            return None
        if not slow:
            return self._sorted(whole)
        middle = len(clean) // 2
        left, right = self._merge(clean[:middle], aside), self._merge(clean[middle:], aside)
        if left is None or right is None:
            return None
        slow = self._slow((*left, *right))
        if slow is None:
            return None
        if not slow:
            return (*left, *right)
        before = len(self._links)
        if not self._between(left, right):
            return None
        dropped = _cover(self._links[before:])
        aside += dropped
        return tuple(host for host in (*left, *right) if host not in dropped)

    def _between(self, left: Group, right: Group) -> bool:
        """Locate slow links from `left` to `right`; return False if groups must be measured first.

        Each side is fast within itself, and both are slow together.
        """
        if len(left) == len(right) == 1:
            if not self._is_bad(left[0], right[0]):
                self._links.append((left[0], right[0]))
            return True
        wide, other = (left, right) if len(left) >= len(right) else (right, left)
        halves = _halves(wide)
        verdicts = [self._slow((*half, *other)) for half in halves]
        done = None not in verdicts
        for half, slow in zip(halves, verdicts, strict=True):
            if slow and not self._between(half, other):
                done = False
        if done and not any(verdicts):
            self._unresolved.append(self._sorted((*left, *right)))
        return done


def _screening(hosts: Group) -> list[Group]:
    """Return groups of about equal size: the square root of the number of hosts, at least two.

    With three hosts, one group has a single host.
    """
    if len(hosts) <= 3:
        return [hosts[:2], *((host,) for host in hosts[2:])]
    count = max(2, len(hosts) // max(2, math.isqrt(len(hosts))))
    edges = [len(hosts) * number // count for number in range(count + 1)]
    return [hosts[begin:end] for begin, end in itertools.pairwise(edges)]


def _halves(group: Group) -> tuple[Group, Group]:
    middle = (len(group) + 1) // 2
    return group[:middle], group[middle:]


def _cover(links: Sequence[Link]) -> list[str]:
    """Return hosts that together have all `links`: repeatedly the host with the most remaining links."""
    left, chosen = list(links), []
    while left:
        ends = [host for link in left for host in link]
        chosen.append(max(dict.fromkeys(ends), key=ends.count))
        left = [link for link in left if chosen[-1] not in link]
    return chosen
