"""The resolved plan, and a placeholder for each of its decisions in the arguments of the user's program.

The descriptions of the fields are the documentation of plan.json and of the placeholders.
"""

import re
from typing import Annotated, NamedTuple, get_args, get_type_hints

from msgspec import Meta

from probes.base.errors import UsageError
from probes.base.nearest import did_you_mean
from probes.base.record import Record, quoted
from recipes.job.candidate import ActivationCheckpointing, Schedule
from recipes.job.training_recipes import RateSchedule
from recipes.job.workload import Optimizer, Precision, Tuning
from recipes.launch.references import NAME, reference


class PlanDegrees(Record, kw_only=True):
    """Degrees of parallelism; the product of dp, fsdp, tp, pp and cp is the number of ranks."""

    dp: Annotated[int, Meta(description="copies of the parameters")]
    fsdp: Annotated[int, Meta(description="ranks that share one copy of the parameters")]
    tp: Annotated[int, Meta(description="ranks that divide each layer (tensor parallelism)")]
    pp: Annotated[int, Meta(description="pipeline stages")]
    vp: Annotated[int, Meta(description="parts of the layers on each pipeline stage")]
    cp: Annotated[int, Meta(description="ranks that divide each sequence (context parallelism)")]
    ep: Annotated[int, Meta(description="ranks that divide the experts")]


class ResolvedPlan(Record, kw_only=True):
    """All decisions of a recipe."""

    schema_version: int = 1
    name: Annotated[str, Meta(description="short id of the job")]
    program: Annotated[str, Meta(description="training software, a row of `rigtune list programs`")]
    model: Annotated[str, Meta(description="id of the model")]
    strategy: Annotated[str, Meta(description="data parallelism: ddp, zero1, zero2, fsdp or hsdp")]
    degrees: PlanDegrees
    pipeline_schedule: Annotated[Schedule, Meta(description="order of work in a pipeline")]
    nodes: Annotated[int, Meta(description="nodes")]
    ranks_per_node: Annotated[int, Meta(description="ranks on each node")]
    world_size: Annotated[int, Meta(description="ranks on all nodes")]
    micro_batch: Annotated[int, Meta(description="sequences per rank and forward pass")]
    grad_accum: Annotated[int, Meta(description="forward and backward passes per optimizer step")]
    global_batch: Annotated[int, Meta(description="sequences per optimizer step over all ranks")]
    sequence_length: Annotated[int, Meta(description="tokens per sequence; 0 for images")]
    image_size: Annotated[int, Meta(description="side of the images in pixels; 0 for text")]
    activation_checkpointing: Annotated[
        ActivationCheckpointing, Meta(description="recomputation of activations: none, selective or full")
    ]
    recomputed_share: Annotated[
        float, Meta(description="part of the layers that full checkpointing recomputes, at most 1")
    ]
    precision: Annotated[
        Precision, Meta(description="number format of matrix products: bf16, fp16, fp32 ...")
    ]
    offload: Annotated[
        str, Meta(description="training state in the host's memory: none, states, or also weights")
    ]
    optimizer: Annotated[Optimizer, Meta(description="optimizer: adamw, sgd, lion ...")]
    tuning: Annotated[
        Tuning, Meta(description="full training, or adapters over frozen weights: full, lora, qlora")
    ]
    adapter_rank: Annotated[int, Meta(description="rank of the adapters; 0 without adapters")]
    learning_rate: Annotated[float, Meta(description="peak learning rate")]
    embedding_learning_rate: Annotated[
        float,
        Meta(description="peak learning rate of embeddings, norms and biases; 0 if it is not different"),
    ]
    warmup_steps: Annotated[int, Meta(description="steps in which the learning rate rises to its peak")]
    steps: Annotated[int, Meta(description="optimizer steps of the whole run")]
    schedule: Annotated[
        RateSchedule, Meta(description="learning rate after the warm-up: constant, cosine, linear or wsd")
    ]
    final_share: Annotated[float, Meta(description="learning rate of the last step, relative to the peak")]
    decay_share: Annotated[float, Meta(description="part of the run in which the rate falls, for wsd")]
    beta1: Annotated[float, Meta(description="first decay of Adam; momentum of SGD")]
    beta2: Annotated[float, Meta(description="second decay of Adam")]
    weight_decay: Annotated[float, Meta(description="weight decay")]
    gradient_clipping: Annotated[float, Meta(description="largest norm of the gradient; 0 without clipping")]
    accumulation_dtype: Annotated[str, Meta(description="number format in which gradients are summed")]
    ramp_from: Annotated[int, Meta(description="sequences of the first steps if the batch grows; 0 if not")]
    ramp_samples: Annotated[int, Meta(description="sequences after which the batch has its full size")]
    checkpoint_steps: Annotated[int, Meta(description="steps between two checkpoints")]
    bucket_mb: Annotated[int, Meta(description="MiB of gradients that DDP sends together; 0 for its default")]
    prefetch: Annotated[int, Meta(description="layers that FSDP gathers in advance; 0 for its default")]
    backend: Annotated[str, Meta(description="backend of torch.distributed: nccl or gloo")]
    device: Annotated[str, Meta(description="kind of device: cuda or cpu")]
    weights: Annotated[
        str, Meta(description="path or hub name of the weights: the slot `model`; may be empty")
    ]
    data: Annotated[str, Meta(description="path or hub name of the training data: a slot; may be empty")]
    tokenizer: Annotated[str, Meta(description="path or hub name of the tokenizer: a slot; may be empty")]
    output: Annotated[str, Meta(description="folder for results: a slot; may be empty")]
    checkpoints: Annotated[str, Meta(description="folder for checkpoints: a slot; may be empty")]


class Placeholder(NamedTuple):
    """A name in braces that an argument may contain."""

    id: str
    title: str
    """Meaning of the value."""


def _described(record: type) -> dict[str, Placeholder]:
    """Return the fields of a record that have a description."""
    hints = get_type_hints(record, include_extras=True)
    described = {name: get_args(hint)[-1] for name, hint in hints.items() if hasattr(hint, "__metadata__")}
    return {name: Placeholder(name, meta.description) for name, meta in described.items()}


PLACEHOLDERS = _described(ResolvedPlan) | _described(PlanDegrees)
"""All placeholders by name; plan.json has the same names."""

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


def expand(argument: str, values: dict[str, str]) -> str:
    """Return `argument` with its placeholders filled in; `{{` and `}}` become braces.

    `{$NAME}` becomes the mark of a variable of the shell, which `references.py` explains. Raises UsageError
    for any other brace.
    """

    def fill(match: re.Match[str]) -> str:
        token, name = match.group(0), match.group(1)
        if token in ("{{", "}}"):
            return token[0]
        if name in values:
            return values[name]
        if name is not None and name.startswith("$") and NAME.fullmatch(name[1:]):
            return reference(name[1:])
        what = f"no placeholder {token[:60]}" if name is not None else "no partner for a brace"
        known = (
            f"placeholders, which `rigtune list placeholders` explains: "
            f"{', '.join('{' + each + '}' for each in values)}; write {{{{ and }}}} for plain braces"
        )
        raise UsageError(
            f"argument {quoted(argument)}: there is {what}", did_you_mean(name or "", values, known)
        )

    return _TOKEN.sub(fill, argument)


def has_placeholder(arguments: tuple[str, ...], name: str) -> bool:
    """Return whether any argument contains this placeholder; a name in double braces is plain text."""
    return any(match[1] == name for text in arguments for match in _TOKEN.finditer(text))


def names_placeholder(arguments: tuple[str, ...]) -> bool:
    """Return whether any argument contains a placeholder."""
    return any(match[1] in PLACEHOLDERS for text in arguments for match in _TOKEN.finditer(text))
