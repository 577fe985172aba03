"""What is planned for when the user names no model."""

from __future__ import annotations

from probes.facts import MachineFacts
from probes.record import known

CPU_MODEL = "rigtune-mini"
"""The shipped reference workload, small enough that a CPU trains it in seconds."""

_BYTES_PER_PARAMETER = 16
"""fp32 weights, gradients and two Adam moments (ZeRO, arXiv 1910.02054, section 3.1)."""

_GPU_MODELS = (("llama-3-8b", 8.03e9), ("llama-3.2-3b", 3.21e9), ("llama-3.2-1b", 1.24e9), ("gpt2", 0.124e9))


def default_model_id(facts: MachineFacts) -> str:
    """The largest well-known model whose training states fit the machine's GPUs twice over, so activations have room."""
    gpus = facts.gpus if known(facts.gpus) else ()
    memory_bytes = sum(gpu.memory_bytes for gpu in gpus if known(gpu.memory_bytes))
    if not gpus:
        return CPU_MODEL
    for model_id, parameters in _GPU_MODELS:
        if 2 * _BYTES_PER_PARAMETER * parameters <= memory_bytes:
            return model_id
    return CPU_MODEL
