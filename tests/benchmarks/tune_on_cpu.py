"""Tune a small recipe with real runs over gloo, and compare with an exhaustive test of the same candidates.

    python -m tests.benchmarks.tune_on_cpu --python PATH [--steps 12] [--rounds 6] [--budget 900]

The recipe trains a small transformer on two CPU ranks with micro-batch 1 and 8 accumulation steps, which is
slow on purpose. The script prints the ratio of each candidate to the recipe with its interval, the spread of
the runs, the number of trials, and how far the choice is from the best of the exhaustive test. Both use the
same kind of trial: a new process, `--steps` steps, the median after warm-up.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

import msgspec

from assistant.usecases.events import StageFinished
from assistant.usecases.short_run import short_run
from assistant.usecases.tune import JOURNAL, TuneRequest, tune_recipe
from probes.base.statistics import spread
from recipes.launch.edited import refreshed
from recipes.launch.recipe import Command, Convergence, Parallelism, Recipe, Resources
from recipes.launch.recipe_file import dump_recipe
from recipes.tuning.contest import Rules
from recipes.tuning.journal import read_journal
from recipes.tuning.tune_result import TuneResult, ratio_words
from recipes.tuning.variants import variants
from tests.support.clusters import cpu_cluster
from tests.support.model_shapes import decoder_shape


def slow_recipe(python: str) -> Recipe:
    """Return the recipe: two ranks, eight micro-batches of one short sequence."""
    return Recipe(
        name="tune-on-cpu",
        title="a small transformer on two CPU ranks",
        model=decoder_shape(
            "small",
            layers=4,
            hidden=128,
            heads=4,
            kv_heads=4,
            head_dim=32,
            ffn_hidden=384,
            vocab=512,
            sequence_length=64,
        ),
        parallelism=Parallelism(
            strategy="ddp",
            nodes=1,
            ranks_per_node=2,
            micro_batch=1,
            grad_accum=8,
            global_batch=16,
            precision="fp32",
        ),
        convergence=Convergence(learning_rate=1e-3, warmup_steps=2, steps=50),
        resources=Resources(device="cpu", backend="gloo", python=python),
        command=Command(kind="reference"),
        machine=cpu_cluster(),
    )


def tune(recipe: Recipe, folder: Path, steps: int, budget_s: float) -> TuneResult:
    """Tune the recipe as the command does, and print every candidate."""
    source = folder / "recipe.toml"
    source.write_text(dump_recipe(recipe))
    request = TuneRequest(steps=steps, budget_s=budget_s)
    *_, finished = tune_recipe(recipe, source, request, folder=folder / "tune")
    assert isinstance(finished, StageFinished)
    result: TuneResult = finished.result
    journal = read_journal((folder / "tune" / JOURNAL).read_bytes(), JOURNAL)
    assert journal is not None
    (stage,) = result.stages
    for candidate in stage.candidates:
        runs = {
            str(trial.round): trial.step_time_s
            for trial in journal.trials[0]
            if trial.candidate == candidate.name and trial.step_time_s is not None
        }
        seconds = 0.0 if candidate.step_time_s is None else candidate.step_time_s
        print(
            f"  {candidate.name:40} {1e3 * seconds:7.1f} ms  ratio {ratio_words(candidate) or '1':24} "
            f"spread {spread(runs):5.1%} of {len(runs)} runs"
        )
    print(f"  {stage.because}; p = {stage.p_value}, rounds {stage.tested_rounds}, {result.took_s:.0f} s")
    return result


def exhaustive(recipe: Recipe, folder: Path, steps: int, rounds: int) -> dict[str, list[float]]:
    """Return the step times of every candidate in every round."""
    candidates = variants(recipe, TuneRequest().candidates)
    times: dict[str, list[float]] = {each.name: [] for each in candidates}
    for number in range(rounds):
        # Every round begins with another candidate.
        for place in range(len(candidates)):
            each = candidates[(place + number) % len(candidates)]
            bare = msgspec.structs.replace(each.recipe, notes=(), decisions=())
            running = short_run(bare, folder / f"all-{number}-{place}", stage="all", steps=steps, title="run")
            while True:
                try:
                    next(running)
                except StopIteration as end:
                    if end.value.done is not None:
                        times[each.name].append(end.value.done.median_step_time_s)
                    break
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description="Tune with real runs and compare with an exhaustive test.")
    parser.add_argument("--python", required=True, help="interpreter with torch")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=6, help="rounds of the exhaustive test; 0 for none")
    parser.add_argument("--budget", type=float, default=900.0)
    options = parser.parse_args()
    recipe = refreshed(slow_recipe(options.python))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print("tune:")
        result = tune(recipe, folder, options.steps, options.budget)
        chosen = result.stages[0].winner or result.stages[0].candidates[0].name
        print(f"  chosen: {chosen}, speed-up {result.speed_up:.1%}, {result.trials} trials")
        if not options.rounds:
            return
        print("exhaustive:")
        times = exhaustive(recipe, folder, options.steps, options.rounds)
        medians = {each: statistics.median(values) for each, values in times.items() if values}
        for each, values in times.items():
            scatter = spread({str(at): value for at, value in enumerate(values)})
            print(
                f"  {each:40} {1e3 * medians.get(each, 0.0):7.1f} ms  spread {scatter:5.1%} of {len(values)}"
            )
        trials = sum(map(len, times.values()))
        rounds = Rules().most_rounds
        most = rounds * len(times)
        best = min(medians, key=medians.__getitem__)
        print(
            f"  best: {best}; the choice of tune is {medians[chosen] / medians[best] - 1:.1%} slower\n"
            f"  {result.trials} trials of tune: {result.trials / trials:.0%} of the {trials} exhaustive trials, "
            f"{result.trials / most:.0%} of {most} ({rounds} rounds, the most of tune, with all candidates)"
        )


if __name__ == "__main__":
    main()
