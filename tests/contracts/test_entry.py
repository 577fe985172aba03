"""The installed program is itself, whatever the shell around it prepared for a training job."""

from __future__ import annotations

import os
import subprocess
import sys
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
    ("profile", "code"), [("gate", 70), ("slurm", 70), ("nhc", 70), ("npd", 2), ("nagios", 3)]
)
def test_a_broken_installation_never_ends_with_the_code_of_a_verdict(
    broken: str, profile: str, code: int
) -> None:
    arguments = ["rigtune", "check", "--machine", "dgx-h100", "--exit-profile", profile]
    program = f"import sys; sys.argv = {arguments!r}; {broken}; from assistant._entry import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == code, done.stderr
    assert done.stderr
    assert done.stdout.startswith("RIGTUNE UNKNOWN - ") == (profile == "nagios")
