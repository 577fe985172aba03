"""Fixtures that run code in an interpreter with torch; the application and these tests never import torch."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assistant.processes.interpreter import worker_environment
from assistant.processes.runner import worker_variables
from probes.base.record import to_json
from probes.bench.bench_requests import parse_worker_lines
from recipes.launch.agent import agent_argv

Train = Callable[..., subprocess.CompletedProcess[str]]
DEADLINE_S = 180

TINY = {
    "id": "tiny",
    "layers": 2,
    "hidden": 64,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 16,
    "ffn_hidden": 96,
    "vocab": 256,
    "gated_mlp": True,
    "tied_embeddings": False,
    "learned_positions": 0,
    "norm": "rmsnorm",
    "bias": False,
    "qkv_bias": False,
    "sequence_length": 32,
}


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    return {**os.environ, **worker_environment(), **worker_variables(threads=1)}


@pytest.fixture(scope="session")
def in_torch(
    torch_python: str, environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Any]:
    """Return a function that runs code in the interpreter with torch and returns the code's `answer`."""

    def run(code: str) -> Any:
        end = "print(json.dumps(answer)) or 0"
        leave = f"from rigtune_worker.worker_process import run_and_leave\nrun_and_leave(lambda: {end})"
        program = f"import json\n{code}\n{leave}"
        finished = subprocess.run(
            (torch_python, "-c", program),
            env=environment,
            cwd=tmp_path_factory.mktemp("in_torch"),
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=True,
        )
        return json.loads(finished.stdout.splitlines()[-1])

    return run


@pytest.fixture(scope="session")
def on_ranks(
    torch_python: str, environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[int, str], list[Any]]:
    """Return a function that runs code on several ranks and returns the `answer` of each rank, by rank."""

    def run(ranks: int, code: str) -> list[Any]:
        folder: Path = tmp_path_factory.mktemp("on_ranks")
        end = "json.dump(answer, open(f\"{os.environ['RANK']}.json\", 'w')) or 0"
        leave = f"from rigtune_worker.worker_process import run_and_leave\nrun_and_leave(lambda: {end})"
        (folder / "program.py").write_text(f"import json, os\n{code}\n{leave}\n")
        subprocess.run(
            agent_argv(torch_python, ranks, ("program.py",)),
            env=environment,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=True,
        )
        return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(ranks)]

    return run


@pytest.fixture(scope="session")
def train(torch_python: str, environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Train:
    """Return a function that trains a model, by default the tiny one: `train(ranks=2, strategy="fsdp")`.

    Its result has the lines of the report as `report`.
    """

    def run(
        ranks: int = 1, model: dict[str, Any] | None = None, steps: int = 6, **more: Any
    ) -> subprocess.CompletedProcess[str]:
        folder: Path = tmp_path_factory.mktemp("train")
        parallelism = {
            "strategy": "ddp",
            "nodes": 1,
            "micro_batch": 4,
            "grad_accum": 1,
            "global_batch": 8,
            "precision": "fp32",
        }
        config = {
            "model": model or TINY,
            "parallelism": {**parallelism, **more},
            "convergence": {"learning_rate": 3e-3, "warmup_steps": 2, "steps": steps},
            "resources": {"device": "cpu", "backend": "gloo", "time_limit": "ignored"},
        }
        (folder / "workload.json").write_text(json.dumps(config))
        program = ("-m", "rigtune_worker.train", "--config", "workload.json", "--report", "report.jsonl")
        finished = subprocess.run(
            agent_argv(torch_python, ranks, program),
            env=environment,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        report = folder / "report.jsonl"
        lines = report.read_text().splitlines() if report.exists() else []
        finished.report = [json.loads(line) for line in lines]  # type: ignore[attr-defined]
        return finished

    return run


@pytest.fixture(scope="module")
def answer_of(torch_python, environment, tmp_path_factory):
    """Return a function that runs the workers of a request and returns the lines that they wrote, by rank.

    `script` is the text of a program that starts the worker; by default the worker is started as a module.
    """

    def run(request, script=""):
        folder = tmp_path_factory.mktemp(request.bench_id)
        (folder / "request.json").write_bytes(to_json(request))
        (folder / "script.py").write_text(script)
        start = ("script.py",) if script else ("-m", "rigtune_worker")
        program = (*start, request.bench_id, "--request", "request.json", "--out", str(folder))
        subprocess.run(
            agent_argv(torch_python, request.ranks, program),
            env=environment,
            cwd=folder,
            capture_output=True,
            timeout=DEADLINE_S,
            check=False,
        )
        return {
            rank: parse_worker_lines((folder / f"rank{rank}.jsonl").read_bytes())
            for rank in range(request.ranks)
        }

    return run
