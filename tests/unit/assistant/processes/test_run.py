"""Test starting a recipe in the foreground: exit codes and signals pass through."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
import sys
import threading

import pytest

from assistant.processes import foreground
from assistant.processes.foreground import run_in_foreground
from assistant.usecases.events import Progress, StageFinished, Written
from assistant.usecases.export import run_recipe
from probes.base.errors import UsageError, WorkerError
from recipes.launch.recipe import Command


@pytest.fixture(autouse=True)
def no_preflight(monkeypatch):
    """Skip the tests of the node, which would ask the stand-in for an interpreter's modules."""
    monkeypatch.setenv("RIGTUNE_PREFLIGHT", "0")


def stand_in(path, body):
    path.write_text(f"#!/usr/bin/env bash\n{body}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(("body", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", 137)])
def test_the_exit_code_is_the_programs(make_recipe, tmp_path, monkeypatch, body, code):
    monkeypatch.setenv("RIGTUNE_PYTHON", stand_in(tmp_path / "python", body))
    events = list(run_recipe(make_recipe(), directory=tmp_path / "a b", arguments=("--steps", "3")))
    assert isinstance(events[-1], StageFinished)
    assert events[-1].result == code
    assert len([event for event in events if isinstance(event, StageFinished)]) == 1
    assert [event.message for event in events if isinstance(event, Progress)] == [
        f"'{tmp_path}/a b/launch.sh' -- --steps 3"
    ]
    assert [event for event in events if isinstance(event, Written)]


def test_a_relative_folder_works(make_recipe, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RIGTUNE_PYTHON", stand_in(tmp_path / "python", "exit 3"))
    assert (
        list(run_recipe(make_recipe(), directory=tmp_path.relative_to(tmp_path) / "launch"))[-1].result == 3
    )


def test_slurm_jobs_are_submitted(make_recipe, tmp_path, monkeypatch, capfd):
    stand_in(tmp_path / "sbatch", 'echo "Submitted batch job 12: $*"')
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    events = list(run_recipe(make_recipe(), launcher="slurm", directory=tmp_path / "out", arguments=("x",)))
    assert events[-1].result == 0
    assert f"Submitted batch job 12: {tmp_path}/out/train.sbatch -- x" in capfd.readouterr().out


def test_a_machine_without_the_scheduler_is_reported(make_recipe, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(WorkerError, match="cannot start sbatch"):
        list(run_recipe(make_recipe(), launcher="slurm", directory=tmp_path / "out"))


def test_a_launcher_that_cannot_start_the_program_names_the_others(make_recipe, tmp_path):
    """The recipe also lacks host names, but they would not help: torchrun cannot start nccl-tests."""
    recipe = make_recipe(
        nodes=2,
        command=Command(kind="nccl-tests", target="all_reduce_perf"),
        resources={"device": "cuda", "backend": "nccl"},
    )
    with pytest.raises(UsageError, match="nccl-tests needs MPI or Slurm") as caught:
        list(run_recipe(recipe, directory=tmp_path / "out"))
    assert "mpi" in caught.value.hint
    assert not (tmp_path / "out").exists()


def test_a_recipe_that_cannot_be_started_writes_nothing(make_recipe, tmp_path):
    with pytest.raises(UsageError, match="names no hosts"):
        list(run_recipe(make_recipe(nodes=2), directory=tmp_path / "out"))
    with pytest.raises(UsageError, match="no launcher"):
        list(run_recipe(make_recipe(), launcher="mpirum", directory=tmp_path / "out"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_reach_the_child_and_its_answer_counts(tmp_path, number):
    trap = f"trap 'exit 9' {number.name.removeprefix('SIG')}"
    child = f"{trap}; echo ready; while :; do read -r -t 1 <>/dev/zero || :; done"
    command = f"('bash', '-c', {child!r})"
    start = "import sys; from assistant.processes.foreground import run_in_foreground as r"
    code = f"{start}; sys.exit(r({command}))"
    with subprocess.Popen(
        (sys.executable, "-c", code), stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        assert process.wait(30) == 9


def test_a_signal_while_the_child_is_being_started_reaches_it(tmp_path):
    """The program signals this process before it has had time to return from starting it."""
    program = stand_in(
        tmp_path / "program",
        'trap "exit 9" TERM; kill -TERM $PPID; while :; do read -r -t 1 <>/dev/zero || :; done',
    )
    code = (
        "import sys, time, subprocess; from assistant.processes.foreground import run_in_foreground as r\n"
        "class Slow(subprocess.Popen):\n"
        "    def __init__(self, *a, **k): super().__init__(*a, **k); time.sleep(0.5)\n"
        "subprocess.Popen = Slow\n"
        f"sys.exit(r(({program!r},)))"
    )
    assert subprocess.run((sys.executable, "-c", code), timeout=30, check=False).returncode == 9


def test_under_nohup_the_child_survives_the_terminal_too(tmp_path):
    child = "kill -HUP $$; echo alive"
    code = f"from assistant.processes.foreground import run_in_foreground as r; r(('bash', '-c', {child!r}))"
    words = ("nohup", sys.executable, "-c", code)
    assert subprocess.run(words, capture_output=True, text=True, timeout=30, check=True).stdout == "alive\n"


def test_the_child_ends_even_when_its_parent_is_killed(tmp_path):
    command = "('bash', '-c', 'echo $$; exec sleep 1000')"
    code = f"from assistant.processes.foreground import run_in_foreground as r; r({command})"
    with subprocess.Popen(
        (sys.executable, "-c", code), stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert int(process.stdout.readline()) > 0
        process.kill()
        # The child holds the other end of the pipe: it closes when the child is gone.
        assert process.stdout.read() == b""


def test_a_command_is_not_started_for_a_parent_that_has_ended(tmp_path):
    program = stand_in(tmp_path / "program", f"touch {tmp_path}/started")
    argv = (sys.executable, "-I", "-S", str(foreground._TIED), "1", program)
    assert subprocess.run(argv, check=False, timeout=30).returncode == 128 + signal.SIGTERM
    assert not (tmp_path / "started").exists()


def test_an_interrupt_of_the_terminal_reaches_the_child_once():
    """The terminal sends SIGINT to the whole group, so rigtune must not send it again."""
    child = (
        "trap 'echo interrupted' INT; echo ready; for i in 1 2 3; do read -r -t 0.2 <>/dev/zero || :; done"
    )
    code = f"from assistant.processes.foreground import run_in_foreground as r; r(('bash', '-c', {child!r}))"
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, (sys.executable, "-c", code))  # noqa: S606
    printed = b""
    with contextlib.suppress(OSError):  # the end of a terminal is an error
        while chunk := os.read(terminal, 1000):
            if b"ready" in chunk:
                os.write(terminal, b"\x03")
            printed += chunk
    os.close(terminal)
    os.waitpid(pid, 0)
    assert printed.count(b"interrupted") == 1


def test_in_another_thread_signals_are_not_touched():
    codes = []
    thread = threading.Thread(target=lambda: codes.append(run_in_foreground(("sh", "-c", "exit 6"))))
    thread.start()
    thread.join()
    assert codes == [6]


def test_handlers_are_as_before_afterwards():
    before = signal.getsignal(signal.SIGTERM)
    assert run_in_foreground(("true",)) == 0
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_command_that_cannot_be_executed_is_reported_with_the_reason(tmp_path):
    script = stand_in(tmp_path / "script", "exit 0")
    (tmp_path / "script").write_text("#!/no/such/interpreter\n")
    argv = (sys.executable, "-I", "-S", str(foreground._TIED), str(os.getpid()), script)
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 127
    assert done.stderr == f"rigtune: cannot start {script}: no such file or directory\n"
