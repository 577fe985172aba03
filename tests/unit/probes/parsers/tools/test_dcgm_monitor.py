"""Test what the last Xid in a table of `dcgmi dmon` means for a GPU."""

from __future__ import annotations

import pytest

from probes.parsers.tools.dcgm_monitor import parse_diagnoses

TABLE = """#Entity   GPUTL   XIDER
ID
GPU 0     10      {xid}
"""


@pytest.mark.parametrize(
    ("xid", "result", "message"),
    [
        ("0", "PASS", ""),
        ("79", "FAIL", "Xid 79, "),
        ("92", "WARN", "Xid 92, "),
        ("93", "PASS", "Xid 93, the InfoROM is written too often"),
        ("9999", "WARN", "Xid 9999"),
    ],
    ids=["no Xid", "a fault", "a warning", "an Xid that is no fault", "an Xid that no row describes"],
)
def test_the_table_of_xids_judges_the_last_xid(xid: str, result: str, message: str) -> None:
    (diagnosis,) = parse_diagnoses(TABLE.format(xid=xid))
    assert (diagnosis.subject, diagnosis.result) == ("GPU0", result)
    assert diagnosis.message.startswith(message)


def test_a_gpu_without_a_sample_has_no_diagnosis() -> None:
    assert parse_diagnoses(TABLE.format(xid="N/A")) == ()
