"""What is taken for the precision, the length and the optimizer of a case that does not say."""

from __future__ import annotations

from recipes.cases.case import Case
from recipes.cases.table_words import Numbers, Task
from recipes.job.workload import Optimizer, Precision, TransformerModel, VisionModel
from recipes.machine.cluster_records import Cluster
from recipes.predict.stacks import Stack

_SQUAD_LENGTH = 384
"""Of BERT's fine-tuning on SQuAD (google-research/bert, run_squad.py --max_seq_length)."""
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
    """What the run computes in, with words for people about what was not stated or is taken for something
    else.
    """
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
            f"{case.precision[:20]} is of frozen weights, but all are trained: in {precision} (task says lora or qlora)"
        )
    if precision == "fp32" and stack.tf32 == "always" and _has_tf32(cluster):
        return "tf32", [*notes, f"{stack.title} multiplies fp32 as TF32"]
    return precision, notes


def usual_precision(stack: Stack, cluster: Cluster, case: Case, *, is_vision: bool) -> Precision:
    """What the stack's runs compute in on such a GPU; else the best 16-bit format of the GPU, for images as
    torch does.
    """
    architecture, family = cluster.architecture, "cnn" if is_vision else case.family
    for key in (f"{architecture}-{family}", family, architecture, ""):
        if key in stack.precision:
            return stack.precision[key]
    if cluster.device == "cpu":
        return "bf16" if cluster.has_bf16 else "fp32"
    return half_precision(cluster)


def half_precision(cluster: Cluster) -> Precision:
    """Return the best 16-bit format of the GPU, fp32 where it has none: also what a quantised base is raised
    to.
    """
    return _WITHOUT_BF16.get(cluster.architecture, "bf16")


def usual_length(model: TransformerModel, stack: Stack, task: Task) -> int:
    """Return tokens of a sequence by what is trained."""
    if task.from_scratch:
        return model.sequence_length
    usual = _SQUAD_LENGTH if model.kind == "encoder" else stack.tuning_length
    return min(usual, model.sequence_length) if usual else model.sequence_length


def usual_optimizer(model: TransformerModel | VisionModel, task: Task) -> Optimizer:
    """By the model: SGD for images, LAMB for encoders from scratch, AdamW for all else."""
    if isinstance(model, VisionModel):
        return "sgd" if model.image_size else "adamw"  # a module of the user's own may be anything
    return "lamb" if model.kind == "encoder" and task.from_scratch else "adamw"


def _has_tf32(cluster: Cluster) -> bool:
    peaks = cluster.peak_flops_per_s
    return "tf32" in peaks and peaks["tf32"] != peaks.get("fp32")
