"""List the benchmarks, their cost, and what prevents them on a machine."""

import msgspec

from assistant.usecases.bench.bench_context import bench_context
from assistant.usecases.measure import MeasureOptions
from probes.base.record import Record, known
from probes.bench.benchmark_table import ALL_DEVICES, BENCHMARKS
from probes.facts import MachineFacts
from recipes.machine.ranks import training_gpus


class BenchEntry(Record, kw_only=True):
    """A benchmark, for `rigtune bench --list`."""

    id: str
    title: str
    suites: tuple[str, ...]
    cost_s: float
    """Rough duration in the quick suite, or alone if the benchmark is in no suite."""
    full_cost_s: float
    occupies: str
    applies: bool
    """True if the benchmark would measure something on this machine with these options."""
    why_not: str = ""


def list_benchmarks(facts: MachineFacts, options: MeasureOptions) -> tuple[BenchEntry, ...]:
    """Return all benchmarks in the order in which they run."""
    lacks_torch = (
        not known(facts.training.path) or facts.training.path is None or facts.training.torch_version is None
    )
    context = msgspec.structs.replace(
        bench_context(facts, ranks_per_node=options.ranks_per_node),
        suite="full",
        settings=options.settings,
        hosts=options.hosts,
        spread_by=options.spread_by,
    )
    device = "all GPUs" if training_gpus(facts) else "all CPUs"
    entries = []
    for row in BENCHMARKS:
        asked = row.load().requests(context)
        why_not = ""
        if not asked:
            why_not = f"needs {row.applies}" if row.applies else "does not apply here"
        elif lacks_torch and options.python is None and all(request.needs_torch for request in asked):
            why_not = "needs a training interpreter with torch"
        entries.append(
            BenchEntry(
                id=row.id,
                title=row.title,
                suites=row.suites,
                cost_s=row.cost_s,
                full_cost_s=row.full_cost_s,
                occupies=device if row.occupies == ALL_DEVICES else row.occupies,
                applies=not why_not,
                why_not=why_not,
            )
        )
    return tuple(entries)
