"""Start the ranks of a request: with torch's agent here, on several hosts with a launcher of training."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from assistant.interpreter import worker_environment, workers_path
from assistant.runner import worker_variables
from assistant.storage import write_files
from assistant.usecases.bench.bench_hosts import require_shared
from assistant.usecases.export import find_launcher
from probes.base.errors import OutputError, WorkerError
from probes.bench.bench_requests import BenchRequest
from recipes.job.models.names import find_model
from recipes.launch.agent import agent_argv
from recipes.launch.recipe import (
    Artifact,
    Command,
    Convergence,
    Environment,
    ModelShape,
    Parallelism,
    Recipe,
    Resources,
)
from recipes.planning.default_model import CPU_MODEL

LAUNCHER_OF = {"ssh": "torchrun", "slurm": "slurm", "mpi": "mpi"}
LIMIT_S = 150.0
"""Time allowed for start and shutdown on all hosts.

A rank exits by itself after this plus the time for measuring.
"""
_OVERRUN = 3.0
"""Factor by which a benchmark may exceed its budget, because a case that has begun is finished."""
_SUBMIT = Artifact(
    path="submit.sh",
    mode=0o755,
    text="""\
#!/usr/bin/env bash
# submit.sh FOLDER NODES SCRIPT ARGUMENTS: submits a batch script for these nodes, waits for its end and
# prints its output. If this script ends early, it cancels the job.
set -uo pipefail
folder=$1 nodes=$2
shift 2
trap 'scancel --quiet "$(cat "$folder/job")" 2>/dev/null; exit 143' TERM INT HUP
sbatch --wait --parsable --nodelist="$nodes" --output="$folder/slurm.out" "$@" >"$folder/job" &
wait "$!"
code=$?
cat "$folder/slurm.out" 2>/dev/null
exit "$code"
""",
)
_ALLOCATED = Artifact(
    path="allocated.sh",
    mode=0o755,
    text="""\
#!/usr/bin/env bash
# allocated.sh FOLDER NODES SCRIPT ARGUMENTS: runs a batch script on these nodes of the allocation of this
# shell.
set -uo pipefail
list=$2 script=$3
shift 3
IFS=, read -ra names <<<"$list"
export list count=${#names[@]}
srun() {
  command srun --nodes="$count" --ntasks="$count" --ntasks-per-node=1 --nodelist="$list" --overlap "$@"
}
export -f srun
# Slurm numbers nodes in its own order; rank 0 listens on the first node in that order.
# shellcheck disable=SC2016  # expanded on each node
order=$(srun sh -c 'echo "$SLURM_NODEID $SLURMD_NODENAME"' | sort -n | cut -d " " -f 2 | paste -sd,)
export SLURM_JOB_NUM_NODES=$count SLURM_JOB_NODELIST=$order
bash "$script" "$@"
""",
)


def argv_of(python: str, request: BenchRequest, directory: Path, program: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that runs `program` on every rank of `request` with the interpreter `python`.

    `directory` contains the request and the answers. Raises WorkerError if hosts cannot be reached or do not
    see `directory`.
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
    """Write the launch files below `directory` and return the command that starts `program` on all hosts.

    Raises WorkerError for hosts that cannot be reached, or that do not see `directory`.
    """
    require_shared(request.hosts, request.spread_by, directory)
    shutil.copytree(
        workers_path(), directory / "worker", ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True
    )
    recipe, folder = recipe_of(python, request, directory, program), str(directory / "launch")
    launcher = find_launcher(LAUNCHER_OF[request.spread_by]).load()
    try:
        write_files(directory / "launch", [*launcher.render(recipe), _SUBMIT, _ALLOCATED])
    except OutputError as error:
        raise WorkerError(error.message, error.hint) from error
    command: tuple[str, ...] = launcher.start(recipe, folder, ())
    if request.spread_by != "slurm":
        return command
    wrapper = _ALLOCATED if os.environ.get("SLURM_JOB_ID") else _SUBMIT
    return (f"{folder}/{wrapper.path}", folder, ",".join(request.hosts), *command[1:])


def recipe_of(python: str, request: BenchRequest, directory: Path, program: tuple[str, ...]) -> Recipe:
    """Return the benchmark as a recipe, whose model and training settings only fill required fields."""
    limit_s = int(LIMIT_S + _OVERRUN * request.budget_s)
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
        **request.environment,
    }
    # mpirun keeps sockets in TMPDIR, and their paths must be short.
    if request.spread_by != "mpi":
        variables["TMPDIR"] = str(directory)
    for name, value in variables.items():
        yield Environment(name=name, value=value, why="the worker needs it", source="rigtune")
