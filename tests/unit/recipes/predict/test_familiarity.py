"""Test intervals of runs whose software or GPU was not among the fitted runs, and the fit of their widths."""

import csv
import os
import statistics
from pathlib import Path

import pytest

from probes.catalogue.hardware import load_catalogue
from recipes.cases.case import case_of_row
from recipes.cases.prediction import predict_row
from recipes.cases.resolved import resolve
from recipes.predict.familiarity import familiarity, load_fitted
from recipes.predict.parameters import Interval, memory_interval, time_interval
from recipes.predict.stacks import REFERENCE, load_stacks
from tests.calibration import coverage
from tests.calibration.fitting import Item

ROW = {"model": "llama-3-8b", "gpu": "H100-SXM-80GB", "n_gpus": "8", "micro_batch": "1", "sharding": "zero1"}
SECOND = Path(os.environ.get("RIGTUNE_SHARED", "../shared")) / "data" / "training_open_2.csv"


def test_rows_name_stacks_and_gpus_that_exist() -> None:
    for row in load_fitted().values():
        assert set(row.software) <= set(load_stacks())
        assert all(load_catalogue().gpu(name) is not None for name in row.gpus)
        assert "megatron-core" in row.software


@pytest.mark.parametrize("figure", ["time", "memory"])
def test_an_unknown_part_never_narrows_an_interval(figure: str) -> None:
    def around(seen: str) -> Interval:
        return (
            time_interval("dense", "catalogue", seen) if figure == "time" else memory_interval("device", seen)
        )

    known = around("seen-seen")
    for seen in ("seen-unseen", "unseen-seen", "unseen-unseen"):
        interval = around(seen)
        assert interval.low <= known.low < 1 < known.high <= interval.high


@pytest.mark.parametrize(
    ("changes", "seen"),
    [
        ({"stack": "megatron-core"}, "seen-seen"),
        ({"stack": "our own trainer"}, "unseen-seen"),
        ({"stack": ""}, "unseen-seen"),
        ({"stack": "megatron-core", "gpu": "GTX 1080 Ti"}, "seen-unseen"),
        ({"stack": "mindspore", "gpu": "GTX 1080 Ti"}, "unseen-unseen"),
    ],
)
def test_a_case_has_the_width_of_what_the_fits_have_seen(changes: dict[str, str], seen: str) -> None:
    row = {**ROW, **changes}
    assert resolve(case_of_row(row)).seen("memory") == seen
    answer = predict_row(row)
    assert answer.peak_mem_gib is not None
    interval = memory_interval(answer.memory_figure, seen)
    assert answer.peak_mem_high_gib == pytest.approx(answer.peak_mem_gib * interval.high)
    assert answer.peak_mem_low_gib == pytest.approx(answer.peak_mem_gib * interval.low)


def test_memory_of_a_plain_torch_loop_counts_as_unseen_software() -> None:
    assert familiarity("memory", "torch", "h100-sxm") == "unseen-seen"
    assert familiarity("memory", REFERENCE, "h100-sxm") == "seen-seen"
    assert familiarity("time", "no such stack", "no such gpu") == "unseen-unseen"


def test_coverage_leaves_all_sources_of_one_project_out_together() -> None:
    def run(source: str, measured: float, software: str) -> Item:
        return Item(source, lambda: 1.0, measured, "", "dense-catalogue", software, "h100-sxm")

    items = [run("a-one", 2.0, "x"), run("a-two/dense", 1.0, "x"), run("b", 1.0, "y")]
    runs = coverage.left_out_runs("time", items, "time.", folds=2, rounds=1, refits=False)
    assert {(item.ratio, item.seen) for item in runs} == {(2.0, "unseen-seen"), (1.0, "unseen-seen")}
    assert coverage.percentiles(range(11)) == (1, 9)


def test_a_class_is_as_wide_as_its_left_out_runs_need() -> None:
    ends = {"device": (0.5, 2.0)}
    runs = [coverage.LeftOut("memory", "device", "unseen-seen", 2.0 ** (index / 10)) for index in range(40)]
    powers = coverage.widenings(runs, ends)
    inside = [coverage.power_of(run, ends) <= powers["unseen-seen"] for run in runs]
    assert statistics.mean(inside) == pytest.approx(coverage.COVERED["unseen-seen"], abs=0.03)
    assert powers["unseen-unseen"] == powers["unseen-seen"] > powers["seen-seen"] == 1.0


@pytest.mark.skipif(not SECOND.is_file(), reason=f"{SECOND} is absent; set RIGTUNE_SHARED")
def test_8_of_10_peaks_of_the_second_table_lie_in_their_intervals() -> None:
    inside = []
    with SECOND.open(newline="") as file:
        for row in csv.DictReader(file):
            answer = predict_row(row)
            if row["peak_mem_gib"] and answer.peak_mem_low_gib and answer.peak_mem_high_gib:
                low, high = answer.peak_mem_low_gib, answer.peak_mem_high_gib
                inside.append(low <= float(row["peak_mem_gib"]) <= high)
    assert statistics.mean(inside) >= 0.8
