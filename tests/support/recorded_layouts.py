"""Tables of step times of several layouts of the same job, from published runs; contests on such tables."""

from __future__ import annotations

import csv
import math
import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from recipes.tuning.contest import Contest, Rules, Standing, Trial, standing

_JOB = ("source_id", "stack", "model", "gpu", "n_gpus", "seq_len", "image_size", "precision", "task")
"""Columns that describe a job and a machine."""
_LAYOUT = (
    *("sharding", "zero_stage", "dp", "fsdp", "tp", "pp", "cp", "ep", "vp", "sequence_parallel"),
    *("micro_batch", "grad_accum", "global_batch", "activation_checkpointing", "compile"),
    *("flash_attention", "optimizer", "raw_strategy"),
)
"""Columns that describe a layout."""


class Table(NamedTuple):
    """Seconds per sample of each layout of a job; infinite if the layout ran out of memory."""

    job: str
    seconds: tuple[float, ...]


def recorded_tables(folder: Path, least: int = 4) -> list[Table]:
    """Return the jobs with at least `least` layouts, of which at least two did not run out of memory.

    Global batches differ between some layouts, so times are per sample. If a layout was measured several
    times, the table has the median.
    """
    groups: dict[tuple[str, ...], dict[tuple[str, ...], list[float]]] = defaultdict(lambda: defaultdict(list))
    for name in ("training_open.csv", "training_open_2.csv"):
        with (folder / name).open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                if (seconds := _seconds_per_sample(row)) is not None:
                    layout = tuple(row[column] for column in _LAYOUT)
                    groups[tuple(row[column] for column in _JOB)][layout].append(seconds)
    tables = []
    for job, layouts in groups.items():
        seconds = tuple(sorted(values)[len(values) // 2] for values in layouts.values())
        if len(seconds) >= least and sum(map(math.isfinite, seconds)) > 1:
            tables.append(Table(" ".join(filter(None, job)), seconds))
    return tables


def _seconds_per_sample(row: dict[str, str]) -> float | None:
    if row["oom"] == "true":
        return math.inf
    if row["step_time_s"] and row["global_batch"]:
        return float(row["step_time_s"]) / float(row["global_batch"])
    if row["samples_per_s"]:
        return 1 / float(row["samples_per_s"])
    if row["tokens_per_s_per_gpu"] and row["seq_len"]:
        return float(row["seq_len"]) / float(row["tokens_per_s_per_gpu"]) / float(row["n_gpus"])
    return None


def drawing(seed: int) -> random.Random:
    """Return a random generator that gives the same numbers for the same seed."""
    return random.Random(seed)  # noqa: S311 - noise of a simulation


class Played(NamedTuple):
    """A contest that was played on a table."""

    contest: Contest
    end: Standing
    chosen: int
    """Index of the layout that the contest recommends: the winner, or else the baseline."""


def play(
    seconds: tuple[float, ...], baseline: int, noise: float, draw: random.Random, **rules: object
) -> Played:
    """Play a contest; each trial takes the layout's time with log-normal noise of this standard deviation."""
    names = [str(index) for index in range(len(seconds))]
    contest = Contest(
        baseline=names[baseline],
        challengers=tuple(name for name in names if name != names[baseline]),
        rules=Rules(**{"seed": draw.randrange(2**30), **rules}),
    )
    for contest, state in _steps(contest, seconds, noise, draw):  # noqa: B007, B020 - the last pair is the end
        pass
    return Played(contest, state, int(state.finalist) if state.decision == "winner" else baseline)


def _steps(
    contest: Contest, seconds: tuple[float, ...], noise: float, draw: random.Random
) -> Iterator[tuple[Contest, Standing]]:
    while (state := standing(contest)).due:
        name = state.due[0]
        time_s = seconds[int(name)] * math.exp(draw.gauss(0.0, noise))
        outcome = "measured" if math.isfinite(time_s) else "out_of_memory"
        trial = Trial(
            round=state.round,
            candidate=name,
            outcome=outcome,
            step_time_s=time_s if outcome == "measured" else None,
        )
        contest = Contest(
            baseline=contest.baseline,
            challengers=contest.challengers,
            rules=contest.rules,
            trials=(*contest.trials, trial),
        )
        yield contest, state
    yield contest, state


def exhaustive_trials(seconds: tuple[float, ...], rounds: int) -> int:
    """Return the trials of a test that repeats each layout `rounds` times, or once if it lacks memory."""
    return sum(rounds if math.isfinite(value) else 1 for value in seconds)
