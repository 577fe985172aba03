"""Parse where nodes stand: tables of a site, the topology of Slurm, labels of Kubernetes."""

import csv
import functools
import io
import re
from collections.abc import Callable, Iterator, Mapping

import tomli

from probes.base.errors import InputError
from probes.base.record import StrictRecord
from probes.base.rows import load_rows

Places = dict[str, dict[str, str]]
"""Value of each attribute, such as `rack`, of each node."""
Expand = Callable[[str], tuple[str, ...]]
"""Function that returns the names of a pattern such as `gpu[001-032]`. It raises UsageError."""

_NODE_COLUMNS = ("node", "nodes", "host", "hostname", "nodename")
_PAIR = re.compile(r"(\w+)=(\S+)")
_PATTERN = re.compile(r"(?<![\w\]])([\w.-]*(?:\[[^\]]*\][\w.-]*)+)")
_LONGEST_CHAIN = 16
"""Maximum number of switch levels, so that switches that contain each other do not cause an endless loop."""


class PlaceLabel(StrictRecord, kw_only=True):
    """One label of Kubernetes nodes."""

    id: str
    place: str
    source: str
    date: str


@functools.lru_cache(maxsize=1)
def load_labels() -> dict[str, str]:
    """Return the attribute of each label of `probes/data/fleet_labels.toml`."""
    return {row.id: row.place for row in load_rows("probes", "labels", PlaceLabel, file="fleet_labels")}


def parse_places(text: str, name: str, expand: Expand) -> Places:
    """Return the places in a table of the site: CSV with a heading, or TOML with `[[nodes]]`.

    The column `node` has a name or a pattern; every other column is an attribute. A later row of the same
    node adds attributes, and replaces the values of attributes that the row repeats. Raises InputError, and
    UsageError for a wrong pattern.
    """
    places: Places = {}
    rows = _toml_rows(text, name) if "[[nodes]]" in text else _csv_rows(text, name)
    for row in rows:
        column = next((key for key in row if key.lower() in _NODE_COLUMNS), None)
        if column is None:
            raise InputError(
                f"{name} has no column `node`", "begin with a heading such as `node,rack,switch`"
            )
        values = {key.lower(): value for key, value in row.items() if key != column and value}
        for node in expand(row[column]):
            places.setdefault(node, {}).update(values)
    if not places:
        raise InputError(f"{name} names no node", "write a heading such as `node,rack,switch`, then the rows")
    return places


def _csv_rows(text: str, name: str) -> Iterator[dict[str, str]]:
    """Yield the rows; a pattern such as `gpu[1,3]` needs no quotes, because its commas are in brackets."""
    rows = (line for line in io.StringIO(text) if line.strip() and not line.lstrip().startswith("#"))
    lines = (line if '"' in line else _PATTERN.sub(r'"\1"', line) for line in rows)
    try:
        for row in csv.DictReader(lines, skipinitialspace=True):
            if None in row or None in row.values():
                raise InputError(
                    f"{name}: {row} has another number of columns than the heading", "add commas"
                )
            yield {key.strip(): value.strip() for key, value in row.items()}
    except csv.Error as error:
        raise InputError(f"{name} is not CSV: {error}", "separate columns by commas") from None


def _toml_rows(text: str, name: str) -> Iterator[dict[str, str]]:
    try:
        rows = tomli.loads(text).get("nodes", [])
    except tomli.TOMLDecodeError as error:
        raise InputError(f"{name}: {error}", "write tables [[nodes]] with node, rack, switch ...") from None
    for row in rows if isinstance(rows, list) else ():
        if not isinstance(row, dict):
            raise InputError(
                f"{name}: nodes has {row!r}", "write tables [[nodes]] with node, rack, switch ..."
            )
        yield {key: str(value) for key, value in row.items()}


def parse_slurm_topology(text: str, expand: Expand) -> Places:
    """Return the places in Slurm's topology.conf, or in the answer of `scontrol show topology`.

    The switch above a node is `switch`, the next above it `switch_level_1` and so on; a block of nodes is
    `block`. Source: Slurm, topology.conf(5), topology/tree and topology/block.
    """
    places: Places = {}
    above: dict[str, str] = {}
    leaves: dict[str, tuple[str, ...]] = {}
    for line in text.replace("\\\n", " ").splitlines():
        pairs = {key.lower(): value for key, value in _PAIR.findall(line.partition("#")[0])}
        nodes = expand(pairs["nodes"]) if "nodes" in pairs else ()
        if block := pairs.get("blockname"):
            for node in nodes:
                places.setdefault(node, {})["block"] = block
        if switch := pairs.get("switchname"):
            if "switches" in pairs:
                above.update(dict.fromkeys(expand(pairs["switches"]), switch))
            elif nodes:  # scontrol lists all nodes below a switch of a higher level too
                leaves[switch] = nodes
    for leaf, nodes in leaves.items():
        for node in nodes:
            places.setdefault(node, {}).update(_chain(leaf, above))
    return places


def _chain(leaf: str, above: Mapping[str, str]) -> dict[str, str]:
    """Return the switch and the switches above it by level."""
    chain, switch = {"switch": leaf}, leaf
    while switch in above and len(chain) < _LONGEST_CHAIN:
        switch = above[switch]
        chain[f"switch_level_{len(chain)}"] = switch
    return chain


def places_of_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the places that a Kubernetes node's labels give."""
    known = load_labels()
    return {known[label]: value for label, value in labels.items() if label in known and value}
