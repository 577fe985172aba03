"""Test the software that is assumed for a case, and the memory of frameworks that run DeepSpeed."""

from __future__ import annotations

import msgspec
import pytest

from recipes.cases.case import case_of_row
from recipes.cases.resolved import resolve
from recipes.cases.resolved_case import ResolvedCase
from recipes.cases.software import software_of
from recipes.job.models.counts import parameter_count
from recipes.predict.memory.buffers import buffers_of
from recipes.predict.memory.stages import stages_of
from recipes.predict.memory.states import states_of
from recipes.predict.training_job import transformer_job
from tests.unit.recipes.cases.test_case_prediction import LLAMA

ROW = {**LLAMA, "n_gpus": "16", "micro_batch": "1", "precision": "bf16", "activation_checkpointing": "full"}


def resolved(**changes: str) -> ResolvedCase:
    return resolve(case_of_row({**ROW, **changes}))


@pytest.mark.parametrize(
    ("changes", "taken_for"),
    [
        ({"sharding": "zero1"}, "deepspeed"),
        ({"zero_stage": "2"}, "deepspeed"),
        ({"sharding": "zero1", "tp": "2"}, "deepspeed"),
        ({"sharding": "zero3"}, "deepspeed"),
        ({"sharding": "fsdp (SHARD_GRAD_OP)", "zero_stage": "2"}, "torch"),
        ({"sharding": "hsdp", "tp": "2"}, "torch"),
        ({"sharding": "distributed optimizer", "tp": "2"}, "megatron-core"),
        ({"tp": "8"}, "megatron-core"),
        ({"pp": "4", "sharding": "ddp"}, "megatron-core"),
        ({"tp": "8", "sharding": "fsdp"}, "torch"),
        ({"sharding": "fsdp"}, "torch"),
        ({"sharding": "ddp"}, "torch"),
        ({}, "torch"),
    ],
)
def test_unknown_software_is_treated_as_known_software_with_this_sharding(
    changes: dict[str, str], taken_for: str
) -> None:
    stack, notes = software_of(case_of_row({**ROW, "stack": "zaphod", **changes}))
    assert stack.id == taken_for
    assert notes[0].startswith("stack 'zaphod' is treated as ")
    assert ("states in fp32" in notes[0]) == (taken_for != "torch")
    assert stack.memory.logged_figure == "reserved"


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        ("torch, chunked cross entropy", "chunked"),
        ("torch + fused linear CE", "fused"),
        ("torch (cut cross-entropy)", "fused"),
        ("hf-trainer with Liger", "fused"),
        ("torch", "whole"),
    ],
)
def test_the_name_of_the_software_states_the_loss(name: str, loss: str) -> None:
    assert software_of(case_of_row({**ROW, "stack": name}))[0].memory.loss == loss


def test_torch_by_another_name_is_torch_however_it_is_divided() -> None:
    assert software_of(case_of_row({**ROW, "stack": "my torch loop", "tp": "8"}))[0].id == "torch"


def test_a_known_stack_stays_as_stated() -> None:
    stack, notes = software_of(case_of_row({**ROW, "stack": "nanotron", "sharding": "zero1"}))
    assert (stack.id, notes) == ("nanotron", ())


@pytest.mark.parametrize("stack", ["hf-trainer", "ms-swift"])
def test_deepspeed_keeps_masters_beneath_any_trainer(stack: str) -> None:
    """Each of 16 ranks has a sixteenth of the 16-bit weights and of the fp32 master weights and moments."""
    case = resolved(stack=stack, sharding="zero3", task="sft", optimizer="adamw")
    memory = case.memory_of_case()
    each = parameter_count(case.workload.model) / 16 if case.workload else 0.0
    assert memory.parameters == pytest.approx(2 * each, rel=0.01)
    assert memory.optimizer == pytest.approx(12 * each, rel=0.01)


def step_bytes(sharding: str, *, at_once: float = 1e9) -> tuple[float, float]:
    """Return the temporary bytes of the optimizer's step, and the number of parameters that it updates."""
    case = resolved(stack="deepspeed", sharding=sharding)
    stack = msgspec.structs.replace(
        case.stack,
        memory=msgspec.structs.replace(case.stack.memory, step_elements=at_once, bucket_elements=1.0),
    )
    stage = stages_of(case.workload.model, case.candidate.degrees, 1, "1f1b")[0]
    job = transformer_job(case.workload, case.candidate, case.cluster, stack)
    states = states_of(job, stage)
    return buffers_of(job, stage, states).step, states.updated


def test_deepspeed_raises_its_part_of_the_gradients_to_fp32_for_the_step() -> None:
    held, updated = step_bytes("zero2")
    assert held == pytest.approx((2 + 4) * updated, rel=1e-6)
    held, _ = step_bytes("zero1")
    assert held < 10  # less than the gradients of others, which are freed before
    held, updated = step_bytes("zero3")
    assert held == pytest.approx((2 + 4) * updated, rel=1e-6)
    held, _ = step_bytes("zero3", at_once=1e7)
    assert held == pytest.approx((2 + 4) * 1e7, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("InternLM", "internevo"),
        ("InternEvo 0.3", "internevo"),
        ("PaddleNLP", "paddlenlp"),
        ("PaddleNLP 2.6", "paddlenlp"),
        ("llm.c", "llm-c"),
        ("LLM.C (cuDNN)", "llm-c"),
    ],
)
def test_trainers_of_their_own_are_found(name: str, row: str) -> None:
    stack, notes = software_of(case_of_row({**ROW, "stack": name, "sharding": "zero1"}))
    assert (stack.id, notes) == (row, ())


def test_a_layer_of_llm_c_keeps_twelve_tensors_of_its_width() -> None:
    """The layer keeps ln1, query, key, value, attention's output, two residuals, ln2 and four widths.

    The last four are those before GELU; all have 16 bits.
    """
    changes = {
        "model": "gpt2",
        "hidden": "768",
        "n_heads": "12",
        "n_kv_heads": "",
        "ffn_hidden": "3072",
        "vocab": "50257",
    }
    kept = [
        resolved(
            **changes,
            n_layers=layers,
            stack="llm.c",
            n_gpus="1",
            seq_len="1024",
            activation_checkpointing="none",
        ).memory_of_case()
        for layers in ("12", "13")
    ]
    statistics = 12 * 4
    assert kept[1].activations - kept[0].activations == pytest.approx(
        1024 * (12 * 768 * 2 + statistics), rel=1e-6
    )
