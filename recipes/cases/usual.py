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
    """Return the precision of the computation, with notes for people on assumptions."""
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
            f"{case.precision[:20]} is of frozen weights, but all are trained: in {precision} "
            "(task says lora or qlora)"
        )
    if precision == "fp32" and stack.tf32 == "always" and _has_tf32(cluster):
        return "tf32", [*notes, f"{stack.title} multiplies fp32 as TF32"]
    return precision, notes


def usual_precision(stack: Stack, cluster: Cluster, case: Case, *, is_vision: bool) -> Precision:
    """Return the precision of the stack's runs on such a GPU; else the GPU's best 16-bit format."""
    architecture, family = cluster.architecture, "cnn" if is_vision else case.family
    for key in (f"{architecture}-{family}", family, architecture, ""):
        if key in stack.precision:
            return stack.precision[key]
    if cluster.device == "cpu":
        return "bf16" if cluster.has_bf16 else "fp32"
    return half_precision(cluster)


def half_precision(cluster: Cluster) -> Precision:
    """Return the best 16-bit format of the GPU, fp32 if it has none; a quantised base is cast to it."""
    return _WITHOUT_BF16.get(cluster.architecture, "bf16")


def usual_length(model: TransformerModel, stack: Stack, task: Task) -> int:
    """Return the tokens of a sequence by what is trained."""
    if task.from_scratch:
        return model.sequence_length
    usual = _SQUAD_LENGTH if model.kind == "encoder" else stack.tuning_length
    return min(usual, model.sequence_length) if usual else model.sequence_length


def usual_optimizer(model: TransformerModel | VisionModel, task: Task) -> Optimizer:
    """Return the optimizer by the model: SGD for images, LAMB for encoders from scratch, else AdamW."""
    if isinstance(model, VisionModel):
        return "sgd" if model.image_size else "adamw"  # a module of the user's own may be anything
    return "lamb" if model.kind == "encoder" and task.from_scratch else "adamw"


def _has_tf32(cluster: Cluster) -> bool:
    peaks = cluster.peak_flops_per_s
    return "tf32" in peaks and peaks["tf32"] != peaks.get("fp32")
