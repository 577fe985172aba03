"""Start the ranks of a request: here with torch's agent, on several hosts with a training launcher."""

import os
import secrets
import shlex
import shutil
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from assistant.processes.interpreter import worker_environment, workers_path
from assistant.processes.runner import output_of, worker_variables
from assistant.storage import write_files
from assistant.usecases.export import find_launcher
from probes.base.errors import OutputError, WorkerError
from probes.bench.bench_requests import BenchRequest, SpreadBy
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
_DEADLINE_S = 60.0
_AT_ONCE = 64
_TOKEN = "seen-by-all-hosts"  # noqa: S105 - a file's name
_HINTS: dict[SpreadBy, str] = {
    "ssh": "`ssh -o BatchMode=yes {host} true` must work without a password",
    "slurm": "`srun --nodelist={host} true` must work",
    "mpi": "`mpirun -n 1 -host {host} true` must work",
}
"""Conditions that must hold for each way to reach a host."""
REMEDY = "name a folder on a file system that all hosts share, under the same path: --work-directory FOLDER"
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
    """Return the benchmark as a recipe, with any model and training settings for the required fields."""
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


def require_shared(hosts: tuple[str, ...], spread_by: SpreadBy, directory: Path) -> None:
    """Raise WorkerError if hosts cannot be reached or do not see `directory`; the error names the hosts."""
    unseen = unseen_by(hosts, spread_by, directory)
    silent = {host: words for host, words in unseen.items() if words}
    if silent:
        host, words = next(iter(silent.items()))
        others = f" (and {', '.join(list(silent)[1:])})" if len(silent) > 1 else ""
        raise WorkerError(
            f"host {host}{others} cannot be reached by {spread_by}: {words}",
            _HINTS[spread_by].format(host=host),
        )
    if unseen:
        raise WorkerError(
            f"{', '.join(unseen)} {'does' if len(unseen) == 1 else 'do'} not see the folder {directory}",
            REMEDY,
        )


def unseen_by(hosts: tuple[str, ...], spread_by: SpreadBy, directory: Path) -> dict[str, str]:
    """Return the hosts that do not see a new file in `directory`, with the reasons.

    The reason is empty for a host that answers but does not see the file. Raises WorkerError if the file
    cannot be written.
    """
    token = secrets.token_hex(16)
    path = directory / _TOKEN
    try:
        directory.mkdir(parents=True, exist_ok=True)
        path.write_text(token)
    except OSError as error:
        raise WorkerError(
            f"cannot write to {directory}: {error.strerror}", "choose another work folder"
        ) from error
    if spread_by == "ssh":
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            answers = pool.map(lambda host: _asked(_over_ssh(host, path), directory), hosts)
            asked = dict(zip(hosts, answers, strict=True))
        return {host: _why(code, text) for host, (code, text) in asked.items() if token not in text}
    unseen = _unseen_by_ranks(hosts, spread_by, path, token)
    if len(hosts) > 1 and any(unseen.values()):
        # A launcher starts nothing if one host is down. With a separate start per host, the good hosts
        # answer.
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            alone = pool.map(lambda host: _unseen_by_ranks((host,), spread_by, path, token), unseen)
            return {host: why for each in alone for host, why in each.items()} or unseen
    return unseen


def _unseen_by_ranks(hosts: tuple[str, ...], spread_by: SpreadBy, path: Path, token: str) -> dict[str, str]:
    """Return the result of `unseen_by` after a single start of Slurm's or MPI's launcher on all hosts."""
    seen_by = (
        'printf "%s %s\\n" "${SLURMD_NODENAME:-${OMPI_COMM_WORLD_RANK:-$PMI_RANK}}" "$(cat "$0" 2>/dev/null)"'
    )
    program = ("sh", "-c", seen_by, str(path))
    count, names = str(len(hosts)), ",".join(hosts)
    start: tuple[str, ...] = ("mpirun", "-n", count, "-host", names)
    if spread_by == "slurm":
        limit = f"--immediate={_DEADLINE_S / 2:.0f}"
        start = ("srun", f"--nodelist={names}", "-N", count, "-n", count, limit)
    code, text = _asked((*start, *program), path.parent)
    saw = {line.split()[0] for line in text.splitlines() if line.split()[1:] == [token]}
    own_names = hosts if spread_by == "slurm" else map(str, range(len(hosts)))
    return {host: _why(code, text) for host, name in zip(hosts, own_names, strict=True) if name not in saw}


def _over_ssh(host: str, path: Path) -> tuple[str, ...]:
    command = f"cat -- {shlex.quote(str(path))} || exit 0"
    return ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "--", host, command)


def _asked(argv: Iterable[str], directory: Path) -> tuple[int | None, str]:
    """Return the exit code and the output; the code is None if there was no answer in time."""
    try:
        code, output = output_of(tuple(argv), directory=directory, environment={}, deadline_s=_DEADLINE_S)
    except OSError as error:
        return 127, str(error)
    return code, output.decode("utf-8", "replace")


def _why(code: int | None, text: str) -> str:
    """Return why a host did not answer; empty if it did."""
    if code == 0:
        return ""
    words = [line.strip() for line in text.splitlines() if line.strip()]
    if code is None:
        return f"no answer within {_DEADLINE_S:.0f} s" + (f" ({words[-1][:200]})" if words else "")
    return words[0][:200] if words else f"exit code {code}"
