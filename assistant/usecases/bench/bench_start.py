"""Choose how the ranks of a request start: with torch's agent here, with a launcher on several hosts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from assistant.interpreter import worker_environment
from assistant.runner import worker_variables
from assistant.usecases.bench.bench_spread import spread_argv
from probes.bench.bench_requests import BenchRequest
from recipes.launch.agent import agent_argv


def argv_of(python: str, request: BenchRequest, directory: Path, program: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that runs `program` on every rank of `request` with the interpreter `python`.

    `directory` contains the request and the answers. Raises WorkerError if hosts cannot be reached or do not
    see `directory`.
    """
    if request.hosts:
        return spread_argv(python, request, directory, program)
    return agent_argv(python, request.ranks, program)


def environment_of(request: BenchRequest, directory: Path) -> Mapping[str, str]:
    """Return the variables for the command of `argv_of`; on several hosts the launch script sets them."""
    if request.hosts:
        return {}
    return {
        **worker_environment(),
        **worker_variables(request.threads_per_rank),
        **request.environment,
        # torch's agent leaves a folder in TMPDIR.
        "TMPDIR": str(directory),
    }
