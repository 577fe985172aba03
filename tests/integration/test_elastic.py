"""Test elastic torchrun over real ssh: a host that dies comes back, and the job continues. Needs root."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from recipes.launch.recipe import Command
from tests.support.resuming import LIMIT_S, assert_resumed, resumable, wait_until
from tests.support.ssh_hosts import Lab, ssh_lab

pytestmark = [pytest.mark.root, pytest.mark.slow]

HOSTS = ("rigtune-a", "rigtune-b", "rigtune-c")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with ssh_lab(tmp_path_factory.mktemp("ssh"), HOSTS) as hosts:
        yield hosts


def kill_ranks(lab: Lab, host: str) -> None:
    """Kill torchrun and its ranks on a host at once, as a power failure does."""
    pids = subprocess.run(
        ("ip", "netns", "pids", lab.namespaces[host]), capture_output=True, text=True, check=True
    ).stdout.split()
    for pid in pids:
        if b"resumable.py" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(int(pid), signal.SIGKILL)


def test_a_host_that_dies_comes_back_and_the_job_continues(lab, make_recipe, torch_python, export, tmp_path):
    recipe = make_recipe(
        nodes=3,
        ranks_per_node=1,
        command=resumable(tmp_path / "run"),
        resources={"python": torch_python, "hosts": HOSTS},
    )
    export("torchrun-elastic", recipe, tmp_path / "launch")
    log = tmp_path / "log"
    job = lab.start("bash", "-c", f"'{tmp_path}/launch/launch-all-elastic.sh' >'{log}' 2>&1", cwd=tmp_path)
    try:
        wait_until((tmp_path / "run" / "waiting").exists, log.read_text)
        kill_ranks(lab, HOSTS[1])
        job.communicate(timeout=LIMIT_S)
    finally:
        job.terminate()
        job.communicate(timeout=LIMIT_S)
    assert job.returncode == 0, log.read_text()
    assert "rigtune-b ended with exit code" in log.read_text()
    starts = len(list((tmp_path / "run").glob("start-*")))
    assert_resumed(tmp_path / "run", world=3, starts=starts)


def test_ranks_of_one_host_start_again(make_recipe, torch_python, export, tmp_path):
    program = tmp_path / "once.py"
    program.write_text(
        "import os, sys\nprint('attempt', os.environ['TORCHELASTIC_RESTART_COUNT'])\n"
        "sys.exit(int(os.environ['TORCHELASTIC_RESTART_COUNT'] == '0'))\n"
    )
    recipe = make_recipe(
        command=Command(kind="script", target=str(program)), resources={"python": torch_python}
    )
    script = export("torchrun-elastic", recipe, tmp_path / "launch")
    done = subprocess.run(
        (script,), cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "attempt 1" in done.stdout
