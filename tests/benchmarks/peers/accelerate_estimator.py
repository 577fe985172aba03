"""Return the figure that `accelerate estimate-memory` prints as "training using Adam": the largest of its four sizes, for batch
one, on one GPU.
"""

from __future__ import annotations

import sys
from typing import Any

from lines import NOT_INSTALLED, need, serve

try:
    import accelerate
    from accelerate.commands.estimate import estimate_training_usage
except ImportError:
    sys.exit(NOT_INSTALLED)

GIB = 2**30
WORDS = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp32": "float32",
    "tf32": "float32",
    "fp8": "fp8",
    "mxfp8": "fp8",
}


def answer(question: dict[str, Any]) -> dict[str, Any]:
    need(holds=question["tuning"] == "full", otherwise="adapters")
    need(holds=question["adam"], otherwise="another optimizer than Adam")
    need(holds=not question["pure_weights"], otherwise="weights without fp32 masters")
    need(holds=question["sharding"] == "none", otherwise="sharding")
    need(
        holds=question["tp"] * question["pp"] * question["ep"] == 1,
        otherwise="tensor, pipeline or expert parallelism",
    )
    need(holds=question["precision"] in WORDS, otherwise="this precision")
    sizes = estimate_training_usage(4 * question["parameters"], WORDS[question["precision"]])
    return {"peak_mem_gib": max(sizes.values()) / GIB}


serve(answer, accelerate.__version__)
