"""Detect which device, host or pair causes slow pairs. Pure."""

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
    """Return the two ends of a pair such as `GPU0-GPU3`, `rank 0-rank 3` or `GPU0->GPU3`.

    Host names may contain a dash, so that ` - ` or an arrow separates hosts.
    """
    match = _ENDS.fullmatch(subject)
    ends = [match[1], match[2]] if match else _ARROW.split(subject)
    return frozenset(ends) if len(ends) == 2 and len(set(ends)) == 2 else None


def blamed(slow: Collection[Pair], measured: Collection[Pair]) -> tuple[str | Pair, ...]:
    """Return the members whose pairs are all slow, and the slow pairs that no member explains.

    A member needs two pairs or more: a single slow pair does not show which end is bad. If all members have
    only slow pairs, no member is the cause.
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
    """Rate of the pair, or of the member's best pair."""
    usual: float
    """Median rate of its equals."""

    @property
    def share(self) -> float:
        return self.value / self.usual if self.usual else 0.0


def slow_parts(rates: Mapping[Pair, float], *, least_difference: float) -> tuple[SlowPart, ...]:
    """Return the slow members, then the slow pairs, among pairs that should be equal.

    A member is represented by its best pair: a good member has a fast pair with another good member, a bad
    member has none, even if it slows most pairs, like one member of three. Of two members neither can be
    named.
    """
    best: dict[str, float] = {}
    for pair, rate in rates.items():
        for name in pair:
            best[name] = max(rate, best.get(name, 0.0))
    bad = outliers(best, worse="low", least_difference=least_difference)
    parts = [SlowPart(outlier.name, outlier.value, quantile(list(best.values()), 0.5)) for outlier in bad]
    members = {outlier.name for outlier in bad}
    remaining = {pair: rate for pair, rate in rates.items() if not pair & members}
    by_name = {"\0".join(sorted(pair)): rate for pair, rate in remaining.items()}
    for outlier in outliers(by_name, worse="low", least_difference=least_difference):
        parts.append(
            SlowPart(
                frozenset(outlier.name.split("\0")), outlier.value, quantile(list(remaining.values()), 0.5)
            )
        )
    return tuple(parts)


def words_of_part(part: str | Pair) -> str:
    """Return `GPU3` for a member, or `GPU0-GPU3` for a pair."""
    return part if isinstance(part, str) else "-".join(sorted(part, key=lambda name: (len(name), name)))
