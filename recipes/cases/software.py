"""The software of a case: by its name, and where no row knows that, by how the case shares its model."""

from __future__ import annotations

import re

import msgspec

from recipes.cases.case import Case
from recipes.cases.table_words import adapter_targets_of, names_zero, sharing_of, task_of
from recipes.constants import constant
from recipes.predict.stacks import ADAPTERS, UNKNOWN, Stack, load_stacks, stack_named

_SHOWN = 40
_ZERO = "deepspeed"
_DIVIDED = "megatron-core"


def software_of(case: Case) -> tuple[Stack, tuple[str, ...]]:
    """Return the stack, and in words what was assumed of it.

    Raises CaseError where words of the case are not known.
    """
    stack = stack_named(case.stack)
    notes: tuple[str, ...] = ()
    if stack is None:
        stack = load_stacks()[_like(case)]
        usual = load_stacks()[UNKNOWN].memory.logged_figure
        stack = msgspec.structs.replace(
            stack, memory=msgspec.structs.replace(stack.memory, logged_figure=usual)
        )
        shown = case.stack[:_SHOWN]
        reason = (
            ""
            if stack.id == UNKNOWN
            else ", which shares a model so: 16-bit weights, optimizer states in fp32"
        )
        notes = (
            f"stack {shown!r} is taken for {stack.title}{reason}"
            if shown
            else f"stack is {stack.title}{reason}",
        )
    if stack.id == UNKNOWN and task_of(case.task).tuning != "full":
        stack = load_stacks()[ADAPTERS]
    stack = _with_loss(stack, case.stack.lower())
    is_zero = (
        names_zero(case.sharding)
        or (case.zero_stage and not case.sharding)
        or "deepspeed" in case.stack.lower()
    )
    if stack.gathers_modules == "zero" and is_zero:
        stack = _over_deepspeed(stack)
    return _with_adapters(stack, case), notes


def _with_adapters(stack: Stack, case: Case) -> Stack:
    """Return the stack with LoRA's rank and layers as the case has them."""
    rank = case.lora_rank or stack.memory.adapter_rank
    targets = adapter_targets_of(case.lora_targets) if case.lora_targets else stack.memory.adapter_targets
    if (rank, targets) == (stack.memory.adapter_rank, stack.memory.adapter_targets):
        return stack
    return msgspec.structs.replace(
        stack, memory=msgspec.structs.replace(stack.memory, adapter_rank=rank, adapter_targets=targets)
    )


def _with_loss(stack: Stack, words: str) -> Stack:
    """Return the stack with the kernels that its name adds.

    They are Liger's of a layer and of the loss, or a loss alone that keeps no logits.
    """
    if "liger" in words and stack.kernels in ("eager", "upcasting"):
        memory = msgspec.structs.replace(stack.memory, loss="fused")
        return msgspec.structs.replace(
            stack, implementation="hf-liger", kernels="fused", library=stack.kernels, memory=memory
        )
    loss = re.search(r"(fused|chunked|cut).?(linear.?)?(ce\b|cross.?entropy|loss)", words)
    if loss is None:
        return stack
    kind = "chunked" if loss[1] == "chunked" else "fused"
    return msgspec.structs.replace(stack, memory=msgspec.structs.replace(stack.memory, loss=kind))


def _like(case: Case) -> str:
    """Return the id of the stack with the layout of the case.

    Plain torch replicates or shards fully, keeps fp32 weights, and divides no layer.
    """
    words, sharing = case.sharding.lower(), sharing_of(case.sharding)
    if "torch" in case.stack.lower() or sharing.hybrid or "fsdp" in words or "shard" in words:
        return UNKNOWN
    if (case.tp or 1) * (case.pp or 1) > 1 and not (names_zero(words) or case.zero_stage):
        return _DIVIDED
    return _ZERO if case.zero_stage or sharing.sharding not in (None, "none") else UNKNOWN


def _over_deepspeed(stack: Stack) -> Stack:
    """Return the stack with DeepSpeed's states.

    Its engine casts weights to 16 bits and keeps masters (runtime/engine.py).
    """
    zero = load_stacks()[_ZERO]
    memory = msgspec.structs.replace(
        stack.memory,
        mixed_states=zero.memory.mixed_states,
        bucket_elements=constant("deepspeed_bucket_elements"),
        step_elements=zero.memory.step_elements,
        step_copies=zero.memory.step_copies,
        shards_in_fp32=False,
    )
    return msgspec.structs.replace(
        stack,
        gathers_modules=zero.gathers_modules,
        overlaps_gradients=zero.overlaps_gradients,
        gradient_bytes=zero.gradient_bytes,
        memory=memory,
    )
