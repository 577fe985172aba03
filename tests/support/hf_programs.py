"""An interpreter with transformers, accelerate, TRL and DeepSpeed, for tests that run these programs."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parent / "programs"
LIMIT_S = 600
GPU_STANDIN = {
    "PYTHONPATH": str(SCRIPTS / "gpu_standin"),
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}
"""Variables that make accelerate shard over CPU ranks, and that allow root to use mpirun."""


def hf_python() -> str:
    """Return RIGTUNE_HF_PYTHON; without it the test is skipped."""
    python = os.environ.get("RIGTUNE_HF_PYTHON")
    if not python:
        pytest.skip("needs transformers, accelerate, trl, peft, datasets, deepspeed: set RIGTUNE_HF_PYTHON")
    return python


def program_python(variable: str, module: str) -> str:
    """Return the interpreter that a variable names; without it or the module, the test is skipped."""
    python = os.environ.get(variable, "")
    if not python:
        pytest.skip(f"needs {module}: set {variable}")
    if subprocess.run((python, "-c", f"import {module}"), capture_output=True, check=False).returncode:
        pytest.skip(f"{python} has no {module}")
    return python


def run_script(*command: object, folder: Path | None = None, **variables: str) -> str:
    """Return the output of a command that must succeed."""
    done = subprocess.run(
        tuple(map(str, command)),
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
        cwd=folder,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", **variables},
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout + done.stderr


def reports(output: str) -> list[dict[str, Any]]:
    """Return the JSON that the ranks printed after REPORT, in the order of the ranks."""
    # two ranks may print on one line
    parts = output.split("REPORT ")[1:]
    decoder = json.JSONDecoder()
    return sorted((decoder.raw_decode(part)[0] for part in parts), key=lambda report: report["rank"])
