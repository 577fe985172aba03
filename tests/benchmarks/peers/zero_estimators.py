"""Ask DeepSpeed's estimators for the memory that ZeRO needs on a GPU: states of mixed-precision Adam, without
activations.
"""

from __future__ import annotations

import sys
from typing import Any

from lines import NOT_INSTALLED, need, serve

try:
    import deepspeed
    from deepspeed.runtime.zero.stage3 import estimate_zero3_model_states_mem_needs
    from deepspeed.runtime.zero.stage_1_and_2 import estimate_zero2_model_states_mem_needs
except ImportError:
    sys.exit(NOT_INSTALLED)

GIB = 2**30


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """Return the memory of the model states of one rank; without sharding, that of ZeRO-2 on one GPU."""
    sharding, ranks = question["sharding"], question["dp"] * question["fsdp"]
    need(holds=question["tuning"] == "full", otherwise="adapters")
    need(holds=question["adam"], otherwise="another optimizer than Adam")
    need(
        holds=not question["pure_weights"] and question["precision"] not in {"fp32", "tf32"},
        otherwise="no mixed precision",
    )
    need(
        holds=question["tp"] * question["pp"] * question["ep"] == 1,
        otherwise="tensor, pipeline or expert parallelism",
    )
    need(holds=sharding != "zero1", otherwise="ZeRO-1")
    if sharding == "zero3":
        _, peak, _ = estimate_zero3_model_states_mem_needs(
            question["parameters"],
            question["largest_weight"],
            num_gpus_per_node=ranks,
            num_nodes=1,
            cpu_offload=False,
            cpu_offload_params=False,
        )
    else:
        shards = ranks if sharding == "zero2" else 1
        _, peak = estimate_zero2_model_states_mem_needs(
            question["parameters"], num_gpus_per_node=shards, num_nodes=1, cpu_offload=False
        )
    return {"peak_mem_gib": peak / GIB}


serve(answer, deepspeed.__version__)
