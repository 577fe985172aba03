"""Precisions that convolutions really compute in."""

from __future__ import annotations

from recipes.job.workload import Precision
from recipes.machine.cluster_records import Cluster
from recipes.predict.stacks import Stack

HALF = ("bf16", "fp16", "fp8", "mxfp8", "nvfp4")
"""Precisions whose activations are kept in 16 bits."""


def computed_in(precision: Precision, cluster: Cluster) -> str:
    """Return the precision that the GPU really multiplies in.

    Convolutions are never trained in 8 bits or fewer. A GPU that lacks a type uses another: fp16 for bf16,
    fp32 for tf32.
    """
    wanted = "bf16" if precision in ("fp8", "mxfp8", "nvfp4") else precision
    if wanted == "bf16" and "bf16" not in cluster.peak_flops_per_s and "fp16" in cluster.peak_flops_per_s:
        return "fp16"
    peaks = cluster.peak_flops_per_s
    if wanted == "tf32" and ("tf32" not in peaks or peaks["tf32"] == peaks.get("fp32")):
        return "fp32"
    return wanted


def convolved_in(precision: Precision, cluster: Cluster, stack: Stack) -> str:
    """Return the precision of convolutions alone.

    Those of fp32 tensors run on tensor cores as TF32, unless somebody forbids it.
    """
    computed = computed_in(precision, cluster)
    return computed_in("tf32", cluster) if computed == "fp32" and stack.tf32 != "never" else computed
