"""Peak memory of the fullest rank, term by term.

A rank's memory is followed through three moments of a step, and the largest one is reported:

    loss       all activations, the loss's temporaries, what the strategy holds at the end of the forward pass
    backward   all activations (checkpoints and one live layer), the strategy's windows around one layer
    end        no activations, what the strategy holds when the last gradients are reduced and the optimizer steps
"""

from __future__ import annotations

from typing import Literal

from probes.record import Record
from recipes.constants import constant
from recipes.implementations import (
    REFERENCE,
    Compute,
    load_implementations,
    root_saved_bytes_per_token,
    saved_bytes_per_token,
)
from recipes.models import layer_matmul_parameter_count, matmul_parameter_count
from recipes.plan import Candidate, MemoryBreakdown
from recipes.workload import Workload


class Footprint(Record, kw_only=True):
    """What a strategy keeps on one rank, bytes."""

    compute: Compute
    parameters: float
    gradients: float
    optimizer: float
    loss_buffers: float
    backward_buffers: float
    end_buffers: float


class _Moment(Record, kw_only=True):
    activations: float
    logits: float
    buffers: float

    @property
    def total(self) -> float:
        return self.activations + self.logits + self.buffers


def memory_breakdown(
    workload: Workload,
    candidate: Candidate,
    footprint: Footprint,
    device: Literal["cuda", "cpu"],
    *,
    implementation: str = REFERENCE,
) -> MemoryBreakdown:
    """The bill of one candidate. Activations and logits grow with the tokens of a micro-batch, the rest does not.

    Logits: about 12 bytes per token and vocabulary entry in eager cross-entropy, often the largest single term. On a CPU the
    upper bound assumes that the C library gives nothing back between the moments.
    """
    moments = _moments(workload, candidate, footprint, implementation)
    peak = max(moments, key=lambda moment: moment.total)
    states = footprint.parameters + footprint.gradients + footprint.optimizer
    allocated = states + peak.total
    if device == "cuda":
        reserve = constant("allocator_fraction") * allocated
        overhead = constant("cuda_context_bytes") + constant("nccl_bytes") + reserve
        upper = (allocated + reserve) * (1 + constant("upper_fraction"))
        upper += constant("cuda_context_bytes") + constant("nccl_upper_bytes")
    else:
        # The worker reports its resident memory beyond the start of the process, which holds what the C library keeps.
        heap = constant("cpu_heap_fraction") * peak.total + constant("cpu_lazy_bytes")
        allocated += heap
        overhead = constant("cpu_process_bytes") + heap
        upper = (states + sum(moment.total for moment in moments)) * (1 + constant("cpu_upper_fraction"))
        upper += constant("cpu_process_bytes") + constant("cpu_lazy_bytes")
    return MemoryBreakdown(
        total=states + peak.total + overhead,
        parameters=footprint.parameters,
        gradients=footprint.gradients,
        optimizer=footprint.optimizer,
        activations=peak.activations,
        logits=peak.logits,
        buffers=peak.buffers,
        overhead=overhead,
        allocated=allocated,
        upper=upper,
    )


def _moments(workload: Workload, candidate: Candidate, footprint: Footprint, implementation: str) -> tuple[_Moment, ...]:
    model = workload.model
    row = load_implementations()[implementation]
    saved = row.saved[footprint.compute]
    tokens = candidate.micro_batch * workload.sequence_length
    layer = tokens * saved_bytes_per_token(model, saved)
    root = tokens * root_saved_bytes_per_token(model, saved)
    cache = row.weight_cache_bytes[footprint.compute]
    if candidate.activation_checkpointing == "full":
        kept = model.layers * tokens * model.hidden * saved.residual
        live = layer
        kept_cache = cache * model.vocab * model.hidden
        live_cache = cache * layer_matmul_parameter_count(model)
    else:
        kept, live = model.layers * layer, 0.0
        kept_cache, live_cache = cache * matmul_parameter_count(model), 0.0
    logits = tokens * model.vocab * saved.logits
    return (
        _Moment(activations=kept + root, logits=logits, buffers=footprint.loss_buffers + kept_cache),
        _Moment(activations=kept + live, logits=0.0, buffers=footprint.backward_buffers + kept_cache + live_cache),
        _Moment(activations=0.0, logits=0.0, buffers=footprint.end_buffers),
    )
