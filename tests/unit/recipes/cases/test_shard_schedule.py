"""Schedule of fully sharded training: which weights and gradients are whole between micro-batches."""

import msgspec
import pytest

from probes.base.record import Unknown
from recipes.cases.case import case_of_row
from recipes.cases.resolved import resolve
from recipes.cases.resolved_case import ResolvedCase
from recipes.predict.breakdowns import MemoryBreakdown, TimeBreakdown
from recipes.predict.memory.peak import memory_of
from recipes.predict.speed.step import step_time
from recipes.predict.stack_memory import ShardSchedule
from recipes.predict.training_job import TransformerJob

LLAMA_70B = {
    "model": "llama-2-70b",
    "gpu": "H200-SXM-141GB",
    "n_gpus": "64",
    "tp": "4",
    "fsdp": "16",
    "sharding": "fsdp",
    "precision": "bf16-mixed",
    "micro_batch": "1",
    "seq_len": "4096",
    "activation_checkpointing": "full",
    "stack": "pytorch-fsdp",
}
PARAMETERS = 69e9
PIPELINE = {**LLAMA_70B, "pp": "4", "fsdp": "4", "stack": "torchtitan"}


def resolved(row: dict[str, str], **changes: str) -> ResolvedCase:
    return resolve(case_of_row({**row, **changes}))


def job_of(case: ResolvedCase) -> TransformerJob:
    assert isinstance(case.job, TransformerJob)
    return case.job


def memory(row: dict[str, str], **changes: str) -> MemoryBreakdown:
    return memory_of(job_of(resolved(row, **changes)))


def time_of(job: TransformerJob) -> TimeBreakdown:
    time = step_time(job)
    assert not isinstance(time, Unknown)
    return time


def at_each(job: TransformerJob) -> TransformerJob:
    """Return the job with reductions after each micro-batch and weights gathered for one layer at a time."""
    return job._replace(stack=msgspec.structs.replace(job.stack, shards=ShardSchedule()))


def test_fsdp2_adds_whole_gradients_in_the_type_of_the_reduction() -> None:
    """torch, _fsdp_param.py: to_accumulated_grad_if_needed raises unsharded gradients to reduce_dtype."""
    grown = memory(LLAMA_70B, grad_accum="4").allocated - memory(LLAMA_70B, grad_accum="1").allocated
    assert grown == pytest.approx(4 * PARAMETERS / 4, rel=0.05)


def test_fsdp1_of_accelerate_adds_whole_gradients_in_16_bits() -> None:
    row = {**LLAMA_70B, "stack": "accelerate", "tp": "1", "fsdp": "64"}
    grown = memory(row, grad_accum="4").allocated - memory(row, grad_accum="1").allocated
    assert 1.5 * PARAMETERS < grown <= 2.1 * PARAMETERS


@pytest.mark.parametrize("stack", ["torchtitan", "megatron-core", "deepspeed"])
def test_software_that_reduces_each_micro_batch_keeps_shards_only(stack: str) -> None:
    """torchtitan reduces in every micro-batch; Megatron-FSDP adds into its shard; so does DeepSpeed."""
    one, four = (memory(LLAMA_70B, stack=stack, grad_accum=times) for times in ("1", "4"))
    assert four.allocated - one.allocated <= 4 * PARAMETERS / 64 * 1.1


def test_a_pipeline_of_torch_keeps_weights_gathered_and_gradients_whole() -> None:
    """torch, pipelining/stage.py: backward_maybe_with_nosync turns off sync and resharding until the last
    micro-batch; torchtitan's reshard_after_forward `default` is off under a pipeline.
    """
    job = job_of(resolved(PIPELINE, grad_accum="8"))
    extra = memory_of(job).allocated - memory_of(at_each(job)).allocated
    whole = (4 + 2) * PARAMETERS / 16  # an upper bound: shards and gathered layers are subtracted
    assert 0.75 * whole < extra < whole


def test_a_pipeline_of_megatron_fsdp_gathers_layers_for_each_micro_batch() -> None:
    job = job_of(resolved(PIPELINE, grad_accum="8", stack="megatron-core"))
    assert memory_of(job) == memory_of(at_each(job))
    assert time_of(job) == time_of(at_each(job))


def test_weights_that_stay_gathered_are_sent_once_a_step() -> None:
    job = job_of(resolved(PIPELINE, grad_accum="16"))
    once, each = time_of(job), time_of(at_each(job))
    assert once.exposed_communication < each.exposed_communication
    more = job_of(resolved(PIPELINE, grad_accum="32"))
    assert time_of(more).exposed_communication - once.exposed_communication < once.exposed_communication


def test_one_micro_batch_has_nothing_to_defer() -> None:
    job = job_of(resolved(LLAMA_70B, grad_accum="1"))
    assert memory_of(job) == memory_of(at_each(job))
    assert time_of(job) == time_of(at_each(job))


def test_pure_16_bits_add_in_16_bits() -> None:
    pure = {**LLAMA_70B, "precision": "bf16-true"}
    grown = memory(pure, grad_accum="4").allocated - memory(pure, grad_accum="1").allocated
    assert grown == pytest.approx(2 * PARAMETERS / 4, rel=0.1)


def test_every_rank_of_plain_torch_has_the_logits_of_the_whole_vocabulary() -> None:
    """torch's tutorial of tensor parallelism: the head's output layout is Replicate()."""
    whole, divided = (memory(LLAMA_70B, micro_batch="8", stack=name) for name in ("torch", "torchtitan"))
    assert whole.logits > 2 * divided.logits


def test_a_compiled_loss_writes_fewer_copies_of_logits() -> None:
    eager, compiled = (memory(LLAMA_70B, micro_batch="16", compile=flag) for flag in ("false", "true"))
    assert compiled.logits < eager.logits


def test_adapters_that_torch_shards_take_the_loss_of_the_models() -> None:
    row = {**LLAMA_70B, "tp": "", "n_gpus": "2", "fsdp": "2", "task": "qlora", "precision": "nf4"}
    assert resolved(row).stack.id == "fsdp-qlora"
    assert resolved(row, sharding="ddp", fsdp="").stack.id == "torch-peft"
