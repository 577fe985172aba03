"""Default precision, length and optimizer of a case that does not state them."""

from __future__ import annotations

from recipes.cases.case import Case
from recipes.cases.table_words import Numbers, Task
from recipes.job.workload import Optimizer, Precision, TransformerModel, VisionModel
from recipes.machine.cluster_records import Cluster
from recipes.predict.stacks import Stack

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
    """Return the precision of the computation, and notes for the user about what was assumed."""
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
    """Return the precision that the stack usually uses on such a device.

    If none is listed, return the best 16-bit format of the device, or fp32 on a CPU without bf16.
    """
    architecture, family = cluster.architecture, "cnn" if is_vision else case.family
    for key in (f"{architecture}-{family}", family, architecture, ""):
        if key in stack.precision:
            return stack.precision[key]
    if cluster.device == "cpu" and not cluster.has_bf16:
        return "fp32"
    return half_precision(cluster)


def half_precision(cluster: Cluster) -> Precision:
    """Return the best 16-bit format of the GPU, or fp32 if it has none.

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

    This is SGD for image models, LAMB for encoders that are trained from scratch, and otherwise AdamW.
    """
    if isinstance(model, VisionModel):
        return "sgd" if model.image_size else "adamw"  # a module of the user's own may be anything
    return "lamb" if model.kind == "encoder" and task.from_scratch else "adamw"
