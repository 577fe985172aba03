"""The known-good batch and learning rate from which a job starts, and their published recipe."""

from typing import NamedTuple

import msgspec

from probes.base.errors import UsageError
from probes.base.nearest import did_you_mean
from probes.base.record import quoted
from probes.base.units import count
from recipes.job.models.counts import parameter_count
from recipes.job.training_recipes import TrainingRecipe, load_training_recipes, nearest, pretraining_recipe
from recipes.job.workload import AnyWorkload, Optimizer, VisionWorkload, Workload
from recipes.machine.cluster_records import Basis
from recipes.settings.setting import Stated


class Known(NamedTuple):
    """A learning rate that is known to be good at a batch."""

    recipe: TrainingRecipe
    """The published recipe, with the known rate and batch."""
    published: TrainingRecipe
    """The recipe with its own rate and batch, to which warm-up and weight decay belong."""
    basis: Basis
    owner: str
    """Owner of the recipe in words: `the published recipe`, `borrowed from X` or `your own run`."""
    rate_of: str
    """Optimizer to which the rate belongs."""


def known_for(
    workload: AnyWorkload,
    stated: Stated,
    programs: tuple[str, ...] = (),
    *,
    batch: float = 0.0,
) -> Known:
    """Return the known rate and batch of the user, of the recipe that the user named, or of a fitting recipe.

    `programs` are names of the training software, whose examples come first in fine-tuning. `batch` chooses
    between recipes of the same size; 0 if the batch is open. Raises UsageError for an unknown recipe, for a
    recipe of another task, and if the user states a known rate, batch or width without both rate and batch.
    """
    known = _named(workload, stated.training_recipe) if stated.training_recipe else None
    if known is None:
        recipe, is_own = _fitting(workload, programs, batch)
        owner = "the published recipe" if is_own else f"borrowed from {recipe.model}"
        basis: Basis = "published" if is_own else "borrowed"
        known = Known(recipe, recipe, basis, owner, recipe.optimizer)
    if stated.known_rate is None and stated.known_batch is None and stated.known_width is None:
        return known
    if stated.known_rate is None or stated.known_batch is None:
        raise UsageError(
            "only a part of a known learning rate is given",
            "give both --known-batch SAMPLES and --known-lr RATE; --known-width is only for muP",
        )
    # The published limits of a recipe belong to its own pair.
    recipe = msgspec.structs.replace(
        known.recipe,
        learning_rate=stated.known_rate,
        batch=float(stated.known_batch),
        batch_in="samples",
        largest_batch=0.0,
        scaling="",
    )
    return Known(recipe, known.recipe, "user", "your own run", workload.optimizer)


def _named(workload: AnyWorkload, name: str) -> Known:
    rows = load_training_recipes()
    if name not in rows:
        hint = did_you_mean(name, rows, cutoff=0.6) or "see `rigtune list training-recipes`"
        raise UsageError(f"there is no training recipe {quoted(name)}", hint)
    recipe = rows[name]
    if _task(workload) != _task_of(recipe):
        raise UsageError(
            f"the training recipe {name} is for {_task_of(recipe)}, and the job is {_task(workload)}",
            "choose one with `rigtune list training-recipes`, or the job with --task and --tuning",
        )
    is_own = workload.model.id in recipe.models
    owner = "the published recipe" if is_own else f"borrowed from {recipe.model}"
    return Known(recipe, recipe, "published" if is_own else "borrowed", owner, recipe.optimizer)


def _task(workload: AnyWorkload) -> str:
    if isinstance(workload, VisionWorkload):
        return "training on images"
    if workload.tuning != "full":
        return "training of adapters"
    return "fine-tuning" if workload.fine_tuning else "pre-training"


def _task_of(recipe: TrainingRecipe) -> str:
    if recipe.kind == "images":
        return "training on images"
    if recipe.tuning != "full":
        return "training of adapters"
    return "fine-tuning" if recipe.is_fine_tuning else "pre-training"


def optimizer_of(stated: Stated) -> Optimizer | None:
    """Return the optimizer of the recipe that the user named; None if no recipe has this name."""
    recipe = load_training_recipes().get(stated.training_recipe)
    return None if recipe is None else recipe.optimizer


def _fitting(workload: AnyWorkload, programs: tuple[str, ...], batch: float) -> tuple[TrainingRecipe, bool]:
    """Return the recipe for the task, if possible with the optimizer, and whether it is the model's own."""
    if isinstance(workload, Workload) and not _fine_tunes(workload):
        adamw = pretraining_recipe(workload.model)
        special = [
            row
            for row in load_training_recipes().values()
            if not row.is_fine_tuning
            and row.kind == workload.model.kind
            and row.optimizer == workload.optimizer
        ]
        if workload.optimizer != "adamw" and special:
            return _best(special, workload, batch)
        return _of_model(adamw, workload)
    if isinstance(workload, VisionWorkload):
        rows = [row for row in load_training_recipes().values() if row.kind == "images"]
        suited = [row for row in rows if row.optimizer == workload.optimizer]
        return _best(suited or [row for row in rows if row.optimizer == "adamw"], workload, batch)
    rows = [
        row
        for row in load_training_recipes().values()
        if row.is_fine_tuning and row.tuning == workload.tuning
    ]
    rows = [row for row in rows if row.kind == workload.model.kind] or rows
    rows = [row for row in rows if row.optimizer == workload.optimizer] or rows
    theirs = [row for row in rows if row.program and row.program in programs]
    return _best(theirs or rows, workload, batch, with_programs=bool(theirs))


def _fine_tunes(workload: Workload) -> bool:
    return workload.fine_tuning or workload.tuning != "full"


def _best(
    rows: list[TrainingRecipe], workload: AnyWorkload, batch: float, *, with_programs: bool = False
) -> tuple[TrainingRecipe, bool]:
    own = [row for row in rows if workload.model.id in row.models]
    size = (
        workload.model.parameters if isinstance(workload, VisionWorkload) else parameter_count(workload.model)
    )
    borrowed = [row for row in rows if row.is_fallback or with_programs]
    return nearest(own or borrowed or rows, size, batch), bool(own)


def _of_model(recipe: TrainingRecipe, workload: Workload) -> tuple[TrainingRecipe, bool]:
    """Return the recipe with the rate and the batch of the model's own data, if they differ."""
    model = workload.model
    is_own = not model.learning_rate_from
    pair = model.learning_rate, model.learning_rate_batch_tokens
    if pair == (recipe.learning_rate, recipe.batch_tokens):
        return recipe, is_own
    recipe = msgspec.structs.replace(
        recipe,
        model=model.learning_rate_from or model.title,
        batch_in="tokens",
        batch=float(model.learning_rate_batch_tokens),
        learning_rate=model.learning_rate,
        source=model.source,
    )
    return recipe, is_own


def in_unit_of(recipe: TrainingRecipe, workload: AnyWorkload) -> float:
    """Return the batch of a job in the unit of a recipe's batch."""
    if recipe.batch_in == "tokens" and isinstance(workload, Workload):
        return float(workload.tokens_per_step)
    return float(workload.global_batch)


def batch_words(recipe: TrainingRecipe, batch: float) -> str:
    """Return a batch in the unit of a recipe, as in `256 sequences`."""
    unit = "images" if recipe.kind == "images" else "tokens" if recipe.batch_in == "tokens" else "sequences"
    return f"{count(round(batch))} {unit}"


def usual_samples(known: Known, sequence_length: int, stated: Stated) -> float:
    """Return the samples per step of a job whose batch is open: the noise scale, or the known batch."""
    if stated.noise_scale is not None:
        return stated.noise_scale
    recipe = known.recipe
    return recipe.batch / sequence_length if recipe.batch_in == "tokens" else recipe.batch
