"""Test `rigtune capture` and `rigtune diff` as a user sees them: files, words, exit codes."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from assistant.cli import command_line
from probes.sources.stored import load_recording

RECORDING = str(Path(__file__).parents[3] / "machines" / "h100-dead-link" / "recording.json")
OTHER = str(Path(__file__).parents[3] / "machines" / "cpu-vm" / "recording.json")


def test_a_capture_is_private_redacted_and_gives_the_same_verdict(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "shared.json"
    assert command_line(["capture", "-o", str(target), "--from", RECORDING]) == 0
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "MAC addresses" in captured.err
    assert "before you share it" in captured.err
    assert target.stat().st_mode & 0o777 == 0o600
    recording = load_recording(target.read_bytes(), "shared.json")
    assert recording.title.endswith("redacted")
    assert (
        recording.files["/proc/sys/kernel/hostname"]
        != load_recording(Path(RECORDING).read_bytes(), "x").files["/proc/sys/kernel/hostname"]
    )
    codes = [command_line(["check", "--from", path, "-q"]) for path in (RECORDING, str(target))]
    assert codes[0] == codes[1]


def test_a_file_that_is_there_stays_unless_forced(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "there.json"
    target.write_text("mine")
    assert command_line(["capture", "-o", str(target), "--from", RECORDING]) == 2
    assert "--force" in capfd.readouterr().err
    assert target.read_text() == "mine"
    assert command_line(["capture", "-o", str(target), "--from", RECORDING, "--force", "-q"]) == 0
    assert capfd.readouterr().err == ""
    assert target.read_text() != "mine"


def test_a_full_disk_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    real = os.fsync

    def full(descriptor: int) -> None:
        if os.fstat(descriptor).st_size > 10_000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    target = tmp_path / "deep" / "c.json"
    assert command_line(["capture", "-o", str(target), "--from", RECORDING, "-q"]) == 2
    assert "no space left" in capfd.readouterr().err
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_kinds_can_be_kept_but_secrets_not_one_by_one(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "c.json"
    arguments = ["capture", "-o", str(target), "--from", RECORDING]
    assert command_line([*arguments, "--keep", "hostname,mac"]) == 0
    assert "hostname, mac" in capfd.readouterr().err
    assert load_recording(target.read_bytes(), "c").files["/proc/sys/kernel/hostname"] == "node1\n"
    assert command_line([*arguments, "--force", "--keep", "secret"]) == 2
    assert command_line([*arguments, "--force", "--keep", "colour"]) == 2
    assert command_line([*arguments, "--force", "--no-redact", "--keep", "mac"]) == 2
    assert command_line([*arguments, "--force", "--no-redact"]) == 0
    assert "do not share it" in capfd.readouterr().err


def test_one_salt_makes_captures_comparable(tmp_path: Path) -> None:
    for name, salt in (("a", ["--salt", "s"]), ("b", ["--salt", "s"]), ("c", [])):
        command_line(["capture", "-o", str(tmp_path / name), "--from", RECORDING, "-q", *salt])
    assert command_line(["diff", str(tmp_path / "a"), str(tmp_path / "b"), "-q", "--all"]) == 0
    assert command_line(["diff", str(tmp_path / "a"), str(tmp_path / "c"), "-q"]) == 0
    assert command_line(["diff", str(tmp_path / "a"), str(tmp_path / "c"), "-q", "--all"]) == 1


def test_an_unredacted_recording_is_reported(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert (
        command_line(["probe", "--from", RECORDING, "--record", str(tmp_path / "r.json"), "--format", "json"])
        == 0
    )
    assert "do not share it" in capfd.readouterr().err


def test_diff_has_the_exit_codes_of_diff(capfd: pytest.CaptureFixture[str]) -> None:
    assert command_line(["diff", RECORDING, RECORDING]) == 0
    assert "no difference" in capfd.readouterr().out
    assert command_line(["diff", RECORDING, "machine:dgx-h100"]) == 1
    assert "captures may replace the same name in different ways" in " ".join(capfd.readouterr().out.split())
    assert command_line(["diff", OTHER, RECORDING]) == 1
    out = capfd.readouterr().out
    assert "GPU0-7 are new" in out
    assert "new FAIL  GPU2" in out
    assert command_line(["diff", RECORDING]) == 2
    assert command_line(["diff", RECORDING, "/nowhere"]) == 2
    assert command_line(["diff", RECORDING, "machine:nothing"]) == 2


def test_diff_as_json_and_of_three(capfd: pytest.CaptureFixture[str]) -> None:
    assert command_line(["diff", "machine:dgx-h100", "--machine", "dgx-a100", "--format", "json"]) == 1
    document = json.loads(capfd.readouterr().out)
    assert document["machines"] == ["machine:dgx-h100", "machine:dgx-a100"]
    assert any(row["field"] == "nvlinks.up" and row["after"] == "12" for row in document["differences"])
    assert command_line(["diff", "machine:dgx-h100", "machine:dgx-h100", "machine:dgx-a100"]) == 1
    assert "machine:dgx-a100: GPU0-7: NVLinks up 12, the others 18" in " ".join(
        capfd.readouterr().out.split()
    )
