"""Test that no file in the current folder is started unless the user named it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("python3", "nvidia-smi", "lspci", "ip", "df", "lscpu", "ibstat", "nvcc", "scontrol")


@pytest.mark.parametrize(
    "command",
    [
        ("probe", "--format", "json"),
        ("capture", "-o", "capture.json"),
        ("plan", "gpt2"),
        ("lint", "--here", "train.sh"),
        ("diff", "live", "machine:dgx-h100"),
    ],
    ids=lambda command: command[0],
)
def test_no_program_in_a_world_writable_folder_is_started(command: tuple[str, ...], tmp_path: Path) -> None:
    program = f'#!/bin/sh\ntouch {tmp_path}/started\nexec /usr/bin/python3 "$@"\n'
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    for path in (tmp_path / ".venv" / "bin" / "python", *map(tmp_path.joinpath, NAMES)):
        path.write_text(program)
        path.chmod(0o755)
    (tmp_path / "train.sh").write_text("torchrun train.py\n")
    tmp_path.chmod(0o777)
    # An empty entry of the PATH means the current folder.
    environment = {**os.environ, "PATH": f":{os.environ['PATH']}:.", "PYTHONPATH": str(ROOT)}
    argv = (
        (sys.executable, "-P", "-m", "assistant")
        if sys.version_info >= (3, 11)
        else (sys.executable, "-m", "assistant")
    )
    done = subprocess.run(
        (*argv, *command),
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "started").exists()
