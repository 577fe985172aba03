"""Ask a program's own parser what exported arguments mean."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

PARSERS = Path(__file__).parent / "program_parsers"


def required_variable(name: str) -> str:
    """Return the value of a variable that names an interpreter or a folder; skip the test if it is unset."""
    value = os.environ.get(name)
    if not value:
        pytest.skip(f"needs {name}: where the program is installed")
    return value


def answer_of(script: str, python: str, cases: Sequence[object], *arguments: str) -> dict[str, Any]:
    """Return the JSON that a script of `program_parsers` prints for the cases."""
    done = subprocess.run(
        (python, str(PARSERS / script), *arguments),
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer
