"""Test that the UI ends with its terminal, also without a signal."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
from pathlib import Path

from assistant.tui.background import has_hung_up

ROOT = Path(__file__).resolve().parents[2]


def test_a_closed_terminal_is_noticed() -> None:
    outer, inner = pty.openpty()
    assert not has_hung_up(inner)
    os.close(outer)
    assert has_hung_up(inner)
    os.close(inner)


def test_the_ui_ends_when_its_terminal_goes_without_a_signal() -> None:
    outer, inner = pty.openpty()
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # inherited, as nohup does it
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "assistant", "tui", "--machine", "dgx-h100"],
            cwd=ROOT,
            stdin=inner,
            stdout=inner,
            stderr=inner,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color"},
        )
    finally:
        signal.signal(signal.SIGHUP, before)
    os.close(inner)
    try:
        drawn = b""
        while b"Overview" not in drawn:
            assert select.select([outer], [], [], 30)[0], "the UI drew nothing"
            drawn += os.read(outer, 1 << 16)
        os.close(outer)
        process.wait(timeout=30)
    finally:
        process.kill()
        process.wait()
