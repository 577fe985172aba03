"""Learn policies from recordings: each machine meets its own policy, and doubtful values are named."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from assistant.usecases.check import evidence_under, verdict_on
from probes.base.errors import InputError
from probes.base.record import items_of
from probes.catalogue.hardware import load_catalogue
from probes.collect.collecting import CollectOptions, assemble, gather
from probes.facts import MachineFacts
from probes.judging.check_table import CHECKS
from probes.judging.findings import Status
from probes.judging.policies.doubts import doubts_of
from probes.judging.policies.file import load_policy
from probes.judging.policies.learning import learned_policy, policy_text
from probes.judging.policies.policy import Policy
from probes.sources.choose import open_source
from tests.support.recordings import MACHINES, index, needs_recordings

DAY = datetime.date(2026, 11, 21)
CATALOGUE = load_catalogue()
POLICY_ROWS = tuple(row for row in CHECKS if row.group == "policy")
TEXTS = sorted(path for path in index() if path.startswith(("nvsmi_xml/", "nvsmi_text/")))


def facts_of(path: Path) -> MachineFacts:
    source = open_source((path,), None)
    return assemble(source.title, list(gather(source, CollectOptions(ask_interpreters=False))))


@needs_recordings
@pytest.mark.parametrize("path", TEXTS)
def test_a_recorded_machine_meets_what_was_learned_from_it(path: str) -> None:
    try:
        facts = facts_of(MACHINES / path)
    except InputError:
        return  # a text of no machine
    verdict = verdict_on(evidence_under(Policy(), facts, today=DAY))
    learned = learned_policy(facts, CATALOGUE)
    doubts = doubts_of(learned, facts, verdict.findings)
    policy = load_policy(policy_text(learned, path, DAY, doubts), path, CATALOGUE)
    assert policy == learned
    bad = [
        finding.summary
        for finding in verdict_on(evidence_under(policy, facts, today=DAY), POLICY_ROWS).findings
        if finding.status not in (Status.PASS, Status.SKIP)
    ]
    assert bad == []
    is_sound = not verdict.counts[Status.WARN] + verdict.counts[Status.FAIL]
    if (
        is_sound
        and index()[path]["state"] == "healthy"
        and len({gpu.name for gpu in items_of(facts.gpus)}) == 1
    ):
        assert doubts == ()


@needs_recordings
@pytest.mark.parametrize(
    ("path", "place", "words"),
    [
        ("nvsmi_xml/mock-gb200-lost.xml", "gpu.count", "gpu-lost FAIL on GPU1"),
        ("nvsmi_text/query-rtx3080-8x-gpu3-unknown-error.csv", "gpu.count", "gpu-lost FAIL on GPU3"),
        ("nvsmi_text/query-rtx3080-8x-gpu3-unknown-error.csv", "gpu.model", "GPU3 has an unknown value"),
        ("nvsmi_xml/hw-t4.xml", "gpu.pcie_width", "pcie-link WARN on GPU0"),
    ],
)
def test_a_sick_machine_leaves_doubt(path: str, place: str, words: str) -> None:
    facts = facts_of(MACHINES / path)
    verdict = verdict_on(evidence_under(Policy(), facts, today=DAY))
    doubts = doubts_of(learned_policy(facts, CATALOGUE), facts, verdict.findings)
    assert any(doubt.place == place and words in doubt.reason for doubt in doubts), doubts


@needs_recordings
def test_site_checks_of_a_recorded_machine_are_unknown() -> None:
    text = "[[site_checks]]\nname = 'a'\ncommand = ['touch', '/no-such-folder/ran']"
    facts = facts_of(MACHINES / "nvsmi_xml/hw-t4.xml")
    policy = load_policy(text, "site.toml", CATALOGUE)
    findings = verdict_on(evidence_under(policy, facts, today=DAY), POLICY_ROWS).findings
    assert [finding.status for finding in findings if finding.check_id == "site-checks"] == [Status.UNKNOWN]
