"""The batch beyond which more samples per step help little: measured, or by published scaling laws."""

import functools
from collections.abc import Iterator
from typing import Literal, NamedTuple

from probes.base.record import StrictRecord
from probes.base.rows import load_rows
from probes.base.units import count
from recipes.constants import constant
from recipes.job.models.counts import parameter_count
from recipes.job.workload import AnyWorkload, TransformerModel, VisionWorkload, Workload
from recipes.machine.cluster_records import Basis, Cluster
from recipes.settings.recipe_choice import Known, batch_words, in_unit_of
from recipes.settings.setting import Setting, Stated

_FLOPS_PER_PARAMETER_AND_TOKEN = 6.0
"""FLOPs of training for each parameter and token (Kaplan 2020, arXiv 2001.08361, section 2.1)."""


class BatchLaw(StrictRecord, kw_only=True):
    """A published power law of the batch: `factor` (argument / `per`)^`exponent` tokens per step."""

    id: str
    kind: Literal["critical", "best"]
    """`critical`: more samples per step help little beyond this batch. `best`: lowest loss."""
    of: Literal["parameters", "tokens", "flops"]
    """Argument of the law: parameters of the model, tokens of the run, or FLOPs of the run."""
    factor: float
    per: float
    exponent: float
    valid_from: float
    valid_to: float
    source: str
    date: str
    checked: bool

    def batch_tokens(self, argument: float) -> float:
        """Return the batch in tokens per step."""
        return float(self.factor * (argument / self.per) ** self.exponent)

    def covers(self, argument: float) -> bool:
        """Return whether the law was fitted to runs of this size."""
        return self.valid_from <= argument <= self.valid_to


class CriticalBatch(NamedTuple):
    """The range of the published laws, or a measured noise scale, in tokens (or samples) per step."""

    low: float
    high: float
    words: str
    per_sample: int
    """Tokens of a sample; 1 for images."""


@functools.lru_cache(maxsize=1)
def load_batch_laws() -> dict[str, BatchLaw]:
    """Return all rows of `recipes/data/batch_laws.toml` by id."""
    return {row.id: row for row in load_rows("recipes", "batch_laws", BatchLaw)}


def critical_batch(workload: AnyWorkload, stated: Stated) -> CriticalBatch | None:
    """Return the batch beyond which more samples help little, in tokens; in samples for images.

    A measured noise scale has priority. The published laws are only for pre-training of decoders; without a
    noise scale, the result is None for other jobs. The laws of tokens and FLOPs need the length of the run.
    """
    per_sample = workload.sequence_length if isinstance(workload, Workload) else 1
    if stated.noise_scale is not None:
        scale = stated.noise_scale * per_sample
        return CriticalBatch(scale, scale, "the gradient noise scale that you measured", per_sample)
    if isinstance(workload, VisionWorkload) or workload.fine_tuning or workload.model.kind != "decoder":
        return None
    given = list(_laws(workload.model, stated.tokens))
    batches = [law.batch_tokens(argument) for law, argument in given]
    names = ", ".join(law.source.partition(":")[0] for law, _ in given)
    outside = [law.id for law, argument in given if not law.covers(argument)]
    words = f"published laws ({names}), known within a factor of 2 to 4"
    if outside:
        words += f"; outside the range of {', '.join(outside)}"
    return CriticalBatch(min(batches), max(batches), words, per_sample)


def _laws(model: TransformerModel, tokens: float | None) -> Iterator[tuple[BatchLaw, float]]:
    """Yield each law whose argument is known, with the argument."""
    size = float(parameter_count(model))
    arguments = {"parameters": size}
    if tokens is not None:
        flops = _FLOPS_PER_PARAMETER_AND_TOKEN * size * tokens
        arguments = {"parameters": size, "tokens": tokens, "flops": flops}
    for law in load_batch_laws().values():
        if law.of in arguments:
            yield law, arguments[law.of]


def _why_another_batch(workload: AnyWorkload, known: Known, stated: Stated) -> str:
    """Return why an open batch is not the one of the recipe."""
    if isinstance(workload, Workload) or known.basis == "user" or stated.training_recipe:
        return "the nearest batch that all ranks can share"
    least, each = round(constant("image_batch")), round(constant("image_images_per_rank"))
    most = known.recipe.largest_batch
    limit = f", up to the {count(round(most))} that lose no accuracy" if most else ""
    return f"usual are {least} images, on large machines {each} per rank{limit}"


def batch_setting(workload: AnyWorkload, cluster: Cluster, known: Known, stated: Stated) -> Setting:
    """Return the decision about the global batch.

    The reason names the recipe's batch and, if one was measured, the gradient noise scale.
    """
    recipe = known.recipe
    own = batch_words(recipe, in_unit_of(recipe, workload)) if recipe.batch_in == "tokens" else ""
    why = f"{own} per step; " if own else ""
    theirs = {"published": "the published recipe", "user": "your own run"}.get(
        known.basis, f"the recipe {known.owner}"
    )
    why += f"{theirs} has {batch_words(recipe, recipe.batch)}"
    is_open = not stated.batch_is_given and stated.noise_scale is None
    if is_open and in_unit_of(recipe, workload) != recipe.batch:
        why += f"; {_why_another_batch(workload, known, stated)}"
    if stated.noise_scale is not None:
        why += f"; the gradient noise scale that you measured is {count(round(stated.noise_scale))} samples"
    noise = cluster.noise_scale_sequences
    if noise is not None and noise.value > 0 and stated.noise_scale is None:
        # The noise scale grows while the loss falls (arXiv 1812.06162, section 4), so a batch above the scale
        # is not an error.
        times = f"{workload.global_batch / noise.value:.2g} times the gradient noise scale of your step"
        measured = f"measured at the start of its training ({count(noise.value)} sequences, {noise.source})"
        least = "Beyond that scale, each further sample helps less (arXiv 1812.06162)"
        why += f". The batch is {times}, {measured}. {least}"
    basis: Basis = "rule"
    if stated.batch_is_given:
        basis = "user"
    elif stated.noise_scale is not None:
        basis = "measured"
    elif in_unit_of(recipe, workload) == recipe.batch:
        basis = known.basis
    return Setting(name="global_batch", text=str(workload.global_batch), basis=basis, because=why)
