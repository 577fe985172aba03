"""Waiting for data, from measurements of storage and loaders; unknown without measurements."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.record import Unknown
from probes.facts.measurements import Measurement
from recipes.job.models.names import find_model
from recipes.machine.cluster_records import Cluster
from recipes.machine.measured_rates import measured_loading, measured_reads
from recipes.predict.breakdowns import TIME_TERMS, TimeBreakdown
from recipes.predict.candidate_prediction import without_loading
from tests.support.clusters import case, figure, h100_cluster, predicted_time

WORKLOAD, CANDIDATE = case(find_model("llama-3.2-1b"), grad_accum=2, sequence_length=8192)
"""Each of 8 ranks trains on two sequences per step."""


def step(**measured: float) -> TimeBreakdown:
    cluster: Cluster = h100_cluster(**{name: figure(value) for name, value in measured.items()})
    return predicted_time(WORKLOAD, CANDIDATE, cluster)


ALONE = step()


def test_data_loading_that_nobody_measured_is_unknown() -> None:
    assert isinstance(ALONE.data, Unknown)
    assert without_loading(ALONE) == ALONE


def test_loading_that_is_faster_than_the_step_is_hidden() -> None:
    hidden = step(reads_per_s=1e5, loaded_samples_per_s=1e4)
    assert hidden.data == 0.0
    assert hidden.total == ALONE.total


def test_a_slow_disk_is_waited_for() -> None:
    # 8192 tokens of 4 bytes need one request of at most 128 KiB; the node sends 16 requests per step
    slow = step(reads_per_s=0.1)
    assert slow.total == pytest.approx(160.0)
    assert slow.data == pytest.approx(160.0 - ALONE.total)
    assert slow.low < slow.total < slow.high


def test_slow_loaders_are_waited_for_and_the_slower_of_the_two_counts() -> None:
    assert step(loaded_samples_per_s=0.01).total == pytest.approx(200.0)
    assert step(loaded_samples_per_s=0.01, reads_per_s=0.1).total == pytest.approx(200.0)


@given(st.floats(1e-3, 1e4), st.floats(1e-3, 1e4))
def test_terms_sum_to_the_total_and_a_faster_disk_never_costs_time(reads: float, more: float) -> None:
    time, faster = step(reads_per_s=reads), step(reads_per_s=reads + more)
    assert sum(getattr(time, name) for name in TIME_TERMS) == pytest.approx(time.total)
    assert faster.total <= time.total
    assert without_loading(time).total == pytest.approx(ALONE.total)


def measured(bench: str, metric: str, value: float, **parameters: object) -> Measurement:
    return Measurement(
        bench_id=bench, subject="here", metric=metric, unit="1/s", samples=(value,), parameters=parameters
    )


def test_rates_come_from_what_was_measured_in_the_same_way() -> None:
    random = measured(
        "storage", "read_rate_per_s", 5e3, order="random", block_bytes=131072, data_path="/data"
    )
    small = measured("storage", "read_rate_per_s", 9e5, order="random", block_bytes=4096, data_path="/data")
    reads = measured_reads((random, small))
    assert reads is not None
    assert (reads.value, reads.source) == (5e3, "benchmark storage, /data")
    assert measured_reads((small,)) is None

    def loader(rate: float, workers: int, ranks: int = 8) -> Measurement:
        case = {"num_workers": workers, "batch_size": 32, "world_size": ranks}
        return measured("data-loader", "batch_rate_per_s", rate, **case)

    reads = measured_loading((loader(90.0, 0), loader(10.0, 1), loader(20.0, 4), loader(70.0, 4, ranks=2)), 8)
    assert reads is not None
    assert reads.value == 640.0
    assert measured_loading((loader(90.0, 0),), 8) is None
