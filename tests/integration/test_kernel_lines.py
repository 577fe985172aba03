"""Test kernel lines about faults: `check` reports each.

`explain` calls a machine healthy only if the line is about its clock source.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assistant.cli import command_line
from tests.support.kernel_lines_platform import FURTHER_LINES, KernelLine


@pytest.mark.parametrize("line", FURTHER_LINES, ids=[line.message[:50] for line in FURTHER_LINES])
def test_a_line_of_trouble_is_not_overlooked(
    line: KernelLine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "dmesg.txt"
    path.write_text(f"[   11.000000] usb 1-1: new device\n[   12.345678] {line.message}\n")
    command_line(["check", "--from", str(path), "--format", "json"])
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert [finding for finding in findings if finding["status"] in ("FAIL", "WARN")]
    command_line(["explain", str(path), "--format", "json"])
    explanation = json.loads(capsys.readouterr().out)
    # An unstable clock source is only a remark, not a failure.
    is_remark = line.event == "clock"
    assert (explanation["state"] == "healthy") is is_remark
    assert explanation["diagnoses"][0]["cause_id"] != "healthy" or len(explanation["diagnoses"]) > 1
