"""Arrange all pairs in rounds of disjoint pairs, as in a round-robin tournament."""


def rounds(players: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Return all pairs of 0 to `players` - 1 in as few rounds as possible, where each player has one partner
    per round.

    This is the circle method: one player stays, and the others move by one place after each round. If the
    number is odd, one player rests in each round.
    """
    places = list(range(players + players % 2))
    all_rounds = []
    for _ in range(len(places) - 1):
        meeting = [tuple(sorted((places[place], places[-1 - place]))) for place in range(len(places) // 2)]
        all_rounds.append(tuple(sorted((first, second) for first, second in meeting if second < players)))
        places.insert(1, places.pop())
    return tuple(all_rounds)
