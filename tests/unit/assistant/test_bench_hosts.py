"""Test what is asked before ranks start on several hosts: each is reachable and sees the work folder."""

from __future__ import annotations

import os

import pytest

from assistant.usecases.bench.bench_start import argv_of, recipe_of, require_shared, unseen_by
from probes.base.errors import WorkerError
from probes.bench.bench_requests import BenchRequest
from recipes.launch.launchers import mpi, slurm, torchrun
from recipes.launch.recipe import program_arguments
from recipes.launch.recipe_file import faults

SSH = """\
while [ "$1" != -- ]; do shift; done
case $2 in
  good*) sh -c "$3" ;;
  blind*) echo "Last login: today"; echo "cat: no such file" >&2 ;;
  *) echo "ssh: connect to host $2 port 22: No route to host" >&2; exit 255 ;;
esac
"""
SRUN = """\
case $1 in
  *down*) echo "srun: error: Required node not available (down, drained or reserved)" >&2; exit 1 ;;
esac
while [ "$1" != sh ]; do shift; done
SLURMD_NODENAME=n1 "$@"
SLURMD_NODENAME=n2 "$@"
"""
MPIRUN = """\
case $* in *down*) echo "ssh: connect to host down port 22: No route to host" >&2; exit 1 ;; esac
while [ "$1" != sh ]; do shift; done
OMPI_COMM_WORLD_RANK=0 "$@"
"""


@pytest.fixture
def launchers(tmp_path, monkeypatch):
    """Install ssh, srun and mpirun that run commands here, for `good` hosts, n1 and n2, and rank 0."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in (("ssh", SSH), ("srun", SRUN), ("mpirun", MPIRUN)):
        (folder / name).write_text(f"#!/bin/sh\n{text}")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.mark.parametrize(
    ("spread_by", "hosts", "unseen"),
    [
        ("ssh", ("good1", "good2"), set()),
        ("ssh", ("good1", "blind", "dead"), {"blind", "dead"}),
        ("slurm", ("n1", "n2"), set()),
        ("slurm", ("n1", "n2", "n3"), {"n3"}),
        ("slurm", ("n1", "down", "n2"), {"down"}),
        ("mpi", ("a", "b"), {"b"}),
        ("mpi", ("a", "down", "b"), {"down"}),
    ],
)
@pytest.mark.usefixtures("launchers")
def test_every_host_is_asked_for_a_file_that_is_written_now(tmp_path, spread_by, hosts, unseen):
    reasons = unseen_by(hosts, spread_by, tmp_path / "it's a $folder")
    assert set(reasons) == unseen
    assert "No route to host" in reasons.get("dead", "No route to host")
    assert reasons.get("blind", "") == ""


@pytest.mark.parametrize(
    ("hosts", "message", "hint"),
    [
        (("good", "blind1", "blind2"), "blind1, blind2 do not see the folder", "--work-directory FOLDER"),
        (
            ("good", "blind", "dead"),
            "host dead cannot be reached by ssh: ssh: connect to host dead",
            "ssh -o BatchMode=yes dead",
        ),
    ],
)
@pytest.mark.usefixtures("launchers")
def test_what_is_wrong_and_what_to_do_is_reported(tmp_path, hosts, message, hint):
    with pytest.raises(WorkerError, match=message) as caught:
        require_shared(hosts, "ssh", tmp_path)
    assert hint in caught.value.hint


def request_for(spread_by: str) -> BenchRequest:
    return BenchRequest(
        bench_id="across-nodes",
        title="3 hosts (a, b, ...)",
        device="cpu",
        backend="gloo",
        ranks=6,
        threads_per_rank=1,
        budget_s=10.0,
        cases=(),
        environment={"NCCL_P2P_DISABLE": "1"},
        hosts=("good1", "good2", "good3"),
        spread_by=spread_by,
    )


PROGRAM = ("-m", "rigtune_worker", "across-nodes", "--request", "/x/{steps}.json", "--out", "/x/a")


@pytest.mark.parametrize(("spread_by", "launcher"), [("ssh", torchrun), ("slurm", slurm), ("mpi", mpi)])
def test_a_request_is_a_valid_recipe_for_each_launcher(tmp_path, spread_by, launcher):
    recipe = recipe_of("/opt/python", request_for(spread_by), tmp_path, PROGRAM)
    assert not list(faults(recipe))
    assert (recipe.parallelism.nodes, recipe.parallelism.ranks_per_node) == (3, 2)
    assert program_arguments(recipe)[-4:] == PROGRAM[-4:]
    variables = {variable.name: variable.value for variable in recipe.environment}
    assert variables["NCCL_P2P_DISABLE"] == "1"
    assert variables["PYTHONPATH"].startswith(f"{tmp_path}/worker")
    assert "GLOO_SOCKET_IFNAME" not in variables  # the loopback of one machine leads to no other
    assert launcher.render(recipe)


@pytest.mark.usefixtures("launchers")
def test_hosts_get_the_workers_and_the_scripts_in_the_shared_folder(tmp_path):
    argv = argv_of("/opt/python", request_for("ssh"), tmp_path, PROGRAM)
    assert argv[0] == str(tmp_path / "launch" / "launch-all.sh")
    assert (tmp_path / "worker" / "rigtune_worker" / "multi_host.py").is_file()
