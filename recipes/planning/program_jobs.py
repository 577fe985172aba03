"""The job of a layout as the program really trains it.

Some software changes with the layout: Hugging Face's programs share optimizer states only through DeepSpeed,
whose engine keeps other states. `plan`, `predict`, edited recipes and `tune` use the functions here.
"""

import msgspec

from recipes.constants import constant
from recipes.job.candidate import Candidate
from recipes.job.workload import AnyWorkload, Workload
from recipes.machine.cluster_records import Cluster
from recipes.predict.stacks import Stack, load_stacks
from recipes.predict.training_job import ByKey, Job, job_of

_ZERO = "deepspeed"


def program_job(workload: AnyWorkload, candidate: Candidate, cluster: Cluster, stack: Stack) -> Job:
    """Return the job with the stack that trains this layout.

    Programs over Hugging Face's libraries have ZeRO-1 and ZeRO-2 only through DeepSpeed. Their full sharding
    is FSDP, unless a case names ZeRO.
    """
    if stack.gathers_modules == "zero" and candidate.sharding_stage in ("zero1", "zero2"):
        stack = _over_deepspeed(stack, (id(stack),))
    return job_of(workload, candidate, cluster, stack)


def with_all_logits(workload: AnyWorkload, stack: Stack) -> AnyWorkload:
    """Return the pre-training of a masked language model with logits at every position if the stack computes
    them; any other workload unchanged.
    """
    if not isinstance(workload, Workload) or workload.model.kind != "encoder":
        return workload
    if workload.fine_tuning or not stack.predicts_all:
        return workload
    model = msgspec.structs.replace(workload.model, head_fraction=1.0)
    return msgspec.structs.replace(workload, model=model)


def over_deepspeed(stack: Stack) -> Stack:
    """Return the stack with the states that DeepSpeed keeps.

    DeepSpeed's engine casts weights to 16 bits and keeps fp32 master weights (runtime/engine.py).
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


_over_deepspeed = ByKey(over_deepspeed)
"""The same variant for the same stack, because predictions are kept by the stack's identity."""
