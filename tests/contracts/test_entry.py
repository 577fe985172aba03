"""Test the start of the program: its own modules, broken installations, interrupts, narrow terminals."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_modules_of_a_training_job_do_not_reach_rigtune(tmp_path: Path) -> None:
    for name in ("json", "random", "click", "msgspec", "recipes"):
        (tmp_path / f"{name}.py").write_text(f"raise ImportError('the {name} of the job was imported')\n")
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; sys.argv = ['rigtune', 'list', 'models']; from assistant._entry import main; main()",
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "llama-3-8b" in done.stdout


@pytest.mark.parametrize(
    "broken",
    [
        "sys.modules['msgspec'] = None",  # a dependency that cannot be imported
        "sys.modules['assistant.cli.check_command'] = None",
        "import assistant.cli.check_command as check; check.check_command.main = None; import click; "
        "click.Group.main = None",
        "import probes.judging.verdict; sys.modules['click'] = None; sys.modules.pop('assistant.cli', None)",
    ],
    ids=["dependency", "command", "bug", "library"],
)
@pytest.mark.parametrize(
    ("profile", "code"),
    [
        (("--exit-profile", "gate"), 70),
        (("--exit-profile", "slurm"), 70),
        (("--exit-profile", "nhc"), 70),
        (("--exit-profile", "npd"), 2),
        (("--exit-profile=nagios",), 3),
        (("--format", "nagios"), 3),
        (("--exit-profile", "slurm", "--format", "nagios"), 70),
    ],
)
def test_a_broken_installation_never_ends_with_the_code_of_a_verdict(
    broken: str, profile: tuple[str, ...], code: int
) -> None:
    arguments = ["rigtune", "check", "--machine", "dgx-h100", *profile]
    program = f"import sys; sys.argv = {arguments!r}; {broken}; from assistant._entry import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == code, done.stderr
    assert done.stderr
    assert done.stdout.startswith("RIGTUNE UNKNOWN - ") == (code == 3)


def test_an_interrupt_while_modules_are_loaded_ends_with_one_line() -> None:
    """Interrupt the program at the first import of each of these modules."""
    for module in ("gc", "pathlib", "click", "assistant.cli.check_command"):
        program = f"""
import sys
class Interrupts:
    def find_spec(self, name, *_):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.argv = ["rigtune", "check", "--machine", "dgx-h100"]
from assistant._entry import main
sys.modules.pop({module!r}, None)
sys.meta_path.insert(0, Interrupts())
main()
"""
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
        )
        shown = (done.returncode, done.stdout, done.stderr.strip())
        assert shown == (130, "", "rigtune: interrupted"), module


@pytest.mark.parametrize("columns", [40, 60, 80])
@pytest.mark.parametrize(
    "words",
    [("check", "--machine", "dgx-h100"), ("probe", "--machine", "dgx-h100"), ("list", "checks"),
     ("plan", "llama-3-8b", "--machine", "dgx-h100")],
)  # fmt: skip
def test_reports_are_as_narrow_as_the_terminal(words: tuple[str, ...], columns: int) -> None:
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LC_ALL")}
    process = subprocess.Popen(
        [sys.executable, "-m", "assistant", *words],
        cwd=ROOT,
        env={**environment, "NO_COLOR": "1", "LC_ALL": "C.UTF-8"},
        stdout=inner,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
    )
    os.close(inner)
    drawn = b""
    with contextlib.suppress(OSError):  # the end of a terminal's output
        while piece := os.read(outer, 1 << 16):
            drawn += piece
    os.close(outer)
    process.wait(timeout=30)
    lines = drawn.decode().splitlines()
    assert len(lines) > 5
    assert not [line for line in lines if len(line) > columns]
