"""Times of a block's matrix products and attention, the same for all programs with the same rates."""

import functools

from recipes.job.models.blocks import Block
from recipes.predict.parameters import parameter
from recipes.predict.speed.rates import (
    AttentionRates,
    ProductRates,
    alignment_share,
    attention_time_s,
    grouped_training_time_s,
    training_time_s,
)

_Times = tuple[float, float, float]
"""Seconds of one product: forward, gradient of inputs and gradient of weights."""
_NO_TIMES: _Times = (0.0, 0.0, 0.0)


@functools.lru_cache(maxsize=16384)
def dense_s(
    block: Block,
    tokens: float,
    tensor: int,
    rates: tuple[ProductRates, ProductRates],
    gradient_bytes: float,
) -> tuple[_Times, ...]:
    """Return the times of each product of the block; 0 for those of routed experts.

    The second of the `rates` is that of the router. The times are the same for any number of expert ranks,
    and for all programs with these rates.
    """
    all_times = []
    for product in block.products:
        if product.experts > 1:
            all_times.append(_NO_TIMES)
            continue
        outputs, inputs = float(product.outputs), float(product.inputs)
        if product.split == "columns":
            outputs /= tensor
        elif product.split == "rows":
            inputs /= tensor
        rate = rates[product.part == "router"]
        times = training_time_s(rate, tokens * product.rows, inputs, outputs, gradient_bytes=gradient_bytes)
        share = alignment_share(rate, inputs, outputs)
        all_times.append((times[0] / share, times[1] / share, times[2] / share))
    return tuple(all_times)


@functools.lru_cache(maxsize=16384)
def experts_s(
    block: Block,
    tokens: float,
    degrees: tuple[int, int],
    rates: ProductRates,
    gradient_bytes_and_kind: tuple[float, str],
) -> tuple[_Times, ...]:
    """Return the times of each product of a rank's experts; 0 for the other products of the block.

    `degrees` are those of tensor and expert parallelism. Tensor-parallel ranks divide the work: each
    dispatches its part of the sequence, or has a part of each expert's width. In a loop over experts each
    rank computes all tokens.
    """
    (tensor, expert_parallel), (gradient_bytes, kind) = degrees, gradient_bytes_and_kind
    all_times = []
    for product in block.products:
        if product.experts <= 1:
            all_times.append(_NO_TIMES)
            continue
        outputs, inputs = float(product.outputs), float(product.inputs)
        local = max(1.0, product.experts / expert_parallel)
        rows = tokens * product.rows * expert_imbalance(expert_parallel)
        if kind == "grouped":
            rows /= tensor
            times = grouped_training_time_s(
                rates, rows, inputs, outputs, local, gradient_bytes=gradient_bytes
            )
        else:
            each = training_time_s(rates, rows / local, inputs, outputs, gradient_bytes=gradient_bytes)
            times = (local * each[0], local * each[1], local * each[2])
        all_times.append(times)
    return tuple(all_times)


@functools.lru_cache(maxsize=16384)
def attention_s(
    block: Block, tokens: float, lengths: tuple[float, float], tensor: int, rates: AttentionRates
) -> tuple[float, float]:
    """Return the forward and backward times of the block's attention.

    `lengths` are those of a sequence, and of the keys of cross-attention.
    """
    sequence, crossed = lengths
    attention = attention_back = 0.0
    for mixer in block.attention:
        forth, back = attention_time_s(
            rates,
            sequences=tokens / sequence,
            heads=max(1.0, mixer.heads / tensor),
            kv_heads=max(1.0, mixer.kv_heads / tensor),
            queries=sequence,
            keys=crossed if mixer.cross else sequence * (1.0 + mixer.earlier),
            query_key_dim=mixer.score_dim,
            value_dim=mixer.value_dim,
            causal=mixer.causal and not mixer.earlier,
            window=mixer.window,
        )
        attention += forth
        attention_back += back
    return attention, attention_back


def expert_imbalance(expert_parallel: int) -> float:
    """Return the tokens of the busiest rank's experts over the mean; 1 if every rank has all experts."""
    return parameter("time.expert_imbalance") if expert_parallel > 1 else 1.0
