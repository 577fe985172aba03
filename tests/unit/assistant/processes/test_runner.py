"""Test programs under the guard: their exit codes, their output, and that no process is left."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from assistant.processes.runner import Job, busy_gpus, busy_host, output_of, tail_of, worker_variables
from probes.base.errors import WorkerError
from probes.facts import Gpu, GpuProcess, MachineFacts

PATIENCE_S = 20.0
"""Time that a test waits for something that takes milliseconds."""
FORK_TREE = (
    "sleep 987654 & echo $! >>pids; setsid sh -c 'echo $$ >>pids; exec sleep 987654' & echo $! >>pids; "
    "echo $$ >>pids; touch up; "
)


def job(tmp_path: Path, script: str, **more) -> Job:
    return Job(("sh", "-c", script), directory=tmp_path, environment={}, log=tmp_path / "log", **more)


def until_up(running: Job, tmp_path: Path) -> list[psutil.Process]:
    while not (tmp_path / "up").exists():
        assert running.wait(0.02) is None
    return [
        psutil.Process(int(pid))
        for pid in set((tmp_path / "pids").read_text().split())
        if psutil.pid_exists(int(pid))
    ]


def assert_gone(processes: list[psutil.Process]) -> None:
    assert processes
    _, alive = psutil.wait_procs(processes, timeout=PATIENCE_S)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]


def test_the_exit_code_and_both_outputs_are_kept(tmp_path):
    with job(tmp_path, "echo out; echo err >&2; exit 3") as running:
        assert running.wait(PATIENCE_S) == 3
    assert running.log_tail().split() == ["out", "err"]


def test_a_signal_is_reported_as_the_shell_reports_it(tmp_path):
    with job(tmp_path, "kill -KILL $$") as running:
        assert running.wait(PATIENCE_S) == 128 + signal.SIGKILL


def test_a_program_that_does_not_exist_is_reported(tmp_path):
    with Job(("no-such-program",), directory=tmp_path, environment={}, log=tmp_path / "log") as running:
        assert running.wait(PATIENCE_S) == 127
    assert "cannot start no-such-program" in running.log_tail()


def test_a_folder_that_does_not_exist_is_the_users_error(tmp_path):
    with pytest.raises(WorkerError, match="cannot start"):
        Job(("true",), directory=tmp_path / "none", environment={}, log=tmp_path / "log")


def test_stop_ends_grandchildren_and_those_in_sessions_of_their_own(tmp_path):
    with job(tmp_path, FORK_TREE + "wait") as running:
        processes = until_up(running, tmp_path)
        assert running.stop() == 128 + signal.SIGTERM
    assert_gone(processes)


def test_a_job_that_ignores_sigterm_is_killed(tmp_path):
    with job(tmp_path, "trap '' TERM; " + FORK_TREE + "while true; do wait; done", grace_s=0.2) as running:
        processes = until_up(running, tmp_path)
        assert running.stop() == 128 + signal.SIGKILL
    assert_gone(processes)


def test_a_program_that_ends_leaves_no_orphans(tmp_path):
    with job(tmp_path, FORK_TREE + "exit 0") as running:
        assert running.wait(PATIENCE_S) == 0
    assert not [line for line in (tmp_path / "pids").read_text().split() if _runs(int(line))]


def _runs(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_leaving_the_block_by_an_error_stops_the_program(tmp_path):
    processes = []

    def interrupted() -> None:
        with job(tmp_path, FORK_TREE + "wait") as running:
            processes.extend(until_up(running, tmp_path))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert_gone(processes)


@pytest.mark.parametrize("victim", ["rigtune", "guard"])
def test_no_process_is_left_if_rigtune_or_the_guard_is_killed(tmp_path, victim):
    """If rigtune is killed, the guard's standard input closes and the guard ends the program; if the guard is
    killed, the kernel ends the program.
    """
    program = (
        "import sys, pathlib; from assistant.processes.runner import Job; here = pathlib.Path(sys.argv[1]);"
        "job = Job(('sh', '-c', sys.argv[2] + 'wait'), directory=here, environment={}, log=here / 'log')\n"
        "while not (here / 'up').exists(): job.wait(0.02)\n"
        "print('up', flush=True); job.wait(1e6)"
    )
    root = Path(__file__).parents[4]
    script = FORK_TREE if victim == "rigtune" else "echo $$ >>pids; touch up; exec sleep 987654; "
    argv = (sys.executable, "-c", program, str(tmp_path), script)
    with subprocess.Popen(argv, cwd=root, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "up\n"
        watched = psutil.Process(parent.pid)
        processes = [psutil.Process(int(pid)) for pid in set((tmp_path / "pids").read_text().split())]
        target = watched if victim == "rigtune" else watched.children()[0]
        target.kill()
        parent.kill()
        assert_gone(processes)


def test_the_log_tail_starts_at_a_line(tmp_path):
    with job(tmp_path, "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done") as running:
        assert running.wait(PATIENCE_S) == 0
    tail = running.log_tail(limit_bytes=100)
    assert tail.splitlines()[0].startswith("line ")
    assert tail.endswith("line 1999")


@pytest.mark.parametrize(
    ("text", "limit_bytes", "tail"),
    [
        ("ab\ncd\n", 6, "ab\ncd"),
        ("ab\ncd\n", 5, "cd"),
        ("ab\ncd\n", 4, "cd"),
        ("ab\ncd\n", 1, ""),
        ("", 6, ""),
        ("  ab\n\xff\n", 100, "ab\n\ufffd"),
    ],
)
def test_a_tail_has_whole_lines_of_at_most_so_many_bytes(tmp_path, text, limit_bytes, tail):
    (tmp_path / "log").write_bytes(text.encode("latin-1"))
    assert tail_of(tmp_path / "log", limit_bytes) == tail
    assert tail_of(tmp_path / "other", limit_bytes) == ""


def test_a_tail_has_four_thousand_bytes_unless_more_are_asked_for(tmp_path):
    (tmp_path / "log").write_text("123456789\n" * 1000)
    assert len(tail_of(tmp_path / "log").splitlines()) == 399  # 4000 bytes without the first line
    with job(tmp_path, "i=0; while [ $i -lt 600 ]; do echo 123456789; i=$((i+1)); done") as running:
        assert running.wait(PATIENCE_S) == 0
        assert running.log_bytes == 6000
        assert len(running.log_tail().splitlines()) == 399
        (tmp_path / "log").unlink()
        assert (running.log_bytes, running.log_tail()) == (0, "")


def test_a_program_reads_nothing_from_its_standard_input(tmp_path):
    with job(tmp_path, "cat; echo end") as running:
        assert running.wait(PATIENCE_S) == 0
    assert running.log_tail() == "end"


def test_a_program_that_runs_on_has_no_exit_code_yet(tmp_path):
    with job(tmp_path, FORK_TREE + "wait") as running:
        until_up(running, tmp_path)
        assert running.wait(0.0) is None
        assert running.stop() == running.stop() == 128 + signal.SIGTERM


def test_a_program_may_end_by_itself_after_sigterm(tmp_path):
    script = "trap 'echo tidied; exit 5' TERM; " + FORK_TREE + "while :; do wait; done"
    with job(tmp_path, script, grace_s=PATIENCE_S) as running:
        until_up(running, tmp_path)
        began = time.monotonic()
        assert running.stop() == 5
    assert time.monotonic() - began < PATIENCE_S
    assert running.log_tail() == "tidied"


def output(script: str, deadline_s: float = PATIENCE_S) -> tuple[int | None, bytes]:
    return output_of(
        ("sh", "-c", script), directory=Path("/"), environment={"WORD": "ab"}, deadline_s=deadline_s
    )


def test_the_output_of_a_short_program_is_returned_with_its_exit_code():
    assert output("pwd; echo $WORD >&2; exit 4") == (4, b"/\nab\n")
    assert output("true") == (0, b"")


def test_a_short_program_that_is_too_slow_has_no_exit_code():
    assert output("echo begun; exec sleep 987654", deadline_s=0.4) == (None, b"begun\n")
    assert output("echo never", deadline_s=0.0)[0] is None


def test_the_last_mebibyte_of_a_long_output_is_kept():
    code, printed = output("head -c 1048577 /dev/zero; printf end")
    assert (code, len(printed), printed[-4:]) == (0, 1024**2, b"\0end")


@pytest.mark.parametrize(("percent", "words"), [(0.0, ""), (60.0, ""), (60.6, "the CPUs are 61 % busy")])
def test_the_load_above_which_other_programs_disturb_is_sixty_percent(monkeypatch, percent, words):
    monkeypatch.setattr(psutil, "cpu_percent", lambda interval: percent)
    assert busy_host().startswith(words)
    assert bool(busy_host()) == bool(words)


def test_the_command_line_reproduces_the_run(tmp_path):
    folder = tmp_path / "a folder; rm"
    folder.mkdir()
    argv = ("sh", "-c", 'echo "$GREETING" >answer')
    with Job(argv, directory=folder, environment={"GREETING": "it's $HOME"}, log=folder / "log") as running:
        assert running.wait(PATIENCE_S) == 0
    first = (folder / "answer").read_text()
    (folder / "answer").unlink()
    subprocess.run(("sh", "-c", running.command_line), check=True)
    assert (folder / "answer").read_text() == first == "it's $HOME\n"


def test_a_job_around_rigtune_does_not_reach_its_programs(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "5")
    monkeypatch.setenv("MASTER_ADDR", "elsewhere")
    monkeypatch.setenv("PET_NNODES", "4")
    with job(tmp_path, 'echo "[$RANK$MASTER_ADDR$PET_NNODES]"') as running:
        assert running.wait(PATIENCE_S) == 0
    assert running.log_tail() == "[]"


def test_settings_of_the_user_stay_except_the_measured_number_of_threads(monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth7")
    monkeypatch.setenv("OMP_NUM_THREADS", "99")
    variables = worker_variables(threads=3)
    assert variables["OMP_NUM_THREADS"] == "3"
    assert "GLOO_SOCKET_IFNAME" not in variables


def test_a_gpu_with_processes_is_busy_and_one_that_could_not_be_read_is_not():
    held = Gpu(index=2, processes=(GpuProcess(pid=41, name="python"), GpuProcess(pid=42)))
    assert (
        busy_gpus(MachineFacts(gpus=(Gpu(index=0, processes=()), Gpu(index=1), held)))
        == "GPU2 is used by process 42, python 41"
    )
    assert busy_gpus(MachineFacts(gpus=(Gpu(index=0, processes=()), Gpu(index=1)))) == ""
