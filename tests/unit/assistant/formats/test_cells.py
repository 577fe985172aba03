"""Test cells of tables for other programs, and verdicts about which little is known."""

from __future__ import annotations

import csv

import msgspec
import pytest

from assistant.formats.bench_csv import safe_cell
from assistant.formats.monitoring import nagios_text, prometheus_text, reason_line, shortened
from assistant.formats.predict_formats import COLLECTIVE_COLUMNS, COLUMNS, csv_row
from probes.base.record import Reason, Unknown
from probes.base.units import GIB
from probes.judging.findings import Status
from recipes.cases.collective import CollectivePrediction
from recipes.cases.prediction import CasePrediction
from recipes.predict.breakdowns import TimeBreakdown
from tests.golden.test_predict_text import MEMORY
from tests.support.verdicts import VERDICTS, finding, verdict_of


@pytest.mark.parametrize(
    ("cell", "safe"),
    [
        ("=1+1", "'=1+1"),
        (" =1", "' =1"),
        ("-x", "'-x"),
        ("@x", "'@x"),
        ("a=1", "a=1"),
        ("", ""),
        (1.5, 1.5),
        (None, None),
        (-3, -3),
    ],
)
def test_text_that_a_spreadsheet_would_execute_is_marked(cell, safe):
    assert safe_cell(cell) == safe


def cells_of(case: CasePrediction | CollectivePrediction) -> dict[str, str]:
    names = COLLECTIVE_COLUMNS if isinstance(case, CollectivePrediction) else COLUMNS
    (row,) = csv.reader([csv_row(case)])
    return dict(zip(names, row, strict=True))


def test_a_row_of_a_prediction_leaves_unknown_cells_blank():
    unknown = Unknown(Reason.NOT_RECORDED, "no rate")
    cells = cells_of(
        CasePrediction(
            case_id="a",
            status="predicted",
            fits=True,
            step_time_s=1.23456789,
            global_batch=512,
            time=TimeBreakdown(
                total=2.0, compute=unknown, exposed_communication=0.5, optimizer=0.25, low=1.0, high=3.0
            ),
            assumed=("x", "y"),
        )
    )
    assert (cells["case_id"], cells["fits"], cells["step_time_s"]) == ("a", "true", "1.23457")
    assert cells["mfu"] == ""
    assert "x; y" in cells.values()
    assert "0.5" in cells.values()
    refused = cells_of(CasePrediction(case_id="b", status="refused", reason="no", fits=False))
    assert {value for value in refused.values() if value} == {"b", "refused", "no", "false"}


def test_memory_terms_of_a_row_are_in_gib():
    values = cells_of(CasePrediction(case_id="a", status="predicted", memory=MEMORY)).values()
    assert f"{MEMORY.parameters / GIB:.6g}" == "3.7"
    assert "3.7" in values
    assert "24" in values


def test_a_collective_has_its_own_columns():
    cells = cells_of(CollectivePrediction(case_id="a", status="predicted", time_us=12.5, algorithm="ring"))
    assert (cells["time_us"], cells["algorithm"], cells["busbw_gbps"]) == ("12.5", "ring", "")


@pytest.mark.parametrize(("length", "text"), [(200, "w" * 200), (201, f"{'w' * 197}...")])
def test_a_line_of_reason_has_at_most_200_characters(length, text):
    assert shortened("w" * length) == text


def test_a_machine_of_which_nothing_is_known_says_so():
    empty = verdict_of()
    assert empty.verdict is Status.UNKNOWN
    assert nagios_text(empty).startswith("RIGTUNE UNKNOWN - nothing is known about this machine | ")
    assert reason_line(empty) == "verdict host: nothing is known about this machine"
    assert nagios_text(VERDICTS["good"]).startswith("RIGTUNE OK - fit to train, ")
    assert reason_line(VERDICTS["good"]) == ""


def test_other_problems_follow_the_first_in_nagios():
    warned = [finding(f"c{n}", "host", "WARN", f"s{n}") for n in range(23)]
    first, *others = nagios_text(verdict_of(*warned)).splitlines()
    assert "(and 22 more)" in first
    assert len(others) == 20
    assert "more)" not in nagios_text(verdict_of(warned[0])).splitlines()[0]


def test_times_are_metrics_only_if_they_are_known():
    verdict = msgspec.structs.replace(VERDICTS["good"], duration_s=0.25)
    assert "\nrigtune_run_duration_seconds 0.25\n" in prometheus_text(verdict)
    assert " time=0.250s" in nagios_text(verdict)
    unknown = msgspec.structs.replace(verdict, duration_s=None, started=None)
    assert "duration" not in prometheus_text(unknown)
    assert "timestamp" not in prometheus_text(unknown)
    assert "time=" not in nagios_text(unknown)
