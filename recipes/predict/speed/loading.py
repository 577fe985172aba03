"""Time of waiting for the next batch of tokens, from measurements of storage and data loaders.

Loaders prepare batches beside the step, so a step waits only if loading takes longer than all else.
"""

from __future__ import annotations

import math
from typing import cast

import msgspec

from probes.base.record import Unknown
from recipes.constants import constant
from recipes.predict.breakdowns import UNKNOWN_LOADING, TimeBreakdown
from recipes.predict.training_job import TransformerJob


def loading_s(job: TransformerJob) -> float | Unknown:
    """Return the seconds to load one step's sequences; Unknown if neither storage nor loaders were measured.

    The slower of the two counts. Sequences are read at random places of files of tokens, in requests of the
    size that was measured. Loaders were measured with images, which are larger than sequences, so their rate
    is a lower bound.
    """
    cluster = job.cluster
    sequences = job.candidate.micro_batch * job.candidate.grad_accum
    seconds = []
    if cluster.reads_per_s is not None:
        requests = math.ceil(
            job.workload.sequence_length * constant("stored_token_bytes") / constant("read_request_bytes")
        )
        seconds.append(sequences * cluster.ranks_per_node * requests / cluster.reads_per_s.value)
    if cluster.loaded_samples_per_s is not None:
        seconds.append(sequences / cluster.loaded_samples_per_s.value)
    return max(seconds) if seconds else UNKNOWN_LOADING


def with_loading(time: TimeBreakdown, job: TransformerJob) -> TimeBreakdown:
    """Return the step with its wait for data; the unchanged step if that, or its time, is unknown."""
    needed = loading_s(job)
    if isinstance(needed, Unknown) or isinstance(time.total, Unknown):
        return time
    waiting = max(0.0, needed - time.total)
    ends = {name: cast("float", getattr(time, name)) + waiting for name in ("total", "low", "high")}
    return msgspec.structs.replace(time, data=waiting, **ends)


def without_loading(time: TimeBreakdown) -> TimeBreakdown:
    """Return the step of a program that generates its data."""
    if isinstance(time.data, Unknown) or isinstance(time.total, Unknown):
        return time
    ends = {name: cast("float", getattr(time, name)) - time.data for name in ("total", "low", "high")}
    return msgspec.structs.replace(time, data=0.0, **ends)
