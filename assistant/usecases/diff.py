"""Compare the facts and findings of several machines, or of one machine at several times."""

from collections.abc import Generator, Sequence

from assistant.usecases.check import verdict_on
from assistant.usecases.events import Event, result_of, stage
from assistant.usecases.probe import probe_machine
from probes.catalogue.hardware import Catalogue
from probes.collect.collecting import CollectOptions
from probes.compare.differences import Comparison, compare, compare_findings, is_one_machine, odd_ones
from probes.facts import MachineFacts
from probes.judging.findings import Evidence, Finding
from probes.sources.base import Source


@stage("diff")
def diff_machines(
    sources: Sequence[tuple[str, Source]],
    options: CollectOptions,
    catalogue: Catalogue,
    *,
    everything: bool = False,
) -> Generator[Event, None, Comparison]:
    """Probe and check each of `sources` (name and source); the last event's result is a `Comparison`."""
    machines: list[tuple[str, MachineFacts]] = []
    findings: list[tuple[Finding, ...]] = []
    for name, source in sources:
        facts: MachineFacts = yield from result_of(probe_machine(source, options))
        machines.append((_unlike(name, machines), facts))
        findings.append(verdict_on(Evidence(facts=facts, catalogue=catalogue)).findings)
    names = tuple(name for name, _ in machines)
    all_facts = [facts for _, facts in machines]
    if len(machines) == 2:
        return Comparison(
            machines=names,
            is_one_machine=is_one_machine(all_facts),
            differences=compare(all_facts[0], all_facts[1], everything=everything),
            findings=compare_findings(findings[0], findings[1]),
        )
    return Comparison(
        machines=names,
        is_one_machine=is_one_machine(all_facts),
        odd=odd_ones(machines, everything=everything),
    )


def _unlike(name: str, machines: Sequence[tuple[str, MachineFacts]]) -> str:
    """Return `name`, with a number if an earlier machine has the same name."""
    before = sum(name == other.partition(" (")[0] for other, _ in machines)
    return f"{name} ({before + 1})" if before else name
