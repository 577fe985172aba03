"""Choose what to measure on a machine: its device, its ranks and a reference model that fits."""

import hashlib
from typing import Literal

from probes.base.record import known
from probes.bench.attention import cpu_multiplies_bf16
from probes.bench.bench_requests import BenchContext, ReferenceModel
from probes.catalogue.hardware import load_catalogue
from probes.facts import MachineFacts
from probes.facts.measurements import Parameter
from recipes.job.models.counts import flops_per_token, parameter_count
from recipes.job.models.names import find_model
from recipes.job.workload import TransformerModel
from recipes.launch.recipe import ModelShape
from recipes.machine.from_facts import has_bf16
from recipes.machine.ranks import cores_per_rank, default_ranks, training_gpus
from recipes.planning.default_model import CPU_MODEL

_GPU_MODELS = ("tinyllama-1.1b", "gpt2")
"""Models to measure on GPUs, largest first."""
_GPU_MICRO_BATCHES = (1, 4)
_STATE_BYTES_PER_PARAMETER = 16
"""Bytes per parameter: fp32 weights, gradients, two Adam moments (ZeRO, arXiv 1910.02054, section 3.1)."""


def bench_context(
    facts: MachineFacts, *, ranks_per_node: int | None = None, visible_gpus: int | None = None
) -> BenchContext:
    """Return the context of this machine.

    `visible_gpus` is the number of GPUs that the interpreter can use, if known: CUDA_VISIBLE_DEVICES may hide
    some GPUs.
    """
    gpus = training_gpus(facts)
    ranks = default_ranks(facts) if ranks_per_node is None else ranks_per_node
    if gpus and visible_gpus is not None:
        ranks = min(ranks, visible_gpus)
    return BenchContext(
        device="cuda" if gpus else "cpu",
        backend="nccl" if gpus else "gloo",
        ranks_per_node=ranks,
        threads_per_rank=cores_per_rank(facts, ranks),
        model=_gpu_model(facts) if gpus else _cpu_model(facts, ranks),
        facts=facts,
        subjects={gpu.uuid: f"GPU{gpu.index}" for gpu in gpus if known(gpu.uuid)},
    )


def machine_id(facts: MachineFacts) -> str:
    """Return an id that distinguishes this machine from other machines with the same home directory.

    The id consists of the host name and a hash of the GPUs' UUIDs, or of the CPU's model if there are no
    GPUs. It changes only when the machine is renamed or a GPU is replaced.
    """
    name = facts.hostname if known(facts.hostname) and facts.hostname else "unnamed"
    uuids = sorted(gpu.uuid for gpu in facts.gpus if known(gpu.uuid)) if known(facts.gpus) else []
    parts = uuids or [str(facts.cpu.model) if known(facts.cpu.model) else ""]
    return f"{name}-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:8]}"


def shape_of(model: TransformerModel) -> dict[str, Parameter]:
    """Return the model's sizes as the fields of a recipe's `ModelShape`, from which workers build it."""
    return {name: getattr(model, name) for name in ModelShape.__struct_fields__}


def _cpu_model(facts: MachineFacts, ranks: int) -> ReferenceModel:
    """Return the reference model for CPUs, in the sizes and precision that plans choose on CPUs.

    The micro-batch is each rank's share of the model's default global batch, because plans choose this share.
    """
    model = find_model(CPU_MODEL)
    global_batch = model.learning_rate_batch_tokens // model.sequence_length
    return _reference(
        model, (max(1, global_batch // max(2, ranks)),), "bf16" if cpu_multiplies_bf16(facts) else "fp32"
    )


def _gpu_model(facts: MachineFacts) -> ReferenceModel:
    """Return the largest model that fits the smallest GPU, in bf16 if all GPUs have bf16, else in fp32.

    The training states need at most half of the memory, which leaves room for activations. If no model fits,
    the smallest model is returned.
    """
    gpus = training_gpus(facts)
    memory_bytes = min((gpu.memory_bytes for gpu in gpus if known(gpu.memory_bytes)), default=0)
    models = [find_model(model_id) for model_id in _GPU_MODELS]
    states = 2 * _STATE_BYTES_PER_PARAMETER
    fitting = (model for model in models if states * parameter_count(model) <= memory_bytes)
    catalogue = load_catalogue()
    return _reference(
        next(fitting, models[-1]),
        _GPU_MICRO_BATCHES,
        "bf16" if all(has_bf16(gpu, catalogue) for gpu in gpus) else "fp32",
    )


def _reference(
    model: TransformerModel, micro_batches: tuple[int, ...], precision: Literal["bf16", "fp32"]
) -> ReferenceModel:
    return ReferenceModel(
        shape=shape_of(model),
        flops_per_token=flops_per_token(model, model.sequence_length),
        micro_batches=micro_batches,
        precision=precision,
    )
