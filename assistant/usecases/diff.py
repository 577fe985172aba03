"""Compare the facts and findings of several machines, or of one machine at several times."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from assistant.usecases.check import check_machine
from assistant.usecases.events import Event, StageFinished
from assistant.usecases.probe import probe_machine
from probes.catalogue.hardware import Catalogue
from probes.collect.collecting import CollectOptions
from probes.compare.differences import Comparison, compare, compare_findings, is_one_machine, odd_ones
from probes.facts import MachineFacts
from probes.judging.findings import Evidence, Finding
from probes.sources.base import Source


def diff_machines(
    sources: Sequence[tuple[str, Source]],
    options: CollectOptions,
    catalogue: Catalogue,
    *,
    everything: bool = False,
) -> Iterator[Event]:
    """Probe and check each of `sources` (name and source); the last event's result is a `Comparison`."""
    started = time.monotonic()
    machines: list[tuple[str, MachineFacts]] = []
    findings: list[tuple[Finding, ...]] = []
    for name, source in sources:
        for event in probe_machine(source, options):
            if isinstance(event, StageFinished):
                machines.append((_unlike(name, machines), event.result))
            else:
                yield event
        *_, checked = check_machine(Evidence(facts=machines[-1][1], catalogue=catalogue))
        if isinstance(checked, StageFinished):
            findings.append(checked.result.findings)
    names = tuple(name for name, _ in machines)
    all_facts = [facts for _, facts in machines]
    if len(machines) == 2:
        comparison = Comparison(
            machines=names,
            is_one_machine=is_one_machine(all_facts),
            differences=compare(all_facts[0], all_facts[1], everything=everything),
            findings=compare_findings(findings[0], findings[1]),
        )
    else:
        comparison = Comparison(
            machines=names,
            is_one_machine=is_one_machine(all_facts),
            odd=odd_ones(machines, everything=everything),
        )
    yield StageFinished(stage="diff", result=comparison, duration_s=time.monotonic() - started)


def _unlike(name: str, machines: Sequence[tuple[str, MachineFacts]]) -> str:
    """Return `name`, with a number if an earlier machine has the same name."""
    before = sum(name == other.partition(" (")[0] for other, _ in machines)
    return f"{name} ({before + 1})" if before else name
