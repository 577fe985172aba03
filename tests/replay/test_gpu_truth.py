"""Compare the facts in recorded outputs of nvidia-smi with the statements of INDEX.csv about each file.

The recordings are outside the project, in the folder that RIGTUNE_SHARED names. The table at the end shows,
by kind, how many of the stated facts rigtune reads.
"""

from __future__ import annotations

import functools
import re
from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest

from probes.base.record import Unknown
from probes.catalogue.hardware import load_catalogue
from probes.catalogue.text_kinds import KINDS
from probes.collect.collecting import CollectOptions, assemble, gather
from probes.facts import MachineFacts
from probes.judging.check_table import CHECKS
from probes.judging.findings import Evidence, Finding, Status
from probes.judging.policies.selection import missing
from probes.sources.loose import open_loose
from tests.support.recordings import MACHINES, index, needs_recordings

pytestmark = needs_recordings

FOLDERS = ("nvsmi_text", "nvsmi_xml")
LOOSE = ("machines/gpu-names-memory-driver.csv",)
KIND_BY_NAME = (
    (r"\.xml$", ("nvidia-smi-xml",)),
    (r"/err-unable-to-determine-device-handle\.txt$", ("nvidia-smi-table", "nvidia-smi-error")),
    (r"/err-", ("nvidia-smi-error",)),
    (r"unknown-error\.csv$", ("nvidia-smi-csv", "nvidia-smi-error")),
    (r"\.csv$", ("nvidia-smi-csv",)),
    (r"/list-", ("nvidia-smi-list",)),
    (r"/[dp]mon-", ("nvidia-smi-monitor",)),
    (r"table-", ("nvidia-smi-table",)),
    (r"", ("nvidia-smi-text",)),
)
"""Kinds of text as which a file must be recognised, by its name; the first row that matches counts."""

FAULT_CHECKS = {
    "rowremap-pending": "row-remap",
    "row-remap-pending": "row-remap",
    "driver-library-mismatch": "driver-library",
    "unable-to-determine": "gpu-lost",
    "power-brake": "gpu-throttle",
    "truncated-output": "gpu-count",
    "nccl-hang": "gpu-spinning",
    "page-retirement-bad": "retired-pages",
    "sram-uncorrectable": "ecc-sram",
    "retired-pages-pending": "retired-pages",
    "gpu3-unknown-error": "gpu-lost",
    "addressing-mode": "gpu-lost",
    "100pct-util": "gpu-idle",
    "fan-err": "gpu-fan",
    "ecc-injected": "row-remap",
    "fabric-degraded": "fabric-health",
    "gb200-lost": "gpu-lost",
    "throttle-counters": "gpu-violations",
}
"""The check that must report a problem, by a part of the file's name."""

FEWER = {
    "err-unable-to-determine-device-handle-old": 1,
    "err-unable-to-determine-device-handle.txt": 1,
    "truncated-output": 1,
    "row-remap-pending-excerpt": 1,
    "a100-sxm4-v12": 1,
    "gpu3-unknown-error": 8,
    "gpu-names": 8,
}
"""Number of GPUs in the text, for files of which the index states the GPUs of the machine."""


@functools.cache
def recorded() -> dict[str, dict[str, str]]:
    return {path: row for path, row in index().items() if row["kind"] in FOLDERS or path in LOOSE}


@functools.cache
def facts_of(path: str) -> MachineFacts:
    source = open_loose([(path, (MACHINES / path).read_bytes())])
    return assemble(path, gather(source, CollectOptions()))


@functools.cache
def findings_of(path: str) -> tuple[Finding, ...]:
    evidence = Evidence(facts=facts_of(path), catalogue=load_catalogue())
    rows = [row for row in CHECKS if not missing(row.needs, evidence)]
    return tuple(finding for row in rows for finding in row.run(evidence))


def stated_count(path: str) -> int | None:
    for part, count in FEWER.items():
        if part in path:
            return count
    stated = recorded()[path]["n_gpus"].split()[0]
    return int(stated) if stated.isdecimal() else None


def truths(path: str) -> Iterator[tuple[str, bool]]:
    """Yield each fact that the index states about a file, and whether rigtune reads it."""
    row, facts = recorded()[path], facts_of(path)
    gpus = () if isinstance(facts.gpus, Unknown) else facts.gpus
    kinds = tuple(
        kind.id for kind in KINDS if kind.recognise((MACHINES / path).read_text("utf-8", "replace"))
    )
    expected = next(kinds for pattern, kinds in KIND_BY_NAME if re.search(pattern, path))
    yield f"kinds {expected}", kinds == expected
    count = stated_count(path)
    if count is not None:
        yield f"{count} GPUs", len(gpus) == count
    known = {gpu.name for gpu in gpus if isinstance(gpu.name, str)}
    for name in known:
        stem = name.removeprefix("NVIDIA ").removesuffix("...").strip()
        yield (
            f"name {name}",
            stem in row["gpu"]
            or stem in row["what_the_truth_is"]
            or row["gpu"] in ("see source", "8 models")
            or (stem.startswith("RTX 4000 SFF Ada") or "GeForce" in name),
        )
    for version in re.findall(
        r"(?:[Dd]river|DTD v1\d, driver) (\d{3}\.\d+(?:\.\d+)?)", row["what_the_truth_is"]
    ):
        yield f"driver {version}", version in {gpu.driver_version for gpu in gpus}
    spoken = {
        finding.check_id for finding in findings_of(path) if finding.status in (Status.WARN, Status.FAIL)
    }
    if row["state"] == "fault":
        check_id = next(check for part, check in FAULT_CHECKS.items() if part in path)
        yield f"{check_id} speaks", check_id in spoken
    else:
        failed = [finding.check_id for finding in findings_of(path) if finding.status is Status.FAIL]
        yield f"no FAIL, but {failed}", not failed


@pytest.mark.parametrize("path", sorted(recorded()))
def test_facts_agree_with_the_index(path: str) -> None:
    assert [what for what, found in truths(path) if not found] == []


def test_the_score(capsys: pytest.CaptureFixture[str]) -> None:
    files: Counter[str] = Counter()
    stated: dict[str, list[bool]] = defaultdict(list)
    for path, row in recorded().items():
        files[row["kind"]] += 1
        stated[row["kind"]] += [found for _, found in truths(path)]
    with capsys.disabled():
        print("\nkind          files  truths  found")  # noqa: T201 - the score is for whoever runs this
        for kind in sorted(files):
            print(f"{kind:<13} {files[kind]:>5}  {len(stated[kind]):>6}  {sum(stated[kind]):>5}")  # noqa: T201
    assert all(sum(found) >= 0.95 * len(found) for found in stated.values())


def test_gpus_are_distinguished_by_their_pci_domain() -> None:
    gpus = facts_of("nvsmi_text/gb200-4x-table-580.126.09.txt").gpus
    assert isinstance(gpus, tuple)
    assert [gpu.pci_bus_id for gpu in gpus] == [
        "0008:01:00.0",
        "0009:01:00.0",
        "0018:01:00.0",
        "0019:01:00.0",
    ]


def test_a_lost_gpu_keeps_its_index() -> None:
    gpus = facts_of("nvsmi_text/query-rtx3080-8x-gpu3-unknown-error.csv").gpus
    assert isinstance(gpus, tuple)
    assert [gpu.index for gpu in gpus if isinstance(gpu.name, Unknown)] == [3]
    assert gpus[3].pci_bus_id == "0000:04:00.0"


def test_mig_profiles_of_the_list() -> None:
    gpus = facts_of("nvsmi_text/list-h100-sxm-mig-590.48.01.txt").gpus
    assert isinstance(gpus, tuple)
    assert isinstance(gpus[0].mig_devices, tuple)
    assert [device.profile for device in gpus[0].mig_devices] == ["3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"]


def test_a_cut_report_is_named() -> None:
    facts = facts_of("nvsmi_text/h100-8x-truncated-output.txt")
    assert facts.attached_gpus == 8
    assert [unread.why for unread in facts.unread] == ["the header counts 8 GPUs, but the report contains 1"]
