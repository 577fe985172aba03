"""Test that a healthy bare-metal machine with NVSwitch gets only variables for logging and threads.

A machine with active ports beside the rails also gets NCCL_IB_HCA on several nodes.
"""

from __future__ import annotations

import functools
import re

import msgspec
import pytest

from probes.base.errors import InputError
from probes.base.record import Unknown
from probes.catalogue.hardware import load_catalogue
from probes.collect.collecting import CollectOptions, assemble, gather
from probes.facts import MachineFacts
from probes.sources.catalogue import catalogue_source
from probes.sources.loose import open_loose
from tests.support.machines import h100_node
from tests.support.recordings import MACHINES, index, is_output, needs_recordings
from tests.support.worlds import world

ALLOWED = {"NCCL_DEBUG", "OMP_NUM_THREADS"}
"""Variables that every job gets. Without OMP_NUM_THREADS, torchrun would choose 1, and mpirun all cores."""
SWITCHED = re.compile(r"A100(?!.*PCIe)|H[12]00|\bH20\b|B[23]00|DGX-2|NVSwitch")
"""GPUs and platforms of the index whose boards have NVSwitch."""
CLOUD = re.compile(r"AWS|Azure|OCI|GCP|Lambda|\bVM\b|EC2|PCIe")
"""Platforms that are left out: clouds, virtual machines, and GPUs on PCIe cards."""
FEWEST = 40
"""Number of recordings below which the test would prove nothing."""


@functools.cache
def facts_of(path: str) -> MachineFacts | None:
    """Return the facts of a recording; None if rigtune reads no machine from the file."""
    try:
        source = open_loose([(path, (MACHINES / path).read_bytes())])
    except InputError:
        return None
    return assemble("", gather(source, CollectOptions(ask_interpreters=False)))


@functools.cache
def healthy() -> dict[str, MachineFacts]:
    paths = [
        path
        for path, row in index().items()
        if row["state"] == "healthy"
        and is_output(path)
        and SWITCHED.search(f"{row['gpu']} {row['platform']}")
        and not CLOUD.search(row["platform"])
    ]
    return {path: facts for path in paths if (facts := facts_of(path)) is not None}


def beyond(name: str, facts: MachineFacts, nodes: int) -> set[str]:
    return set(world(name, facts, nodes).variables) - ALLOWED


@needs_recordings
@pytest.mark.parametrize("nodes", [1, 2])
def test_a_recorded_machine_gets_no_variable(nodes: int) -> None:
    assert len(healthy()) >= FEWEST
    chosen = {path: beyond(path, facts, nodes) for path, facts in healthy().items()}
    assert {path: names for path, names in chosen.items() if names} == {}


def on_a_node(facts: MachineFacts) -> MachineFacts:
    """Return a healthy H100 node with the ports, interfaces and NUMA nodes that the recording shows."""
    parts = {
        name: value
        for name in ("nics", "interfaces", "numa_nodes")
        if not isinstance(value := getattr(facts, name), Unknown) and value
    }
    node = h100_node(nics=h100_node().nics[:8])
    between = tuple(link for link in node.links if not link.b.startswith("mlx5"))  # type: ignore[union-attr]
    return msgspec.structs.replace(node, **{"links": between, **parts})


@needs_recordings
def test_a_recorded_network_gets_no_variable_on_one_node():
    chosen = {path: beyond(path, on_a_node(facts), 1) for path, facts in healthy().items()}
    assert {path: names for path, names in chosen.items() if names} == {}


BESIDE_OTHERS = (
    "ib/ibdev2netdev-h100-roce-12dev.txt",
    "ib/ibstat-a100-1eth200-8xhdr200.txt",
    "ib/ibstat-h100-8xndr400-plus-bond0.txt",
    "ib/ibstat-h100-roce-8x400-4x100-active.txt",
    "ib/ibstatus-a100-8xhdr200-plus-40g.txt",
    "ib/sysfs-h100-8xndr400-bond0.json",
)
"""Recordings with active ports for storage or management, which NCCL would use as rails on several nodes."""


@needs_recordings
def test_a_recorded_network_gets_exact_ports_only_beside_other_active_ports():
    chosen = {path: beyond(path, on_a_node(facts), 2) for path, facts in healthy().items()}
    assert {path for path, names in chosen.items() if names} == set(BESIDE_OTHERS)
    assert all(chosen[path] == {"NCCL_IB_HCA"} for path in BESIDE_OTHERS)


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_bare_metal_machine_of_the_catalogue_gets_no_variable(nodes: int) -> None:
    catalogue = load_catalogue()
    rows = [row for row in catalogue.machines if row.nvswitch and not row.virtual]
    assert len(rows) > 4
    for row in rows:
        gpu = catalogue.gpu(row.gpu)
        assert gpu is not None
        facts = assemble(row.id, gather(catalogue_source(row, gpu), CollectOptions(ask_interpreters=False)))
        assert beyond(row.id, facts, nodes) == set(), row.id
