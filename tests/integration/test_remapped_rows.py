"""Test the count of remapped rows of a recorded GPU, and a policy that limits the count."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assistant.cli import command_line
from tests.support.recordings import MACHINES

RECORDED = MACHINES / "nvsmi_text" / "a10-1x-rowremap-pending.txt"


@pytest.mark.skipif(not RECORDED.exists(), reason="the recorded machines are not here")
@pytest.mark.parametrize(("most", "status"), [(512, "PASS"), (3, "FAIL")])
def test_a_policy_limits_the_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], most: int, status: str
) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(f"schema_version = 1\n[thresholds]\nrows_remapped_most = {most}\n")
    command_line(["check", "--from", str(RECORDED), "--policy", str(policy), "--format", "json"])
    findings = json.loads(capsys.readouterr().out)["findings"]
    [finding] = [finding for finding in findings if finding["check_id"] == "row-remap-reserve"]
    assert finding["status"] == status
    assert ("replaced rows 4" if status == "PASS" else "4 rows") in finding["observed"]


@pytest.mark.skipif(not RECORDED.exists(), reason="the recorded machines are not here")
def test_probe_shows_the_count(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line(["probe", "--from", str(RECORDED)]) == 0
    assert "remapped rows: 4" in " ".join(capsys.readouterr().out.split())
