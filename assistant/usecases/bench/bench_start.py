"""Start the ranks of a request: on this host with torch's agent, on several hosts with an engine of
`rigtune fleet` (such as Slurm or ssh).
"""

import os
import secrets
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from assistant.engines.engine_job import EngineJob, command_of
from assistant.engines.engine_table import Rendezvous, Wanted
from assistant.processes.interpreter import worker_environment, workers_path
from assistant.processes.runner import Job, tail_of, worker_variables
from assistant.storage import write_files
from probes.base.errors import OutputError, WorkerError
from probes.bench.bench_requests import BenchRequest
from recipes.job.models.names import find_model
from recipes.launch.agent import agent_argv
from recipes.launch.launch_files import launch_files
from recipes.launch.launchers.torchrun import SCRIPT
from recipes.launch.recipe import (
    Command,
    Convergence,
    Environment,
    ModelShape,
    Parallelism,
    Recipe,
    Resources,
)
from recipes.planning.default_model import CPU_MODEL

_LAUNCHER = "torchrun"
"""Launcher whose script starts the ranks of one node; the engine runs the script on every node."""
_PORTS = range(20000, 30000)
"""Ports of the first node where the ranks meet, below the ephemeral ports (net.ipv4.ip_local_port_range)."""
LIMIT_S = 150.0
"""Time allowed for start and shutdown on all hosts.

A rank exits by itself after this time plus the time for measuring.
"""
NODE_LOGS = "nodes"
_SCRIPTS = "launch"


def argv_of(python: str, request: BenchRequest, directory: Path, program: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that runs `program` on every rank of `request` with the interpreter `python`.

    `directory` contains the request and the answers; the hosts of a request must see it (`require_shared`).
    Raises WorkerError if the files of the job cannot be written.
    """
    if request.hosts:
        return _spread_argv(python, request, directory, program)
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


def _spread_argv(
    python: str, request: BenchRequest, directory: Path, program: tuple[str, ...]
) -> tuple[str, ...]:
    """Write the files of the job below `directory` and return the command that starts `program` on all hosts.

    The caller has already asked the hosts whether they see the folder. The command runs as a separate
    process, because groups of a search start at the same time, but in one process an engine can run only one
    command at a time. Raises WorkerError if the files cannot be written.
    """
    shutil.copytree(
        workers_path(), directory / "worker", ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True
    )
    task = directory / "job.json"
    recipe = recipe_of(python, request, directory, program)
    wanted = job_of(request, directory)
    try:
        write_files(directory / _SCRIPTS, launch_files(recipe, _LAUNCHER))
        (directory / NODE_LOGS).mkdir(exist_ok=True)
        task.write_bytes(msgspec.json.encode(EngineJob(engine=request.spread_by, wanted=wanted)))
    except OutputError as error:
        raise WorkerError(error.message, error.hint) from error
    return command_of(task)


def job_of(request: BenchRequest, directory: Path) -> Wanted:
    """Return the command that starts the ranks of `request` on each of its hosts, as one job."""
    # the output of each node stays in the shared folder, even if the engine does not forward it
    script = 'exec "$0" >"$1/node$NODE_RANK.log" 2>&1 </dev/null'
    return Wanted(
        nodes=request.hosts,
        command=("bash", "-c", script, f"{directory / _SCRIPTS}/{SCRIPT}", str(directory / NODE_LOGS)),
        limit_s=_limit_s(request),
        rendezvous=Rendezvous(port=secrets.choice(_PORTS)),
    )


class HostsJob(Job):
    """A job over several hosts, whose output is in one file for each host."""

    def _logs(self) -> list[Path]:
        """Return the logs of the hosts; the host that stopped writing first, often the cause, is the last."""
        return sorted((self.directory / NODE_LOGS).glob("node*.log"), key=_changed_s, reverse=True)

    @property
    def log_bytes(self) -> int:
        """Number of bytes printed so far."""
        return super().log_bytes + sum(path.stat().st_size for path in self._logs())

    def log_tail(self, limit_bytes: int = 4000) -> str:
        """Return the end of each host's output, and of the engine's report on the hosts."""
        logs = self._logs()
        each = limit_bytes // (len(logs) + 1)
        parts = [tail_of(path, each) for path in logs]
        return "\n".join(filter(None, (*parts, super().log_tail(each))))


def _changed_s(path: Path) -> float:
    return path.stat().st_mtime


def _limit_s(request: BenchRequest) -> int:
    return int(LIMIT_S + request.longest_s)


def recipe_of(python: str, request: BenchRequest, directory: Path, program: tuple[str, ...]) -> Recipe:
    """Return the benchmark as a recipe; its model and training settings are arbitrary, but required."""
    limit_s = _limit_s(request)
    arguments = ("--limit-s", str(limit_s), "--hosts", ",".join(request.hosts), "--", *program[2:])
    model = find_model(CPU_MODEL)
    return Recipe(
        name=f"rigtune-{request.bench_id}",
        title=f"rigtune bench: {request.title}",
        model=ModelShape(**{name: getattr(model, name) for name in ModelShape.__struct_fields__}),
        parallelism=Parallelism(
            strategy="ddp",
            nodes=len(request.hosts),
            ranks_per_node=request.ranks_per_node,
            micro_batch=1,
            grad_accum=1,
            global_batch=request.ranks,
        ),
        convergence=Convergence(learning_rate=1.0, warmup_steps=0, steps=1),
        resources=Resources(
            device=request.device,
            backend=request.backend,
            python=python,
            time_limit=str(1 + limit_s // 60),  # minutes
            hosts=request.hosts,
        ),
        command=Command(
            kind="module",
            target="rigtune_worker.multi_host",
            arguments=tuple(argument.replace("{", "{{").replace("}", "}}") for argument in arguments),
            working_directory=str(directory),
        ),
        slots={"logs": str(directory / "logs")},
        environment=tuple(_environment(request, directory)),
    )


def _environment(request: BenchRequest, directory: Path) -> Iterable[Environment]:
    variables = {
        **worker_environment(),
        "PYTHONPATH": os.pathsep.join(
            filter(None, (str(directory / "worker"), os.environ.get("PYTHONPATH")))
        ),
        "OMP_NUM_THREADS": str(request.threads_per_rank),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "RIGTUNE_PREFLIGHT": "0",
        "TMPDIR": str(directory),
        **request.environment,
    }
    for name, value in variables.items():
        yield Environment(name=name, value=value, why="the worker needs it", source="rigtune")
