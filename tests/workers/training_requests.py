"""Requests of training benchmarks on the tiny model, and the failures in their answers."""

from __future__ import annotations

from pathlib import Path

import msgspec

import assistant
from probes.bench import micro_batch, train_cnn
from probes.bench.bench_requests import BenchSettings, FailureLine
from tests.support.bench_answers import bench_context
from tests.workers.conftest import TINY

MIB = 2**20
EXAMPLE = (
    (Path(assistant.__file__).parent / "docs" / "own_step.md")
    .read_text()
    .split("```python\n")[1]
    .split("```")[0]
)
"""Example of a user's training step in the documentation."""


def tiny(module, ranks=1, budget_s=1.0, step="", folder=Path(), **context):
    """Return the module's last request, on the tiny model."""
    settings = BenchSettings(step=step, folder=str(folder.absolute()))
    request = module.requests(bench_context(ranks=ranks, settings=settings, **context))[-1]
    cases = tuple(
        {**case, "sequence_length": 32} if "sequence_length" in case else case for case in request.cases
    )
    model = request.model if module is train_cnn else TINY
    more = {"trial_s": 0.1} if module is micro_batch else {}
    return msgspec.structs.replace(
        request, cases=cases, model=model, budget_s=budget_s, settings={**request.settings, **more}
    )


def failures(lines_by_rank):
    return [line for lines in lines_by_rank.values() for line in lines if isinstance(line, FailureLine)]
