"""Print predicted against measured step time of verified recipes on two CPU ranks, with their spread.

    python -m tests.benchmarks.verify_on_cpu --python PATH [--runs 5] [--steps 20]

The script measures the rates of this machine with the quick benchmarks, plans three layouts of the small reference
model, and verifies each several times. For each layout it prints the prediction, the median of the runs, their ratio
and the spread (half of the range of the runs over their median). Then it plans again with the stored step, and prints
how far that prediction is from a last run. On a quiet host, ratios are expected within 15 %.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from pathlib import Path

import msgspec

from assistant.processes.runner import busy_host
from assistant.usecases.bench.baseline import verified_steps
from assistant.usecases.events import StageFinished
from assistant.usecases.measure import MeasureOptions, measure_machine
from assistant.usecases.pinning import pins_of
from assistant.usecases.plan import PlanRequest, plan_workload
from assistant.usecases.probe import probe_machine
from assistant.usecases.verify import VerifyRequest, verify_launch
from probes.base.units import duration
from probes.collect.collecting import CollectOptions
from probes.facts import MachineFacts
from probes.facts.measurements import Measurement
from probes.sources.choose import open_source
from recipes.launch.recipe import Command, Recipe
from recipes.launch.resolve import machine_in_words, recipe_of

MODEL = "rigtune-mini"
LAYOUTS = (
    {"micro_batch": 1, "strategy": "ddp"},
    {"micro_batch": 2, "strategy": "ddp"},
    {"micro_batch": 1, "strategy": "fsdp"},
)


def last(events: object) -> object:
    *_, finished = events  # type: ignore[misc]
    assert isinstance(finished, StageFinished)
    return finished.result


def planned(
    facts: MachineFacts, rates: tuple[Measurement, ...], layout: dict[str, object], python: str
) -> Recipe:
    """Return the recipe of a layout of the reference workload."""
    request = PlanRequest(model=MODEL, program="reference", pins=pins_of((), **layout))
    plan = last(plan_workload(facts, rates, request))
    return recipe_of(plan, name=MODEL, command=Command(kind="reference"), python=python, facts=facts)  # type: ignore[arg-type]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", required=True)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["XDG_STATE_HOME"] = str(folder / "state")
        with open_source() as source:
            facts = last(probe_machine(source, CollectOptions(python=options.python)))
        assert isinstance(facts, MachineFacts)
        measured = last(measure_machine(facts, MeasureOptions(python=options.python, accept_busy_host=True)))
        rates = measured.measurements  # type: ignore[attr-defined]
        print(f"host: {busy_host() or 'quiet'}; {options.runs} runs of {options.steps} steps per layout")
        request = VerifyRequest(steps=options.steps, python=options.python)
        for layout in LAYOUTS:
            recipe = planned(facts, rates, layout, options.python)
            times = [step_s(recipe, request, folder / "run") for _ in range(options.runs)]
            report(f"{layout['strategy']} micro-batch {layout['micro_batch']}", recipe, times)
            stored = verified_steps(machine_in_words(facts))
            again = planned(facts, (*rates, *stored), layout, options.python)
            report("  planned again with the verified step", again, [step_s(again, request, folder / "run")])


def step_s(recipe: Recipe, request: VerifyRequest, folder: Path) -> float:
    """Return the measured step time of one verification."""
    result = last(verify_launch(msgspec.structs.replace(recipe), request, folder))
    return float(result.step_time_s.measured)  # type: ignore[attr-defined]


def report(name: str, recipe: Recipe, times: list[float]) -> None:
    """Print the prediction, the median of the runs, their ratio and their spread."""
    median = statistics.median(times)
    spread = (max(times) - min(times)) / 2 / median
    predicted = recipe.predicted.step_time_s
    words = "not predicted"
    if predicted is not None:
        words = f"predicted {duration(predicted)}, predicted / measured {predicted / median:.2f}"
    print(f"{name}: measured {duration(median)}, spread {spread:.0%}; {words}", flush=True)


if __name__ == "__main__":
    main()
