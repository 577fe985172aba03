"""The software of a case, and its default precision, sequence length and optimizer.

The name of the software determines the stack, whose row states most of these defaults. If no stack has this
name, the sharding determines the stack. The default optimizer also depends on the model and the task.
"""

import re

import msgspec

from recipes.cases.case import Case
from recipes.cases.table_words import Numbers, Task, adapter_targets_of, names_zero, sharing_of, task_of
from recipes.job.workload import Optimizer, Precision, TransformerModel, VisionModel
from recipes.machine.cluster_records import Cluster
from recipes.planning.program_jobs import over_deepspeed
from recipes.planning.programs import OWN, program_named
from recipes.predict.stacks import ADAPTERS, SHARDED_ADAPTERS, UNKNOWN, Stack, load_stacks, stack_named

_SHOWN = 40
_ZERO = "deepspeed"
_DIVIDED = "megatron-core"
_OWN_LOOP = program_named(OWN).stack


def software_of(case: Case) -> tuple[Stack, tuple[str, ...]]:
    """Return the stack (the row of the software), and the assumptions about the stack as text.

    Raises CaseError if a value of the case is not known.
    """
    stack = stack_named(case.stack)
    notes: tuple[str, ...] = ()
    is_plain = stack is not None and stack.id == UNKNOWN
    if stack is None:
        stack = load_stacks()[_like(case)]
        usual = load_stacks()[UNKNOWN].memory.logged_figure
        stack = msgspec.structs.replace(
            stack, memory=msgspec.structs.replace(stack.memory, logged_figure=usual)
        )
        is_plain = stack.id in (UNKNOWN, _OWN_LOOP)
        shown = case.stack[:_SHOWN]
        reason = (
            "" if is_plain else ", which shards a model in this way: 16-bit weights, optimizer states in fp32"
        )
        notes = (
            f"stack {shown!r} is treated as {stack.title}{reason}"
            if shown
            else f"stack is {stack.title}{reason}",
        )
    if is_plain and task_of(case.task).tuning != "full":
        is_sharded = sharing_of(case.sharding).sharding == "zero3" and not names_zero(case.sharding)
        stack = load_stacks()[SHARDED_ADAPTERS if is_sharded else ADAPTERS]
    stack = _with_loss(stack, case.stack.lower())
    is_zero = (
        names_zero(case.sharding)
        or (case.zero_stage and not case.sharding)
        or "deepspeed" in case.stack.lower()
    )
    if stack.gathers_modules == "zero" and (is_zero or case.sharding):
        # A stated sharding that does not name ZeRO is FSDP's.
        stack = over_deepspeed(stack) if is_zero else msgspec.structs.replace(stack, gathers_modules="never")
    if case.ep == 1 and stack.extends_experts:
        stack = msgspec.structs.replace(stack, experts="grouped")
    return _with_adapters(stack, case), notes


def _with_adapters(stack: Stack, case: Case) -> Stack:
    """Return the stack with the LoRA rank and layers that the case states."""
    rank = case.lora_rank or stack.memory.adapter_rank
    targets = adapter_targets_of(case.lora_targets) if case.lora_targets else stack.memory.adapter_targets
    if (rank, targets) == (stack.memory.adapter_rank, stack.memory.adapter_targets):
        return stack
    return msgspec.structs.replace(
        stack, memory=msgspec.structs.replace(stack.memory, adapter_rank=rank, adapter_targets=targets)
    )


def _with_loss(stack: Stack, words: str) -> Stack:
    """Return the stack with the additional kernels that the name of the software contains.

    Such kernels are Liger's kernels for layers and loss, or a loss function that does not keep the logits.
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
    """Return the id of a stack that supports the layout of the case.

    A case without software is a torch program of the user's own, as for a plan. Plain torch can only
    replicate the model or shard it fully, keeps fp32 weights, and does not divide layers.
    """
    words, sharing = case.sharding.lower(), sharing_of(case.sharding)
    is_divided = any((degree or 1) > 1 for degree in (case.tp, case.pp, case.cp, case.ep))
    plain = UNKNOWN if case.stack or is_divided else _OWN_LOOP
    if "torch" in case.stack.lower() or sharing.hybrid or "fsdp" in words or "shard" in words:
        return plain
    if (case.tp or 1) * (case.pp or 1) > 1 and not (names_zero(words) or case.zero_stage):
        return _DIVIDED
    return _ZERO if case.zero_stage or sharing.sharding not in (None, "none") else plain


_SQUAD_LENGTH = 384
"""Sequence length of BERT's fine-tuning on SQuAD (google-research/bert, run_squad.py --max_seq_length)."""
_WITHOUT_BF16: dict[str, Precision] = {
    "volta": "fp16",
    "turing": "fp16",
    "pascal": "fp32",
    "maxwell": "fp32",
    "kepler": "fp32",
}


def precision_of(
    case: Case, numbers: Numbers, stack: Stack, cluster: Cluster, task: Task, *, is_vision: bool
) -> tuple[Precision, list[str]]:
    """Return the precision of the computation, and the assumptions as notes for the user."""
    precision = numbers.precision or usual_precision(stack, cluster, case, is_vision=is_vision)
    if (
        precision == "fp32"
        and numbers.precision is None
        and (numbers.base_bits < 16 or task.tuning == "qlora")
    ):
        precision = half_precision(cluster)
    notes = [] if case.precision else [f"precision {precision}"]
    if case.precision and numbers.base_bits < 16 and task.tuning == "full":
        notes.append(
            f"{case.precision[:20]} applies only to frozen weights, but this task trains all weights; "
            f"{precision} is assumed (set task to lora or qlora to keep the base frozen)"
        )
    peaks = cluster.peak_flops_per_s
    has_tf32 = "tf32" in peaks and peaks["tf32"] != peaks.get("fp32")
    if precision == "fp32" and stack.tf32 == "always" and has_tf32:
        return "tf32", [*notes, f"{stack.title} multiplies fp32 as TF32"]
    return precision, notes


def usual_precision(stack: Stack, cluster: Cluster, case: Case, *, is_vision: bool) -> Precision:
    """Return the precision that the stack usually uses on this device.

    If the stack lists no precision, return the best 16-bit format of the device, or fp32 on a CPU without
    bf16.
    """
    architecture, family = cluster.architecture, "cnn" if is_vision else case.family
    for key in (f"{architecture}-{family}", family, architecture, ""):
        if key in stack.precision:
            return stack.precision[key]
    return "fp32" if cluster.device == "cpu" and not cluster.has_bf16 else half_precision(cluster)


def half_precision(cluster: Cluster) -> Precision:
    """Return the best 16-bit format of the GPU, or fp32 if the GPU has no 16-bit format.

    Quantised base weights are cast to this format for the computation.
    """
    return _WITHOUT_BF16.get(cluster.architecture, "bf16")


def usual_length(model: TransformerModel, stack: Stack, task: Task) -> int:
    """Return the default sequence length in tokens, which depends on the model and the task."""
    if task.from_scratch:
        return model.sequence_length
    usual = _SQUAD_LENGTH if model.kind == "encoder" else stack.tuning_length
    return min(usual, model.sequence_length) if usual else model.sequence_length


def usual_optimizer(model: TransformerModel | VisionModel, task: Task) -> Optimizer:
    """Return the default optimizer for the model.

    This is SGD for known image models, LAMB for encoders that are trained from scratch, and otherwise AdamW.
    """
    if isinstance(model, VisionModel):
        return "sgd" if model.image_size else "adamw"  # the user's own module may be of any kind
    return "lamb" if model.kind == "encoder" and task.from_scratch else "adamw"
