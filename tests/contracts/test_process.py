"""Test how the program ends and writes with closed or full streams, other encodings, and signals."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from probes.base.errors import ExitCode

ROOT = Path(__file__).resolve().parents[2]
RIGTUNE = (sys.executable, "-m", "assistant")
NvmlStandin = Callable[[str], dict[str, str]]


def environment(**changes: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **changes}


def by_shell(script: str, *, cwd: Path, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script, in which "$@" is the program."""
    return subprocess.run(
        ["bash", "-c", script, "bash", *RIGTUNE],
        cwd=cwd,
        env=environment(**changes),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


MACHINE = "--machine rtx4090-2"
"""Options of a machine whose required checks cannot be made: exit code 3."""


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_change_no_exit_code(closed: str, tmp_path: Path) -> None:
    done = by_shell(f'"$@" check {MACHINE} {closed}', cwd=tmp_path)
    assert done.returncode == ExitCode.UNKNOWN
    assert "Traceback" not in done.stderr


def test_words_do_not_move_to_stdout_where_stderr_is_closed(tmp_path: Path) -> None:
    done = by_shell('"$@" check --no-such-option 2>&-', cwd=tmp_path)
    assert (done.returncode, done.stdout) == (ExitCode.USAGE, "")


def test_a_full_disk_behind_stdout_is_one_line(tmp_path: Path) -> None:
    done = by_shell(f'"$@" check {MACHINE} >/dev/full', cwd=tmp_path)
    assert done.returncode == ExitCode.USAGE
    assert (
        done.stderr
        == "rigtune: cannot write the output: no space left on device (hint: check the target of stdout)\n"
    )


@pytest.mark.parametrize("words", ["--help", "--version", "plan --help", "fleet check --help"])
def test_a_full_disk_behind_a_help_text_is_no_bug(words: str, tmp_path: Path) -> None:
    done = by_shell(f'"$@" {words} >/dev/full', cwd=tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (ExitCode.USAGE, 1)
    assert "cannot write: no space left on device" in done.stderr


def test_a_full_disk_behind_stderr_is_borne(tmp_path: Path) -> None:
    assert by_shell('"$@" check --no-such-option 2>/dev/full', cwd=tmp_path).returncode == ExitCode.USAGE


def test_a_reader_that_leaves_changes_no_exit_code(tmp_path: Path) -> None:
    done = by_shell(f'"$@" check -v --format json {MACHINE} | true; exit "${{PIPESTATUS[0]}}"', cwd=tmp_path)
    assert (done.returncode, done.stderr) == (ExitCode.UNKNOWN, "")


@pytest.mark.parametrize(
    "changes",
    [{"PYTHONIOENCODING": "ascii"}, {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}],
    ids=["ascii", "C"],
)
def test_a_terminal_that_knows_ascii_only(changes: dict[str, str], tmp_path: Path) -> None:
    text = by_shell(f'"$@" check -v {MACHINE}', cwd=tmp_path, **changes)
    assert text.returncode == ExitCode.UNKNOWN
    assert text.stdout.isascii()
    assert "+ PASS" in text.stdout
    machine = by_shell(f'"$@" probe --format json {MACHINE}', cwd=tmp_path, **changes)
    assert json.loads(machine.stdout)["gpus"]


@pytest.mark.parametrize("variables", ["HOME", "PATH", "HOME PATH LANG USER"])
def test_a_bare_environment(variables: str, tmp_path: Path) -> None:
    bare = {name: value for name, value in environment().items() if name not in variables.split()}
    done = subprocess.run(
        [*RIGTUNE, "check", "--format", "json"],
        cwd=tmp_path,
        env=bare,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert json.loads(done.stdout)["findings"]
    assert done.stderr == b""


def test_tools_that_write_noise(tmp_path: Path) -> None:
    for name in ("nvidia-smi", "ip", "df", "slurmd", "sinfo", "nvcc", "mpirun", "systemctl", "python3"):
        tool = tmp_path / name
        tool.write_text("#!/bin/sh\nhead -c 300000 /dev/urandom; head -c 9000 /dev/urandom >&2; exit 3\n")
        tool.chmod(0o755)
    done = by_shell('"$@" check', cwd=tmp_path, PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert done.returncode == ExitCode.UNKNOWN, done.stdout
    assert "no filesystem in the output of df" in " ".join(done.stdout.split())
    assert done.stderr == ""


@pytest.mark.root
@pytest.mark.parametrize("hidden", ["/sys", "/proc"])
def test_devices_are_unknown_if_a_kernel_tree_is_not_mounted(hidden: str, tmp_path: Path) -> None:
    done = by_shell(
        f'unshare --mount sh -c "mount -t tmpfs none {hidden} && $* probe --format json"', cwd=tmp_path
    )
    facts = json.loads(done.stdout)
    unknown = facts["nics"] if hidden == "/sys" else facts["limits"]["nofile"]
    assert f"{hidden}/ is not mounted here" in unknown["detail"]


def test_names_that_are_no_utf8(tmp_path: Path) -> None:
    """Use names with bytes that neither JSON nor a terminal can contain."""
    folder = tmp_path / os.fsdecode(b"dir\xff")
    (folder / ".venv" / "bin").mkdir(parents=True)
    (folder / ".venv" / "bin" / "python").touch()
    for arguments in (
        ("probe", "-q", "--format", "json", "--record", os.fsdecode(b"node\xff.json")),
        ("probe", "--format", "json", "--from", os.fsdecode(b"node\xff.json")),
        ("probe", "--format", "json", "--python", "./.venv/bin/python"),
    ):
        done = subprocess.run(
            [*RIGTUNE, *arguments],
            cwd=folder,
            env=environment(),
            capture_output=True,
            check=False,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (ExitCode.OK, b"")
        assert json.loads(done.stdout)["schema_version"] == 1


EVIL = "NVIDIA \x1b]0;pwned\x07\x1b[2J\x9b31m\u202eH100\r"
"""Name of a GPU that would set the terminal's title, clear it, colour it, and turn the reading direction."""


@pytest.mark.parametrize(
    "command", [("probe",), ("check", "-v"), ("plan", "gpt2"), ("auto", "gpt2", "--out", "out")]
)
def test_names_in_a_recording_do_not_steer_the_terminal(command: tuple[str, ...], tmp_path: Path) -> None:
    recording = tmp_path / "node\x1b[31m.json"
    done = subprocess.run(
        [*RIGTUNE, "probe", "-q", "--machine", "rtx4090-2", "--record", recording], cwd=tmp_path, check=False
    )
    assert done.returncode == ExitCode.OK
    answers = json.loads(recording.read_text()) | {"checksum": "", "title": EVIL}
    answers["files"]["/proc/sys/kernel/hostname"] = EVIL
    for answer in answers["nvml"]:
        if answer["call"] == "nvmlDeviceGetName":
            answer["value"] = EVIL
    recording.write_text(json.dumps(answers))
    completed = subprocess.run(
        [*RIGTUNE, *command, "--from", recording],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in completed.stderr
    for character in "\x1b\x07\x9b\u202e\r":
        assert character not in completed.stdout + completed.stderr


def start_hanging(tmp_path: Path) -> tuple[subprocess.Popen[str], int]:
    """Return a `rigtune check` whose `df` hangs, and the read end of a pipe that `df` keeps open."""
    tools, fifo = tmp_path / "tools", tmp_path / "fifo"
    tools.mkdir()
    os.mkfifo(fifo)
    (tools / "df").write_text(f"#!/bin/sh\nexec 3>{fifo}\necho started >&3\nexec sleep 600\n")
    (tools / "df").chmod(0o755)
    lifeline = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    process = subprocess.Popen(
        [*RIGTUNE, "check"],
        cwd=tmp_path,
        env=environment(PATH=f"{tools}:{os.environ['PATH']}"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert select.select([lifeline], [], [], 30)[0]
    assert os.read(lifeline, 100) == b"started\n"
    return process, lifeline


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_check_leaves_no_command_behind(number: signal.Signals, tmp_path: Path) -> None:
    process, lifeline = start_hanging(tmp_path)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=9)  # before the deadline of df itself
    assert (process.returncode, stdout, stderr.strip()) == (ExitCode.INTERRUPTED, "", "rigtune: interrupted")
    assert select.select([lifeline], [], [], 5)[0]
    assert os.read(lifeline, 100) == b""
    os.close(lifeline)


@pytest.mark.parametrize(("trap", "handler"), [("true", "<function"), ("trap '' HUP", "Handlers.SIG_IGN")])
def test_nohup_is_respected(trap: str, handler: str, tmp_path: Path) -> None:
    program = (
        "import signal; from assistant.cli import command_line as run; run(['list', 'gpus']); "
        "print(repr(signal.getsignal(1)))"
    )
    done = by_shell(f'{trap}; exec "$1" -c "{program}"', cwd=tmp_path)
    assert handler in done.stdout.splitlines()[-1]


def test_a_hanging_driver_does_not_hold_up_an_interrupt(nvml_standin: NvmlStandin, tmp_path: Path) -> None:
    nvml_standin("gpu_count = 8\nhang = nvmlInit_v2\n")
    process, lifeline = start_hanging(tmp_path)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=9)[1].strip() == "rigtune: interrupted"
    os.close(lifeline)


def test_two_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    argv = [*RIGTUNE, "check", "--format", "json"]
    running = [
        subprocess.Popen(argv, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE) for _ in range(2)
    ]
    answers = [json.loads(process.communicate(timeout=60)[0]) for process in running]
    assert answers[0]["counts"] == answers[1]["counts"]


def test_an_interrupt_that_python_drops_is_repeated(tmp_path: Path) -> None:
    """A signal may arrive in a callback of the import system, whose exceptions Python prints and drops."""
    program = (
        "import sys, time, weakref, click, assistant.cli\n"
        "from assistant.cli import table_commands\n"
        "def dropped(_): raise KeyboardInterrupt\n"
        "def wait():\n"
        "    lock = click.Command('lock')\n"
        "    reference = weakref.ref(lock, dropped)\n"
        "    del lock\n"
        "    time.sleep(60)\n"
        "table_commands.list_command = click.Command('list', callback=wait)\n"
        "sys.argv = ['rigtune', 'list']\n"
        "assistant.cli.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert (done.returncode, done.stderr.strip()) == (130, "rigtune: interrupted")
