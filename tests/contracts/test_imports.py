"""Limit the modules that a command loads, because hooks start it often and start-up takes time."""

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


@pytest.mark.parametrize(
    "arguments", [("check",), ("check", "--format", "json"), ("--help",), ("list", "checks")]
)
def test_quick_commands_load_neither_torch_nor_textual(arguments: tuple[str, ...]) -> None:
    loaded = _modules_loaded_by(*arguments)
    assert {"click", "assistant"} <= loaded
    assert not loaded & {"torch", "textual", "jinja2", "rich", "pynvml", "psutil"}


HEAVY = {
    *(
        "asyncio",
        "concurrent",
        "multiprocessing",
        "socket",
        "ssl",
        "http",
        "email",
        "logging",
        "xml",
        "yaml",
        "sqlite3",
    ),
    *(
        "argparse",
        "csv",
        "difflib",
        "hashlib",
        "random",
        "shutil",
        "tempfile",
        "traceback",
        "unittest",
        "zipfile",
    ),
    *(
        "bz2",
        "gzip",
        "lzma",
        "zlib",
        "dataclasses",
        "pprint",
        "platformdirs",
        "tomli_w",
        "importlib.metadata",
    ),
}
"""Modules that a check of the live machine does not need; each takes a millisecond or more to load."""

OWN_MODULES_AT_MOST = 260
"""Loading a module takes a fifth of a millisecond. A machine without GPUs and RDMA ports needs about 160
modules, and a machine with eight GPUs about 180; the limit leaves room for machines that also have NVLinks,
NVSwitches and RDMA ports. Checks that do not apply are not loaded (`probes/judging/policies/selection.py`).
"""

PATTERNS_AT_MOST = 20
"""Compiling a pattern takes a tenth of a millisecond. Most patterns are for texts of few machines, and are
compiled only when they are used (`probes/base/patterns.py`).
"""

_CHECKING = """
import json, sys
from assistant.cli import command_line
command_line(["check", "--tier", "quick"])
sys.stdout.flush()
print("\\n" + json.dumps(sorted(sys.modules)), file=sys.stderr)
"""
_IMPORTING = """
import importlib, json, re, sys
compiling, really = [], re.compile
def noting(*arguments, **options):
    compiling.append(sys._getframe(1).f_globals["__name__"])
    return really(*arguments, **options)
re.compile = noting
for name in sys.argv[1:]:
    importlib.import_module(name)
print(json.dumps(compiling), file=sys.stderr)
"""


def _names_told_by(script: str, *arguments: str) -> list[str]:
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    names: list[str] = json.loads(done.stderr.strip().splitlines()[-1])
    return names


def _is_own(module: str) -> bool:
    return module.partition(".")[0] in {"assistant", "probes", "recipes"}


def test_a_quick_check_loads_little() -> None:
    loaded = _names_told_by(_CHECKING)
    own = list(filter(_is_own, loaded))
    assert {"probes.collect.events", "probes.checks.host.host_health"} <= set(own)
    assert not set(loaded) & HEAVY
    assert not [name for name in own if name.startswith("recipes")]
    assert len(own) <= OWN_MODULES_AT_MOST, own
    compiling = list(filter(_is_own, _names_told_by(_IMPORTING, *own)))
    assert len(compiling) <= PATTERNS_AT_MOST, compiling


def test_planning_on_a_laptop_loads_no_torch_and_no_textual() -> None:
    loaded = _modules_loaded_by("plan", "llama-3-8b", "--machine", "dgx-h100", "--format", "json")
    assert not loaded & {"torch", "textual", "pynvml"}
