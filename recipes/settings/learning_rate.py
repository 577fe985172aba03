"""Learning rate and warm-up: rules that transfer a known rate to another batch, optimizer and width."""

import functools
import math

from probes.base.errors import UsageError
from probes.base.record import StrictRecord
from probes.base.rows import load_rows
from probes.base.units import count, plural
from recipes.job.training_recipes import TrainingRecipe
from recipes.job.workload import AnyWorkload, Optimizer, VisionWorkload, Workload
from recipes.machine.cluster_records import Basis
from recipes.settings.critical_batch import CriticalBatch
from recipes.settings.recipe_choice import Known, batch_words, in_unit_of
from recipes.settings.setting import Setting, Stated

_FEWEST_WARMUP_STEPS = 200
"""Minimum number of warm-up steps at a larger batch than the published one.

2 / (1 - beta2) is only 40 for a beta2 of 0.95, but recipes use at least a few hundred steps.
"""
_CLEARLY = 1.1
"""Ratio from which a batch is clearly beyond a limit that is known within a factor of 2 at best."""
_LARGER = 1.001
"""Ratio above which two batches or numbers of steps differ, because published ones are rounded."""


class OptimizerRule(StrictRecord, kw_only=True):
    """Rule that carries a learning rate to another batch or width, or to this optimizer from AdamW."""

    id: Optimizer
    exponent: float
    """Power of the ratio of the batches."""
    rate_of_adamw: float = 0.0
    """Learning rate relative to AdamW's; 0 if no factor was published."""
    decay_of_adamw: float = 0.0
    """Weight decay relative to AdamW's; 0 if no factor was published."""
    beta1: float = 0.0
    """First decay (or momentum) to use if the recipe had another optimizer; 0 keeps the recipe's value."""
    beta2: float = 0.0
    """Second decay to use if the recipe had another optimizer; 0 keeps the recipe's value."""
    width_exponent: float
    """Power of the ratio of widths under muP; -1 if muP has no rule."""
    source: str
    date: str
    checked: bool


@functools.lru_cache(maxsize=1)
def load_optimizer_rules() -> dict[str, OptimizerRule]:
    """Return all rows of `recipes/data/optimizer_rules.toml` by optimizer."""
    return {row.id: row for row in load_rows("recipes", "optimizer_rules", OptimizerRule)}


def learning_rate(
    workload: AnyWorkload, known: Known, stated: Stated, limit: CriticalBatch | None = None
) -> Setting:
    """Return the peak learning rate at the job's batch.

    The known rate grows with a power of the ratio of the batches: 1 for SGD (Goyal 2017, arXiv 1706.02677),
    1/2 for adaptive optimizers (Malladi 2022, arXiv 2205.10287). It is not raised beyond the largest
    published batch, or, without one, beyond the larger of the known batch and the critical batch `limit`;
    without a limit it is raised at any batch. Raises UsageError if no published rule transfers a rate to the
    optimizer or to the width.
    """
    recipe, optimizer = known.recipe, workload.optimizer
    batch = in_unit_of(recipe, workload)
    where = batch_words(recipe, recipe.batch)
    because = f"{known.owner}: {recipe.learning_rate:g} at {where} per step"
    because += "" if known.basis == "user" else f" ({recipe.citation})"
    factor, words = _of_optimizer(known, optimizer, workload.model.id)
    basis: Basis = known.basis if not words else "rule"
    because += words
    exponent, name, source = _scaling(recipe, optimizer)
    ceiling = _ceiling(recipe, limit)
    warning = ""
    if not 1 / _LARGER <= batch / recipe.batch <= _LARGER:
        basis = "rule"
        ratio = f"{count(round(batch))} / {count(round(recipe.batch))}"
        because += f", times {f'sqrt({ratio})' if exponent == 0.5 else ratio} for {name} ({source})"
        factor *= (min(batch, ceiling) / recipe.batch) ** exponent
        if batch > ceiling * _LARGER:
            because += f", capped at a batch of {batch_words(recipe, ceiling)}"
            # A batch that is rounded so that the ranks can share it is not a reason to warn.
            warning = _beyond(recipe, batch, ceiling, limit) if batch > ceiling * _CLEARLY else ""
        elif recipe.is_fine_tuning:
            warning = (
                f"the rate for {batch_words(recipe, batch)} per step is outside of what the recipe shows "
                f"({where}): the rules for other batches come from pre-training"
            )
    wide, words = _of_width(workload, stated)
    because += words
    value = float(f"{recipe.learning_rate * factor * wide:.3g}")
    return Setting(
        name="learning_rate",
        value=value,
        text=f"{value:g}",
        basis="rule" if words else basis,
        because=because,
        warning=warning,
        source=recipe.source,
    )


def _scaling(recipe: TrainingRecipe, optimizer: Optimizer) -> tuple[float, str, str]:
    """Return the power of the ratio of the batches, the rule's name, and its source."""
    rule = load_optimizer_rules().get(optimizer)
    title = {"sgd": "SGD", "adamw": "AdamW"}.get(optimizer, optimizer.upper())
    if recipe.scaling == "linear":
        return (
            load_optimizer_rules()["sgd"].exponent,
            f"{title}, as published",
            recipe.citation,
        )
    if rule is None:
        raise UsageError(
            f"nobody published how the learning rate of {optimizer} changes with the batch",
            "give --learning-rate, or the batch of your known rate as --global-batch",
        )
    return rule.exponent, title, rule.source.partition(":")[0].partition(";")[0]


def _of_optimizer(known: Known, optimizer: Optimizer, model: str) -> tuple[float, str]:
    """Return the factor that converts the known rate to the job's optimizer, and its reason in words.

    Raises UsageError if nobody published the factor.
    """
    if known.rate_of == optimizer:
        return 1.0, ""
    rules = load_optimizer_rules()
    new, old = (rules[name].rate_of_adamw if name in rules else 0.0 for name in (optimizer, known.rate_of))
    if not new or not old:
        raise UsageError(
            f"nobody published a learning rate for {model} with {optimizer}: {known.recipe.model} was "
            f"trained with {known.rate_of}",
            f"train with --optimizer {known.rate_of}, or give --learning-rate, or a pair that you know with "
            "--known-batch and --known-lr",
        )
    factor = new / old
    source = rules[optimizer].source
    return factor, f", times {factor:g} from {known.rate_of} to {optimizer} ({source})"


def _ceiling(recipe: TrainingRecipe, limit: CriticalBatch | None) -> float:
    """Return the largest batch to which the rate may be raised, in the unit of the recipe."""
    if recipe.largest_batch:
        return recipe.largest_batch
    if limit is None:
        return math.inf
    return max(recipe.batch, limit.high if recipe.batch_in == "tokens" else limit.high / limit.per_sample)


def _beyond(recipe: TrainingRecipe, batch: float, ceiling: float, limit: CriticalBatch | None) -> str:
    """Return the warning about a batch beyond the range of the rule."""
    now, most = batch_words(recipe, batch), batch_words(recipe, ceiling)
    if recipe.largest_batch or limit is None:
        return (
            f"{now} per step are beyond the range of the recipe, which loses no accuracy up to {most} "
            f"({recipe.citation})"
        )
    return (
        f"{now} per step is beyond the critical batch of about {most} "
        f"({limit.words}): more samples per step will teach little more"
    )


def _of_width(workload: AnyWorkload, stated: Stated) -> tuple[float, str]:
    """Return muP's factor from the known width to the model's width, and its reason in words.

    The rate of hidden matrices falls with the width under Adam (Yang 2022, arXiv 2203.03466, table 3). Raises
    UsageError if muP has no rule for the job.
    """
    if stated.known_width is None:
        return 1.0, ""
    rule = load_optimizer_rules().get(workload.optimizer)
    if isinstance(workload, VisionWorkload) or rule is None or rule.width_exponent < 0:
        raise UsageError(
            f"--known-width: muP has no rule for {workload.model.id} with {workload.optimizer}",
            "muP carries the rate of SGD and Adam between widths of a transformer; leave --known-width out",
        )
    hidden = workload.model.hidden
    factor = float((stated.known_width / hidden) ** rule.width_exponent)
    return factor, (
        f", times {factor:.3g} for hidden matrices by muP from width {stated.known_width} to {hidden}, which "
        "needs muP's initialisation, and the same batch, depth and number of tokens (arXiv 2203.03466)"
    )


def warmup_steps(workload: AnyWorkload, known: Known) -> Setting:
    """Return the published warm-up with the same number of samples, or of steps if `keeps_warmup_steps`.

    The result is 0 if the recipe has no warm-up. A warm-up that is published as a share of the run is only
    rounded up. At a larger batch than the published batches, a warm-up that keeps its samples has at least
    2 / (1 - beta2) steps (Ma & Yarats 2019, arXiv 1910.04209) and at least 200; fine-tuning and optimizers
    without beta2 have no such minimum. A warm-up that is not a share of the run takes at most the part of the
    run that the recipe allows, by default a tenth.
    """
    recipe = known.published
    if not recipe.warmup:
        return _warmup(0, "0", f"{recipe.model} has no warm-up ({recipe.citation})", known)
    published, words = _published_warmup(recipe, workload)
    ratio = in_unit_of(recipe, workload) / recipe.batch
    wanted = published
    if recipe.warmup_in == "share":
        steps = max(1, math.ceil(published))
        return _warmup(steps, str(steps), f"{words} (recipe of {recipe.model})", known)
    if not recipe.keeps_warmup_steps:
        wanted = published / ratio
    because = f"{words} (recipe of {recipe.model})"
    if recipe.keeps_warmup_steps:
        because += ", at any batch"
    elif not 1 / _LARGER <= ratio <= _LARGER:
        because += ", with as many samples at this batch"
    covered = max(1.0, recipe.largest_batch / recipe.batch) * _LARGER
    least = _least_steps(recipe) if ratio > covered and not recipe.keeps_warmup_steps else 0
    if wanted < least:
        wanted = least
        because += f", but at least 2 / (1 - beta2) and {_FEWEST_WARMUP_STEPS} steps (arXiv 1910.04209)"
    steps = math.ceil(round(wanted, 6))
    if recipe.warmup_in != "steps" or wanted != published:
        because += f": {plural(steps, 'step')}"
    most = max(1, int(workload.steps * recipe.longest_warmup))
    if steps > most:
        part = "a tenth" if recipe.longest_warmup == 0.1 else f"{recipe.longest_warmup:.3g}"
        because = (
            f"{part} of the run of {plural(workload.steps, 'step')}, so that the rest trains at the full "
            f"rate; for a longer run: {because}"
        )
        steps = most
    if isinstance(workload, Workload):
        because += f"; {count(steps * workload.tokens_per_step)} tokens"
    return _warmup(steps, str(steps), because, known)


def _warmup(steps: int, text: str, because: str, known: Known) -> Setting:
    basis: Basis = "borrowed" if known.basis == "user" else known.basis
    return Setting(
        name="warmup_steps",
        value=steps,
        text=text,
        basis=basis,
        because=because,
        source=known.published.source,
    )


def _published_warmup(recipe: TrainingRecipe, workload: AnyWorkload) -> tuple[float, str]:
    """Return the steps of the warm-up at the published batch, and the published words."""
    amount = recipe.warmup
    match recipe.warmup_in:
        case "share":
            return amount * workload.steps, f"{100 * amount:g} % of the run"
        case "steps":
            return amount, plural(round(amount), "step")
        case "tokens":
            per_step = recipe.batch if recipe.batch_in == "tokens" else _tokens(recipe, workload)
            return amount / per_step, f"{count(round(amount))} tokens"
        case "samples":
            return amount / recipe.batch, f"{count(round(amount))} images"


def _tokens(recipe: TrainingRecipe, workload: AnyWorkload) -> float:
    """Return the tokens of a step of a recipe whose batch is in sequences."""
    length = workload.sequence_length if isinstance(workload, Workload) else 1
    return recipe.batch * length


def _least_steps(recipe: TrainingRecipe) -> int:
    """Return the minimum number of warm-up steps at a larger batch than the published batches.

    The result is 0 for optimizers without a second decay, and for fine-tuning.
    """
    if not recipe.beta2 or recipe.is_fine_tuning:
        return 0
    return max(_FEWEST_WARMUP_STEPS, math.ceil(round(2 / (1 - recipe.beta2), 6)))
