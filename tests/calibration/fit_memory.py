"""Fit the memory model's figures to published peaks, and report how often it predicts rightly which runs fit.

python tests/calibration/fit_memory.py [--write] [--leave-one-out] [--as-is] [--worst N]

It reads `training_open.csv` and `training_open_2.csv` in the folder `data` of $RIGTUNE_SHARED (by default
`../shared`), if they exist, and `published_runs.csv` beside this file.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from probes.base.units import GIB
from recipes.cases.resolved_case import ResolvedCase
from recipes.predict.memory.peak import figure_bytes, memory_of
from recipes.predict.training_job import TransformerJob
from tests.calibration.fitting import Item, write_values
from tests.calibration.runs import arguments, fitted, resolved_rows

FIGURES = ("allocated", "reserved", "device")


def transformer_rows(*paths: Path) -> list[tuple[dict[str, str], ResolvedCase]]:
    """Return every row about a transformer whose case resolves, by default of all tables."""
    return [
        (row, resolved) for row, resolved in resolved_rows(*paths) if isinstance(resolved.job, TransformerJob)
    ]


def measured_peaks(rows: list[tuple[dict[str, str], ResolvedCase]]) -> list[Item]:
    """Return the runs whose peak was published."""
    collected = []
    for row, resolved in rows:
        if row["peak_mem_gib"] and row["oom"] != "true":
            figure = (
                row["memory_figure"]
                if row["memory_figure"] in FIGURES
                else resolved.stack.memory.logged_figure
            )
            label = f"{row['case_id']} {row['model'][:24]} {row['task']} {row['precision']} {row['sharding']}"
            label += f" x{row['n_gpus']}"
            shape = f"s{row['seq_len']} b{row['micro_batch']} {row['activation_checkpointing']} {figure}"
            collected.append(
                Item(
                    row["source_id"],
                    _peak(row, resolved),
                    float(row["peak_mem_gib"]),
                    f"{label} {shape}",
                    figure,
                    resolved.software,
                    resolved.cluster.gpu or "",
                )
            )
    return collected


def _peak(row: dict[str, str], resolved: ResolvedCase) -> Callable[[], float | None]:
    def predicted() -> float | None:
        assert isinstance(resolved.job, TransformerJob)
        memory = memory_of(resolved.job)
        return figure_bytes(memory, row["memory_figure"]) / GIB

    return predicted


def right_about_fitting(rows: list[tuple[dict[str, str], ResolvedCase]]) -> dict[bool, list[bool]]:
    """Return whether predictions were right: of runs that ran (True), of runs that lacked memory (False)."""
    said: dict[bool, list[bool]] = {True: [], False: []}
    for row, resolved in rows:
        if row["oom"] not in ("true", "false"):
            continue
        assert isinstance(resolved.job, TransformerJob)
        memory = memory_of(resolved.job)
        fits, ran = resolved.fits(memory), row["oom"] == "false"
        if fits is not None:
            said[ran].append(fits == ran)
    return said


def main() -> None:
    options = arguments(__doc__)
    rows = transformer_rows()
    peaks = measured_peaks(rows)
    values, _ = fitted(peaks, "memory.", options)
    for ran, right in right_about_fitting(rows).items():
        print(
            f"{'ran, as predicted' if ran else 'out of memory, as predicted'}: {sum(right)} of {len(right)}"
        )
    if options.write:
        write_values(values)


if __name__ == "__main__":
    main()
