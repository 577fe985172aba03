"""Predict each point of aiconfigurator's tables of matrix products and collectives from the other points.

The published rows are points of these tables, so each point is left out before it is predicted. The error shows
how accurate interpolation in a dense table of measurements can be. It is a bound on the accuracy of models, not an error of
aiconfigurator's predictions of training runs.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

from lines import NOT_INSTALLED, CannotSayError, need, serve

try:
    import importlib.metadata

    import aiconfigurator_core
    import numpy as np
    import pandas as pd
except ImportError:
    sys.exit(NOT_INSTALLED)

SYSTEMS = Path(aiconfigurator_core.__file__).parent / "systems"
TYPES = {"bf16": "bfloat16", "fp8": "fp8"}
OPERATIONS = {"all_to_all": "alltoall"}
HALF_BYTES = 2
NEIGHBOURS = 4


@functools.cache
def table(path: str) -> pd.DataFrame:
    file = (SYSTEMS / path).resolve()
    if SYSTEMS not in file.parents or not file.is_file():
        raise CannotSayError("a table that this version does not have")
    return pd.read_parquet(file)


@functools.cache
def products(path: str, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Return sizes (m, n, k) and seconds; seconds are medians over the kernels of a size."""
    rows = table(path)
    rows = rows[rows.gemm_dtype == dtype].groupby(["m", "n", "k"], as_index=False).latency.median()
    return rows[["m", "n", "k"]].to_numpy(dtype=float), rows.latency.to_numpy() / 1e3


def answer(question: dict[str, Any]) -> dict[str, Any]:
    return product(question) if question["kind"] == "product" else collective(question)


def product(question: dict[str, Any]) -> dict[str, Any]:
    """Return the seconds by the rates of the nearest sizes, weighted by their distance in powers of two."""
    sizes, seconds = products(question["table"], TYPES[question["precision"]])
    asked = np.array([question["m"], question["n"], question["k"]], dtype=float)
    others = (sizes != asked).any(axis=1)
    need(holds=others.sum() >= NEIGHBOURS, otherwise="too few points")
    sizes, seconds = sizes[others], seconds[others]
    distance = np.abs(np.log2(sizes / asked)).sum(axis=1)
    nearest = np.argsort(distance)[:NEIGHBOURS]
    rates = np.log(sizes[nearest].prod(axis=1) / seconds[nearest])
    rate = np.exp(np.average(rates, weights=1 / distance[nearest] ** 2))
    return {"seconds": float(asked.prod() / rate)}


def collective(question: dict[str, Any]) -> dict[str, Any]:
    """Return the seconds between the next smaller and the next larger message, linear in the logarithms."""
    rows = table(question["table"])
    operation = OPERATIONS.get(question["collective"], question["collective"])
    rows = rows[
        (rows.op_name == operation) & (rows.num_gpus == question["gpus"]) & (rows.nccl_dtype == "half")
    ]
    points = rows.groupby("message_size").latency.median()
    points.index *= HALF_BYTES
    points = points[points.index != question["bytes"]]
    below, above = points[points.index < question["bytes"]], points[points.index > question["bytes"]]
    need(holds=len(below) > 0 and len(above) > 0, otherwise="the ends of a table")
    ends = [below.index[-1], above.index[0]]
    seconds = np.exp(
        np.interp(
            np.log(question["bytes"]), np.log(ends), np.log([below.iloc[-1] / 1e3, above.iloc[0] / 1e3])
        )
    )
    return {"seconds": float(seconds)}


serve(answer, importlib.metadata.version("aiconfigurator"))
