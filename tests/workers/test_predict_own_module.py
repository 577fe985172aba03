"""Test `rigtune predict` with the user's own module, which an interpreter with torch counts."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import assistant
from probes.base.errors import ExitCode
from probes.base.units import GIB
from tests.workers.conftest import DEADLINE_S

ROOT = Path(assistant.__file__).parents[1]
NETS = """
import os
import signal

import torch
from torch import nn


def build(device, micro_batch=2):
    layers = [nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8192, 10)]
    net = nn.Sequential(*layers)
    print("the network is built")
    return net.to(device), torch.randn(micro_batch, 3, 32, 32, device=device)


def fails(device):
    raise ValueError("the width is odd")


def dies(device):
    os.kill(os.getpid(), signal.SIGKILL)
"""
PARAMETERS = 3 * 8 * 9 + 8 + 16 + 8192 * 10 + 10
MACHINE = {"gpu": "H100-SXM-80GB", "n_gpus": "8", "micro_batch": "64", "grad_accum": "1"}


def predict(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "nets.py").write_text(NETS)
    return subprocess.run(
        (sys.executable, "-m", "assistant", "predict", *arguments),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(folder / "state")},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


def settings(model: str) -> list[str]:
    return [
        word for name, value in {"model": model, **MACHINE}.items() for word in ("--set", f"{name}={value}")
    ]


def test_one_case_and_a_table_give_the_same_prediction_of_a_module(torch_python: str, tmp_path: Path) -> None:
    done = predict(tmp_path, *settings("nets.py:build"), "--python", torch_python, "--format", "json")
    assert done.stderr == ""
    (alone,) = json.loads(done.stdout)["cases"]
    assert alone["memory"]["parameters"] == 4 * PARAMETERS
    assert alone["fits"] is True
    assert alone["samples_per_s"] * alone["step_time_s"] == pytest.approx(512)
    assert any("counted on the meta device" in words for words in alone["assumed"])

    rows = [
        {"case_id": name, "model": model, **MACHINE}
        for name, model in (("a", "nets.py:build"), ("b", "nets.py:dies"))
    ]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    (tmp_path / "cases.csv").write_text(text.getvalue())
    result = predict(tmp_path, "cases.csv", "--own-module", "nets.py:build", "--python", torch_python)
    first, second = csv.DictReader(io.StringIO(result.stdout))
    assert float(first["step_time_s"]) == pytest.approx(alone["step_time_s"], rel=1e-4)
    assert float(first["memory_parameters_gib"]) == pytest.approx(4 * PARAMETERS / GIB, rel=1e-4)
    assert second["status"] == "refused"
    assert "--own-module" in second["reason"]


@pytest.mark.parametrize(
    ("function", "code", "words"),
    [
        ("fails", ExitCode.USAGE, "ValueError: the width is odd"),
        ("missing", ExitCode.USAGE, "no function 'missing'"),
        ("dies", ExitCode.WORKER, "killed by signal 9"),
    ],
)
def test_a_module_that_cannot_be_counted_is_one_line(
    function: str, code: ExitCode, words: str, torch_python: str, tmp_path: Path
) -> None:
    done = predict(tmp_path, *settings(f"nets.py:{function}"), "--python", torch_python, "-o", "out.json")
    assert done.returncode == code
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert f"nets.py:{function}" in done.stderr
    assert words in done.stderr
    assert not (tmp_path / "out.json").exists()
