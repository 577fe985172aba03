"""All pairs in rounds of disjoint ones, as in a round-robin tournament."""

from __future__ import annotations


def rounds(players: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """All pairs of 0 ... `players` - 1 in the fewest rounds in which nobody meets two others.

    The circle method: one stays, the others move round it by one place each time; with an odd number one
    rests in each round.
    """
    places = list(range(players + players % 2))
    found = []
    for _ in range(len(places) - 1):
        meeting = [tuple(sorted((places[place], places[-1 - place]))) for place in range(len(places) // 2)]
        found.append(tuple(sorted((first, second) for first, second in meeting if second < players)))
        places.insert(1, places.pop())
    return tuple(found)
