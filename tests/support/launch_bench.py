"""Stand-ins for interpreter, scheduler and ssh, which record their calls."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

from recipes.launch.launch_files import launch_files
from recipes.launch.recipe import Artifact, Recipe

NASTY = (
    "two words",
    "it's",
    'say "hi"',
    "$HOME `id` $(id) ${x}",
    "a\\nb\\",
    "-x",
    "--",
    "*",
    "~",
    "!history",
    "# no comment",
    "tab\there",
    "ü 漢字 🚀",
    "'; touch injected; '",
    "{a}",
    "a&&b|c>d",
    "",
)


class Call(NamedTuple):
    """Call of a stand-in: its arguments, working directory and environment."""

    arguments: list[str]
    directory: str
    environment: dict[str, str]


class Outcome(NamedTuple):
    exit_code: int
    words: str
    calls: list[Call]


def put_files(folder: Path, artifacts: tuple[Artifact, ...]) -> Path:
    """Write the artifacts as the application does, and return the path of the first artifact."""
    for artifact in artifacts:
        path = folder / artifact.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(artifact.text)
        path.chmod(artifact.mode)
    return folder / artifacts[0].path


class Bench:
    """A folder of stand-ins that come first on the PATH, and their recorded calls."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.records = folder / "records"
        self.records.mkdir(parents=True)
        self.recorder = self.stand_in(
            "python-stand-in",
            'file=$(mktemp "$RECORDS/XXXXXXXX")\n{ printf "%s\\0" "$#" "$@" "$PWD"; env -0; } >"$file"',
        )

    def stand_in(self, name: str, body: str) -> str:
        path = self.folder / name
        path.write_text(f"#!/usr/bin/env bash\n{body}\n")
        path.chmod(0o755)
        return str(path)

    def run(self, *command: str, cwd: Path | None = None, **variables: str) -> Outcome:
        environment = {
            "PATH": f"{self.folder}:{os.environ['PATH']}",
            "HOME": "/nonexistent",
            "LC_ALL": "C.UTF-8",
            "RECORDS": str(self.records),
            "RIGTUNE_PYTHON": self.recorder,
            "RIGTUNE_PREFLIGHT": "0",  # its interpreter would be recorded as well
            "OMPI_ALLOW_RUN_AS_ROOT": "1",  # as in a container; tests may run as root
            "MPI_VERSION": "mpirun (Open MPI) 4.1.4",
            "MPI_RANKS": "1",
            "OPTIONS": str(self.folder / "options"),
            **variables,
        }
        done = subprocess.run(
            command, check=False, cwd=cwd or self.folder, env=environment, capture_output=True, timeout=30
        )
        calls = [
            self.read(path)
            for path in sorted(self.records.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        ]
        for path in self.records.iterdir():
            path.unlink()
        return Outcome(done.returncode, (done.stdout + done.stderr).decode("utf-8", "replace"), calls)

    @staticmethod
    def read(path: Path) -> Call:
        count, *rest = path.read_bytes().decode("utf-8", "surrogateescape").rstrip("\0").split("\0")
        pairs = dict(pair.split("=", 1) for pair in rest[int(count) + 1 :])
        return Call(rest[: int(count)], rest[int(count)], pairs)


SLURM_JOB = {
    "SLURM_JOB_ID": "41",
    "SLURM_JOB_NODELIST": "n[7,9]",
    "SLURM_SUBMIT_DIR": "/",
    "SLURM_CPUS_PER_TASK": "2",
}


def render(launcher: str, recipe: Recipe) -> tuple[Artifact, ...]:
    return launch_files(recipe, launcher)


def program_of(call: Call) -> list[str]:
    """Return the words after `-u` or, without `-u`, those after torchrun's own options."""
    if "-u" in call.arguments:
        return call.arguments[call.arguments.index("-u") + 1 :]
    return call.arguments[call.arguments.index("--nproc-per-node") + 2 :]


def option(call: Call, name: str) -> str:
    return call.arguments[call.arguments.index(name) + 1]
