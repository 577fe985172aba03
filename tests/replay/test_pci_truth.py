"""Test PCI listings, hwloc and NCCL topologies of real servers against the statements of INDEX.csv.

The recordings are outside the project, in the folder that RIGTUNE_SHARED names.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from assistant.usecases.check import check_machine
from probes.base.record import known
from probes.catalogue.hardware import load_catalogue
from probes.catalogue.text_kinds import KINDS
from probes.collect.collecting import CollectOptions, assemble, gather
from probes.facts import MachineFacts
from probes.judging.findings import Evidence, Finding, Status
from probes.sources.loose import open_loose
from tests.support.recordings import MACHINES, index, needs_recordings

pytestmark = needs_recordings


@functools.cache
def recorded() -> dict[str, dict[str, str]]:
    return {path: row for path, row in index().items() if row["kind"] in ("pci", "hwloc", "nccl_topo")}


@functools.cache
def facts_of(path: str) -> MachineFacts:
    source = open_loose([(path, (MACHINES / path).read_bytes())])
    return assemble(source.title, list(gather(source, CollectOptions(ask_interpreters=False))))


@functools.cache
def findings_of(path: str) -> tuple[Finding, ...]:
    *_, finished = check_machine(Evidence(facts=facts_of(path), catalogue=load_catalogue()))
    findings: tuple[Finding, ...] = finished.result.findings  # type: ignore[attr-defined]
    return findings


def expected_kinds(path: str) -> set[str]:
    """Return the kinds of text as which a file must be recognised, by its folder and form."""
    name = path.rpartition("/")[2]
    if name.endswith(".json"):
        return set()  # a tree of files
    forms = (
        ("lspci", "lspci"),
        ("dmidecode", "dmidecode"),
        ("lscpu", "lscpu"),
        ("numactl", "numactl"),
        (r".*console", "lstopo"),
        (r"nccl_topo/.*graph", "nccl-graph"),
        ("nccl_topo/", "nccl-topology"),
        ("hwloc/", "hwloc"),
    )
    return {next(kind for form, kind in forms if re.match(form, name) or re.match(form, path))}


@pytest.mark.parametrize("path", recorded())
def test_a_file_is_recognised_by_its_kind_alone(path: str) -> None:
    text = (MACHINES / path).read_text("utf-8", "replace")
    if not path.endswith(".json"):
        assert {kind.id for kind in KINDS if kind.recognise(text)} == expected_kinds(path)


WITHOUT_GPUS = (
    "azure-ncv4-graph",
    "aws-g5",
    "lscpu",
    "numactl",
    "dmidecode",
    "spark-gb10",
    "power9",
    "mellanox-a100",
    "lnk-",
    "rtx5090",
)
"""Parts of the names of files whose text names no GPUs, or (POWER9) six although the index states four."""
WITHOUT_NICS = (
    "dgx2",
    "minsky",
    "spark",
    "aws-g5",
    "azure-nc",
    "lscpu",
    "numactl",
    "flattened",
    "sysfs-pcie",
)
"""Parts of the names of files whose text names no RDMA devices, or (flattened) cards with two ports."""
SOCKETS = ("amd-rccl-topo_4p3l.xml", "8p1h_2", "8p_90a", "rome_vm1", "vm-4x")
"""Topologies whose network is TCP."""
NICS = {
    "lspci-mellanox-a100-baremetal-11fn.txt": 11,
    "lspci-gb200-or-gb300-4gpu-tray.txt": 8,
    "lspci-vvv-dell-xe9680-h100-8x-cx7-roce.txt": 12,
}
"""Number of PCI functions, for files of which the index counts cards."""


def truths(path: str) -> Iterator[tuple[str, object, object]]:
    """Yield each statement of the index about a file, the stated value, and the value that was read."""
    row, facts = recorded()[path], facts_of(path)
    truth, name = row["what_the_truth_is"], path.rpartition("/")[2]
    devices = facts.pci_devices if known(facts.pci_devices) else ()
    kinds = Counter(device.kind for device in devices)
    if row["n_gpus"].isdigit() and int(row["n_gpus"]) and not any(part in name for part in WITHOUT_GPUS):
        yield "GPUs", int(row["n_gpus"]), len(facts.gpus) if known(facts.gpus) else None
    nics = re.match(r"\d+", row["n_nics"])
    if nics and int(nics[0]) and not any(part in name for part in (*WITHOUT_NICS, *SOCKETS)):
        stated = NICS.get(name, int(nics[0]))
        nics_read = facts.nics if known(facts.nics) else ()
        yield (
            "NICs",
            stated,
            len(nics_read) if row["kind"] == "nccl_topo" else max(len(nics_read), kinds["rdma"]),
        )
    if nodes := re.search(r"(\d+) CPU/NUMA|(\d+) NUMA(?: nodes?)?[ ,(]", truth):
        count = int(nodes[1] or nodes[2])
        if known(facts.numa_nodes) and row["kind"] != "pci":
            yield "NUMA nodes", count, len(facts.numa_nodes)
    if links := re.search(r"(\d+) xgmi link entries", truth):
        by_pair = [link for link in facts.links if link.kind == "NVLINK"] if known(facts.links) else []
        yield "xGMI links", int(links[1]), 2 * len(by_pair)  # each end has an entry
    if switches := re.search(r"(\d+|six) NVSwitch", truth):
        yield "NVSwitches", 6 if switches[1] == "six" else int(switches[1]), kinds["nvswitch"]


@pytest.mark.parametrize("path", recorded())
def test_the_stated_facts_are_found(path: str) -> None:
    assert [(name, stated, found) for name, stated, found in truths(path) if stated != found] == []


@pytest.mark.parametrize("path", [path for path, row in recorded().items() if row["state"] == "healthy"])
def test_healthy_machine_does_not_fail(path: str) -> None:
    assert [
        (finding.check_id, finding.subject) for finding in findings_of(path) if finding.status is Status.FAIL
    ] == []


FAULTS = {
    "pci/lspci-rtx5090-gen1-after-reboot.txt": "pcie-speed",
    "pci/sysfs-pcie-link-downgraded.json": "pcie-speed",
    "nccl_topo/vm-4x-a800-flat-no-link-speed.xml": "topology-visible",
}


@pytest.mark.parametrize("path", [path for path, row in recorded().items() if row["state"] == "fault"])
def test_stated_fault_is_found_by_the_right_check(path: str) -> None:
    reported = {
        finding.check_id for finding in findings_of(path) if finding.status in (Status.WARN, Status.FAIL)
    }
    assert FAULTS[path] in reported


def test_each_gpu_of_the_xe9680_shares_its_switch_with_its_nic() -> None:
    facts = facts_of("pci/lspci-vvv-dell-xe9680-h100-8x-cx7-roce.txt")
    assert known(facts.gpus)
    assert known(facts.links)
    for gpu in facts.gpus:
        bus = int(str(gpu.pci_bus_id)[5:7], 16)
        nic = f"0000:{bus + 1:02x}:00.0"
        assert [link.kind for link in facts.links if {link.a, link.b} == {f"GPU{gpu.index}", nic}] == ["PIX"]


def test_numa_nodes_of_gpu_memory_are_marked() -> None:
    for path in ("hwloc/power9-ac922-gpu-numa-kept.console.txt", "hwloc/sysfs-power9-ac922-4x-v100.json"):
        nodes = facts_of(path).numa_nodes
        assert known(nodes)
        assert [node.index for node in nodes if node.cpus] == [0, 8]
        assert {node.is_gpu_memory for node in nodes if not node.cpus} == {True}


def test_print_the_score(capsys: pytest.CaptureFixture[str]) -> None:
    """Print the numbers of files, of stated facts, and of facts that rigtune reads, by kind."""
    table: dict[str, list[int]] = {}
    for path, row in recorded().items():
        matches = [stated == value for _, stated, value in truths(path)]
        line = table.setdefault(row["kind"], [0, 0, 0])
        line[:] = [line[0] + 1, line[1] + len(matches), line[2] + sum(matches)]
    with capsys.disabled():
        print("\nkind        files truths found")  # noqa: T201 - the score is what this test is for
        for kind, (files, stated, right) in sorted(table.items()):
            print(f"{kind:11} {files:5} {stated:6} {right:5}")  # noqa: T201 - likewise
    assert all(stated > 0 for _, stated, _ in table.values())
