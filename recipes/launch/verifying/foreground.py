"""Commands of launchers that end when the job ends, so that `rigtune verify` can wait for the job."""

import hashlib
from pathlib import PurePosixPath

from probes.base.errors import UsageError

_NAME = "--job-name="
_WAITING = ("srun", "mpirun", "torchrun", "accelerate", "deepspeed", "docker", "podman")
"""Starters that end with the job."""


def in_foreground(command: tuple[str, ...], launcher: str, folder: str, output: str) -> tuple[str, ...]:
    """Return the command of a launcher so that it ends when the job ends.

    `folder` is the folder of the launch files, and `output` the file to which a scheduler writes the job's
    output. sbatch waits for the job with `--wait` (sbatch(1)); its exit code is then that of the job. The job
    gets a name of its own, by which `cancelling` ends the job: sbatch prints the job's number into a buffer
    that is lost when sbatch is ended while it waits (SchedMD/slurm, sbatch.c). Raises UsageError for a
    launcher that cannot wait.
    """
    first = PurePosixPath(command[0])
    if first.name == "sbatch":
        name = hashlib.sha256(output.encode()).hexdigest()[:12]
        return (command[0], "--wait", f"{_NAME}rigtune-{name}", f"--output={output}", *command[1:])
    if str(first).startswith(f"{folder}/") or first.name in _WAITING:
        return command
    raise UsageError(
        f"launcher {launcher} does not wait for the job, so `rigtune verify` cannot read its result",
        "verify with --launcher torchrun, slurm or mpi on nodes of the same kind",
    )


def writes_output(command: tuple[str, ...]) -> bool:
    """Return whether a scheduler writes the job's output to a file of its own."""
    return PurePosixPath(command[0]).name == "sbatch"


def cancelling(command: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that ends the job after its waiting command was ended; empty if none is needed."""
    if not writes_output(command):
        return ()
    return ("scancel", next(word for word in command if word.startswith(_NAME)).replace("job-name", "name"))
