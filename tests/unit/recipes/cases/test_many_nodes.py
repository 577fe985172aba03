"""Data-parallel training on thousands of nodes."""

import math

import pytest

from probes.base.record import Unknown
from recipes.cases.case import case_of_row
from recipes.cases.resolved import resolve
from recipes.cases.resolved_case import ResolvedCase
from recipes.predict.job_prediction import time_for

SUMMIT = {
    "stack": "horovod-tensorflow",
    "model": "deeplabv3+ (climate segmentation)",
    "gpu": "V100-SXM2-16GB",
    "gpus_per_node": "6",
    "interconnect_intra": "NVLink2",
    "interconnect_inter": "2x EDR InfiniBand per node",
    "sharding": "ddp",
}
"""Climate segmentation on Summit (arXiv 1810.01993); the paper states no micro-batch."""
PUBLISHED_EFFICIENCY = 0.907


def images_per_second_and_gpu(case: ResolvedCase) -> float:
    time = time_for(case.job)
    assert not isinstance(time, Unknown)
    assert not isinstance(time.total, Unknown)
    return case.candidate.global_batch / time.total / case.gpus


@pytest.mark.parametrize("precision", ["fp32", "fp16-mixed"])
def test_summit_keeps_nine_tenths_of_its_speed_on_27360_gpus(precision: str) -> None:
    """The micro-batch is assumed: the same on one GPU and on all."""
    speeds = []
    for gpus in ("1", "27360"):
        row = {**SUMMIT, "precision": precision, "n_gpus": gpus, "micro_batch": "4"}
        speeds.append(images_per_second_and_gpu(resolve(case_of_row(row))))
    assert speeds[1] / speeds[0] == pytest.approx(PUBLISHED_EFFICIENCY, abs=0.05)


def test_the_slowest_of_more_nodes_is_little_later() -> None:
    """The wait for the slowest of n nodes grows like sqrt(2 ln n): far less than with each doubling."""

    def waits(nodes: int) -> float:
        row = {"model": "llama-3-8b", "gpu": "H100-SXM-80GB", "gpus_per_node": "8", "stack": "torchtitan"}
        shapes = {"n_gpus": str(8 * nodes), "fsdp": "8", "sharding": "hsdp", "micro_batch": "1"}
        time = time_for(resolve(case_of_row({**row, **shapes, "seq_len": "8192"})).job)
        assert not isinstance(time, Unknown)
        return time.overhead / (time.total - time.overhead)

    slowest = [waits(nodes) - waits(1) for nodes in (2, 32, 2048)]
    expected = [math.sqrt(math.log(nodes) / math.log(2048)) for nodes in (2, 32)]
    assert [late / slowest[-1] for late in slowest[:-1]] == pytest.approx(expected, abs=0.06)
