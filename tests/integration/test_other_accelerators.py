"""Test `check` and `probe` on machines with accelerators that rigtune recognises, but cannot read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assistant.cli import command_line

LINES = "".join(
    f"0000:{bus}:00.0 Processing accelerators [1200]: Advanced Micro Devices, Inc. [AMD/ATI] Aqua Vanjaram "
    f"[Instinct MI300X] [1002:74a1]\n{{driver}}"
    for bus in ("0c", "22")
)
DRIVER = "\tKernel driver in use: amdgpu\n"


@pytest.mark.parametrize("driver", [DRIVER, ""])
def test_amd_accelerators_are_never_fit_to_train(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], driver: str
) -> None:
    listing = tmp_path / "lspci.txt"
    listing.write_text(LINES.format(driver=driver))
    assert command_line(["check", "--from", str(listing), "--format", "json"]) == 3
    findings = json.loads(capsys.readouterr().out)["findings"]
    [finding] = [finding for finding in findings if finding["check_id"] == "accelerators"]
    assert finding["status"] == "UNKNOWN"
    assert "2 AMD Instinct MI300X" in finding["summary"]


def test_probe_names_other_accelerators(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listing = tmp_path / "lspci.txt"
    listing.write_text(LINES.format(driver=DRIVER))
    assert command_line(["probe", "--from", str(listing)]) == 0
    assert "2 x AMD Instinct MI300X" in capsys.readouterr().out
