"""The command line that starts the ranks of a request: on this machine through torch's agent."""

from __future__ import annotations

from pathlib import Path

from probes.benching import BenchRequest
from recipes.agent import agent_argv


def argv_of(python: str, request: BenchRequest, directory: Path, program: tuple[str, ...]) -> tuple[str, ...]:
    """`program` on every rank of `request` with the interpreter `python`; `directory` holds its request and answers."""
    del directory  # ranks on this machine find it by the paths in `program`
    return agent_argv(python, request.ranks, program)
