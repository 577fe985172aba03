"""Test launch-all.sh over real ssh to three hosts in network namespaces, each with address, name and sshd.
Needs root.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator

import pytest

from recipes.launch.recipe import Command
from tests.support.ssh_hosts import Lab, ssh_lab

pytestmark = [pytest.mark.root, pytest.mark.slow]

LIMIT_S = 240
HOSTS = ("rigtune-a", "rigtune-b", "rigtune-c")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with ssh_lab(tmp_path_factory.mktemp("ssh"), HOSTS) as hosts:
        yield hosts


@pytest.fixture
def own_program(make_recipe, torch_python, tmp_path):
    """Return `own_program(text)`, which makes a recipe that runs this text as a program, as one rank on each
    host.
    """

    def make(text):
        program = tmp_path / "program.py"
        program.write_text(f"import os, signal, socket, sys\nrank = os.environ['RANK']\n{text}\n")
        command = Command(kind="script", target=str(program))
        resources = {"python": torch_python, "hosts": HOSTS}
        return make_recipe(nodes=len(HOSTS), ranks_per_node=1, command=command, resources=resources)

    return make


SAY = "os.write(1, f'rank {rank} on {socket.gethostname()} {sys.argv[1:]}\\n'.encode())"


def test_three_hosts_train_together(lab, make_recipe, torch_python, export, tmp_path):
    resources = {"python": torch_python, "hosts": HOSTS}
    recipe = make_recipe(nodes=len(HOSTS), ranks_per_node=1, resources=resources)
    folder = tmp_path / "it's a $folder"
    export("torchrun", recipe, folder)
    job = lab.start(
        folder / "launch-all.sh", "--", "--steps", 6, "--report", tmp_path / "report.jsonl", cwd=tmp_path
    )
    output, _ = job.communicate(timeout=LIMIT_S)
    assert job.returncode == 0, output
    assert "world size 3, backend gloo" in output
    assert "\r" not in output
    assert (tmp_path / "report.jsonl").exists()


def test_the_first_host_has_rank_0_and_arguments_arrive_whole(lab, own_program, export, tmp_path):
    export("torchrun", own_program(SAY), tmp_path / "launch")
    job = lab.start(tmp_path / "launch" / "launch-all.sh", "--", "it's", "$HOME `id`", cwd=tmp_path)
    output, _ = job.communicate(timeout=LIMIT_S)
    assert job.returncode == 0, output
    lines = {line for line in output.splitlines() if "]: rank " in line}
    assert lines == {
        f"[rank{rank}]: rank {rank} on {host} {['it' + chr(39) + 's', '$HOME `id`']}"
        for rank, host in enumerate(HOSTS)
    }


def test_one_failing_host_ends_the_others(lab, own_program, export, tmp_path):
    program = f"if rank == '1': raise ValueError('bad shape')\n{SAY}\nsignal.pause()"
    export("torchrun", own_program(program), tmp_path / "launch")
    job = lab.start(tmp_path / "launch" / "launch-all.sh", cwd=tmp_path)
    output, _ = job.communicate(timeout=LIMIT_S)
    assert job.returncode == 1
    assert "ValueError: bad shape" in output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_host_keeps_a_rank_when_the_script_ends(lab, own_program, export, tmp_path, number):
    """Only the ranks hold the pipe open, so that its end shows that all ranks have ended."""
    fifo = tmp_path / "alive"
    os.mkfifo(fifo)
    program = f"alive = os.open({str(fifo)!r}, os.O_WRONLY)\nos.write(alive, b'x')\nsignal.pause()"
    export("torchrun", own_program(program), tmp_path / "launch")
    job = lab.start(tmp_path / "launch" / "launch-all.sh", cwd=tmp_path)
    with fifo.open("rb", buffering=0) as alive:
        for _ in HOSTS:
            assert alive.read(1) == b"x"
        job.send_signal(number)
        assert alive.read(1) == b""
    job.communicate(timeout=LIMIT_S)
    assert job.returncode != 0


def test_a_host_that_does_not_answer_is_reported(lab, make_recipe, torch_python, export, tmp_path):
    recipe = make_recipe(nodes=2, resources={"python": torch_python, "hosts": (HOSTS[0], "no-such-host")})
    export("torchrun", recipe, tmp_path / "launch")
    job = lab.start(tmp_path / "launch" / "launch-all.sh", cwd=tmp_path)
    output, _ = job.communicate(timeout=LIMIT_S)
    assert job.returncode == 255
    assert "no-such-host" in output


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs mpirun")
@pytest.mark.parametrize("place", ["", HOSTS[1]])
def test_mpirun_keeps_the_order_of_the_hosts_wherever_it_runs(lab, own_program, export, tmp_path, place):
    """Otherwise Open MPI would put rank 0 on the host on which it runs, where no other rank looks for it."""
    script = export("mpi", own_program(SAY), tmp_path / "launch")
    allowed = ("env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
    job = lab.start(*allowed, script, "--", "it's", cwd=tmp_path, on=place)
    output, _ = job.communicate(timeout=LIMIT_S)
    assert job.returncode == 0, output
    lines = {line for line in output.splitlines() if line.startswith("rank ")}
    assert lines == {f"rank {rank} on {host} {['it' + chr(39) + 's']}" for rank, host in enumerate(HOSTS)}
