"""Fixtures for tests that run launch scripts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.launch_bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "bench")


@pytest.fixture
def launch_bench(bench: Bench) -> Bench:
    """Return a bench with stand-ins for Slurm and MPI.

    srun runs the step TASKS times per node, once by default, as Slurm does; scontrol knows two
    nodes and this job; mpirun starts MPI_RANKS ranks in each of its groups, which a colon separates.
    """
    bench.stand_in(
        "srun",
        "while [[ $1 == --* ]]; do shift; done\n"
        "tasks=${TASKS:-1}\nexport SLURM_NTASKS=$((tasks * SLURM_JOB_NUM_NODES))\n"
        "for ((id = 0; id < SLURM_NTASKS; id++)); do\n"
        '  SLURM_NODEID=$((id / tasks)) SLURM_LOCALID=$((id % tasks)) SLURM_PROCID=$id "$@" || exit\n'
        "done",
    )
    bench.stand_in(
        "scontrol",
        'case "$1 $2" in\n"show hostnames") printf "n%s\\n" 7 9;;\n"show node") echo "  NodeAddr=10.0.0.7 '
        'NodeHostName=n7";;\n"show job") printf "JobId=41 JobName=x\\n   Comment=Command=/no\\n   '
        'Command=%s\\n   WorkDir=/\\n" "$COMMAND";;\nesac',
    )
    bench.stand_in(
        "mpirun",
        'if [[ $1 == --version ]]; then echo "$MPI_VERSION"; exit; fi\n'
        "names=(OMPI_COMM_WORLD_{RANK,SIZE,LOCAL_RANK,LOCAL_SIZE})\n"
        "if [[ $MPI_VERSION == *HYDRA* ]]; then names=(PMI_RANK PMI_SIZE MPI_LOCALRANKID MPI_LOCALNRANKS); "
        "fi\nrank=0\n"
        "while (($#)); do\n"
        '  while [[ $1 != bash ]]; do echo "$1" >>"$OPTIONS"; shift; done\n'
        "  command=()\n"
        '  while (($#)) && [[ $1 != : ]]; do command+=("$1"); shift; done\n'
        "  shift\n"
        "  for ((local = 0; local < MPI_RANKS; local++, rank++)); do\n"
        '    env "${names[0]}=$rank" "${names[1]}=4" "${names[2]}=$((rank % 2))" "${names[3]}=2" '
        '"${command[@]}" || exit\n'
        "  done\n"
        "done",
    )
    return bench
