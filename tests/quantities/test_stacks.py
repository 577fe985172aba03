"""Test that another value of a stack's switch changes a figure of a run with this stack.

The exceptions are listed with their reasons.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from recipes.cases.prediction import predict_row
from recipes.predict.stack_memory import StackMemory
from recipes.predict.stacks import Stack, load_stacks
from tests.quantities.changing import figures, with_rows

_LLAMA = {"model": "Llama 2 7B", "gpu": "H100-SXM-80GB", "n_gpus": "8"}
_TUNED = {**_LLAMA, "precision": "bf16-mixed", "micro_batch": "2", "global_batch": "16", "seq_len": "1024"}
_BATCH = {"micro_batch": "1", "global_batch": "32", "seq_len": "2048"}
_IMAGES = {"model": "resnet50", "gpu": "A100-SXM-80GB", "image_size": "224", "micro_batch": "64"}
_ENCODER = {"model": "bert-large", "gpu": "A100-SXM-80GB", "micro_batch": "8", "seq_len": "512"}
TEMPLATES: dict[str, dict[str, str]] = {
    "nothing stated": {**_LLAMA, "task": "pretrain"},
    "fine-tuning, nothing stated": {**_LLAMA, "model": "Llama 3.1 8B", "task": "sft", "n_gpus": "1"},
    "adapters, nothing stated": {**_LLAMA, "task": "lora", "n_gpus": "1"},
    "adapters over shards": {**_TUNED, "task": "lora", "sharding": "fsdp"},
    "4-bit base": {**_TUNED, "task": "qlora", "precision": "nf4", "n_gpus": "1", "global_batch": "2"},
    "4-bit base beside fp32": {**_TUNED, "task": "qlora", "precision": "fp32", "n_gpus": "1"},
    "4-bit base over shards": {**_TUNED, "task": "qlora", "precision": "nf4", "sharding": "fsdp"},
    "adapters in fp8": {**_TUNED, "task": "lora", "precision": "fp8"},
    "fine-tuning over shards": {
        **_TUNED,
        "task": "sft",
        "sharding": "fsdp",
        "grad_accum": "4",
        "global_batch": "64",
    },
    "pre-training over shards": {**_LLAMA, **_BATCH, "precision": "bf16", "sharding": "fsdp"},
    "pure 16 bits": {**_LLAMA, **_BATCH, "precision": "bf16", "sharding": "ddp"},
    "pure 16 bits over shards": {**_TUNED, "task": "sft", "sharding": "fsdp", "precision": "fp16"},
    "ZeRO-1": {**_LLAMA, **_BATCH, "precision": "bf16-mixed", "sharding": "zero1", "zero_stage": "1"},
    "ZeRO-1 in fp16": {**_LLAMA, **_BATCH, "precision": "fp16-mixed", "sharding": "zero1"},
    "ZeRO-2": {**_LLAMA, **_BATCH, "precision": "bf16-mixed", "sharding": "zero2", "zero_stage": "2"},
    "ZeRO-3": {**_LLAMA, **_BATCH, "precision": "bf16-mixed", "sharding": "zero3", "zero_stage": "3"},
    "ZeRO-3 on one GPU": {
        **_TUNED,
        "sharding": "zero3",
        "zero_stage": "3",
        "n_gpus": "1",
        "global_batch": "2",
    },
    "full checkpointing": {**_LLAMA, **_BATCH, "sharding": "fsdp", "activation_checkpointing": "full"},
    "selective checkpointing": {
        **_LLAMA,
        **_BATCH,
        "sharding": "fsdp",
        "activation_checkpointing": "selective",
    },
    "too large without recomputation": {**_LLAMA, "seq_len": "8192", "micro_batch": "4", "sharding": "fsdp"},
    "tensor parallelism": {**_LLAMA, **_BATCH, "precision": "bf16-mixed", "tp": "4", "dp": "2"},
    "pipeline": {**_LLAMA, **_BATCH, "precision": "bf16-mixed", "tp": "2", "pp": "4"},
    "compiled, with long logits": {
        **_LLAMA,
        **_BATCH,
        "model": "Llama 3.1 8B",
        "micro_batch": "4",
        "sharding": "fsdp",
        "activation_checkpointing": "full",
        "compile": "true",
    },
    "ZeRO-1 over many nodes": {
        **_LLAMA,
        **_BATCH,
        "n_gpus": "1024",
        "global_batch": "1024",
        "zero_stage": "1",
    },
    "vocabulary of an odd size": {**_LLAMA, **_BATCH, "model": "gpt2-xl", "seq_len": "1024"},
    "LAMB on two nodes": {**_ENCODER, "n_gpus": "16", "gpus_per_node": "8", "optimizer": "lamb"},
    "encoder": {**_ENCODER, "n_gpus": "8", "sharding": "ddp", "precision": "fp16-mixed"},
    "experts": {**_BATCH, "model": "Mixtral 8x7B", "gpu": "H100-SXM-80GB", "n_gpus": "64", "ep": "8"},
    "experts over shards": {
        **_BATCH,
        "model": "Mixtral 8x7B",
        "gpu": "H100-SXM-80GB",
        "n_gpus": "64",
        "fsdp": "8",
        "ep": "8",
    },
    "experts on every GPU, stated": {
        **_BATCH,
        "model": "Mixtral 8x7B",
        "gpu": "H100-SXM-80GB",
        "n_gpus": "64",
        "sharding": "fsdp",
        "ep": "1",
    },
    "images in half precision": {**_IMAGES, "n_gpus": "8", "precision": "fp16-mixed"},
    "images, nothing stated": {"model": "resnet50", "gpu": "A100-SXM-80GB", "n_gpus": "8"},
}
"""Runs with which every stack is tried."""
UNMOVED = {
    ("internevo", "step_elements"): "the number stands for all gradients: no model has as many",
}
"""Switches that move no figure, each with the reason."""


class _Switch(msgspec.Struct, frozen=True):
    stack: str
    field: str
    in_memory: bool
    other: float | bool

    def changed(self) -> Stack:
        """Return the stack with the other value."""
        row = load_stacks()[self.stack]
        if not self.in_memory:
            return msgspec.structs.replace(row, **{self.field: self.other})
        memory = msgspec.structs.replace(row.memory, **{self.field: self.other})
        return msgspec.structs.replace(row, memory=memory)


def _switches() -> Iterator[_Switch]:
    """Yield the numbers and truth values that rows state, numbers doubled and truth values reversed."""
    for row in load_stacks().values():
        for part, cls in ((row, Stack), (row.memory, StackMemory)):
            for field in msgspec.structs.fields(cls):
                value: Any = getattr(part, field.name)
                if isinstance(value, bool | int | float) and value != field.default:
                    other = not value if isinstance(value, bool) else 2 * value
                    yield _Switch(row.id, field.name, cls is StackMemory, other)


SWITCHES = tuple(_switches())


@functools.cache
def _present(stack: str) -> dict[str, tuple[float | bool, ...]]:
    return {name: figures(predict_row({**cells, "stack": stack})) for name, cells in TEMPLATES.items()}


@pytest.mark.parametrize("switch", SWITCHES, ids=lambda switch: f"{switch.stack}: {switch.field}")
def test_another_value_of_a_switch_moves_a_figure(switch: _Switch) -> None:
    present = _present(switch.stack)
    with with_rows(load_stacks(), {switch.stack: switch.changed()}, "recipes."):
        moved = next(
            (
                name
                for name, cells in TEMPLATES.items()
                if figures(predict_row({**cells, "stack": switch.stack})) != present[name]
            ),
            "",
        )
    assert bool(moved) == ((switch.stack, switch.field) not in UNMOVED), moved
