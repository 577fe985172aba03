"""Test that the UI ends with its terminal, also without a signal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from assistant.tui.background import has_hung_up

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 60.0
"""Time in which the UI must draw an expected text; far more than it needs."""


def read_until(terminal: int, wanted: bytes) -> bytes:
    """Return what the UI draws up to the expected text; fail after the deadline with what was drawn."""
    drawn, deadline = b"", time.monotonic() + DEADLINE_S
    while wanted not in re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", drawn):
        is_readable = select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))[0]
        assert is_readable, f"the UI did not draw {wanted!r} within {DEADLINE_S:g} s, but {drawn!r}"
        drawn += os.read(terminal, 1 << 16)
    return drawn


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
        read_until(outer, b"Overview")
        os.close(outer)
        process.wait(timeout=30)
    finally:
        process.kill()
        process.wait()


@contextmanager
def terminal_ui(**environment: str) -> Iterator[int]:
    """Start the UI for a catalogue machine; yield its terminal."""
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG"))}
    process = subprocess.Popen(
        [sys.executable, "-m", "assistant", "tui", "--machine", "dgx-h100"],
        cwd=ROOT,
        stdin=inner,
        stdout=inner,
        stderr=inner,
        start_new_session=True,
        env={**kept, "TERM": "xterm-256color", **environment},
    )
    os.close(inner)

    try:
        yield outer
    finally:
        process.kill()
        process.wait()
        os.close(outer)


def test_keys_typed_in_one_burst_reach_their_fields() -> None:
    with terminal_ui(LC_ALL="C.UTF-8") as terminal:
        read_until(terminal, b"dgx-h100")
        os.write(terminal, b"5")
        read_until(terminal, b"global batch 512")
        os.write(terminal, b"wllama-3-8b\t\t\t\t\t2\t64\t4096\r")
        drawn = read_until(terminal, b"on 2 nodes")
        assert b"sequence 4096" in drawn
        assert b"global batch 64" in drawn


@pytest.mark.parametrize(
    ("locale", "is_ascii"),
    [({"LC_ALL": "C"}, True), ({"LANG": "C"}, True), ({"LANG": "en_US.ISO-8859-1"}, True), ({}, False),
     ({"LC_ALL": "C.UTF-8"}, False), ({"LANG": "de_DE.utf8"}, False)],
)  # fmt: skip
def test_without_utf_8_only_ascii_is_drawn(locale: dict[str, str], is_ascii: bool) -> None:
    with terminal_ui(**locale) as terminal:
        # the frame is drawn with lines, of which each begins with this byte in UTF-8
        assert read_until(terminal, b"Palette" if is_ascii else b"\xe2").isascii() is is_ascii
