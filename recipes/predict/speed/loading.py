"""Waiting for the next batch of tokens, from what `rigtune bench` measured of the machine's storage and data
loaders.

Loaders prepare batches beside the step, so a step waits only where loading takes longer than all else.
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
    """Return seconds to load one step's sequences, by what is slower of storage and loaders; Unknown where
    neither was measured.

    Sequences are read at random places of files of tokens, in requests of the size that was measured. What
    loaders deliver was measured with images, which are larger than sequences: it is the least that they do.
    """
    cluster = job.cluster
    sequences = job.candidate.micro_batch * job.candidate.grad_accum
    found = []
    if cluster.reads_per_s is not None:
        requests = math.ceil(
            job.workload.sequence_length * constant("stored_token_bytes") / constant("read_request_bytes")
        )
        found.append(sequences * cluster.ranks_per_node * requests / cluster.reads_per_s.value)
    if cluster.loaded_samples_per_s is not None:
        found.append(sequences / cluster.loaded_samples_per_s.value)
    return max(found) if found else UNKNOWN_LOADING


def with_loading(time: TimeBreakdown, job: TransformerJob) -> TimeBreakdown:
    """Return the step with what it waits for data; as it is where that, or the step, is not known."""
    needed = loading_s(job)
    if isinstance(needed, Unknown) or isinstance(time.total, Unknown):
        return time
    waiting = max(0.0, needed - time.total)
    ends = {name: cast("float", getattr(time, name)) + waiting for name in ("total", "low", "high")}
    return msgspec.structs.replace(time, data=waiting, **ends)


def without_loading(time: TimeBreakdown) -> TimeBreakdown:
    """Return the step of a program whose data are made on the spot."""
    if isinstance(time.data, Unknown) or isinstance(time.total, Unknown):
        return time
    ends = {name: cast("float", getattr(time, name)) - time.data for name in ("total", "low", "high")}
    return msgspec.structs.replace(time, data=0.0, **ends)
