"""Places of nodes from tables, from Slurm's topology and from labels of Kubernetes."""

from __future__ import annotations

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.errors import InputError
from probes.fleet.places import load_labels, parse_places, parse_slurm_topology, places_of_labels

TREE = """
# a comment with Nodes=node[90-99]
SwitchName=leaf1 Nodes=node[1-2] LinkSpeed=1
SwitchName=leaf2 Nodes=node[3-4]
SwitchName=spine Switches=leaf[1-2]
SwitchName=core Switches=spine
"""
SCONTROL = """SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=node[1-2]
SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=node[3-4]
SwitchName=spine Level=1 LinkSpeed=1 Nodes=node[1-4] Switches=leaf[1-2]
SwitchName=core Level=2 LinkSpeed=1 Nodes=node[1-4] Switches=spine
"""


def expand(pattern: str) -> tuple[str, ...]:
    """Return the node names of a pattern with simple ranges, such as `n[1-3,5]`."""
    names: list[str] = []
    for stem, ranges in re.findall(r"([\w-]+)(?:\[([\d,-]+)\])?", pattern):
        if not ranges:
            names.append(stem)
        for part in ranges.split(",") if ranges else ():
            first, _, last = part.partition("-")
            names += [f"{stem}{number}" for number in range(int(first), int(last or first) + 1)]
    return tuple(names)


@pytest.mark.parametrize(
    "text",
    [
        "node,rack,PDU\nn[1-2],7,a\nn3,8,\n",
        "\ufeffnode , rack, pdu\n\n# racks\nn[1,2],7,a\nn3,8,\n".removeprefix("\ufeff"),
        'nodes,rack,pdu\n"n[1,2]",7,a\nn3,8,\n',
        'node,rack,pdu\n"n[1-1],n[2-2]",7,a\nn[3],8,\n',
        '[[nodes]]\nnode = "n[1-2]"\nrack = 7\npdu = "a"\n[[nodes]]\nnode = "n3"\nrack = "8"\n',
    ],
)
def test_tables_of_a_site(text):
    places = parse_places(text, "racks", expand)
    assert places == {"n1": {"rack": "7", "pdu": "a"}, "n2": {"rack": "7", "pdu": "a"}, "n3": {"rack": "8"}}


def test_a_later_row_adds_to_an_earlier_one():
    assert parse_places("node,rack,room\nn[1-2],7,\nn1,,east\n", "x", expand) == {
        "n1": {"rack": "7", "room": "east"},
        "n2": {"rack": "7"},
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rack,pdu\n7,a\n", "no column `node`"),
        ("", "names no node"),
        ("node,rack\n", "names no node"),
        ("node,rack\nn1,7,9\n", "another number of columns"),
        ("node,rack,pdu\nn1,7\n", "another number of columns"),
        ("[[nodes]]\nnode = \n", "racks"),
    ],
)
def test_a_wrong_table_is_named(text, words):
    with pytest.raises(InputError, match=words):
        parse_places(text, "racks", expand)


@pytest.mark.parametrize("text", [TREE, SCONTROL])
def test_the_switches_of_slurm(text):
    places = parse_slurm_topology(text, expand)
    assert sorted(places) == ["node1", "node2", "node3", "node4"]
    assert places["node3"] == {"switch": "leaf2", "switch_level_1": "spine", "switch_level_2": "core"}


def test_the_blocks_of_slurm():
    text = "BlockName=b1 Nodes=node[1-2]\nBlockName=b2 \\\n Nodes=node3\nBlockSizes=2\n"
    places = parse_slurm_topology(text, expand)
    assert places == {"node1": {"block": "b1"}, "node2": {"block": "b1"}, "node3": {"block": "b2"}}


def test_switches_that_contain_each_other_end():
    assert parse_slurm_topology("SwitchName=a Nodes=n1\nSwitchName=a Switches=a\n", expand)["n1"]["switch"]


def test_labels_of_kubernetes():
    labels = {"topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/rack": "7", "app": "x"}
    assert places_of_labels(labels) == {"zone": "z1", "rack": "7"}
    assert set(load_labels().values()) <= {"zone", "rack", "block", "switch", "switch_level_1"}


texts = st.text(alphabet="node,rack[]-12 \"='#\n\\SwitchNameBlckR.", max_size=120)


@given(texts, st.sampled_from(["", "node,rack\n", "[[nodes]]\n", "#[[nodes]]\nnodes = "]))
def test_any_table_gives_places_or_an_error_for_the_user(text, start):
    with contextlib.suppress(InputError):
        assert parse_places(start + text, "x", lambda pattern: (pattern,))


@given(texts)
def test_any_topology_gives_places(text):
    for values in parse_slurm_topology(text, lambda pattern: (pattern,)).values():
        assert set(values) <= {"block", "switch", *(f"switch_level_{level}" for level in range(1, 17))}


racks = st.dictionaries(st.from_regex(r"n[1-9]\d{0,2}", fullmatch=True), st.sampled_from(["7", "a b", "x-1"]))


@given(racks.filter(bool))
def test_a_table_is_read_as_written(expected):
    text = "\n".join(["node,rack", *(f"{node},{rack}" for node, rack in expected.items())])
    assert parse_places(text, "x", expand) == {node: {"rack": rack} for node, rack in expected.items()}


def test_a_quoted_cell_stays_as_it_is():
    text = 'node,rack\n"gpu[001-002],gpu[004-005]",7\ngpu[006,008],8\n'
    patterns = parse_places(text, "racks", lambda pattern: (pattern,))
    assert patterns == {"gpu[001-002],gpu[004-005]": {"rack": "7"}, "gpu[006,008]": {"rack": "8"}}
