"""Descriptions of machines, models and clusters: each recognised as what it is, with the facts that the index
states.
"""

from __future__ import annotations

import functools

import pytest

from assistant.usecases.check import check_machine
from probes.catalogue.hardware import load_catalogue
from probes.catalogue.kinds import KINDS
from probes.collect.collecting import CollectOptions, assemble, gather
from probes.facts import MachineFacts
from probes.judging.findings import Evidence, Status
from probes.sources.loose import open_loose
from tests.support.recordings import MACHINES, index, needs_recordings

pytestmark = needs_recordings

KIND_BY_NAME = {
    "expected-profile": "machine-profile",
    "cluster-model": "cluster-model",
    "go-nvml": "mock-gpu",
    "nvml-mock": "mock-machine",
    ".csv": "nvidia-smi-csv",
}
OWN = {"machine-profile", "cluster-model", "mock-gpu", "mock-machine"}
RDMA = {"a100": 200.0, "b200": 400.0, "gb200": 400.0, "gb300": 400.0, "h100": 400.0}


def paths(name: str = "") -> list[str]:
    return sorted(path for path in index() if path.startswith("machines/") and name in path)


@functools.cache
def facts_of(path: str) -> MachineFacts:
    source = open_loose([(path, (MACHINES / path).read_bytes())])
    return assemble("", gather(source, CollectOptions(ask_interpreters=False)))


@pytest.mark.parametrize("path", sorted(index()))
def test_each_is_recognised_as_what_it_is_and_nothing_else_is(path: str) -> None:
    text = (MACHINES / path).read_text("utf-8", "replace")
    kinds = {row.id for row in KINDS if row.load().recognise(text)}
    if path.startswith("machines/"):
        assert kinds == {kind for name, kind in KIND_BY_NAME.items() if name in path}
    else:
        assert not kinds & OWN


@pytest.mark.parametrize("path", paths())
def test_none_of_them_fails(path: str) -> None:
    *_, finished = check_machine(Evidence(facts=facts_of(path), catalogue=load_catalogue()))
    findings = finished.result.findings  # type: ignore[attr-defined]
    assert [(row.check_id, row.summary) for row in findings if row.status is Status.FAIL] == []


@pytest.mark.parametrize("path", paths("nvml-mock"))
def test_machine_descriptions(path: str) -> None:
    facts, row = facts_of(path), index()[path]
    model = row["gpu"]
    assert isinstance(facts.gpus, tuple)
    assert len(facts.gpus) == (int(row["n_gpus"]) if row["n_gpus"].isdigit() else {"T4": 4}.get(model, 8))
    assert facts.attached_gpus == len(facts.gpus)
    assert all(model in str(gpu.name) for gpu in facts.gpus)
    assert (
        len({gpu.uuid for gpu in facts.gpus})
        == len({gpu.pci_bus_id for gpu in facts.gpus})
        == len(facts.gpus)
    )
    assert all(isinstance(gpu.numa_node, int) for gpu in facts.gpus)
    assert all(
        isinstance(gpu.memory_bytes, int) and isinstance(gpu.power_limit_w, float) for gpu in facts.gpus
    )
    assert facts.software.driver_version == facts.gpus[0].driver_version
    assert isinstance(facts.software.cuda_driver_version, str)
    rate = RDMA.get(path.removesuffix(".yaml").rpartition("-")[2])
    nics = facts.nics if isinstance(facts.nics, tuple) else ()
    assert [nic.rate_gbps for nic in nics] == ([rate] * len(facts.gpus) if rate else [])
    assert all(nic.state == "ACTIVE" and nic.link_layer == "InfiniBand" for nic in nics)
    links = {"A100": 12, "L40S": 0, "T4": 0}.get(model, 18)
    assert [len(gpu.nvlinks) for gpu in facts.gpus if isinstance(gpu.nvlinks, tuple)] == [links] * len(
        facts.gpus
    )


@pytest.mark.parametrize("path", paths("go-nvml"))
def test_model_descriptions(path: str) -> None:
    facts, row = facts_of(path), index()[path]
    assert isinstance(facts.gpus, tuple)
    assert len(facts.gpus) == (
        1 if row["gpu"] == "A30" else int(row["n_gpus"])
    )  # that file tells of no server
    assert facts.gpus[0].compute_capability == {"A": "8.0", "H": "9.0", "B": "10.0"}[row["gpu"][0]]
    if row["gpu"] != "A100":  # of which there are four
        assert row["gpu"] in str(facts.gpus[0].name)
        assert isinstance(facts.gpus[0].memory_bytes, int)
        assert isinstance(facts.gpus[0].pci_device_id, str)
    if row["gpu"] in {"H100", "H200", "B200"}:
        profiles = facts.gpus[0].mig_profiles
        assert isinstance(profiles, tuple)
        assert {str(profile.profile)[:2] for profile in profiles} == {"1g", "2g", "3g", "4g", "7g"}


@pytest.mark.parametrize("path", paths("expected-profile"))
def test_expected_profiles(path: str) -> None:
    facts, row = facts_of(path), index()[path]
    devices, ports = facts.profile.devices, facts.profile.ports
    assert isinstance(devices, tuple)
    assert isinstance(ports, tuple)
    assert len([device for device in devices if device.kind == "gpu"]) == int(row["n_gpus"])
    if "8 IB" in row["n_nics"]:
        assert (
            len([port for port in ports if port.link_layer == "InfiniBand" and port.rate_gbps == 200.0]) == 8
        )
    assert all(device.generations and device.width for device in devices)


@pytest.mark.parametrize(
    ("name", "nodes", "switches", "domains"),
    [
        ("dual-xclr-irregular", 255, 34, 2),
        ("dual-xclr-regular", None, None, 2),
        ("medium", 8, 7, 4),
        ("nvl72", 72, 7, 4),
        ("small-tree", 6, 3, 2),
    ],
)
def test_cluster_models(name: str, nodes: int | None, switches: int | None, domains: int) -> None:
    cluster = facts_of(f"machines/cluster-model-{name}.yaml").cluster
    assert nodes in (None, cluster.nodes)
    assert switches in (None, cluster.switches)
    assert cluster.nvlink_domains == domains
