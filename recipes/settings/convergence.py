"""All settings of a job that affect the trained model, each with its reason."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from probes.base.errors import UsageError
from probes.base.units import count
from recipes.job.pins import Pins
from recipes.job.workload import AnyWorkload, VisionWorkload, Workload
from recipes.machine.cluster_records import Basis, Cluster
from recipes.settings.critical_batch import batch_setting, critical_batch
from recipes.settings.learning_rate import learning_rate, load_optimizer_rules, warmup_steps
from recipes.settings.recipe_choice import Known, in_unit_of, known_for
from recipes.settings.setting import Optimization, Setting, Stated


class ConvergenceSettings(NamedTuple):
    """The settings with their reasons, and the values that a recipe stores."""

    batch: Setting
    rate: Setting
    warmup: Setting
    others: tuple[Setting, ...]
    optimization: Optimization

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about settings outside the range of their rules."""
        return tuple(each.warning for each in (self.rate, *self.others) if each.warning)


def convergence_settings(
    workload: AnyWorkload,
    cluster: Cluster,
    stated: Stated,
    pins: Pins,
    programs: tuple[str, ...] = (),
) -> ConvergenceSettings:
    """Return batch, learning rate, warm-up and the optimizer's settings of a job.

    `programs` are names of the training software. Raises UsageError for a stated recipe or pair that cannot
    be used, and for an optimizer without a published rate, unless the user pinned the rate.
    """
    known = known_for(workload, stated, programs, batch=workload.global_batch)
    rate = _rate(workload, known, stated, pins)
    optimization = _optimization(workload, cluster, known, stated)
    return ConvergenceSettings(
        batch=batch_setting(workload, cluster, known, stated),
        rate=rate,
        warmup=warmup_steps(workload, known),
        others=tuple(_others(workload, known, optimization)),
        optimization=optimization,
    )


def _rate(workload: AnyWorkload, known: Known, stated: Stated, pins: Pins) -> Setting:
    """Return the decision about the learning rate; a pinned rate needs no rule."""
    pinned = pins.learning_rate
    try:
        rate = learning_rate(workload, known, stated, critical_batch(workload, stated))
    except UsageError as error:
        if pinned is None:
            raise
        return Setting(
            name="learning_rate", value=pinned, text=f"{pinned:g}", basis="user", because=error.message
        )
    return rate if pinned is None else msgspec.structs.replace(rate, value=pinned, warning="")


def _optimization(workload: AnyWorkload, cluster: Cluster, known: Known, stated: Stated) -> Optimization:
    recipe = known.recipe
    embedding = 0.0
    if stated.known_width is not None and stated.known_rate is not None:
        embedding = stated.known_rate
    ramp_from, ramp_samples = _ramp(workload, cluster, known, stated)
    rule = load_optimizer_rules().get(workload.optimizer)
    other = rule if rule is not None and workload.optimizer != recipe.optimizer else None
    return Optimization(
        schedule=recipe.schedule,
        final_share=recipe.final_share,
        decay_share=recipe.decay_share,
        beta1=other.beta1 if other and other.beta1 else recipe.beta1,
        beta2=other.beta2 if other and other.beta2 else recipe.beta2,
        weight_decay=_weight_decay(workload, known),
        gradient_clipping=recipe.gradient_clipping,
        accumulation_dtype="fp32",
        embedding_learning_rate=embedding,
        ramp_from=ramp_from,
        ramp_samples=ramp_samples,
    )


def _weight_decay(workload: AnyWorkload, known: Known) -> float:
    """Return the published weight decay, converted to the job's optimizer."""
    rules = load_optimizer_rules()
    names = (workload.optimizer, known.recipe.optimizer)
    new, old = (rules[name].decay_of_adamw if name in rules else 0.0 for name in names)
    factor = new / old if new and old else 1.0
    return float(f"{known.recipe.weight_decay * factor:.3g}")


def _ramp(workload: AnyWorkload, cluster: Cluster, known: Known, stated: Stated) -> tuple[int, int]:
    """Return the samples per step at the start and the samples of the ramp; zeros for a constant batch.

    A published ramp is used only for a run that is known to be longer than the ramp.
    """
    recipe = known.recipe
    if isinstance(workload, VisionWorkload) or not recipe.ramp_from or stated.tokens is None:
        return 0, 0
    if stated.tokens <= recipe.ramp_high or workload.tokens_per_step <= recipe.ramp_from:
        return 0, 0
    length, ranks = workload.sequence_length, cluster.world_size
    first = math.ceil(recipe.ramp_from / length / ranks) * ranks
    return (first, math.ceil(recipe.ramp_low / length)) if first < workload.global_batch else (0, 0)


def _others(workload: AnyWorkload, known: Known, values: Optimization) -> Iterator[Setting]:
    """Yield the decisions about everything but batch, rate and warm-up."""
    recipe = known.recipe
    basis: Basis = "borrowed" if known.basis == "user" else known.basis
    because, source = f"recipe of {recipe.model}", recipe.source
    texts = value_texts(values)
    names = ["lr_schedule", "beta1", "beta2"] if values.beta2 else ["lr_schedule", "momentum"]
    for name in (*names, "gradient_clipping"):
        yield Setting(name=name, text=texts[name], basis=basis, because=because, source=source)
    yield _decay_setting(workload, known, values, basis)
    yield _accumulation_setting(workload, values)
    if values.embedding_learning_rate:
        yield Setting(
            name="embedding_learning_rate",
            text=f"{values.embedding_learning_rate:g}",
            basis="user",
            because="your known rate: under muP only hidden matrices change with the width (2203.03466)",
        )
    if values.ramp_from and isinstance(workload, Workload):
        low, high = count(round(recipe.ramp_low)), count(round(recipe.ramp_high))
        over = f"{low} tokens" if low == high else f"{low} to {high} tokens, depending on the model"
        yield Setting(
            name="batch_ramp",
            text=f"{values.ramp_from} to {workload.global_batch} in {count(values.ramp_samples)} samples",
            basis=basis,
            because=f"{recipe.model} grows its batch from {count(round(recipe.ramp_from))} tokens in {over} "
            f"({recipe.citation}); small batches teach more per sample at the start (arXiv 2505.23971)",
            alternatives=("a constant batch, which is faster in samples per second",),
        )


def _decay_setting(workload: AnyWorkload, known: Known, values: Optimization, basis: Basis) -> Setting:
    """Return the decision about weight decay, with the value that keeps AdamW's time scale at this batch.

    The time scale is batch / (rate x decay x tokens); at a batch k times as large and a rate sqrt(k) times as
    large, the decay must grow with sqrt(k) (Power Lines, arXiv 2505.13738).
    """
    recipe = known.recipe
    ratio = in_unit_of(known.published, workload) / known.published.batch
    kept = f"{values.weight_decay * math.sqrt(ratio):.3g}"
    text = f"{values.weight_decay:g}"
    others: tuple[str, ...] = ()
    if values.weight_decay and not recipe.is_fine_tuning and kept != f"{values.weight_decay:.3g}":
        others = (f"{kept} keeps AdamW's time scale at this batch (arXiv 2505.13738)",) * bool(values.beta2)
    return Setting(
        name="weight_decay",
        text=text,
        basis=basis,
        because=f"recipe of {recipe.model}",
        alternatives=others,
        source=recipe.source,
    )


def _accumulation_setting(workload: AnyWorkload, values: Optimization) -> Setting:
    """Return the decision about the number format in which gradients are summed."""
    if workload.precision in ("fp32", "tf32"):
        because = "gradients are fp32"
    else:
        because = (
            "16-bit sums over micro-batches and ranks lose small addends; fp32 costs memory and traffic only"
        )
    return Setting(name="accumulation_dtype", text=values.accumulation_dtype, basis="rule", because=because)


def schedule_words(values: Optimization) -> str:
    """Return the course of the learning rate in words: `cosine to 10 %`."""
    end = f"to {100 * values.final_share:g} %"
    match values.schedule:
        case "constant":
            return "constant"
        case "wsd":
            return f"constant, then {end} in the last {100 * values.decay_share:g} % of the run"
        case _:
            return f"{values.schedule} {end}"


def value_texts(values: Optimization) -> dict[str, str]:
    """Return the values as a plan writes them, by the names of the plan's decisions."""
    return {
        "lr_schedule": schedule_words(values),
        "beta1" if values.beta2 else "momentum": f"{values.beta1:g}",
        "beta2": f"{values.beta2:g}",
        "weight_decay": f"{values.weight_decay:g}",
        "gradient_clipping": f"{values.gradient_clipping:g}" if values.gradient_clipping else "none",
        "accumulation_dtype": values.accumulation_dtype,
        "embedding_learning_rate": f"{values.embedding_learning_rate:g}",
    }
