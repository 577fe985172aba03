"""Test the report of a search for bad hosts."""

from __future__ import annotations

import pytest

from assistant.pages.measured.bench_page import hosts_page
from assistant.text.plain_writer import text_of
from assistant.usecases.bench.find_bad_nodes import HostFault, HostSearch, LeftOut, LinkFault, Rate


def rate(sender: str, receiver: str, value: float = 1e9) -> Rate:
    return Rate(sender=sender, receiver=receiver, bytes_per_s=value)


def host_lines(**more) -> list[str]:
    fields = {
        "hosts": ("a", "b", "c"),
        "runs": 3,
        "rounds": 1,
        "all_pairs": 3,
        "pairs_measured": 3,
        "complete": True,
        "slow_below": 0.8,
        "slow_by_chance": 0.0,
        "reference_bytes_per_s": None,
        "bad_hosts": (),
        "bad_links": (),
        "unresolved": (),
        "silent_groups": (),
        "left_out": (),
    }
    return text_of(hosts_page(HostSearch(**{**fields, **more})), width=300).splitlines()


ALIKE = "all 3 hosts and the links between them are equally fast"


@pytest.mark.parametrize(
    ("more", "lines"),
    [
        ({}, [ALIKE, "3 runs in 1 round"]),
        ({"runs": 2}, [ALIKE, "2 runs in 1 round instead of 3 pairs"]),
        ({"pairs_measured": 2}, [ALIKE, "3 runs in 1 round; 2 of 3 links were measured"]),
        (
            {"reference_bytes_per_s": 1e10},
            [ALIKE, "3 runs in 1 round; a pair counts as slow below 80% of the fast pairs, 10 GB/s"],
        ),
        ({"complete": False}, ["the search was stopped", "3 runs in 1 round"]),
        (
            {"runs": 0, "all_pairs": 0},
            ["nothing was measured: fewer than two hosts can be used"],
        ),
        (
            {"left_out": (LeftOut(host="c", reason="busy"),)},
            [
                "c: left out: busy",
                "all 2 hosts and the links between them are equally fast",
                "3 runs in 1 round",
            ],
        ),
        ({"unresolved": (("a", "b"),)}, ["slow, but the cause is unclear: a, b", "3 runs in 1 round"]),
        ({"silent_groups": (("a",),)}, ["no answer: a: no run gave a result", "3 runs in 1 round"]),
        (
            {"slow_by_chance": 0.1},
            ["the measurements vary: good hosts were slow in 10% of their runs", ALIKE, "3 runs in 1 round"],
        ),
        ({"slow_by_chance": 0.09}, [ALIKE, "3 runs in 1 round"]),
        (
            {"bad_hosts": (HostFault(host="a", kind="unreachable", message="no route"),)},
            ["a: unreachable: no route", "3 runs in 1 round"],
        ),
        (
            {
                "bad_hosts": (
                    HostFault(host="a", kind="slow", slow_direction="both", links=(rate("a", "b"),)),
                )
            },
            ["a: is slow in both directions", "  a -> b  1 GB/s", "3 runs in 1 round"],
        ),
        (
            {"bad_links": (LinkFault(first="a", second="b", rates=(rate("a", "b"),)),)},
            [
                "link between a and b: slow, but both hosts are fast with other hosts",
                "  a -> b  1 GB/s",
                "3 runs in 1 round",
            ],
        ),
    ],
)
def test_a_search_for_bad_hosts_is_reported_line_by_line(more, lines):
    assert host_lines(**more)[: len(lines)] == lines


@pytest.mark.parametrize(("number", "last"), [(4, "  a -> h3  1 GB/s"), (5, "  and 1 more")])
def test_four_links_of_a_slow_host_are_listed(number, last):
    links = tuple(rate("a", f"h{index}") for index in range(number))
    lines = host_lines(bad_hosts=(HostFault(host="a", kind="slow", links=links),))
    assert lines[0] == "a: is slow"
    assert lines[-2] == last
    assert len(lines) == 2 + min(number, 5)
