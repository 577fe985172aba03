"""Start nccl-tests with real launchers; a C program takes its place, and its ranks meet through Open MPI."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from probes.parsers.tools.nccl_tests import parse_gpus, parse_results
from recipes.launch.recipe import Command, Environment
from tests.support.slurm import slurm_cluster

pytestmark = pytest.mark.slow

LIMIT_S = 240
STAND_IN = Path(__file__).parents[1] / "support" / "nccl_tests_standin.c"
HCA = Environment(name="NCCL_IB_HCA", value="=mlx5_0", why="w", source="s")


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """Return the folder of the stand-in, which has a blank in its name."""
    compiler = shutil.which("gcc")
    if compiler is None or shutil.which("mpirun") is None:
        pytest.skip("needs gcc and Open MPI")
    folder = tmp_path_factory.mktemp("built") / "nccl tests"
    folder.mkdir()
    command = (compiler, str(STAND_IN), "-o", str(folder / "all_reduce_perf"), "-l:libmpi.so.40")
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("needs the library of Open MPI 4 or 5")
    return folder


@pytest.fixture(scope="module")
def slurm() -> Iterator[dict[str, str]]:
    with slurm_cluster() as environment:
        yield environment


def recipe_of(make_recipe, folder: Path, **fields):
    return make_recipe(
        command=Command(kind="nccl-tests", target="all_reduce_perf", arguments=("-b", "1M", "-e", "1M")),
        resources={"device": "cuda", "backend": "nccl", "device_name": "NVIDIA H100"},
        environment=(HCA,),
        **{**fields, "slots": {"nccl_tests": str(folder), **fields.get("slots", {})}},
    )


def check_log(log: Path, ranks: int, *words: str) -> None:
    """Assert that the ranks met, and that rigtune reads the result in the log."""
    text = log.read_text()
    assert [gpu.index for gpu in parse_gpus(text)] == list(range(ranks)), text
    assert {result.value for result in parse_results(text) if result.unit == "B/s"} == {20.16e9}
    given = "".join(f" [{word}]" for word in words)
    assert f"words: [-b] [1M] [-e] [1M] [-f] [2] [-n] [20] [-w] [5] [-c] [1] [-g] [1]{given}\n" in text
    assert "NCCL_IB_HCA: =mlx5_0\n" in text


def test_the_ranks_meet_under_mpirun(make_recipe, built, export, tmp_path):
    folder = tmp_path / "it's a $folder: ü"
    script = export("mpi", recipe_of(make_recipe, built, ranks_per_node=3), folder)
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    job = subprocess.run(
        (str(script), "--", "-d", "half"),
        cwd=tmp_path,
        env={**os.environ, **allowed, "RIGTUNE_LOGS": str(tmp_path / "logs"), "RIGTUNE_PREFLIGHT": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert job.returncode == 0, job.stdout
    check_log(tmp_path / "logs" / "rank0.log", 3, "-d", "half")


def submit(slurm, script: Path, *arguments: str) -> Path:
    """Run a job to its end and return the folder of its logs."""
    job = subprocess.run(
        ("sbatch", "--wait", "--parsable", str(script), "--", *arguments),
        cwd=script.parent,
        env=slurm,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    job_id = job.stdout.strip()
    assert job.returncode == 0, (script.parent / f"mini-{job_id}.out").read_text()
    return script.parent / "logs" / f"mini-{job_id}"


@pytest.mark.root
def test_slurm_starts_every_rank_of_two_nodes(make_recipe, slurm, export, tmp_path):
    folder = tmp_path / "nccl tests"
    folder.mkdir()
    program = folder / "all_reduce_perf"
    program.write_text('#!/bin/sh\necho "$SLURM_NODEID $SLURM_LOCALID $NCCL_IB_HCA $*"\n')
    program.chmod(0o755)
    recipe = recipe_of(make_recipe, folder, nodes=2, slots={"mpi": "none"})
    logs = submit(slurm, export("slurm-ranks", recipe, tmp_path / "launch"), "-d", "half")
    words = "-b 1M -e 1M -f 2 -n 20 -w 5 -c 1 -g 1 -d half"
    lines = [(logs / f"rank{rank}.log").read_text() for rank in range(4)]
    assert lines == [f"{rank // 2} {rank % 2} =mlx5_0 {words}\n" for rank in range(4)]


@pytest.mark.root
def test_the_ranks_of_a_node_meet_under_slurm(make_recipe, built, slurm, export, tmp_path):
    has_pmix = subprocess.run(("srun", "--mpi=pmix", "true"), env=slurm, check=False, capture_output=True)
    if has_pmix.returncode:
        pytest.skip("the PMIx plugin of Slurm does not load here: it needs libpmix.so")
    recipe = recipe_of(make_recipe, built, ranks_per_node=4)
    logs = submit(slurm, export("slurm-ranks", recipe, tmp_path / "launch"), "-d", "half")
    check_log(logs / "rank0.log", 4, "-d", "half")
