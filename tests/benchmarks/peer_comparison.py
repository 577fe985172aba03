"""Compare the errors of two predictors over the measured runs that both answer."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

SPEEDS = ("step_time_s", "tokens_per_s_per_gpu", "samples_per_s")
Answer = Mapping[str, Any]


class Comparison(NamedTuple):
    """One measure on the cases that both answered. The figures are errors: less is better."""

    measure: str
    cases: int
    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        if self.ours > 0:
            return self.theirs / self.ours
        return math.inf if self.theirs > 0 else 1.0

    @property
    def behind(self) -> bool:
        return self.theirs < self.ours


def positive(row: Answer, key: str) -> float | None:
    try:
        value = float(row.get(key) or "nan")
    except (TypeError, ValueError):
        return None
    return value if 0 < value < math.inf else None


def speed_error(measured: Answer, said: Answer) -> float | None:
    """Return the relative error of the first speed that both sides have."""
    for key in SPEEDS:
        if (truth := positive(measured, key)) and (value := positive(said, key)):
            return value / truth - 1
    return None


def memory_error(measured: Answer, said: Answer) -> float | None:
    truth, value = positive(measured, "peak_mem_gib"), positive(said, "peak_mem_gib")
    return value / truth - 1 if truth and value and measured.get("oom") != "true" else None


def compared(measure: str, pairs: Sequence[tuple[float, float]]) -> list[Comparison]:
    """Return the median and the 90th percentile of the absolute errors; pairs have rigtune's error first."""
    if not pairs:
        return []
    ours, theirs = (sorted(abs(error) for error in side) for side in zip(*pairs, strict=True))
    last = int(0.9 * (len(pairs) - 1))
    return [
        Comparison(f"{measure}, median", len(pairs), statistics.median(ours), statistics.median(theirs)),
        Comparison(f"{measure}, p90", len(pairs), ours[last], theirs[last]),
    ]


def compared_fits(triples: Sequence[tuple[bool, bool, bool]]) -> list[Comparison]:
    """Return the shares of runs whose fit was predicted wrongly.

    A triple states whether the run ran out of memory, whether rigtune predicted that it fits, and whether the
    peer did.
    """
    shares = []
    for measure, oom in (("ran, said not to fit", False), ("out of memory, said to fit", True)):
        of = [(ours is oom, theirs is oom) for truth, ours, theirs in triples if truth is oom]
        if of:
            ours, theirs = (sum(side) / len(of) for side in zip(*of, strict=True))
            shares.append(Comparison(measure, len(of), ours, theirs))
    return shares


def compare(
    measured: Mapping[str, Answer], ours: Mapping[str, Answer], theirs: Mapping[str, Answer]
) -> list[Comparison]:
    """Return all measures on the cases that were measured and that both predictors answer."""
    memory: list[tuple[float, float]] = []
    speed: list[tuple[float, float]] = []
    fit: list[tuple[bool, bool, bool]] = []
    for case, truth in measured.items():
        if case not in ours or case not in theirs:
            continue
        for pairs, error in ((memory, memory_error), (speed, speed_error)):
            our, their = error(truth, ours[case]), error(truth, theirs[case])
            if our is not None and their is not None:
                pairs.append((our, their))
        fits = ours[case].get("fits"), theirs[case].get("fits")
        if truth.get("oom") in {"true", "false"} and None not in fits:
            fit.append((truth["oom"] == "true", bool(fits[0]), bool(fits[1])))
    return [*compared("memory", memory), *compared("speed", speed), *compared_fits(fit)]
