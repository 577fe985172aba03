"""Fit the time model of transformers to published training runs.

    python tests/calibration/fit_time.py [--write] [--leave-one-out] [--worst N]

It reads `training_open.csv` and `training_open_2.csv` in the folder `data` of $RIGTUNE_SHARED (by default
`../shared`), if they exist, and `published_runs.csv` beside this file.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from probes.base.record import Unknown
from recipes.cases.resolved_case import ResolvedCase
from recipes.job.workload import Workload
from recipes.predict.parameters import kind_of
from recipes.predict.speed.step import step_time
from recipes.predict.training_job import TransformerJob, transformer_job
from tests.calibration.fitting import Item, write_values
from tests.calibration.runs import arguments, fitted, resolved_rows

LABEL = ("n_gpus", "seq_len", "precision", "tp", "pp", "cp", "ep", "vp", "micro_batch", "grad_accum")


def measured_step_s(row: dict[str, str], resolved: ResolvedCase) -> float | None:
    """Return the seconds of one step of the resolved batch, from whichever speed the row states."""
    batch = resolved.candidate.global_batch
    if row["step_time_s"] and resolved.batch_stated:
        return float(row["step_time_s"])
    if row["tokens_per_s_per_gpu"] and isinstance(resolved.workload, Workload):
        return batch * resolved.workload.sequence_length / float(row["tokens_per_s_per_gpu"]) / resolved.gpus
    if row["samples_per_s"]:
        return batch / float(row["samples_per_s"])
    return None


def items(*paths: Path) -> list[Item]:
    """Return every transformer run with a known layout and a measured speed, by default of all tables."""
    collected = []
    for row, resolved in resolved_rows(*paths):
        if not isinstance(resolved.job, TransformerJob):
            continue
        measured = measured_step_s(row, resolved)
        if measured is None or measured <= 0:
            continue
        shown = (f"{column} {row[column]}" for column in LABEL if row[column])
        label = " ".join((row["case_id"], row["model"][:24], row["gpu"], *shown))
        collected.append(
            Item(
                f"{row['source_id']}/{kind_of(resolved.workload.model)}",
                _prediction(resolved),
                measured,
                label,
                f"{kind_of(resolved.workload.model)}-catalogue",
                resolved.software,
                resolved.cluster.gpu or "",
            )
        )
    return collected


def _prediction(resolved: ResolvedCase) -> Callable[[], float | None]:
    def predicted() -> float | None:
        assert isinstance(resolved.job, TransformerJob)
        # A job contains the lengths of samples, which are fitted too.
        time = step_time(transformer_job(*resolved.job[:4]))
        return None if isinstance(time, Unknown) else cast("float", time.total)

    return predicted


def main() -> None:
    options = arguments(__doc__)
    runs = items()
    values, _ = fitted(runs, "time.", options)
    if options.write:
        write_values(values)


if __name__ == "__main__":
    main()
