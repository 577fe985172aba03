"""Read the facts of a machine from a source, one collector after the other."""

from collections.abc import Generator

from assistant.usecases.events import Event, FactsGrew, Progress, StageStarted, stage
from probes.collect.collecting import DEADLINE_S, CollectOptions, assemble, gather
from probes.collect.collector_table import PROBES
from probes.facts import MachineFacts
from probes.sources.base import Source


@stage("probe")
def probe_machine(
    source: Source, options: CollectOptions, deadline_s: float = DEADLINE_S
) -> Generator[Event, None, MachineFacts]:
    """Read every subject; the last event's result is `MachineFacts`.

    Subjects that have not answered after `deadline_s` are Unknown.
    """
    yield StageStarted(
        stage="probe", title="Reading " + ("this machine" if source.title == "live" else source.title)
    )
    results = []
    for row, result in gather(source, options, deadline_s=deadline_s):
        results.append((row, result))
        yield Progress(stage="probe", message=row.title, done=len(results), total=len(PROBES))
        yield FactsGrew(facts=assemble(source.title, results))
    return assemble(source.title, results)
