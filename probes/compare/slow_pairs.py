"""Pairs of devices or hosts: who is to blame where some of them are slow. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

from probes.base.statistics import outliers, quantile

Pair = frozenset[str]
"""Two names, in either order."""

_ENDS = re.compile(r"(.+?)\s*(?:->|<->|→|↔|-)\s*(GPU\d+|rank \d+)")
_ARROW = re.compile(r" - |\s*<?->\s*|\s*[→↔]\s*")


def pair_of(subject: str) -> Pair | None:
    """`GPU0-GPU3`, `rank 0-rank 3`, `GPU0->GPU3`; hosts, whose names may hold a dash, with ` - ` or an arrow
    between them.
    """
    found = _ENDS.fullmatch(subject)
    ends = [found[1], found[2]] if found else _ARROW.split(subject)
    return frozenset(ends) if len(ends) == 2 and len(set(ends)) == 2 else None


def blamed(slow: Collection[Pair], measured: Collection[Pair]) -> tuple[str | Pair, ...]:
    """The members whose pairs are all slow, and the slow pairs that none of them explains.

    A member needs two pairs or more: of one slow pair alone nobody can say which end is the bad one. Where
    every member has slow pairs only, no member is the reason.
    """
    names = {name for pair in measured for name in pair}
    members = []
    for name in sorted(names):
        own = [pair for pair in measured if name in pair]
        if len(own) > 1 and all(pair in slow for pair in own):
            members.append(name)
    if len(members) == len(names):
        members = []
    return (*members, *sorted((pair for pair in slow if not pair & set(members)), key=sorted))


class SlowPart(NamedTuple):
    """A member of many pairs, or one pair, that is slower than its equals."""

    part: str | Pair
    value: float
    """Its best pair's, or its own."""
    usual: float
    """Of its equals."""

    @property
    def share(self) -> float:
        return self.value / self.usual if self.usual else 0.0


def slow_parts(rates: Mapping[Pair, float], *, least_difference: float) -> tuple[SlowPart, ...]:
    """Whom to blame among pairs that should be alike, members first.

    A member is known by its best pair: a good one has a fast pair with another good one, a bad one has none,
    even where it spoils most of all pairs, as one of three does. Of two members nobody can say which is the
    bad one.
    """
    best: dict[str, float] = {}
    for pair, rate in rates.items():
        for name in pair:
            best[name] = max(rate, best.get(name, 0.0))
    bad = outliers(best, worse="low", least_difference=least_difference)
    found = [SlowPart(one.name, one.value, quantile(list(best.values()), 0.5)) for one in bad]
    members = {one.name for one in bad}
    rest = {pair: rate for pair, rate in rates.items() if not pair & members}
    by_name = {"\0".join(sorted(pair)): rate for pair, rate in rest.items()}
    for one in outliers(by_name, worse="low", least_difference=least_difference):
        found.append(SlowPart(frozenset(one.name.split("\0")), one.value, quantile(list(rest.values()), 0.5)))
    return tuple(found)


def words_of_part(part: str | Pair) -> str:
    """`GPU3`, or `GPU0-GPU3`."""
    return part if isinstance(part, str) else "-".join(sorted(part, key=lambda name: (len(name), name)))
