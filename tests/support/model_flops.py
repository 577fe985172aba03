"""Model FLOPs utilisation of a predicted step."""

from recipes.cases.resolved_case import ResolvedCase
from recipes.job.models.counts import flops_per_token
from recipes.job.workload import Workload


def model_flops_share(case: ResolvedCase, seconds: float) -> float:
    """Return the model's FLOPs of a step as a share of what all GPUs compute in `seconds` at their peak."""
    workload = case.workload
    assert isinstance(workload, Workload)
    flops = workload.tokens_per_step * flops_per_token(workload.model, workload.sequence_length)
    return flops / seconds / case.gpus / case.cluster.peak_flops_per_s[workload.precision].value
