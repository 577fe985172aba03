"""Test the checks on catalogue machines, and on recordings of real and simulated servers.

INDEX.csv names the healthy servers. The expected problems of the others are in this file. The recordings are
outside the project, in the folder that RIGTUNE_SHARED names.
"""

from __future__ import annotations

import msgspec
import pytest

from assistant.usecases.check import check_machine
from probes.catalogue.hardware import load_catalogue
from probes.collect.collecting import CollectOptions, assemble, gather
from probes.facts import MachineFacts
from probes.judging.findings import Evidence, Finding, Status
from probes.parsers.fabric.infiniband_files import parse_ibstat
from probes.sources.base import Source
from probes.sources.choose import open_source
from tests.support.machines import h100_node
from tests.support.recordings import MACHINES, index, needs_recordings


def facts_of(source: Source) -> MachineFacts:
    return assemble(source.title, list(gather(source, CollectOptions(ask_interpreters=False))))


def problems(facts: MachineFacts) -> list[str]:
    """Return `FAIL row-remap GPU0` for each problem; a check that crashed fails the test."""
    *_, finished = check_machine(Evidence(facts=facts, catalogue=load_catalogue()))
    findings: tuple[Finding, ...] = finished.result.findings  # type: ignore[attr-defined]
    assert not [
        finding.observed for finding in findings if finding.summary.startswith("the result of the check")
    ]
    return [
        f"{finding.status.value} {finding.check_id} {finding.subject}"
        for finding in findings
        if finding.status in (Status.FAIL, Status.WARN)
    ]


def healthy(folder: str, name: str = "") -> list[str]:
    return sorted(
        path
        for path, row in index().items()
        if row["state"] == "healthy" and path.startswith(f"{folder}/{name}")
    )


@pytest.mark.parametrize("machine", [row.id for row in load_catalogue().machines])
def test_catalogue_machine_has_no_problem(machine: str) -> None:
    assert problems(facts_of(open_source((), machine))) == []


@needs_recordings
@pytest.mark.parametrize("path", healthy("nvsmi_xml"))
def test_healthy_server_does_not_fail(path: str) -> None:
    assert [
        problem
        for problem in problems(facts_of(open_source((MACHINES / path,), None)))
        if problem.startswith("FAIL")
    ] == []


@needs_recordings
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("nvsmi_xml/mock-gb200-ecc-injected.xml", ["FAIL ecc-uncorrected GPU0", "FAIL row-remap GPU0"]),
        (
            "nvsmi_xml/mock-gb200-lost.xml",
            ["FAIL gpu-lost GPU1", "FAIL ecc-uncorrected GPU0", "FAIL row-remap GPU0"],
        ),
        ("nvsmi_xml/hw-t4.xml", ["WARN pcie-link GPU0"]),
        ("nvsmi_xml/hw-b200.xml", [f"WARN persistence-mode GPU{index}" for index in range(8)]),
    ],
)
def test_server_has_the_problems_that_the_index_states(path: str, expected: list[str]) -> None:
    assert problems(facts_of(open_source((MACHINES / path,), None))) == expected


@needs_recordings
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a100-1eth200-8xhdr200", ["WARN nic-mixture mlx5_0"]),
        ("a100-vm-8x-hdr100", []),
        ("h100-8xndr400-plus-bond0", []),
        ("h100-roce-8x400-4x100-active", []),
        ("h100-3eth-disabled", ["WARN nic-state mlx5_2", "WARN nic-state mlx5_7", "WARN nic-state mlx5_8"]),
        ("h100-roce-1polling-1disabled", ["FAIL nic-state mlx5_11", "FAIL nic-state mlx5_5"]),
        ("h100-roce-2x400-disabled", ["FAIL nic-state mlx5_11", "FAIL nic-state mlx5_5"]),
        ("mlx4-ddr-one-port", []),
    ],
)
def test_ports_have_the_problems_that_the_index_states(name: str, expected: list[str]) -> None:
    nics = parse_ibstat((MACHINES / "ib" / f"ibstat-{name}.txt").read_text("utf-8"))
    assert isinstance(nics, tuple)
    facts = msgspec.structs.replace(h100_node(), nics=nics, links=())
    assert sorted(
        problem for problem in problems(facts) if "nic-" in problem and "affinity" not in problem
    ) == sorted(expected)
