"""Published training recipes, by task and size. To add a recipe, add a row to `data/training_recipes/`."""

import functools
import math
from collections.abc import Iterable
from typing import Literal

from probes.base.record import StrictRecord
from probes.base.rows import load_rows
from recipes.job.workload import Optimizer, TransformerModel, Tuning

RateSchedule = Literal["cosine", "linear", "constant", "wsd", "step", "polynomial"]
"""Course of the learning rate after the warm-up.

`wsd` (warm-up, stable, decay) is constant until the last part of the run. `step` falls at fixed points.
"""
RecipeKind = Literal["decoder", "encoder", "encoder-decoder", "images"]


class TrainingRecipe(StrictRecord, kw_only=True):
    """Published batch and learning rate, with the settings that belong to them."""

    id: str
    model: str
    """Model that was trained, in words."""
    models: tuple[str, ...] = ()
    """Ids of the presets whose own recipe this is."""
    is_fallback: bool = False
    """True if models without a recipe of their own may borrow this recipe."""
    kind: RecipeKind
    tuning: Tuning = "full"
    is_fine_tuning: bool = False
    program: str = ""
    """Training software whose example this is; empty for the recipe of a paper."""
    parameters: float
    optimizer: Optimizer
    batch: float
    batch_in: Literal["tokens", "samples"]
    sequence_length: int = 0
    """Tokens of a sequence; 0 if the recipe does not depend on it."""
    largest_batch: float = 0.0
    """Largest batch to which the publication scales the rate, in the unit of `batch`; 0 if it states none."""
    learning_rate: float
    scaling: Literal["", "linear"] = ""
    """Scaling with the batch, where the publication differs from the usual rule of the optimizer."""
    warmup: float
    warmup_in: Literal["steps", "samples", "tokens", "share"]
    keeps_warmup_steps: bool = False
    """True if other batches keep the number of warm-up steps; False if they keep the number of samples."""
    longest_warmup: float = 0.1
    """Largest part of a run that the warm-up may take."""
    schedule: RateSchedule
    final_share: float = 0.0
    """Learning rate at the end of the run, relative to its peak."""
    decay_share: float = 0.0
    """Part of the run in which the rate falls, for `wsd`."""
    beta1: float
    """First decay of Adam; the momentum of SGD and LARS."""
    beta2: float = 0.0
    """Second decay of Adam; 0 for optimizers without one."""
    weight_decay: float = 0.0
    gradient_clipping: float = 0.0
    """Largest norm of the gradient; 0 if gradients are not clipped."""
    ramp_from: float = 0.0
    """Batch with which the run begins, in tokens; 0 if the batch is constant."""
    ramp_low: float = 0.0
    """Smallest number of tokens after which the batch has its full size."""
    ramp_high: float = 0.0
    """Largest number of tokens after which the batch has its full size."""
    source: str
    date: str
    checked: bool
    """True if the row was compared with its source."""

    @property
    def citation(self) -> str:
        """The source without its details, which follow a colon."""
        return self.source.partition(": ")[0]

    @property
    def batch_tokens(self) -> int:
        """Tokens per step at the published sequence length."""
        return round(self.batch * (self.sequence_length if self.batch_in == "samples" else 1))


@functools.lru_cache(maxsize=1)
def load_training_recipes() -> dict[str, TrainingRecipe]:
    """Return all rows of `recipes/data/training_recipes/` by id."""
    rows = load_rows("recipes", "training_recipes", TrainingRecipe)
    return {row.id: row for row in rows}


def pretraining_recipe(model: TransformerModel) -> TrainingRecipe:
    """Return the recipe for pre-training this model with AdamW.

    It is the model's own recipe; else that of the model from which its rate was taken
    (`learning_rate_from`); else, among the recipes of its kind that models may borrow, the nearest in size.
    """
    rows = [
        row
        for row in load_training_recipes().values()
        if not row.is_fine_tuning and row.optimizer == "adamw" and row.kind == model.kind
    ]
    return (
        next((row for row in rows if model.id in row.models), None)
        or next((row for row in rows if row.model == model.learning_rate_from), None)
        or nearest((row for row in rows if row.is_fallback), matrix_parameters(model))
    )


def matrix_parameters(model: TransformerModel) -> float:
    """Return the parameters of a plain transformer of this depth and width, without embeddings."""
    return 12.0 * (model.layers + model.encoder_layers) * model.hidden**2


def nearest(rows: Iterable[TrainingRecipe], parameters: float, batch: float = 0.0) -> TrainingRecipe:
    """Return the row nearest in size; if several are equally near, the one whose batches are nearest.

    A `batch` of 0 means that the batch is unknown; then the first of these rows is returned.
    """

    def distance(row: TrainingRecipe) -> tuple[float, float]:
        size = abs(math.log(row.parameters / max(parameters, 1.0)))
        inside = min(max(batch, row.batch), max(row.batch, row.largest_batch))
        return round(size, 6), abs(math.log(inside / batch)) if batch else 0.0

    return min(rows, key=distance)
