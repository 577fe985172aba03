"""Ask llm-analysis for memory and time of 16-bit and 8-bit training of GPT-like models under tensor, pipeline, expert and
ZeRO parallelism.

The published wheel of llm-analysis counts two MLP matrices, so a gated MLP is given as a plain MLP of 1.5 times the
width, which has the same parameters and FLOPs. Later versions have a field for gated MLPs. Compute runs at half of
the peak, as llm-analysis recommends for training.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import logging
import sys
from typing import Any

from lines import NOT_INSTALLED, need, serve

try:
    from llm_analysis.analysis import ActivationRecomputation, DSZeRO, LLMAnalysis
    from llm_analysis.config import (
        GPUConfig,
        ModelConfig,
        ParallelismConfig,
        get_dtype_config_by_name,
        get_gpu_config_by_name,
    )
except ImportError:
    sys.exit(NOT_INSTALLED)

GIB = 2**30
EFFICIENCY = 0.5
GPUS = {
    "A100-SXM-80GB": "a100-sxm-80gb",
    "A100-SXM-40GB": "a100-sxm-40gb",
    "A100-PCIe-80GB": "a100-pcie-80gb",
    "A100-PCIe-40GB": "a100-pcie-40gb",
    "H100-SXM-80GB": "h100-sxm-80gb",
    "H100-PCIe-80GB": "h100-pcie-80gb",
    "V100-SXM2-16GB": "v100-sxm-16gb",
    "V100-SXM2-32GB": "v100-sxm-32gb",
    "V100-SXM3-32GB": "v100-sxm-32gb",
    "V100-SXM3-32GB(450W)": "v100-sxm-32gb",
    "A10G": "a10g-pcie-24gb",
    "A6000": "a6000-48gb",
}
"""Names in llm-analysis's own catalogue. For other GPUs it predicts memory, but no time."""
RECOMPUTATION = {"none": 0, "selective": 1, "full": 2}
STAGES = {"none": 0, "zero1": 1, "zero2": 2, "zero3": 3}
PARTS = (
    "weight_memory_per_gpu",
    "gradient_memory_per_gpu",
    "optimizer_state_memory_per_gpu",
    "activation_memory_per_gpu",
)
HAS_GATED = "mlp_gated_linear_units" in {field.name for field in dataclasses.fields(ModelConfig)}

logging.disable(logging.CRITICAL)


def answer(question: dict[str, Any]) -> dict[str, Any]:
    need(holds=question["tuning"] == "full", otherwise="adapters")
    need(holds=question["adam"], otherwise="another optimizer than Adam")
    need(holds=question["plain"], otherwise="latent attention, shared experts, hybrids, encoder-decoders")
    need(holds=question["precision"] in {"bf16", "fp16", "fp8", "mxfp8"}, otherwise="this precision")
    need(holds=question["cp"] == 1, otherwise="context parallelism")
    said = {"peak_mem_gib": sum(training(question, "w16a16e16")[part] for part in PARTS) / GIB}
    if question["gpu"] in GPUS:
        eight_bits = question["precision"] in {"fp8", "mxfp8"}
        said["step_time_s"] = training(question, "w8a8e16" if eight_bits else "w16a16e16")["latency_per_iter"]
    return said


def training(question: dict[str, Any], dtype: str) -> dict[str, Any]:
    analysis = LLMAnalysis(
        model(question),
        gpu(question),
        get_dtype_config_by_name(dtype),
        ParallelismConfig(
            tp_size=question["tp"],
            pp_size=question["pp"],
            dp_size=question["dp"] * question["fsdp"],
            ep_size=question["ep"],
            sp_size=question["tp"] if question["sequence_parallel"] else 1,
        ),
        flops_efficiency=EFFICIENCY,
    )
    pure = question["pure_weights"]
    summary: dict[str, Any] = analysis.training(
        batch_size_per_gpu=question["micro_batch"],
        gradient_accumulation_steps=question["grad_accum"],
        global_batch_size=question["micro_batch"]
        * question["grad_accum"]
        * question["dp"]
        * question["fsdp"],
        seq_len=question["sequence_length"],
        activation_recomputation=ActivationRecomputation(RECOMPUTATION[question["checkpointing"]]),
        ds_zero=DSZeRO(STAGES[question["sharding"]]),
        flash_attn=question["flash_attention"],
        # llm-analysis always counts a master copy; for pure 16-bit weights that copy stands for one of Adam's
        # two moments.
        master_weights_dtype_bytes=2 if pure else 4,
        other_op_bytes=2 if pure else 8,
    )
    return summary


def model(question: dict[str, Any]) -> ModelConfig:
    width, experts = question["ffn_hidden"], max(1, question["experts"])
    gated: dict[str, Any] = {}
    if question["gated"] and HAS_GATED:
        gated = {"mlp_gated_linear_units": True}
    elif question["gated"]:
        width = width * 3 // 2
    return ModelConfig(
        name="case",
        num_layers=question["layers"],
        n_head=question["heads"],
        hidden_dim=question["hidden"],
        vocab_size=question["vocab"],
        max_seq_len=question["sequence_length"],
        num_key_value_heads=question["kv_heads"],
        ffn_embed_dim=width,
        expansion_ratio=width / question["hidden"],
        moe_num_experts=experts,
        moe_top_k=max(1, question["experts_per_token"]),
        **gated,
    )


def gpu(question: dict[str, Any]) -> GPUConfig:
    if question["gpu"] in GPUS:
        return get_gpu_config_by_name(GPUS[question["gpu"]])
    return dataclasses.replace(
        get_gpu_config_by_name("h100-sxm-80gb"), mem_per_GPU_in_GB=question["gpu_mem_gb"] or 80
    )


serve(answer, importlib.metadata.version("llm-analysis"))
