"""Pairs of devices or hosts: who is to blame where some of them are slow. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection

Pair = frozenset[str]
"""Two names, in either order."""

_ENDS = re.compile(r"(.+?)\s*(?:->|<->|→|↔|-)\s*(GPU\d+|rank \d+)")


def pair_of(subject: str) -> Pair | None:
    """`GPU0-GPU3`, `rank 0-rank 3`, `GPU0->GPU3`; hosts, whose names may hold a dash, with ` - ` or an arrow between them."""
    found = _ENDS.fullmatch(subject)
    ends = [found[1], found[2]] if found else re.split(r" - |\s*<?->\s*|\s*[→↔]\s*", subject)
    return frozenset(ends) if len(ends) == 2 and len(set(ends)) == 2 else None


def blamed(slow: Collection[Pair], measured: Collection[Pair]) -> tuple[str | Pair, ...]:
    """The members whose pairs are all slow, and the slow pairs that none of them explains.

    A member needs two pairs or more: of one slow pair alone nobody can say which end is the bad one. Where one bad member makes
    every pair of a machine with three slow, the others have a pair without it, which is fine.
    """
    names = {name for pair in measured for name in pair}
    members: list[str] = []
    for name in sorted(names):
        own = [pair for pair in measured if name in pair]
        if len(own) > 1 and all(pair in slow for pair in own):
            members.append(name)
    # Where everything is slow, everybody is blamed and so nobody.
    if len(members) == len(names):
        members = []
    rest = sorted((pair for pair in slow if not pair & set(members)), key=sorted)
    return (*members, *rest)
