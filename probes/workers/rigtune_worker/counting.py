"""Count the operations, traffic and saved memory of a module's training step on the meta device.

No memory is allocated and no number is computed.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Callable, Iterable

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

COUNTS = (
    "forward_flops",
    "dense_flops",
    "grouped_flops",
    "product_flops",
    "spatial_flops",
    "depthwise_flops",
    "convolution_elements",
    "matrix_elements",
    "depthwise_elements",
    "pointwise_elements",
    "saved_elements",
    "saved_bytes",
    "operators",
)
"""Names of the counts.

A multiply-add counts as two FLOPs. All counts but the first cover a forward and a backward pass. The dense
FLOPs include `product_flops` (matrix products) and `spatial_flops` (3x3 convolutions of many channels without
stride or dilation). The elements that operators read and write are counted in four groups: convolutions;
matrix products and attention; depthwise convolutions; all other operators. `saved` elements and bytes are
kept for the backward pass, without parameters and buffers. `operators` is the number of kernels in eager
execution.
"""
FREE = frozenset(
    {
        "_unsafe_view",
        "detach",
        "alias",
        "empty",
        "empty_like",
        "empty_strided",
        "new_empty",
        "new_empty_strided",
    }
)
PRODUCTS = frozenset({"mm", "addmm", "bmm", "baddbmm"})
MANY = 64
"""Smallest number of channels for which Winograd's transforms cost little compared with the products that
they save.
"""
ATTENTION_BACKWARD = 2.5
"""FLOPs of the backward pass relative to the forward pass: fused attention recomputes the scores.

Source: FlashAttention-2, arXiv 2307.08691.
"""
ATTENTION_BACKWARD_OPERATORS = 3


def count_step(
    loss_of: Callable[[], Tensor], resident: Iterable[Tensor], *, fused_attention: bool = True
) -> dict[str, float]:
    """Run `loss_of` and its backward pass, and return the counts. Everything must be on the meta device.

    `resident` are the parameters and buffers, which are in memory anyway. Without `fused_attention`,
    attention is two products and a softmax.
    """
    counts = dict.fromkeys(COUNTS, 0.0)
    saved: dict[int, Tensor] = {}
    ours = {value.untyped_storage()._cdata for value in resident}

    def pack(value: Tensor) -> Tensor:
        storage = value.untyped_storage()._cdata
        if storage not in ours:
            saved[storage] = value  # keep the storage, so that its address is not reused
        return value

    counter = Counter(counts)
    with FusedAttention(counter) if fused_attention else nullcontext(), counter:
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value):
            loss = loss_of()
        counter.forward = False
        loss.backward()
    for value in saved.values():
        size = value.untyped_storage().size()
        counts["saved_bytes"] += size
        if value.is_floating_point():
            counts["saved_elements"] += size // value.element_size()
    return counts


def elements(values: Any) -> int:
    return sum(value.numel() for value in tree_flatten(values)[0] if isinstance(value, Tensor))


class Counter(TorchDispatchMode):
    """A mode that counts each operator that would launch a kernel."""

    def __init__(self, counts: dict[str, float]) -> None:
        super().__init__()
        self.counts = counts
        self.forward = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        returns = func._schema.returns
        is_view = bool(returns) and returns[0].alias_info is not None and not returns[0].alias_info.is_write
        if is_view or name in FREE:
            return out
        self.counts["operators"] += 1
        traffic = elements((args, kwargs)) + elements(out)
        if name in ("convolution", "convolution_backward"):
            self.add_convolution(name, args, out, traffic)
        elif name in PRODUCTS:
            left, right = args[-2:]
            self.add_product(2.0 * left.numel() * right.shape[-1], traffic)
        else:
            # Batch norm reads its input once for the statistics and once to normalise; so do its gradients.
            if "batch_norm" in name:
                traffic += elements(args[:1] if self.forward else args[:2])
            self.counts["pointwise_elements"] += traffic
        return out

    def add_product(self, flops: float, traffic: float) -> None:
        self.counts["dense_flops"] += flops
        self.counts["product_flops"] += flops
        self.counts["matrix_elements"] += traffic
        if self.forward:
            self.counts["forward_flops"] += flops

    def add_convolution(self, name: str, args: Any, out: Any, traffic: float) -> None:
        if name == "convolution":
            source, weight, _, stride, _, dilation, transposed, _, groups = args
            passes = 1
        else:
            out, source, weight, _, stride, _, dilation, transposed, _, groups, mask = args
            passes = int(mask[0]) + int(mask[1])
        steps, pixels = (*stride, *dilation), (source if transposed else out).numel()
        flops = 2.0 * pixels * weight[0].numel() * passes
        depthwise = groups > 1 and weight.shape[1] == 1
        self.counts["depthwise_elements" if depthwise else "convolution_elements"] += traffic
        # Memory traffic limits depthwise convolutions.
        kind = "depthwise_flops" if depthwise else "grouped_flops" if groups > 1 else "dense_flops"
        self.counts[kind] += flops
        is_plain = groups == 1 and tuple(weight.shape[2:]) == (3, 3) and set(steps) == {1}
        if is_plain and min(weight.shape[:2]) >= MANY:
            self.counts["spatial_flops"] += flops
        if self.forward:
            self.counts["forward_flops"] += flops

    def add_attention(self, query: Tensor, key: Tensor, value: Tensor, causal: bool, passes: float) -> None:
        """Add the operations of scores and values; only half of them are needed in causal attention."""
        rows = query.numel() // query.shape[-1]
        flops = 2.0 * rows * key.shape[-2] * (query.shape[-1] + value.shape[-1]) * (0.5 if causal else 1.0)
        self.add_product(flops * passes, passes * (elements((query, key, value)) + rows * value.shape[-1]))


class FusedAttention(TorchFunctionMode):
    """A mode that replaces scaled_dot_product_attention by one fused kernel, as on a GPU.

    Without this mode the meta device would write all scores.
    """

    def __init__(self, counter: Counter) -> None:
        super().__init__()
        self.counter = counter

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is not torch.nn.functional.scaled_dot_product_attention:
            return func(*args, **kwargs)
        given = dict(zip(("query", "key", "value", "attn_mask", "dropout_p", "is_causal"), args), **kwargs)
        return Attention.apply(
            given["query"], given["key"], given["value"], (self.counter, bool(given.get("is_causal")))
        )


class Attention(torch.autograd.Function):
    """Fused attention without computation: it keeps its inputs, its output and one number per row."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, how: tuple[Counter, bool]) -> Tensor:
        counter, causal = how
        out = query.new_empty(*query.shape[:-1], value.shape[-1])
        ctx.save_for_backward(query, key, value, out, query.new_empty(query.shape[:-1], dtype=torch.float32))
        ctx.causal, ctx.counter = causal, counter
        counter.counts["operators"] += 1
        counter.add_attention(query, key, value, causal, 1.0)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        query, key, value, _, _ = ctx.saved_tensors
        ctx.counter.counts["operators"] += ATTENTION_BACKWARD_OPERATORS
        ctx.counter.add_attention(query, key, value, ctx.causal, ATTENTION_BACKWARD)
        return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value), None
