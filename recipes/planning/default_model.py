"""The model to train when the user names none."""

from probes.base.record import known
from probes.facts import MachineFacts
from recipes.job.models.counts import parameter_count
from recipes.job.models.names import find_model
from recipes.machine.ranks import training_gpus

CPU_MODEL = "rigtune-mini"
"""Model of the reference workload that is part of rigtune. A CPU trains it in seconds."""

_GPU_MODELS = ("llama-3-8b", "llama-3.2-3b", "llama-3.2-1b", "gpt2")
"""Ids of well-known models, largest first."""
_STATE_BYTES_PER_PARAMETER = 16
"""Bytes per parameter: fp32 weights, gradients, two Adam moments (ZeRO, arXiv 1910.02054, section 3.1)."""


def default_model_id(facts: MachineFacts) -> str:
    """Return the largest well-known model that fits the machine's GPUs.

    If no model fits, or if there is no usable GPU, return the model of the reference workload.
    """
    memory_bytes = sum(gpu.memory_bytes for gpu in training_gpus(facts) if known(gpu.memory_bytes))
    return first_that_fits(_GPU_MODELS, memory_bytes) or CPU_MODEL


def first_that_fits(model_ids: tuple[str, ...], memory_bytes: float) -> str | None:
    """Return the first model whose training states need at most half of the memory, which leaves room for
    activations.
    """
    for model_id in model_ids:
        if 2 * _STATE_BYTES_PER_PARAMETER * parameter_count(find_model(model_id)) <= memory_bytes:
            return model_id
    return None
