"""Expert parallelism as an axis of the mesh of its own, beside the one that shares parameters."""

from __future__ import annotations

import msgspec

from recipes.cases.case import Case
from recipes.cases.table_words import sharing_of
from recipes.job.workload import TransformerModel, VisionModel
from recipes.predict.stacks import Stack


def with_expert_axis(
    case: Case, stack: Stack, model: TransformerModel | VisionModel, gpus: int
) -> tuple[Case, tuple[str, ...]]:
    """Return the case with `fsdp` and `ep` as other software counts them, and assumptions in words.

    In MaxText experts are on an axis of their own, over which all other parameters are shared as well
    (configs/base.yml, logical_axis_rules: embed on fsdp and expert). A mixture of experts whose `fsdp` leaves
    GPUs over has its experts there.
    """
    if (
        not stack.experts_beside
        or case.fsdp is None
        or case.dp is not None
        or not isinstance(model, TransformerModel)
    ):
        return case, ()
    rest = gpus // ((case.tp or 1) * (case.pp or 1) * (case.cp or 1) * case.fsdp)
    if (
        sharing_of(case.sharding).hybrid
        or rest <= 1
        or not model.is_moe
        or model.experts % rest
        or case.ep not in (None, rest)
    ):
        return case, ()
    notes = () if case.ep else (f"ep {rest}: what fsdp {case.fsdp} leaves of the GPUs",)
    return msgspec.structs.replace(case, fsdp=case.fsdp * rest, ep=rest), notes
