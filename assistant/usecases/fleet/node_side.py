"""The part of a fleet's run that happens on each node: probe, check, perhaps measure, and report."""

import sys
import time
from collections.abc import Iterator
from typing import Any

import msgspec

from assistant.usecases.check import evidence_under, verdict_on
from assistant.usecases.events import Event, StageFinished
from assistant.usecases.fleet.capture_fleet import recorded_line
from assistant.usecases.measure import MeasureOptions, measure_machine
from assistant.usecases.probe import probe_machine
from probes.base.record import to_json, value_or
from probes.base.table_rows import Tier
from probes.bench.bench_requests import Suite
from probes.collect.collecting import CollectOptions
from probes.compare.comparing import beside_references
from probes.facts import MachineFacts
from probes.facts.measurements import MeasurementSet
from probes.fleet.node_report import MARK, NodeReport
from probes.fleet.node_side import attributes_of, metrics_of, parts_of, passed_of, reasons_of, unmeasured
from probes.judging.policies.policy import Policy
from probes.judging.policies.selection import select
from probes.sources.base import Source
from probes.sources.recording import RecordingSource
from probes.sources.stored import dump_recording


def node_report(
    source: Source,
    *,
    policy: Policy,
    version: str,
    commit: str,
    tier: Tier,
    budget_s: float,
    suite: Suite | None,
    stated_by: dict[str, str] | None = None,
) -> str:
    """Return the report of this node as one line that begins with `MARK`.

    `suite` is a suite of benchmarks, or None to measure nothing.
    `stated_by` maps the place of a field of the policy to the command-line option that states the field.
    """
    options = CollectOptions(
        deep=tier == "deep",
        own_python=sys.executable,
        toolkit=policy.software.cuda_toolkit is not None,
        sysctls=tuple(policy.host.sysctl),
    )
    facts: MachineFacts = _last(probe_machine(source, options, budget_s))
    measured = _measured(facts, suite) if suite is not None else MeasurementSet()
    evidence = evidence_under(
        policy, facts, today=None, measured=measured, stated_by=stated_by, mode="monitor"
    )
    verdict = verdict_on(evidence, select(tier).rows)
    report = NodeReport(
        node=value_or(facts.hostname, ""),
        outcome="ok",
        verdict=verdict.verdict,
        reasons=reasons_of(verdict),
        attributes=attributes_of(facts),
        parts=parts_of(facts),
        passed=passed_of(verdict),
        metrics=metrics_of(measured, facts, version, beside_references(evidence)),
        unmeasured=unmeasured(measured),
        version=version,
        commit=commit,
        clock_s=time.time(),
    )
    return MARK + msgspec.json.format(to_json(report), indent=-1).decode().strip()


def node_recording(source: Source, *, tier: Tier, budget_s: float) -> str:
    """Return all that was read on this node, not redacted, as one line that begins with `MARK`."""
    recorder = RecordingSource(source)
    _last(probe_machine(recorder, CollectOptions(deep=tier == "deep", own_python=sys.executable), budget_s))
    return MARK + recorded_line(dump_recording(recorder.recording(source.title)))


def _measured(facts: MachineFacts, suite: Suite) -> MeasurementSet:
    measured: MeasurementSet = _last(measure_machine(facts, MeasureOptions(suite=suite)))
    return measured


def _last(events: Iterator[Event]) -> Any:
    """Return the result of a stage without showing its events."""
    result = None
    for event in events:
        if isinstance(event, StageFinished):
            result = event.result
    return result
