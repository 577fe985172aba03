"""The installed program is itself, whatever the shell around it prepared for a training job."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
