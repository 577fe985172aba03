"""Learning rate and warm-up: rules that adapt a published recipe to the batch of this job."""

import math

from probes.base.record import Record
from probes.base.units import count
from recipes.job.models.counts import parameter_count
from recipes.job.workload import TransformerModel, Workload

BETA2 = 0.95
"""AdamW's second decay in the reference workload and most recipes (GPT-3, arXiv 2005.14165, appendix B)."""
_FEWEST_WARMUP_STEPS = 200
"""Minimum number of warm-up steps.

2 / (1 - beta2) is only 40 for a beta2 of 0.95, but recipes use at least a few hundred steps.
"""
_WARMUP_SHARE = 10
"""The warm-up is at most the run divided by this number, so that short runs also train at the full rate."""


class Rule(Record, kw_only=True):
    """A value with the words that justify it."""

    value: float
    because: str
    warning: str = ""


def critical_batch_tokens(model: TransformerModel) -> float:
    """Return the batch in tokens beyond which more samples per step help little.

    This is 93.2 N^0.47 sequences of 512 tokens, N in millions of parameters, fitted to compute-optimal runs
    of 85 M to 1.2 B parameters (Zhang 2024, arXiv 2410.21676). Other published laws differ by a factor of up
    to 4.
    """
    return 93.2 * math.pow(parameter_count(model) / 1e6, 0.47) * 512


def recipe_words(model: TransformerModel) -> str:
    """Return whose recipe a rate and a batch are from."""
    owner = model.learning_rate_from
    return f"borrowed from {owner}" if owner else "the published recipe"


def learning_rate(workload: Workload) -> Rule:
    """Return the peak of the published or borrowed recipe, times the square root of the batch ratio.

    The rule is for Adam (Malladi 2022, arXiv 2205.10287). The rate is not raised beyond the larger of the
    published batch and the critical batch, up to which the rule is valid.
    """
    model = workload.model
    published, tokens = model.learning_rate, workload.tokens_per_step
    ceiling = max(float(model.learning_rate_batch_tokens), critical_batch_tokens(model))
    factor = math.sqrt(min(float(tokens), ceiling) / model.learning_rate_batch_tokens)
    value = float(f"{published * factor:.3g}")
    batch = count(model.learning_rate_batch_tokens)
    because = f"{recipe_words(model)}: {published:g} at {batch} tokens per step ({model.source})"
    if tokens == model.learning_rate_batch_tokens:
        return Rule(value=value, because=because)
    because = f"{because}, times sqrt({count(tokens)} / {batch}) for AdamW (arXiv 2205.10287)"
    if tokens > ceiling:
        return Rule(
            value=value,
            because=f"{because}, capped at a batch of {count(ceiling)} tokens",
            warning=f"{count(tokens)} tokens per step is beyond the critical batch of about {count(ceiling)} "
            "(arXiv 2410.21676, known within a factor of 2 to 4): "
            "more samples per step will teach little more",
        )
    return Rule(value=value, because=because)


def warmup_steps(workload: Workload) -> Rule:
    """Return the warm-up of 2 / (1 - beta2) steps (Ma & Yarats 2019, arXiv 1910.04209), at least 200.

    If the batch is smaller than the published one, the warm-up keeps its number of tokens. It is never more
    than a tenth of the run or less than one step.
    """
    least = max(_FEWEST_WARMUP_STEPS, math.ceil(2 / (1 - BETA2)))
    in_tokens = math.ceil(
        least * max(1.0, workload.model.learning_rate_batch_tokens / workload.tokens_per_step)
    )
    steps = max(1, min(in_tokens, workload.steps // _WARMUP_SHARE))
    rule = f"2 / (1 - beta2) steps, at least {_FEWEST_WARMUP_STEPS} (arXiv 1910.04209)"
    if in_tokens > least:
        rule += f", kept in tokens for the smaller batch: {in_tokens}"
    if steps < in_tokens:
        rule = (
            f"a tenth of the run of {workload.steps} steps, so that the rest trains at the full rate; "
            f"for a longer run: {rule}"
        )
    return Rule(value=steps, because=f"{rule}; {count(steps * workload.tokens_per_step)} tokens")
