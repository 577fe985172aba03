"""Test `explain` and `check` on logs of AMD servers against the causes that INDEX.csv accepts.

The recordings are outside the project, in the folder that RIGTUNE_SHARED names.
"""

from __future__ import annotations

import csv

import pytest

from probes.catalogue.hardware import load_catalogue
from probes.collect.collecting import CollectOptions, assemble, gather
from probes.judging.check_table import CHECKS
from probes.judging.findings import Evidence
from probes.sources.loose import open_loose
from tests.support.log_cases.reading import explained_file, ids
from tests.support.recordings import MACHINES

AMD = MACHINES.parent / "machines_amd"
needs_amd_recordings = pytest.mark.skipif(not AMD.is_dir(), reason="the recordings of AMD servers are absent")
WITHOUT_DEVICE = "kernel_log/nodescraper-dmesg_sample_with_collapsing.log"
"""An invented log of IO_PAGE_FAULT lines that name no device, so that no line concerns a GPU."""


def logs() -> list[tuple[str, list[str]]]:
    """Return the logs with a known cause, each with the causes that count as correct."""
    if not AMD.is_dir():
        return []
    with (AMD / "INDEX.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["kind"] in {"kernel_log", "rccl_log"}]
    return [(row["path"], row["accepted_causes"].split(";")) for row in rows if row["accepted_causes"]]


@needs_amd_recordings
@pytest.mark.parametrize(("path", "accepted"), logs(), ids=[path for path, _ in logs()])
def test_the_first_cause_of_a_log_is_an_accepted_one(path: str, accepted: list[str]) -> None:
    explanation = explained_file(AMD / path)

    if path == WITHOUT_DEVICE:
        assert explanation.state == "unknown"
    else:
        assert ids(explanation)[0] in accepted


@needs_amd_recordings
def test_a_listing_is_never_called_healthy() -> None:
    for path in sorted((AMD / "rocminfo").iterdir()):
        assert explained_file(path).state != "healthy", path.name


@needs_amd_recordings
@pytest.mark.parametrize(
    ("path", "statuses"),
    [
        (
            "kernel_log/mi300x-athub-aca-multi-gpu.log",
            ["FAIL 0000:68:00", "WARN 0000:9e:00", "WARN 0000:d4:00"],
        ),
        ("kernel_log/mi300x-mmhub-page-fault-sdma.log", ["WARN 0000:3d:00"]),
        (
            "kernel_log/mi50-athub-boot-smu-failed.log",
            ["FAIL 0000:e3:00", "WARN 0000:e3:00", "FAIL 0000:e3:00", "FAIL host"],
        ),
    ],
)
def test_check_reports_the_faulty_gpu(path: str, statuses: list[str]) -> None:
    source = open_loose([("dmesg.txt", (AMD / path).read_bytes())])
    facts = assemble(source.title, gather(source, CollectOptions()))
    evidence = Evidence(facts=facts, catalogue=load_catalogue())
    row = next(row for row in CHECKS if row.id == "device-errors")

    findings = list(row.run(evidence))
    assert [f"{finding.status.name} {finding.subject}" for finding in findings] == statuses
