"""Compare predictions from a machine's own `rigtune bench` with real training runs on it: step time and peak memory of
tensors.

    python tests/benchmarks/predict_real_runs.py [--suite quick] [--bench FILE] [--runs FILE]
        [--only NAME,...] [--configurations N[,M]] [--attempts N]

The script measures the machine as `rigtune bench` does, predicts each configuration as `rigtune plan` does, then trains
each for real: the reference transformer and the residual network of the worker, alone and over all ranks. Step times
are medians of the worker's own training benchmarks. Peak memory is that of the tensors to which torch's allocator gives
memory (tests/benchmarks/tensor_memory.py).

The bench has measured none of the configurations: `differs` states the differences from the nearest measured step.
The files of `--bench` and `--runs` are read if they exist. The file of `--bench` is written if it does not exist. Runs
that the file of `--runs` lacks, or that were disturbed, are made and written. `--attempts 0` trains nothing, and
compares the runs of the file.

Other programs disturb measurements. Each benchmark and run is repeated until other programs take little of the CPUs,
at most `--attempts` times, and the least disturbed attempt counts. Runs that stay disturbed are marked, and the median
error of the step times is also printed without them.

A run that is not repeated takes about 8 to 25 s. `--configurations 12,4` runs the first 12 transformers and the first
4 residual networks; their order covers models, sizes, micro-batches, DDP and FSDP, recomputation, precisions and ranks.
On a quiet machine of two cores this takes about 5 minutes, and 2 more if the file of `--bench` does not exist yet.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TypeVar

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from assistant.usecases.bench.bench_context import bench_context
from assistant.usecases.bench.bench_watch import Watch
from assistant.usecases.events import StageFinished
from assistant.usecases.probe import probe_machine
from probes.base.errors import WorkerError
from probes.base.record import to_json
from probes.catalogue.hardware import load_catalogue
from probes.collect.collecting import CollectOptions
from probes.facts import MachineFacts
from probes.facts.measurements import MeasurementSet
from probes.sources.live import LiveSource
from recipes.machine.from_facts import cluster_from_facts
from recipes.machine.ranks import default_ranks
from tests.benchmarks.real_runs_cases import Configuration, Images, chosen
from tests.benchmarks.real_runs_measure import Measured, measure_quietly, train_quietly
from tests.benchmarks.real_runs_predict import predict_image_run, predict_transformer
from tests.benchmarks.real_runs_table import Row, report
from tests.benchmarks.real_runs_watch import QUIET_SHARE

T = TypeVar("T")


def kept(path: str | None, kind: type[T]) -> T | None:
    """Return the results of an earlier run that the file contains; None if there is no file."""
    return msgspec.json.decode(Path(path).read_bytes(), type=kind) if path and Path(path).exists() else None


def probed_machine() -> MachineFacts:
    """Return the facts of this machine."""
    for event in probe_machine(LiveSource(), CollectOptions()):
        if isinstance(event, StageFinished) and isinstance(event.result, MachineFacts):
            return event.result
    raise WorkerError("the machine could not be probed", "run `rigtune probe` to see why")


def counts(text: str) -> tuple[int, int]:
    """Return the numbers of transformers and of residual networks from N or N,M; N means both.

    Raises ArgumentTypeError for other text.
    """
    transformers, _, images = text.partition(",")
    if not transformers.isdecimal() or not (images or transformers).isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not N or N,M: give how many to run, for example 12,4")
    return int(transformers), int(images or transformers)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--suite", choices=("quick", "full"), default="quick")
    parser.add_argument(
        "--python", default=sys.executable, help="the training interpreter; default: this one"
    )
    parser.add_argument("--bench", help="a MeasurementSet to read, or to write")
    parser.add_argument("--runs", help="real runs to read, or to write; runs that the file lacks are added")
    parser.add_argument(
        "--attempts",
        type=int,
        default=3,
        help="to find a quiet moment for each benchmark and run; 0: train nothing",
    )
    parser.add_argument(
        "--configurations",
        type=counts,
        default=(None, None),
        metavar="N[,M]",
        help="only the first N of each kind, or N transformers and M residual networks; --only chooses "
        "before",
    )
    parser.add_argument("--only", default="", help="names of runs, separated by commas")
    options = parser.parse_args()
    facts = probed_machine()
    on_gpu = bench_context(facts).device == "cuda"
    only = set(filter(None, options.only.split(",")))
    runs = chosen(on_gpu, only, options.configurations)

    bench = kept(options.bench, MeasurementSet)
    if bench is None:
        bench = measure_quietly(facts, options.suite, options.python, options.attempts)
        if options.bench:
            Path(options.bench).write_bytes(to_json(bench))
    kept_runs = {one.name: one for one in kept(options.runs, tuple[Measured, ...]) or ()}
    watch = Watch(facts)
    for run in runs:
        earlier = kept_runs.get(run.name)
        if options.attempts < 1 or (earlier is not None and earlier.others_cpu_share <= QUIET_SHARE):
            continue
        begun = time.monotonic()
        outcome = train_quietly(run, facts, options.python, watch, options.attempts)
        if isinstance(outcome, str):
            print(f"{run.name}: {outcome}")
            continue
        if earlier is not None and earlier.others_cpu_share < outcome.others_cpu_share:
            outcome = earlier
        kept_runs[run.name] = outcome
        others = f"others took {outcome.others_cpu_share:.0%} of the CPUs"
        print(
            f"{run.name}: {outcome.step_time_s * 1e3:.1f} ms, {others}; {time.monotonic() - begun:.0f} s",
            flush=True,
        )
        if options.runs:
            Path(options.runs).write_bytes(msgspec.json.encode(tuple(kept_runs.values())))
    clusters = {
        ranks: cluster_from_facts(
            facts, bench.measurements, load_catalogue(), ranks_per_node=ranks or default_ranks(facts)
        )
        for ranks in (0, 1)
    }
    rows: dict[type, list[Row]] = {Configuration: [], Images: []}
    for run in runs:
        if run.name not in kept_runs:
            continue
        cluster = clusters[run.ranks]
        answer = (
            predict_transformer(run, cluster)
            if isinstance(run, Configuration)
            else predict_image_run(run, cluster)
        )
        (seconds, memory, differs), one = answer, kept_runs[run.name]
        rows[type(run)].append(
            Row(
                run.name,
                differs,
                seconds,
                one.step_time_s,
                memory,
                one.peak_bytes,
                one.others_cpu_share > QUIET_SHARE,
            )
        )
    titles = {Configuration: "transformer", Images: "residual network"}
    outcomes = [report(group, titles[kind]) for kind, group in rows.items() if group]
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
