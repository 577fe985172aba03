"""Fit the time model of image models to published training runs.

    python tests/calibration/fit_vision.py [--write] [--as-is] [--leave-one-out] [--worst N]

It reads `training_open.csv` and `training_open_2.csv` in the folder `data` of $RIGTUNE_SHARED (by default
`../shared`), if they exist, and `published_runs.csv` beside this file.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import msgspec

from probes.base.record import Unknown
from recipes.cases.resolved_case import ResolvedCase
from recipes.predict.speed.image_speed import vision_time
from recipes.predict.training_job import ImageJob
from tests.calibration.fitting import Item, write_values
from tests.calibration.runs import arguments, fitted, resolved_rows


def items(*paths: Path) -> list[Item]:
    """Return every run of an image model whose speed was measured, by default of all tables."""
    collected = []
    for row, resolved in resolved_rows(*paths):
        if not row["samples_per_s"] or not isinstance(resolved.job, ImageJob):
            continue
        measured = resolved.candidate.global_batch / float(row["samples_per_s"])
        label = f"{row['case_id']} {row['model'][:24]} {row['gpu']} x{row['n_gpus']} {row['precision']}"
        label += f" mb{row['micro_batch']}"
        # Rounds of MLPerf are of the same submitters with the same code.
        source = row["source_id"].replace("mlperf-v2.1", "mlperf").replace("mlperf-v4.0", "mlperf")
        collected.append(
            Item(
                source,
                _prediction(_with_stated_kernels(resolved, row)),
                measured,
                f"{label} {row['samples_per_s']}/s",
                "cnn-catalogue",
                resolved.software,
                resolved.cluster.gpu or "",
            )
        )
    return collected


_STATED: dict[str, dict[str, object]] = {
    "nchw": {"layout": "first"},
    "lambdal/deeplearning-benchmark": {"layout": "first"},
    "nhwc": {"layout": "last"},
    "pytorch/classification": {"layout": "last"},
    "tensorflow/classification": {"layout": "last"},
    "mxnet/classification": {"layout": "last", "fuses_half_images": True},
    "paddlepaddle/classification": {"layout": "last", "fuses_half_images": True},
}
"""Kernels by words in the title or address of a table; published commands and configurations state them."""


def _with_stated_kernels(resolved: ResolvedCase, row: dict[str, str]) -> ResolvedCase:
    """Return the case with the kernels that its table names, for which a case has no column."""
    source = f"{row['source_url']} {row['source_location']}".lower()
    changes: dict[str, Any] = next((fields for words, fields in _STATED.items() if words in source), {})
    stack = msgspec.structs.replace(resolved.stack, **changes)
    return msgspec.structs.replace(resolved, job=resolved.job._replace(stack=stack))


def _prediction(resolved: ResolvedCase) -> Callable[[], float | None]:
    def predicted() -> float | None:
        assert isinstance(resolved.job, ImageJob)
        time = vision_time(resolved.job)
        return None if isinstance(time, Unknown) else cast("float", time.total)

    return predicted


def main() -> None:
    options = arguments(__doc__)
    values, _ = fitted(items(), "vision.", options)
    if options.write:
        write_values(values)


if __name__ == "__main__":
    main()
