"""Test that every module of the workers but `__main__` can be imported, also modules that no test runs."""

from __future__ import annotations

import subprocess
from pathlib import Path

WORKERS = Path(__file__).resolve().parents[2] / "probes" / "workers"
CODE = """
import importlib, pkgutil, rigtune_worker
for module in pkgutil.walk_packages(rigtune_worker.__path__, "rigtune_worker."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""


def test_every_module_of_the_workers_can_be_imported(torch_python):
    done = subprocess.run(
        (torch_python, "-c", CODE), cwd=WORKERS, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
