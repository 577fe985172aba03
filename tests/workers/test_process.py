"""Test how a worker process starts and ends, without torch."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from assistant.processes.interpreter import LEAST_PYTHON, worker_environment, workers_path

TROUBLE_AT_EXIT = (
    "import atexit, os, sys; atexit.register(os.abort); from rigtune_worker.worker_process import "
    "run_and_leave\n"
    "def failing(): raise ValueError('no such shape')\n"
)
"""Program whose cleanup aborts the process, like threads of torch may do."""


@pytest.mark.parametrize(
    ("main", "code", "words"),
    [
        ("lambda: print('done') or 0", 0, "done"),
        ("lambda: print('failed') or 7", 7, "failed"),
        ("failing", 1, "ValueError: no such shape"),
    ],
)
def test_the_exit_code_of_the_work_survives_trouble_while_python_ends(main, code, words):
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


@pytest.mark.parametrize("path", sorted(workers_path().rglob("*.py")), ids=lambda path: path.stem)
def test_the_oldest_python_understands_the_workers(path):
    """vet.py must also run in older versions, because it reports that they are too old."""
    tree = ast.parse(path.read_text(), feature_version=(3, 6) if path.stem == "vet" else LEAST_PYTHON)
    postponed = any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body)
    annotated = any(isinstance(node, (ast.AnnAssign, ast.arg)) and node.annotation for node in ast.walk(tree))
    assert postponed or not annotated
