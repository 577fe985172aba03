"""Measure the machine as `rigtune bench` does, and train configurations on it."""

from __future__ import annotations

import json
import tempfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import msgspec

from assistant.processes.interpreter import worker_environment
from assistant.processes.runner import output_of, worker_variables
from assistant.usecases.bench.bench_context import bench_context, shape_of
from assistant.usecases.bench.bench_run import RunEnded, run_request
from assistant.usecases.bench.bench_watch import Watch
from assistant.usecases.events import StageFinished
from assistant.usecases.measure import MeasureOptions, measure_machine
from probes.base.errors import WorkerError
from probes.base.record import Record
from probes.bench.answers import StepWork, failure_of, slowest_rank, step_figures
from probes.bench.bench_requests import BenchRequest, Case, LinesByRank, Suite
from probes.facts import MachineFacts
from probes.facts.measurements import BenchFailure, Measurement, MeasurementSet
from recipes.launch.agent import agent_argv
from recipes.machine.ranks import cores_per_rank, default_ranks
from tests.benchmarks.real_runs_cases import Configuration, Images
from tests.benchmarks.real_runs_watch import disturbance, least_disturbed

CASE_BUDGET_S = 8.0
BENCHES = (
    "gemm",
    "memory-copy",
    "attention",
    "launch-latency",
    "collectives",
    "overlap",
    "train-step",
    "train-cnn",
)
"""Benchmarks of the suite that the prediction models use."""


class Measured(Record, kw_only=True):
    """Result of one real run."""

    name: str
    step_time_s: float
    peak_bytes: float
    """Peak memory of the rank that needs most."""
    others_cpu_share: float


def request_of(run: Configuration | Images, facts: MachineFacts) -> BenchRequest:
    """Return the training benchmark of this configuration, with as many threads per rank as in a recipe."""
    context = bench_context(facts)
    ranks = run.ranks or default_ranks(facts)
    case: Case = {"micro_batch": run.micro_batch, "precision": run.precision}
    if isinstance(run, Images):
        case["image_size"] = run.image_size
    else:
        case |= {
            "strategy": run.strategy,
            "activation_checkpointing": run.checkpointing,
            "sequence_length": run.sequence_length,
            "grad_accum": run.grad_accum,
        }
    return BenchRequest(
        bench_id="train-cnn" if isinstance(run, Images) else "train-step",
        title=run.name,
        device=context.device,
        backend=context.backend,
        ranks=ranks,
        threads_per_rank=cores_per_rank(facts, ranks),
        budget_s=CASE_BUDGET_S,
        cases=(case,),
        model=run.network.shape if isinstance(run, Images) else shape_of(run.model),
    )


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> tuple[Measurement, ...] | BenchFailure:
    measurements: list[Measurement] = []
    for answer in slowest_rank(request, lines_by_rank):
        measurements += step_figures(answer, answer.case, StepWork())
    return tuple(measurements) or failure_of(request, lines_by_rank)


def train(
    run: Configuration | Images, facts: MachineFacts, python: str, folder: Path, watch: Watch
) -> Measured | str:
    """Train a configuration; return an error message if the training failed."""
    request = request_of(run, facts)
    events = run_request(
        request, SimpleNamespace(interpret=interpret), python, folder, stop=lambda: False, watch=watch
    )  # type: ignore[arg-type]
    ended = [event for event in events if isinstance(event, RunEnded)][-1]
    times = [one for one in ended.measurements if one.metric == "step_time_s"]
    if not times:
        return "; ".join(failure.message for failure in ended.failures) or "it measured nothing"
    program = (str(Path(__file__).with_name("tensor_memory.py")), str(folder / "request.json"), str(folder))
    code, output = output_of(
        agent_argv(python, request.ranks, program),
        directory=folder,
        environment={**worker_environment(), **worker_variables(request.threads_per_rank)},
        deadline_s=600.0,
    )
    if code != 0:
        return f"its memory could not be counted: {output.decode(errors='replace')[-300:]}"
    peaks = [max(json.loads((folder / f"peaks{rank}.json").read_text())) for rank in range(request.ranks)]
    return Measured(
        name=run.name,
        step_time_s=times[0].median,
        peak_bytes=float(max(peaks)),
        others_cpu_share=float(times[0].conditions.get("others_cpu_share", 0.0)),
    )


def train_quietly(
    run: Configuration | Images, facts: MachineFacts, python: str, watch: Watch, attempts: int
) -> Measured | str:
    """Return the least disturbed of some attempts, or the error message of the first attempt that fails."""

    def attempt() -> Measured | str:
        with tempfile.TemporaryDirectory() as folder:
            return train(run, facts, python, Path(folder), watch)

    def share(outcome: Measured | str) -> float:
        # A failure ends the attempts.
        return 0.0 if isinstance(outcome, str) else outcome.others_cpu_share

    return least_disturbed(attempt, share, attempts)


def measure_quietly(facts: MachineFacts, suite: Suite, python: str, attempts: int) -> MeasurementSet:
    """Return the least disturbed measurements of each benchmark.

    Raises WorkerError if the machine could not be measured.
    """
    made: list[MeasurementSet] = []
    for bench_id in BENCHES:
        options = MeasureOptions(suite=suite, only=(bench_id,), python=python, force=True)
        one = least_disturbed(partial(measure, facts, options), disturbance, attempts)
        print(
            f"{bench_id}: {len(one.measurements)} figures, others took {disturbance(one):.0%} of the CPUs",
            flush=True,
        )
        for failure in one.failures:
            print(f"not measured: {failure.bench_id}: {failure.message}")
        made.append(one)
    return msgspec.structs.replace(
        made[0], measurements=tuple(figure for one in made for figure in one.measurements)
    )


def measure(facts: MachineFacts, options: MeasureOptions) -> MeasurementSet:
    result = None
    for event in measure_machine(facts, options):
        result = event.result if isinstance(event, StageFinished) else result
    if not isinstance(result, MeasurementSet):
        raise WorkerError("the machine could not be measured", "run `rigtune bench` to see why")
    return result
