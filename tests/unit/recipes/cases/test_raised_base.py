"""Parameters in fp32 beside a quantised base, by the framework that prepares it."""

from __future__ import annotations

import msgspec
import pytest

from recipes.cases.case import case_of_row
from recipes.cases.resolved import resolve
from recipes.job.candidate import Degrees
from recipes.job.models.names import find_model
from recipes.predict.memory.peak import memory_of
from recipes.predict.stacks import load_stacks
from recipes.predict.training_job import transformer_job
from tests.support.clusters import case, figure, h100_cluster

LLAMA = find_model("llama-2-7b")
QLORA = {"tuning": "qlora", "base_bits": 4, "fine_tuning": True}
SHARDED = {"sharding": "zero3", "strategy": "fsdp", "degrees": Degrees(fsdp=2)}


def bill(*, raised, ranks=1, **candidate):
    """Return the memory of TRL with or without parameters that it casts to fp32."""
    first, second = case(LLAMA, ranks=ranks, checkpointing="full")
    trl = load_stacks()["trl"]
    return memory_of(
        transformer_job(
            msgspec.structs.replace(first, **QLORA),
            msgspec.structs.replace(second, micro_batch=4, **candidate),
            h100_cluster(ranks=ranks),
            trl
            if raised
            else msgspec.structs.replace(
                trl, memory=msgspec.structs.replace(trl.memory, raises_tables=False)
            ),
        )
    )


def test_the_residual_stream_that_checkpoints_keep_is_twice_as_wide():
    more = bill(raised=True).activations - bill(raised=False).activations
    # The difference includes what one layer keeps.
    assert more > 2 * LLAMA.layers * LLAMA.hidden * 4 * LLAMA.sequence_length


def test_tables_are_raised_on_one_gpu_and_not_where_shards_are_of_one_type():
    tables = 2 * LLAMA.vocab * LLAMA.hidden
    assert bill(raised=True).parameters - bill(raised=False).parameters == pytest.approx(2 * tables, rel=0.01)
    assert (
        bill(raised=True, ranks=2, **SHARDED).parameters == bill(raised=False, ranks=2, **SHARDED).parameters
    )


@pytest.mark.parametrize(
    ("task", "stack"), [("qlora", "torch-peft"), ("lora", "torch-peft"), ("sft", "torch")]
)
def test_adapters_in_plain_torch_are_hugging_faces(task, stack):
    row = {
        "case_id": "a",
        "model": "llama-2-7b",
        "gpu": "H100-SXM-80GB",
        "n_gpus": "1",
        "stack": "pytorch",
        "task": task,
    }
    assert resolve(case_of_row(row)).stack.id == stack


@pytest.mark.parametrize(("tuning", "bits", "bytes_each"), [("lora", 16, 8), ("qlora", 4, 16)])
def test_a_plain_torch_loop_computes_the_loss_in_the_type_of_the_logits(tuning, bits, bytes_each):
    wide = msgspec.structs.replace(LLAMA, vocab=10 * LLAMA.vocab)
    first, second = case(wide, checkpointing="full")
    work = msgspec.structs.replace(first, tuning=tuning, base_bits=bits, fine_tuning=True, pure_weights=True)
    one = msgspec.structs.replace(second, micro_batch=4)
    stack = load_stacks()["torch-peft"]
    memory = memory_of(
        transformer_job(work, one, h100_cluster(ranks=1, memory_bytes_per_rank=figure(1e15)), stack)
    )
    assert memory.logits == 4 * wide.sequence_length * wide.vocab * bytes_each
    others = memory_of(
        transformer_job(
            work,
            one,
            h100_cluster(ranks=1, memory_bytes_per_rank=figure(1e15)),
            msgspec.structs.replace(
                stack, memory=msgspec.structs.replace(stack.memory, raises_stream=False, own_loss=False)
            ),
        )
    )
    # The allocator reuses a freed block for the next tensor of the same size.
    assert (memory.reserved - memory.allocated) * others.logits < (
        others.reserved - others.allocated
    ) * memory.logits


def test_a_loss_whose_tensors_are_of_one_size_leaves_no_gaps():
    def gaps(raises):
        wide = msgspec.structs.replace(LLAMA, vocab=10 * LLAMA.vocab, raises_logits=raises)
        first, second = case(wide, checkpointing="full")
        memory = memory_of(
            transformer_job(
                msgspec.structs.replace(first, tuning="lora", fine_tuning=True, pure_weights=True),
                msgspec.structs.replace(second, micro_batch=4),
                h100_cluster(ranks=1, memory_bytes_per_rank=figure(1e15)),
                load_stacks()["trl"],
            )
        )
        return memory.reserved - memory.allocated

    assert gaps(raises=False) < 0.5 * gaps(raises=True)
