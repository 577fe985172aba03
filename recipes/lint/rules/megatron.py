"""Arithmetic of Megatron and NeMo: ranks, parallelism, batches, layers and heads."""

import re

from probes.base.record import Record
from probes.base.units import plural
from recipes.lint.context import Context
from recipes.lint.document import Command, Document
from recipes.lint.rule_table import Findings, make_finding, per_document
from recipes.lint.views import (
    directive,
    enclosing,
    nodes_of,
    option,
    option_number,
    tasks_per_node,
)

_SPLITS = ("tensor-model-parallel-size", "pipeline-model-parallel-size", "context-parallel-size")
_UNEVEN = (
    "decoder-first-pipeline-num-layers",
    "decoder-last-pipeline-num-layers",
    "pipeline-model-parallel-layout",
    "account-for-embedding-in-pipeline-split",
    "account-for-loss-in-pipeline-split",
    "pipeline-model-parallel-split-rank",
    "standalone-embedding-stage",
    "no-pipeline-parallel",
    "pp-partition-method",
    "deepspeed",
)
"""Options that allow pipeline stages with different numbers of layers, or that turn stages off."""
_HYDRA = re.compile(r"\+{0,2}(?:model|trainer)\.(\w+)=(\d+)")


class _Job(Record, kw_only=True):
    """Degrees of parallelism, number of ranks and batch sizes; None if not stated as a number."""

    tensor: int | None
    pipeline: int | None
    context: int | None
    world: int | None
    micro: int | None
    batch: int | None


@per_document()
def sizes(document: Document, context: Context) -> Findings:
    """Check that parallelism divides the ranks, the batch, the layers and the heads."""
    for command in document.commands:
        job = _job_in_options(document, command) or _job_in_overrides(command)
        if job is not None:
            yield from _judged(document, command, job)
            yield from _shapes(document, command, job)
            yield from _wide(document, command, job)


def _judged(document: Document, command: Command, job: _Job) -> Findings:
    if job.tensor is None or job.pipeline is None or job.context is None or job.world is None:
        return
    size = job.tensor * job.pipeline * job.context
    split = f"tensor {job.tensor} x pipeline {job.pipeline}" + (
        f" x context {job.context}" if job.context > 1 else ""
    )
    if size < 1 or job.world % size:
        yield make_finding(
            "megatron-world",
            document,
            command.place,
            f"{split} needs {size} ranks for one copy of the model, "
            f"but the job starts {plural(job.world, 'rank')}",
            fix=f"Start a multiple of {size} ranks, or lower one of the degrees.",
        )
        return
    # data-parallel copies: each of them processes micro-batches of the global batch
    copies = job.world // size
    if (
        job.batch is not None
        and job.micro
        and job.batch % (job.micro * copies)
        and "rampup-batch-size" not in command.options
    ):
        yield make_finding(
            "megatron-batch",
            document,
            command.place,
            f"a global batch of {job.batch} is not a multiple of {job.micro} (micro batch) x {copies} "
            "(copies of the model)",
            fix=f"Write a multiple of {job.micro * copies}.",
        )


def _shapes(document: Document, command: Command, job: _Job) -> Findings:
    layers, heads = (
        option_number(document, command, "num-layers"),
        option_number(document, command, "num-attention-heads"),
    )
    if heads and job.tensor and heads % job.tensor:
        yield make_finding(
            "megatron-shape",
            document,
            command.place,
            f"{heads} attention heads are not divisible by the tensor parallelism, {job.tensor}",
            fix="Lower the tensor parallelism.",
        )
    if any(name in command.options for name in _UNEVEN):
        return
    yield from _virtual(document, command, job, layers)
    if layers and job.pipeline and layers % job.pipeline:
        yield make_finding(
            "megatron-shape",
            document,
            command.place,
            f"{layers} layers are not divisible by {job.pipeline} pipeline stages",
            fix="Lower the number of stages, or state how many layers the first and last stage have.",
        )


def _virtual(document: Document, command: Command, job: _Job, layers: int | None) -> Findings:
    """Check the virtual stages of the interleaved schedule."""
    each = option_number(document, command, "num-layers-per-virtual-pipeline-stage")
    ways = option_number(document, command, "num-virtual-stages-per-pipeline-rank")
    if not layers or not job.pipeline or layers % job.pipeline or not (each or ways):
        return
    layers_per_stage = layers // job.pipeline
    if layers_per_stage % (each or ways or 1):
        pieces = f"{plural(each, 'layer')} for each virtual stage" if each else f"{ways} virtual stages"
        yield make_finding(
            "megatron-shape",
            document,
            command.place,
            f"a pipeline stage of {plural(layers_per_stage, 'layer')} cannot be divided into {pieces}",
            fix="Write a number that divides the layers of a stage.",
        )
    elif job.pipeline == 1:
        yield make_finding(
            "megatron-shape",
            document,
            command.place,
            "virtual pipeline stages need a pipeline of several stages",
            fix="Remove the option, or raise --pipeline-model-parallel-size.",
        )


def _wide(document: Document, command: Command, job: _Job) -> Findings:
    launcher = enclosing(document, command, "torchrun")
    each = None if launcher is None else option_number(document, launcher, "nproc-per-node")
    if job.tensor and each and each > 1 and job.tensor > each and job.tensor % each == 0:
        yield make_finding(
            "megatron-tensor-wide",
            document,
            command.place,
            f"tensor parallelism of {job.tensor} needs several machines of {plural(each, 'GPU')}",
            fix=f"Write at most {each}, and split the rest by pipeline or data parallelism; machines that "
            "NVLink connects may use more.",
        )


def _job_in_options(document: Document, command: Command) -> _Job | None:
    """Return the split of `pretrain_gpt.py --tensor-model-parallel-size 8`."""
    if not any(name in command.options for name in _SPLITS[:2]) or "no-pipeline-parallel" in command.options:
        return None
    ways = [option_number(document, command, name) if name in command.options else 1 for name in _SPLITS]
    return _Job(
        tensor=ways[0],
        pipeline=ways[1],
        context=ways[2],
        world=_world(document, command),
        micro=option_number(document, command, "micro-batch-size"),
        batch=option_number(document, command, "global-batch-size"),
    )


def _job_in_overrides(command: Command) -> _Job | None:
    """Return the split of `model.tensor_model_parallel_size=8 trainer.devices=8`, as in NeMo."""
    overrides = {
        match[1]: int(match[2]) for word in command.arguments if (match := _HYDRA.fullmatch(word.text))
    }
    if "tensor_model_parallel_size" not in overrides or "pipeline_model_parallel_size" not in overrides:
        return None  # the other numbers are in a file
    devices, nodes = overrides.get("devices"), overrides.get("num_nodes")
    return _Job(
        tensor=overrides["tensor_model_parallel_size"],
        pipeline=overrides["pipeline_model_parallel_size"],
        context=overrides.get("context_parallel_size", 1),
        world=devices * nodes if devices and nodes else None,
        micro=overrides.get("micro_batch_size"),
        batch=overrides.get("global_batch_size"),
    )


def _world(document: Document, command: Command) -> int | None:
    """Return the number of ranks that the launcher starts; None if the file does not state numbers."""
    launcher = enclosing(document, command, "torchrun")
    if launcher is not None:
        each = option_number(document, launcher, "nproc-per-node")
        nodes = option_number(document, launcher, "nnodes") if "nnodes" in launcher.options else 1
        return each * nodes if each and nodes else None
    launcher = enclosing(document, command, "deepspeed")
    if launcher is not None:
        each, nodes = (option_number(document, launcher, name) for name in ("num-gpus", "num-nodes"))
        return each * nodes if each and nodes else None
    step = enclosing(document, command, "srun")
    if step is None or option(step, "ntasks", "nodes", "ntasks-per-node") is not None:
        return None
    count, nodes = tasks_per_node(document), nodes_of(document)
    return count * nodes if count and nodes and directive(document, "array") is None else None
