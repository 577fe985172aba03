"""How far predictions of published runs were off: the interval around a figure that nobody has measured yet.

The rows `interval.*` are quantiles of the ratio measured / predicted, over runs whose sources were not used
for the fit (`tests/calibration/`). 8 of 10 runs lie between `low` and `high` times the prediction.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from recipes.job.workload import TransformerModel, VisionModel
from recipes.predict.parameters import parameter

Kind = Literal["dense", "moe", "encoder", "cnn"]
Rates = Literal["catalogue", "measured"]
"""Whether the machine's rates are those of its kind or were measured on it."""


def kind_of(model: TransformerModel | VisionModel) -> Kind:
    """Return the kind under which the step-time interval of this model is listed."""
    if isinstance(model, VisionModel):
        return "cnn"
    if model.is_moe:
        return "moe"
    return "encoder" if model.kind == "encoder" else "dense"


class Interval(NamedTuple):
    """Factors on a prediction."""

    low: float
    high: float


def time_interval(kind: Kind, rates: Rates) -> Interval:
    """Return the interval around the time of a step."""
    return Interval(
        *(parameter(f"interval.step_time_{end}", f"{kind}-{rates}", rates, kind) for end in ("low", "high"))
    )


def memory_interval(figure: str) -> Interval:
    """Return the interval around a figure of peak memory: `allocated`, `reserved` or `device`.

    The interval holds for the software that `recipes/data/stacks.toml` lists.
    """
    return Interval(*(parameter(f"interval.peak_memory_{end}", figure) for end in ("low", "high")))
