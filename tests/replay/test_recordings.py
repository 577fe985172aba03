"""Run every collector and check on whole recordings of machines, and compare with what is known of each.

A machine is a folder in `tests/machines` with a recording and `expected.toml`: facts by their path in the
JSON (`#` is a length), reasons of what is unknown, and findings by status.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assistant.usecases.check import check_machine
from probes.base.rows import loads
from probes.catalogue.hardware import load_catalogue
from probes.collect.collecting import CollectOptions, assemble, gather
from probes.facts import MachineFacts
from probes.judging.findings import Evidence
from probes.judging.verdict import Verdict
from probes.sources.base import Source
from probes.sources.choose import open_source
from probes.sources.live import LiveSource
from probes.sources.recording import RecordingSource
from probes.sources.stored import StoredSource, dump_recording, load_recording
from tests.support.texts import render_facts, render_verdict

FOLDER = Path(__file__).parents[1] / "machines"
MACHINES = ["cpu-vm", "h100-dead-link"]


def facts_of(source: Source) -> MachineFacts:
    results = list(gather(source, CollectOptions(ask_interpreters=False)))
    assert [row.id for row, result in results if isinstance(result, msgspec.Struct)] == []
    return assemble("", results)


def verdict_of(facts: MachineFacts) -> Verdict:
    *_, finished = check_machine(Evidence(facts=facts, catalogue=load_catalogue()))
    return finished.result  # type: ignore[attr-defined,no-any-return]


def at(document: Any, path: str) -> Any:
    """Return the value at a path such as `gpus.0.name`."""
    for step in path.split("."):
        document = (
            len(document) if step == "#" else document[int(step) if isinstance(document, list) else step]
        )
    return document


@pytest.mark.parametrize("machine", MACHINES)
def test_a_recorded_machine_is_known_again(machine: str) -> None:
    expected = loads((FOLDER / machine / "expected.toml").read_text("utf-8"))
    facts = facts_of(open_source((FOLDER / machine / "recording.json",)))
    document = json.loads(msgspec.json.encode(facts))
    assert {path: at(document, path) for path in expected["facts"]} == expected["facts"]
    assert {path: at(document, path)["unknown"] for path in expected["unknown"]} == expected["unknown"]
    verdict = verdict_of(facts)
    assert verdict.verdict == expected["verdict"]
    said = {f"{finding.status.value} {finding.check_id} {finding.subject}" for finding in verdict.findings}
    wanted = {
        f"{status} {finding}" for status, findings in expected["findings"].items() for finding in findings
    }
    assert wanted <= said
    problems = {line for line in said if line.split()[0] in ("FAIL", "WARN")}
    assert problems <= wanted
    assert render_facts(facts)
    assert render_verdict(verdict, verbose=True)


def test_every_machine_is_replayed() -> None:
    assert sorted(path.name for path in FOLDER.iterdir()) == MACHINES


def test_this_machine_recorded_and_replayed_is_the_same() -> None:
    with LiveSource() as live:
        recorder = RecordingSource(live)
        facts = facts_of(recorder)
        recording = load_recording(dump_recording(recorder.recording("here")), "here.json")
    replayed = facts_of(StoredSource(recording))
    assert msgspec.json.format(msgspec.json.encode(replayed)) == msgspec.json.format(
        msgspec.json.encode(facts)
    )
