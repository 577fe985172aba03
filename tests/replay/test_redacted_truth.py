"""Test that a redacted recording gives the same facts under other names, and the same verdict."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assistant.usecases.check import check_machine
from probes.catalogue.hardware import load_catalogue
from probes.collect.collecting import CollectOptions, assemble, gather
from probes.facts import MachineFacts
from probes.judging.findings import Evidence
from probes.redaction import Redactor
from probes.sources.base import Source
from probes.sources.choose import open_source
from probes.sources.recording import RecordingSource
from probes.sources.stored import StoredSource

OWN = sorted((Path(__file__).parents[1] / "machines").glob("*/recording.json"))
SHARED = Path(os.environ.get("RIGTUNE_SHARED", "../shared")) / "machines"
SETS = [
    ("nvsmi_xml/hw-h100.xml", "kernel_log/h100-xid119-gsp-rpc-timeout-xe9680.log"),
    ("ib/ibnetdiscover-p-2ca-edr.txt", "pci/lspci-vvv-dell-xe9680-h100-8x-cx7-roce.txt"),
    ("nvsmi_xml/hw-a100.xml", "topo_m/v100-sxm2-32gb-8x-1nic.txt"),
]
SHARED_SETS = [tuple(SHARED / name for name in names) for names in SETS if (SHARED / "INDEX.csv").exists()]


def facts_of(source: Source) -> MachineFacts:
    return assemble("", gather(source, CollectOptions(ask_interpreters=False)))


def findings_of(facts: MachineFacts) -> list[tuple[str, str]]:
    *_, finished = check_machine(Evidence(facts=facts, catalogue=load_catalogue()))
    return sorted((row.check_id, row.status.value) for row in finished.result.findings)  # type: ignore[attr-defined]


def under_other_names(value: Any, redactor: Redactor, key: str = "") -> Any:
    match value:
        case str():
            # Commands are redacted word by word.
            words = shlex.split(value) if value.startswith("getent ") else [value]
            titles = [
                *[""] * (len(words) - 1),
                "hostname" if len(words) > 1 else key if key in {"hostname", "serial"} else "",
            ]
            return " ".join(redactor.text(word, title) for word, title in zip(words, titles, strict=True))
        case dict():
            return {name: under_other_names(item, redactor, name) for name, item in value.items()}
        case list():
            return [under_other_names(item, redactor) for item in value]
    return value


@pytest.mark.parametrize("paths", [*((path,) for path in OWN), *SHARED_SETS], ids=str)
def test_facts_and_findings_are_those_of_the_original(paths: tuple[Path, ...]) -> None:
    recorder = RecordingSource(open_source(paths))
    original = facts_of(recorder)
    redactor = Redactor(recorder.recording("original"), salt=b"test")
    redacted, manifest = redactor.redacted()
    replayed = facts_of(StoredSource(redacted))
    assert manifest.rows
    expected = under_other_names(json.loads(msgspec.json.encode(original)), redactor)
    assert json.loads(msgspec.json.encode(replayed)) == expected
    assert findings_of(replayed) == findings_of(original)
