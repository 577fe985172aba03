"""Test which member, or which link, is named as the cause of slow pairs."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.compare.slow_parts import Pair, blamed, pair_of, slow_parts, words_of_part


def rates(count: int, slow: dict[tuple[int, int], float]) -> dict[Pair, float]:
    names = [f"h{index}" for index in range(count)]
    return {
        frozenset((names[a], names[b])): slow.get((a, b), 100.0)
        for a, b in itertools.combinations(range(count), 2)
    }


@pytest.mark.parametrize(
    ("subject", "ends"),
    [
        ("GPU0-GPU11", ("GPU0", "GPU11")),
        ("GPU0->GPU1", ("GPU0", "GPU1")),
        ("rank 0-rank 3", ("rank 0", "rank 3")),
        ("node-a -> node-b", ("node-a", "node-b")),
        ("node-a - node-b", ("node-a", "node-b")),
        ("node-a", None),
        ("GPU3", None),
        ("8 ranks", None),
        ("GPU0-GPU0", None),
    ],
)
def test_ends_of_a_pair(subject: str, ends: tuple[str, str] | None) -> None:
    assert pair_of(subject) == (frozenset(ends) if ends else None)


@given(st.integers(3, 9), st.data())
def test_the_slow_member_is_found_among_any_number(count: int, data: st.DataObject) -> None:
    bad = data.draw(st.integers(0, count - 1))
    slow = {pair: 40.0 for pair in itertools.combinations(range(count), 2) if bad in pair}
    (slow_part,) = slow_parts(rates(count, slow), least_difference=0.1)
    assert (slow_part.part, slow_part.value, slow_part.usual, slow_part.share) == (
        f"h{bad}",
        40.0,
        100.0,
        0.4,
    )


@given(st.integers(4, 9), st.data())
def test_the_slow_link_is_found_and_no_host_is_blamed(count: int, data: st.DataObject) -> None:
    pair = data.draw(st.sampled_from(list(itertools.combinations(range(count), 2))))
    (slow_part,) = slow_parts(rates(count, {pair: 40.0}), least_difference=0.1)
    assert slow_part.part == frozenset(f"h{index}" for index in pair)
    assert words_of_part(slow_part.part) == "-".join(f"h{index}" for index in pair)


def test_a_slow_host_and_a_slow_link() -> None:
    slow = {(0, 4): 30.0, (1, 4): 30.0, (2, 4): 30.0, (3, 4): 30.0, (0, 1): 60.0}
    host, link = slow_parts(rates(5, slow), least_difference=0.1)
    assert (host.part, words_of_part(link.part)) == ("h4", "h0-h1")


def test_no_part_is_blamed_for_a_single_pair_or_equal_pairs() -> None:
    assert slow_parts(rates(2, {(0, 1): 1.0}), least_difference=0.1) == ()
    assert (
        slow_parts(rates(4, dict.fromkeys(itertools.combinations(range(4), 2), 50.0)), least_difference=0.1)
        == ()
    )
    assert slow_parts({}, least_difference=0.1) == ()


def test_blame_of_pairs_that_fall_short() -> None:
    every = set(rates(4, {}))
    of_three = {pair for pair in every if "h3" in pair}
    assert blamed(of_three, every) == ("h3",)
    assert blamed(every, every) == tuple(sorted(every, key=sorted))
    single = {frozenset(("h0", "h1"))}
    assert blamed(single, every) == tuple(single)
    assert blamed(set(), every) == ()
