"""Outputs of `numactl -H`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from probes.base.record import NOT_RECORDED
from probes.parsers.topology.numactl import parse_numa_nodes, recognise
from tests.support.damage import damaged

TEXT = """\
available: 2 nodes (0,8)
node 0 cpus: 0 2 4 6
node 0 size: 1000 MB
node 0 free: 900 MB
node 8 cpus:
node 8 size: 2000 MB
node 8 free: 1900 MB
node distances:
node   0   8
  0:  10  40
  8:  40  10
"""


def test_cpus_in_ranges_followed_by_their_number() -> None:
    (node,) = parse_numa_nodes("node 0 cpus: 0-3, 8 (5)\nnode 0 size: 1 MB\n")
    assert node.cpus == "0-3,8"


def test_nodes() -> None:
    assert recognise(TEXT)
    first, second = parse_numa_nodes(TEXT)
    assert (first.cpus, first.memory_bytes, first.memory_free_bytes, first.distances) == (
        "0,2,4,6",
        1000 * 2**20,
        900 * 2**20,
        (10, 40),
    )
    assert (second.index, second.cpus, second.distances) == (8, "", (40, 10))


def test_a_cut_matrix_is_no_matrix() -> None:
    assert {node.distances for node in parse_numa_nodes(TEXT[:-13])} == {NOT_RECORDED}


@given(st.one_of(st.text(max_size=200), damaged(TEXT)))
def test_damage_raises_nothing(text: str) -> None:
    recognise(text)
    assert all(
        f"node {node.index}" in text or f"node 0{node.index}" in text for node in parse_numa_nodes(text)
    )
