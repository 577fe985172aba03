"""How a worker process ends. No torch is needed for this."""

from __future__ import annotations

import subprocess
import sys

import pytest

from assistant.interpreter import worker_environment

TROUBLE_AT_EXIT = (
    "import atexit, os, sys; atexit.register(os.abort); from rigtune_worker.process import run_and_leave\n"
    "def failing(): raise ValueError('no such shape')\n"
)
"""As torch's threads can make it: whatever runs while Python ends aborts the process."""


@pytest.mark.parametrize(
    ("main", "code", "words"),
    [
        ("lambda: print('done') or 0", 0, "done"),
        ("lambda: print('failed') or 7", 7, "failed"),
        ("failing", 1, "ValueError: no such shape"),
    ],
)
def test_what_was_done_counts_whatever_happens_while_python_ends(main, code, words):
    finished = subprocess.run(
        (sys.executable, "-c", f"{TROUBLE_AT_EXIT}run_and_leave({main})"),
        env=worker_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert finished.returncode == code, finished.stderr
    assert words in finished.stdout + finished.stderr
