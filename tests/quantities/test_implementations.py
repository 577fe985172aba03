"""Test that doubling the bytes that an implementation keeps changes the memory of a run with its code."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import pytest

from recipes.job.candidate import Degrees
from recipes.job.models.names import find_model
from recipes.predict.implementations import Implementation, SavedBytes, load_implementations
from recipes.predict.memory.peak import memory_of
from recipes.predict.stacks import load_stacks
from recipes.predict.training_job import TransformerJob, transformer_job
from tests.quantities.changing import figures, with_rows
from tests.support.clusters import case, h100_cluster

MODELS = ("llama-3.2-1b", "gpt2", "mixtral-8x7b", "nemotron-h-8b", "bert-large", "qwen-1.8b")
"""Models with, in this order: RMSNorm, a gated MLP and shared keys; LayerNorm and a plain MLP; experts; a
state space; dropout; logits that stay in 16 bits.
"""
_MANY_TOKENS = {"micro_batch": 256, "activation_checkpointing": "full"}
WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "recomputed": {"candidate": {"activation_checkpointing": "full"}},
    "kept for many tokens": {"candidate": {"micro_batch": 64}},
    "fused attention": {"candidate": {"flash_attention": True}},
    "unfused attention": {"candidate": {"flash_attention": False}},
    "tensor parallelism": {"candidate": {"degrees": Degrees(tp=2, dp=4)}},
    "many tokens": {"candidate": _MANY_TOKENS},
    "many tokens with tensor parallelism": {"candidate": {**_MANY_TOKENS, "degrees": Degrees(tp=2, dp=4)}},
    "adapters": {"workload": {"tuning": "lora"}},
    "pure 16 bits": {"workload": {"pure_weights": True}},
    "pure 16 bits and many tokens": {"workload": {"pure_weights": True}, "candidate": _MANY_TOKENS},
    "pure 16 bits with tensor parallelism": {
        "workload": {"pure_weights": True},
        "candidate": {**_MANY_TOKENS, "degrees": Degrees(tp=2, dp=4)},
    },
}


@functools.cache
def _jobs(implementation: str, mode: str) -> tuple[TransformerJob, ...]:
    """Return runs whose forward pass computes in this mode, over code of the implementation."""
    stacks = [row for row in load_stacks().values() if row.implementation == implementation]
    stack = (
        stacks[0]
        if stacks
        else msgspec.structs.replace(load_stacks()["torch"], implementation=implementation)
    )
    states = {"autocast": "fp32", "cast": "master", "fp8": "master", "fp32": "fp32"}[mode]
    memory = msgspec.structs.replace(stack.memory, mixed_states=states, loss="whole", raises_stream=False)
    jobs = []
    precision = mode if mode in ("fp32", "fp8") else "bf16"
    for model, way in itertools.product(MODELS, WAYS.values()):
        workload, candidate = case(find_model(model), micro_batch=2, sequence_length=512, precision=precision)
        jobs.append(
            transformer_job(
                msgspec.structs.replace(workload, **way.get("workload", {})),
                msgspec.structs.replace(candidate, **way.get("candidate", {})),
                h100_cluster(architecture="hopper"),
                msgspec.structs.replace(stack, memory=memory),
            )
        )
    return tuple(jobs)


@functools.cache
def _present(implementation: str, mode: str) -> tuple[tuple[float | bool, ...], ...]:
    return tuple(figures(memory_of(job)) for job in _jobs(implementation, mode))


class _Coefficient(NamedTuple):
    implementation: str
    mode: str
    field: str

    def changed(self) -> Implementation:
        """Return the row with twice the coefficient, or the other truth value."""
        row: Any = load_implementations()[self.implementation]
        if self.field == "weight_cache_bytes":
            cache = {**row.weight_cache_bytes, self.mode: 2 * row.weight_cache_bytes[self.mode]}
            return msgspec.structs.replace(row, weight_cache_bytes=cache)
        saved = row.saved[self.mode]
        value = getattr(saved, self.field)
        other = not value if isinstance(value, bool) else 2 * value
        return msgspec.structs.replace(
            row, saved={**row.saved, self.mode: msgspec.structs.replace(saved, **{self.field: other})}
        )


def _coefficients() -> Iterator[_Coefficient]:
    """Yield the coefficients that rows state; 0 means that nothing is kept, so it is left out."""
    for row in load_implementations().values():
        for mode, saved in row.saved.items():
            for field in msgspec.structs.fields(SavedBytes):
                value = getattr(saved, field.name)
                if value > 0 if not isinstance(value, bool) else value != field.default:
                    yield _Coefficient(row.id, mode, field.name)
        for mode, value in row.weight_cache_bytes.items():
            if value:
                yield _Coefficient(row.id, mode, "weight_cache_bytes")


@pytest.mark.parametrize("coefficient", tuple(_coefficients()), ids="-".join)
def test_twice_the_bytes_that_are_kept_moves_the_memory(coefficient: _Coefficient) -> None:
    jobs, present = (of(coefficient.implementation, coefficient.mode) for of in (_jobs, _present))
    with with_rows(
        load_implementations(), {coefficient.implementation: coefficient.changed()}, "recipes.predict"
    ):
        moved = any(figures(memory_of(job)) != before for job, before in zip(jobs, present, strict=True))
    assert moved
