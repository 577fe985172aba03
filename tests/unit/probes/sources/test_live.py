"""Test the live source against the file system and commands of this machine."""

from __future__ import annotations

import errno
import os
import socket
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from probes.base.record import Reason, Unknown
from probes.sources.commands import CommandRunner
from probes.sources.live import LiveSource, within


@pytest.fixture
def source() -> Iterator[LiveSource]:
    with LiveSource() as source:
        yield source


_SLEEPER = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])"


def _reason(answer: object) -> Reason:
    assert isinstance(answer, Unknown), answer
    return answer.reason


def _python(program: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", "-c", program)


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_command_runs_without_a_shell_and_in_the_c_locale(source, monkeypatch):
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    result = source.run(
        (
            *_python("import os, sys; print(os.environ['LC_ALL'], sys.argv[1:], sys.stdin.read())"),
            "$HOME; true",
        )
    )
    assert result.ok
    assert result.text() == "C ['$HOME; true'] \n"


def test_the_exit_code_and_both_outputs_are_kept(source):
    result = source.run(_python("import sys; print('out'); print('words', file=sys.stderr); sys.exit(9)"))
    assert (result.exit_code, result.stdout, result.stderr) == (9, b"out\n", b"words\n")
    assert result.text() == Unknown(Reason.ERROR, "exit 9: words")


def test_commands_that_cannot_start(source, tmp_path):
    script = tmp_path / "script"
    script.write_text("echo")
    assert _reason(source.run(("no-such-command-here",)).text()) is Reason.TOOL_MISSING
    assert _reason(source.run((str(script),)).text()) is Reason.PERMISSION
    script.chmod(0o755)
    assert _reason(source.run((str(script),)).text()) is Reason.ERROR


def test_a_program_that_hung_is_not_waited_for_again(source, tmp_path):
    """Check that a wedged driver costs one deadline and not one for each of a dozen calls."""
    started = tmp_path / "started"
    tool = tmp_path / "tool"
    tool.write_text(f"#!/bin/sh\necho >> {started}\nexec sleep 600\n")
    tool.chmod(0o755)
    first = source.run((str(tool), "-q"), timeout_s=1.0)
    second = source.run((str(tool), "topo"), timeout_s=600.0)
    assert first.failure == second.failure == Unknown(Reason.TIMEOUT, f"{tool} took longer than 1 s")
    assert started.read_text() == "\n"
    assert source.run(("true",)).ok


@pytest.mark.parametrize("sleeper", [_SLEEPER, _SLEEPER.removesuffix(")") + ", start_new_session=True)"])
def test_at_the_deadline_the_whole_group_is_killed(source, sleeper):
    program = f"import subprocess, sys, time; print({sleeper}.pid, flush=True); time.sleep(600)"
    result = source.run(_python(program), timeout_s=1.0)
    assert result.failure == Unknown(Reason.TIMEOUT, f"{sys.executable} took longer than 1 s")
    grandchild = int(result.stdout)
    deadline = threading.Event()
    for _ in range(100):
        if not _is_running(grandchild):
            break
        deadline.wait(0.02)
    assert not _is_running(grandchild)


def test_a_command_that_ignores_signals_is_killed(source):
    program = (
        "import signal, time; [signal.signal(s, signal.SIG_IGN) for s in (2, 15, 1)]; "
        "print(1, flush=True); time.sleep(600)"
    )
    result = source.run(_python(program), timeout_s=0.5)
    assert _reason(result.text()) is Reason.TIMEOUT


def test_a_command_that_closes_its_output_and_lives_on_is_killed(source):
    result = source.run(_python("import os, time; os.close(1); os.close(2); time.sleep(600)"), timeout_s=0.5)
    assert _reason(result.text()) is Reason.TIMEOUT


def test_a_command_that_ended_is_no_timeout_although_its_helper_holds_the_output(source):
    program = f"import subprocess, sys; print('done', flush=True); {_SLEEPER}"
    result = source.run(_python(program), timeout_s=1.0)
    assert result.ok
    assert result.text() == "done\n"


def test_a_command_killed_by_somebody_else_is_not_called_late(source):
    result = source.run(_python("import os; os.kill(os.getpid(), 9)"))
    assert result.failure is None
    assert result.exit_code == -9
    assert not result.ok


def test_output_is_bounded():
    result = CommandRunner().run(("cat", "/dev/zero"), timeout_s=10.0, max_output_bytes=1 << 20)
    assert result.failure is not None
    assert result.failure.reason is Reason.ERROR
    assert len(result.stdout) < 2 << 20


def test_files_of_procfs_and_of_the_disk_are_read_whole(source, tmp_path):
    file = tmp_path / "file"
    file.write_bytes(bytes(range(256)) * 1000)
    assert source.read(str(file)) == file.read_bytes()
    status = source.read("/proc/self/status")
    assert isinstance(status, bytes)
    assert f"Pid:\t{os.getpid()}\n".encode() in status
    assert source.read(str(tmp_path / "absent")) == Unknown(
        Reason.TOOL_MISSING, f"{tmp_path}/absent: No such file or directory"
    )
    assert _reason(source.read(str(file / "below"))) is Reason.TOOL_MISSING


def test_only_regular_files_are_read(source, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "socket"))
    for path in (str(fifo), str(tmp_path / "socket"), str(tmp_path), "/dev/zero", "/dev/tty"):
        assert _reason(source.read(path)) is not Reason.TIMEOUT
    listener.close()


def test_a_huge_file_is_refused(source, tmp_path):
    file = tmp_path / "huge"
    with file.open("wb") as writer:
        writer.truncate(1 << 30)
    answer = source.read(str(file))
    assert answer == Unknown(Reason.ERROR, f"{file}: larger than 32 MiB")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_no_permission(source, tmp_path):
    file = tmp_path / "secret"
    file.write_text("x")
    file.chmod(0)
    assert _reason(source.read(str(file))) is Reason.PERMISSION


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.EACCES, Reason.PERMISSION),
        (errno.EPERM, Reason.PERMISSION),
        (errno.EINVAL, Reason.NOT_SUPPORTED),
        (errno.ETIMEDOUT, Reason.TIMEOUT),
        (errno.EIO, Reason.ERROR),
    ],
)
def test_the_kernels_refusals_have_reasons(source, monkeypatch, number, reason):
    def refuse(_path: str) -> bytes:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("probes.sources.live._read", refuse)
    assert _reason(source.read("/sys/kernel/x")) is reason


def test_a_kernel_tree_that_is_not_mounted_is_no_answer(source, monkeypatch, tmp_path):
    """Check a chroot without /sys, which may still have GPUs."""
    monkeypatch.setattr("probes.sources.live._KERNEL_TREES", {f"{tmp_path}/": f"{tmp_path}/kernel"})
    assert _reason(source.names(f"{tmp_path}/class/infiniband")) is Reason.ERROR
    (tmp_path / "kernel").mkdir()
    assert _reason(source.names(f"{tmp_path}/class/infiniband")) is Reason.TOOL_MISSING


def test_names_are_sorted_and_links_canonical(source, tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "round").symlink_to("round")
    (tmp_path / "nowhere").symlink_to("absent")
    assert source.names(str(tmp_path)) == ("a", "b", "nowhere", "round")
    assert source.link(str(tmp_path / "a")) == str((tmp_path / "b").resolve())
    assert source.link(str(tmp_path / "b")) == str((tmp_path / "b").resolve())
    assert _reason(source.link(str(tmp_path / "nowhere"))) is Reason.TOOL_MISSING
    assert _reason(source.link(str(tmp_path / "round"))) is Reason.ERROR
    assert _reason(source.names(str(tmp_path / "absent"))) is Reason.TOOL_MISSING


def test_bytes_that_are_no_text_do_not_reach_the_answers(source, tmp_path, monkeypatch):
    (tmp_path / os.fsdecode(b"caf\xe9")).touch()
    monkeypatch.setenv("RIGTUNE_TEST", os.fsdecode(b"\xff"))
    assert source.names(str(tmp_path)) == ("caf\ufffd",)
    assert source.env("RIGTUNE_TEST") == "\ufffd"
    assert source.env("RIGTUNE_TEST_ABSENT") is None


def test_a_read_that_blocks_in_the_kernel_ends_at_the_deadline():
    released = threading.Event()
    assert within(0.05, released.wait) == Unknown(Reason.TIMEOUT, "no answer within 0.05 s")
    released.set()
    with pytest.raises(ZeroDivisionError):
        within(5.0, lambda: 1 // 0)
    with pytest.raises(OSError, match="Connection timed out"):
        within(5.0, lambda: (_ for _ in ()).throw(OSError(110, "Connection timed out")))


def test_threads_share_one_source(source):
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda number: source.run(("echo", str(number))).text(), range(24)))
    assert results == [f"{number}\n" for number in range(24)]
