"""Test launch-mpi.sh with a real mpirun on this machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess

import psutil
import pytest

from recipes.launch.recipe import Command
from tests.support.across_hosts import measured_across, tiny_request

pytestmark = pytest.mark.slow

LIMIT_S = 240


@pytest.fixture(scope="module")
def mpi_environment() -> dict[str, str]:
    if shutil.which("mpirun") is None:
        pytest.skip("needs mpirun")
    return {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def run(script, *arguments, environment, cwd):
    return subprocess.run(
        (str(script), *map(str, arguments)),
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


@pytest.fixture
def own_recipe(make_recipe, torch_python, tmp_path):
    """Return `own_recipe(text)`, which makes a recipe that runs this text as a program on two ranks.

    Without text, the recipe runs the reference program.
    """

    def make(text=""):
        if not text:
            return make_recipe(resources={"python": torch_python})
        program = tmp_path / "program.py"
        program.write_text(f"import os, signal, sys\nrank = os.environ['RANK']\n{text}\n")
        return make_recipe(
            command=Command(kind="script", target=str(program)), resources={"python": torch_python}
        )

    return make


def test_two_ranks_train_together(own_recipe, mpi_environment, export, read_report, tmp_path):
    script = export("mpi", own_recipe(), tmp_path / "it's a $folder: ü")
    report = tmp_path / "a report.jsonl"
    job = run(script, "--", "--steps", 4, "--report", report, environment=mpi_environment, cwd=tmp_path)
    assert job.returncode == 0, job.stdout
    trained = read_report(report)
    assert (trained.start["world_size"], trained.start["backend"]) == (2, "gloo")


def test_a_failing_rank_ends_the_others(own_recipe, mpi_environment, export, tmp_path):
    script = export(
        "mpi",
        own_recipe("if rank == '1': raise ValueError('bad shape')\nsignal.pause()"),
        tmp_path / "launch",
    )
    job = run(script, environment=mpi_environment, cwd=tmp_path)
    assert job.returncode != 0
    assert "ValueError: bad shape" in job.stdout


def test_arguments_arrive_whole_and_ranks_are_free_to_use_all_cpus(
    own_recipe, mpi_environment, export, tmp_path
):
    program = "os.write(1, f'rank {rank} {sys.argv[1:]} {len(os.sched_getaffinity(0))}\\n'.encode())"
    script = export("mpi", own_recipe(program), tmp_path / "launch")
    job = run(script, "--", "it's", "$HOME `id`", environment=mpi_environment, cwd=tmp_path)
    assert job.returncode == 0, job.stdout
    arguments = ["it's", "$HOME `id`"]
    cpus = len(os.sched_getaffinity(0))
    assert {line for line in job.stdout.splitlines() if line.startswith("rank ")} == {
        f"rank {rank} {arguments} {cpus}" for rank in (0, 1)
    }


def test_no_rank_is_left_when_mpirun_is_killed(own_recipe, mpi_environment, export, tmp_path):
    """Only the two ranks hold the pipe open, so that its end shows that both have ended."""
    fifo = tmp_path / "alive"
    os.mkfifo(fifo)
    recipe = own_recipe(f"alive = os.open({str(fifo)!r}, os.O_WRONLY)\nos.write(alive, b'x')\nsignal.pause()")
    script = export("mpi", recipe, tmp_path / "launch")
    job = subprocess.Popen(
        (str(script),),
        cwd=tmp_path,
        env=mpi_environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with fifo.open("rb", buffering=0) as alive:
        assert alive.read(1) == b"x"
        assert alive.read(1) == b"x"
        psutil.Process(job.pid).send_signal(signal.SIGKILL)
        assert alive.read(1) == b""
    job.wait(LIMIT_S)


def test_collectives_over_ranks_that_mpirun_started(mpi_environment, torch_python, monkeypatch, tmp_path):
    for name in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"):
        monkeypatch.setenv(name, mpi_environment[name])
    request = tiny_request(("localhost",), "mpi", ranks=2)
    ended = measured_across(request, torch_python, tmp_path / "it's a $folder")
    assert ended.failures == ()
    assert {m.metric for m in ended.measurements} >= {"bus_bandwidth_bytes_per_s", "collective_time_s"}
