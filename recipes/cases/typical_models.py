"""The usual sizes of a transformer with a given number of parameters, for rows that do not state sizes."""

import itertools
import math
from typing import NamedTuple


class TypicalSizes(NamedTuple):
    """Sizes of a model; `experts` is 0 for a dense model."""

    layers: int
    hidden: int
    ffn_hidden: int
    experts: int = 0
    experts_per_token: int = 0


_DECODERS = (
    (0.125, 12),
    (0.35, 24),
    (1.3, 24),
    (2.7, 28),
    (7.0, 32),
    (13.0, 40),
    (33.0, 60),
    (68.0, 80),
    (175.0, 96),
    (405.0, 126),
)
"""Pairs of billions of parameters and number of layers.

Sources: GPT-3 (arXiv 2005.14165 table 2.1), Llama (arXiv 2302.13971 table 2, 2407.21783 table 3).
"""
_ENCODERS = ((0.014, 12, 256), (0.11, 12, 768), (0.335, 24, 1024), (1.3, 24, 2048), (3.9, 48, 2560))
"""Billions of parameters, layers and width: BERT (arXiv 1810.04805) and Megatron-LM (arXiv 1909.08053)."""
_DENSE_MATRICES = 12.0
"""Weights of a layer divided by the square of the hidden size: 4 in attention and 8 in the MLP, gated or not.
"""
_WIDE = 3.5
"""Width of an expert divided by the width of the model (Mixtral, arXiv 2401.04088)."""
_EXPERT_MATRICES = 3 * _WIDE
_MANY_EXPERTS = 64
"""Number of experts that is assumed if a row states fewer active than total parameters, but no experts.

Source: DeepSeek-MoE, arXiv 2401.06066.
"""
_GROUPED_ATTENTION = 2.5
_EMBEDDINGS = 2 * 32000
_STEPS = ((4096, 512), (2048, 256), (0, 128))
"""Pairs of a width and a step, largest width first.

Widths of at least this size are multiples of the step, so that tensor parallelism can split whole heads.
"""
_LAYER_STEPS = ((48, 16), (32, 8), (0, 4))
"""Pairs of a number of layers and a step. From this number on, numbers of layers are multiples of the step.

Published models have such numbers: 24, 28, 32, 40, 48, 64, 80, 96 (GPT-3, Llama, MPT, Falcon).
"""
_SAME_MODEL = 0.06
"""Difference of the logarithms of two numbers of parameters below which a model has the layers of a row."""


def decoder_sizes(params_b: float, *, gated: bool = True) -> TypicalSizes:
    """Return the sizes of a dense decoder such as Llama or GPT with `params_b` billion parameters."""
    layers = _layers(params_b)
    hidden = hidden_for(params_b, layers)
    return TypicalSizes(layers, hidden, gated_width(hidden) if gated else 4 * hidden)


def gated_width(hidden: int) -> int:
    """Return 8/3 of the width, rounded up to a multiple of 256 (Llama, arXiv 2302.13971, section 2.2)."""
    return 256 * math.ceil(8 * hidden / 3 / 256)


def expert_sizes(
    params_b: float, active_b: float | None, experts: int | None, per_token: int | None
) -> TypicalSizes:
    """Return the sizes of a mixture of experts.

    If the number of active parameters is unknown, the model has the proportions of Mixtral. Otherwise the
    sizes match both the total and the active parameters: a token uses attention, the tables, and as many
    experts as the active parameters allow.
    """
    if active_b is None or not 0 < active_b < params_b:
        experts = experts or 8
        layers = _layers(params_b * 2 / max(experts, 2))
        hidden = hidden_for(params_b, layers, experts=experts)
        return TypicalSizes(layers, hidden, round(_WIDE * hidden), experts, min(per_token or 2, experts))
    experts = experts or _MANY_EXPERTS
    layers = _layers(active_b)
    hidden = hidden_for(active_b, layers)
    common = layers * _GROUPED_ATTENTION * hidden**2 + _EMBEDDINGS * hidden
    width = max(64, round((params_b * 1e9 - common) / (3 * hidden * experts * layers) / 64) * 64)
    met = (active_b * 1e9 - common) / (3 * hidden * width * layers)
    return TypicalSizes(layers, hidden, width, experts, per_token or min(experts, max(1, round(met))))


def encoder_sizes(params_b: float) -> TypicalSizes:
    """Return the sizes of an encoder, taken from the BERT model with the nearest number of parameters."""
    _, layers, hidden = min(_ENCODERS, key=lambda row: abs(math.log(row[0] / params_b)))
    return TypicalSizes(layers, hidden, 4 * hidden)


def hidden_for(params_b: float, layers: int, *, experts: int = 0) -> int:
    """Return the width at which layers and two tables of 32000 tokens have `params_b` billion parameters.

    The width is rounded to a multiple of a step in `_STEPS`.
    """
    matrices = layers * (_GROUPED_ATTENTION + experts * _EXPERT_MATRICES if experts > 1 else _DENSE_MATRICES)
    # matrices h^2 + tables h = parameters
    hidden = (math.sqrt(_EMBEDDINGS**2 + 4 * matrices * params_b * 1e9) - _EMBEDDINGS) / (2 * matrices)
    step = next(step for least, step in _STEPS if hidden >= least)
    return max(step, step * round(hidden / step))


def _layers(params_b: float) -> int:
    """Return the number of layers of a model of this size.

    A row with nearly as many parameters determines the number. Otherwise it is interpolated between two rows
    on the logarithm of the parameters, and rounded to a number that pipelines divide. Outside the table, the
    nearest row determines the number.
    """
    nearest = min(_DECODERS, key=lambda row: abs(math.log(row[0] / params_b)))
    if (
        abs(math.log(nearest[0] / params_b)) < _SAME_MODEL
        or not _DECODERS[0][0] < params_b < _DECODERS[-1][0]
    ):
        return nearest[1]
    (low, fewer), (high, more) = next(
        pair for pair in itertools.pairwise(_DECODERS) if params_b <= pair[1][0]
    )
    layers = fewer + (more - fewer) * math.log(params_b / low) / math.log(high / low)
    step = next(step for least, step in _LAYER_STEPS if layers >= least)
    return step * round(layers / step)
