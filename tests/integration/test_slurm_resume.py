"""Test that interrupted Slurm jobs start again and continue: both forms of the script, three virtual nodes.

Needs root, slurmctld, slurmd and munged.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from recipes.launch.recipe import Command, Recipe
from tests.support.resuming import assert_resumed, resumable, wait_until
from tests.support.slurm import slurm_cluster

pytestmark = [pytest.mark.root, pytest.mark.slow]

_SETTLED = 15
"""Number of polls after which a job that waits for its next start has ended on every node."""
FORMS = ("slurm", "slurm-ranks")


@pytest.fixture(scope="module")
def slurm() -> Iterator[dict[str, str]]:
    # A dead node is noticed within seconds instead of five minutes.
    with slurm_cluster("SlurmdTimeout=15\nMessageTimeout=5\nTCPTimeout=2") as environment:
        yield environment


@pytest.fixture
def recipe(make_recipe, torch_python, tmp_path) -> Recipe:
    """Return a recipe with two ranks on each of two nodes."""
    return make_recipe(
        nodes=2,
        ranks_per_node=2,
        command=resumable(tmp_path / "run"),
        resources={"python": torch_python, "cpus_per_node": 2},
    )


class Submitted:
    """A job that runs while the test watches it."""

    def __init__(self, environment: dict[str, str], script: Path, folder: Path) -> None:
        self.environment, self.folder = environment, folder
        self.id = self.run("sbatch", "--parsable", str(script)).strip()

    def run(self, *command: str) -> str:
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def field(self, name: str) -> str:
        match = re.search(rf"\b{name}=(\S*)", self.run("scontrol", "show", "job", self.id))
        return match[1] if match else ""

    def processes(self) -> list[psutil.Process]:
        """Return the processes that are left of the job."""
        mine = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                mine += [process] if process.environ().get("SLURM_JOB_ID") == self.id else []
        return mine

    def output(self) -> str:
        logs = sorted(self.folder.glob("*.out"))
        return "\n".join(log.read_text() for log in logs) + self.run("scontrol", "show", "job", self.id)

    def wait_for_completion(self) -> None:
        polls = 0

        def has_ended() -> bool:
            # Slurm waits for two minutes before it starts a job again; before all parts of the first
            # start have ended, another begin would count as the end of the job.
            nonlocal polls
            polls = polls + 1 if self.field("Reason") == "BeginTime" and not self.processes() else 0
            if polls == _SETTLED:
                self.run("scontrol", "update", f"JobId={self.id}", "StartTime=now")
            return self.field("JobState") in ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")

        wait_until(has_ended, self.output)
        assert self.field("JobState") == "COMPLETED", self.output()


@pytest.mark.parametrize("form", FORMS)
def test_a_signal_before_the_limit_leads_to_a_resume(slurm, recipe, export, tmp_path, form):
    job = Submitted(slurm, export(form, recipe, tmp_path / "launch"), tmp_path)
    wait_until((tmp_path / "run" / "waiting").exists, job.output)
    job.run("scancel", "--batch", "--signal=USR1", job.id)
    job.wait_for_completion()
    assert job.field("Restarts") == "1"
    assert_resumed(tmp_path / "run", world=4)
    assert "the ranks ended after the signal; the job starts again" in job.output()


@pytest.mark.parametrize("form", FORMS)
def test_a_program_that_ignores_the_signal_is_done_when_it_succeeds(  # noqa: PLR0917 - fixtures
    slurm, make_recipe, torch_python, export, tmp_path, form
):
    program = tmp_path / "ignores.py"
    program.write_text(
        "import sys, pathlib\nfolder = pathlib.Path(sys.argv[1])\n(folder / 'runs').touch()\n"
        "while not (folder / 'signalled').exists():\n    pass\n"
    )
    recipe = make_recipe(
        command=Command(kind="script", target=str(program), arguments=(str(tmp_path),)),
        resources={"python": torch_python},
    )
    job = Submitted(slurm, export(form, recipe, tmp_path / "launch"), tmp_path)
    wait_until((tmp_path / "runs").exists, job.output)
    job.run("scancel", "--batch", "--signal=USR1", job.id)
    wait_until(lambda: "the ranks handle it: no" in job.output(), job.output)
    (tmp_path / "signalled").touch()
    job.wait_for_completion()
    assert job.field("Restarts") == "0"


@pytest.mark.parametrize("form", FORMS)
def test_a_requeue_by_the_scheduler_leads_to_a_resume(slurm, recipe, export, tmp_path, form):
    job = Submitted(slurm, export(form, recipe, tmp_path / "launch"), tmp_path)
    wait_until((tmp_path / "run" / "waiting").exists, job.output)
    job.run("scontrol", "requeue", job.id)
    job.wait_for_completion()
    assert_resumed(tmp_path / "run", world=4)


@pytest.mark.parametrize("form", FORMS)
def test_a_node_that_dies_leads_to_a_resume_on_others(slurm, recipe, export, tmp_path, form):
    job = Submitted(slurm, export(form, recipe, tmp_path / "launch"), tmp_path)
    wait_until((tmp_path / "run" / "waiting").exists, job.output)
    try:
        kill_node("n2", Path(slurm["SLURM_CONF"]).parent)
        job.wait_for_completion()
        assert job.field("NodeList") == "n[1,3]"
        assert_resumed(tmp_path / "run", world=4)
    finally:
        subprocess.run(("slurmd", "-N", "n2"), env=slurm, check=True, timeout=60)
        subprocess.run(
            ("scontrol", "update", "NodeName=n2", "State=RESUME"), env=slurm, check=False, timeout=60
        )


def kill_node(name: str, folder: Path) -> None:
    """Kill the daemon of a virtual node and all tasks on the node, with the daemons of their steps."""
    daemon = psutil.Process(int((folder / f"slurmd-{name}.pid").read_text()))
    daemon.kill()
    daemon.wait(30)
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("SLURMD_NODENAME") == name:
                for parent in process.parents():
                    if parent.name() == "slurmstepd":
                        parent.kill()
                process.kill()


@pytest.mark.parametrize("form", FORMS)
def test_a_job_that_always_fails_is_not_started_again(  # noqa: PLR0917 - fixtures
    slurm, make_recipe, torch_python, export, tmp_path, form
):
    (tmp_path / "fails.py").write_text("raise SystemExit(3)")
    recipe = make_recipe(
        nodes=2,
        command=Command(kind="script", target=str(tmp_path / "fails.py")),
        resources={"python": torch_python},
    )
    job = Submitted(slurm, export(form, recipe, tmp_path / "launch"), tmp_path)
    wait_until(lambda: job.field("JobState") == "FAILED", job.output)
    assert job.field("Restarts") == "0"
