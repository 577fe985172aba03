"""Rows of measured collectives: what is read, what is refused, and how near the predictions come."""

from __future__ import annotations

import csv
import os
import statistics
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipes.cases.collective import predict_collective_row
from recipes.predict.speed.collectives import wire_bytes

PUBLISHED = Path(os.environ.get("RIGTUNE_SHARED", "../shared")) / "data" / "collectives_open.csv"
ROW = {
    "case_id": "coll-1",
    "platform": "a node",
    "gpu": "H100-SXM-80GB",
    "n_gpus": "8",
    "n_nodes": "1",
    "intra": "NVLink4 NVSwitch",
    "inter": "",
    "nccl_version": "2.23",
    "collective": "all_reduce",
    "bytes": "1073741824",
}


def test_a_row_has_time_bandwidth_interval_and_algorithm():
    # 8 x H100: 466 GB/s (NVIDIA/dgxc-benchmarking sample)
    answer = predict_collective_row(ROW)
    assert (answer.case_id, answer.status, answer.algorithm) == ("coll-1", "predicted", "nvls")
    assert answer.busbw_gbps == pytest.approx(466, rel=0.1)
    assert answer.time_us_low < answer.time_us < answer.time_us_high


def test_measured_columns_are_not_read():
    assert predict_collective_row(
        ROW | {"time_us": "1", "busbw_gbps": "9", "algbw_gbps": "9"}
    ) == predict_collective_row(ROW)


@pytest.mark.parametrize("name", ["all_reduce", "AllReduce", "all-reduce", "all_reduce_perf", "ALL REDUCE"])
def test_a_collective_has_many_spellings(name):
    assert predict_collective_row(ROW | {"collective": name}).time_us == predict_collective_row(ROW).time_us


@pytest.mark.parametrize(
    ("platform", "gbps"), [("AWS p5.48xlarge", 440), ("DGX A100", 235), ("GCP a3-highgpu-8g", 440)]
)
def test_the_platform_may_name_the_gpu(platform, gbps):
    answer = predict_collective_row(ROW | {"gpu": "", "intra": "", "platform": platform, "bytes": str(2**33)})
    assert answer.busbw_gbps == pytest.approx(gbps, rel=0.15)
    assert "platform" in answer.reason


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"gpu": "", "platform": "4 nodes"}, "gpu is blank"),
        ({"gpu": "Abacus 9"}, "not in the catalogue: give one of `rigtune list gpus`"),
        ({"collective": "gossip"}, "collective is 'gossip'"),
        ({"bytes": ""}, "bytes is blank"),
        ({"bytes": "many"}, "bytes is 'many'"),
        ({"n_gpus": "0"}, "n_gpus is '0'"),
        ({"n_gpus": "1"}, "two ranks"),
        ({"n_gpus": "nan"}, "n_gpus is 'nan'"),
        ({"n_nodes": "9"}, "n_nodes is 9"),
    ],
)
def test_an_incomplete_or_wrong_row_is_refused_with_the_reason(change, words):
    answer = predict_collective_row(ROW | change)
    assert (answer.status, answer.time_us) == ("refused", None)
    assert words in answer.reason


@given(st.fixed_dictionaries({}, optional={column: st.text(max_size=20) | st.none() for column in ROW}))
def test_any_row_is_answered(row):
    answer = predict_collective_row(ROW | row)
    assert answer.status == "predicted" or answer.reason


@pytest.mark.skipif(not PUBLISHED.is_file(), reason=f"{PUBLISHED} is absent; set RIGTUNE_SHARED")
def test_published_collectives_are_met():
    errors, refused = [], 0
    with PUBLISHED.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            answer = predict_collective_row(row)
            if answer.time_us is None:
                refused += 1
                continue
            measured = float(row["time_us"] or 0)
            if not measured:
                measured = (
                    wire_bytes(row["collective"], float(row["bytes"]), int(row["n_gpus"]))
                    / float(row["busbw_gbps"])
                    / 1e3
                )
            errors.append(abs(answer.time_us / measured - 1))
    assert len(errors) > 1000
    assert refused <= 0.05 * len(errors)
    assert statistics.median(errors) <= 0.1
