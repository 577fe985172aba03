"""Software and GPUs that the fits of the models have seen; the error on others is larger."""

import functools
from typing import Literal

from probes.base.record import StrictRecord
from probes.base.rows import load_rows
from recipes.predict.stacks import ADAPTERS, REFERENCE, UNKNOWN

Familiarity = Literal["seen-seen", "seen-unseen", "unseen-seen", "unseen-unseen"]
"""Software and GPU of a job, each seen or unseen in the data of a fit."""
Fitted = Literal["time", "memory"]

OWN_LOOPS = frozenset({UNKNOWN, ADAPTERS})
"""Stacks for training loops that people write themselves: such loops differ in their use of memory."""


class FittedRuns(StrictRecord, kw_only=True):
    """Published runs that a model was fitted to."""

    id: Fitted
    software: tuple[str, ...]
    gpus: tuple[str, ...]
    source: str
    date: str


@functools.lru_cache(maxsize=1)
def load_fitted() -> dict[str, FittedRuns]:
    """Return all rows of `recipes/data/fitted.toml` by id."""
    return {row.id: row for row in load_rows("recipes", "fitted", FittedRuns)}


def familiarity(figure: Fitted, software: str, gpu: str) -> Familiarity:
    """Return whether the fit of a figure has seen the software and the GPU of a run.

    `software` is the id of a stack; blank if no row has the name of the software. `gpu` is blank for a GPU
    outside the catalogue. rigtune's reference workload counts as seen, because its memory is computed tensor
    by tensor.
    """
    row = load_fitted()[figure]
    return of_sets(figure, software, gpu, software_seen={REFERENCE, *row.software}, gpus_seen={*row.gpus})


def of_sets(
    figure: Fitted, software: str, gpu: str, *, software_seen: set[str], gpus_seen: set[str]
) -> Familiarity:
    """Return the familiarity of a run with these sets of software and GPUs."""
    knows_software = software in software_seen and not (figure == "memory" and software in OWN_LOOPS)
    if gpu in gpus_seen:
        return "seen-seen" if knows_software else "unseen-seen"
    return "seen-unseen" if knows_software else "unseen-unseen"
