"""Test short tables: `dcgmi dmon`, `ibportstate`, and distances of NUMA nodes without a heading."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assistant.cli import command_line

MONITOR = """#Entity   GPUTL   TMPTR   POWER  XIDER  DVCCTR
ID
GPU 0     10      95      70.5   {xid}     64
GPU 1     10      35      N/A    0      1
GPU 0     12      96      71.5   {xid}     64
"""
PORT = """{role} PortInfo:
# Port info: Lid 5 port 1
LinkState:.......................{state}
PhysLinkState:...................LinkUp
SMLid:...........................3
LinkWidthActive:.................4X
LinkSpeedActive:.................10.0 Gbps
LinkSpeedExtActive:..............25.78125 Gbps
"""


def run(capsys: pytest.CaptureFixture[str], command: str, path: Path, text: str) -> dict[str, Any]:
    path.write_text(text)
    command_line([command, "--from", str(path), "--format", "json"])
    output: dict[str, Any] = json.loads(capsys.readouterr().out)
    return output


@pytest.mark.parametrize(("xid", "status"), [(79, "FAIL"), (13, "WARN"), (0, "PASS")])
def test_the_monitor_of_dcgm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], xid: int, status: str
) -> None:
    text = MONITOR.format(xid=xid)
    findings = run(capsys, "check", tmp_path / "input.txt", text)["findings"]
    assert {
        finding["status"]
        for finding in findings
        if finding["check_id"] == "dcgm-diagnosis" and finding["subject"].startswith("GPU0")
    } == {status}
    first, second = run(capsys, "probe", tmp_path / "input.txt", text)["gpus"]
    assert (first["utilization_percent"], first["temperature_c"], first["power_w"]) == (12, 96, 71.5)
    assert first["throttle_reasons"] == ["hw_thermal_slowdown"]
    assert "unknown" in second["power_w"]


def test_a_port_by_its_lid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = PORT.format(role="CA", state="Active") + PORT.format(role="Peer", state="Down")
    [port] = run(capsys, "probe", tmp_path / "input.txt", text)["nics"]
    assert (port["state"], port["rate_gbps"], port["speed"], port["lanes"]) == ("ACTIVE", 100.0, "EDR", 4)
    findings = run(capsys, "check", tmp_path / "input.txt", PORT.format(role="CA", state="Down"))["findings"]
    assert "WARN" in {finding["status"] for finding in findings if finding["check_id"] == "nic-state"}


@pytest.mark.parametrize("text", ["  0:  10  21 \n  1:  21  10 \n", "10 21\n21 10\n"])
def test_distances_without_a_heading(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    nodes = run(capsys, "probe", tmp_path / "input.txt", text)["numa_nodes"]
    assert [node["distances"] for node in nodes] == [[10, 21], [21, 10]]


@pytest.mark.parametrize("text", ["1 2\n3 4\n", "10 21\n21 10 30\n", "10 9\n9 10\n", "10\n"])
def test_numbers_that_are_no_numa_distances_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "input.txt"
    path.write_text(text)
    assert command_line(["probe", "--from", str(path)]) == 2
