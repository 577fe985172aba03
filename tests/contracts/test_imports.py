"""What a command loads, told by a fresh interpreter: start-up counts in a provisioning loop."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

_SCRIPT = """
import json, sys
from assistant.cli import command_line
code = command_line({arguments!r})
sys.stdout.flush()
print("\\n" + json.dumps(sorted(name for name in sys.modules if "." not in name)), file=sys.stderr)
sys.exit(0)
"""


def _modules_loaded_by(*arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT.format(arguments=list(arguments))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return set(json.loads(done.stderr.strip().splitlines()[-1]))


@pytest.mark.parametrize("arguments", [("check",), ("check", "--format", "json"), ("--help",), ("list", "checks")])
def test_quick_commands_load_neither_torch_nor_textual(arguments: tuple[str, ...]) -> None:
    loaded = _modules_loaded_by(*arguments)
    assert {"click", "assistant"} <= loaded
    assert not loaded & {"torch", "textual", "jinja2", "rich", "pynvml", "psutil"}


def test_planning_on_a_laptop_loads_no_torch_and_no_textual() -> None:
    loaded = _modules_loaded_by("plan", "llama-3-8b", "--machine", "dgx-h100", "--format", "json")
    assert not loaded & {"torch", "textual", "pynvml"}
