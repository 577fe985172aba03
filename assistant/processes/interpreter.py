"""Test whether a Python interpreter can run the workers, by starting it once."""

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import msgspec

import probes
from assistant.processes.runner import output_of
from probes.base.errors import InterpreterError
from probes.base.record import Record, Unknown, from_json, known
from probes.facts import TrainingPython

LEAST_PYTHON = (3, 9)
LEAST_TORCH = (2, 4)
"""The oldest torch with torch.nn.RMSNorm, which the reference model uses."""
_DEADLINE_S = 180.0
"""Time limit for one start: importing torch from a network file system without caches takes a minute or more.
"""


class _Torch(Record, kw_only=True):
    cuda: str | None = None
    """The CUDA version that torch was built for."""
    nccl_version: str = ""
    gloo: bool = False
    nccl: bool = False
    devices: tuple[str, ...] = ()
    """Names of the GPUs that torch can use, in torch's order."""
    cuda_error: str = ""
    """CUDA's message if torch can use no GPU."""


class Interpreter(_Torch, kw_only=True):
    """The properties of a training interpreter, as reported by a program that it ran.

    Except for `cuda_error`, an empty value means that torch lacks the feature.
    """

    path: str
    """An absolute path or a name on the PATH; links are kept, because virtual environments need them."""
    python: str
    torch: str


class _Answer(_Torch, kw_only=True):
    executable: str
    python: str
    torch: str | None = None
    error: str = ""


def workers_path() -> Path:
    """Return the folder that goes on PYTHONPATH so that `rigtune_worker` can be imported.

    It contains nothing else.
    """
    return Path(probes.__file__).parent / "workers"


def worker_environment() -> dict[str, str]:
    """Return variables with which an interpreter imports the workers, and nothing from the current folder.

    The workers come first in PYTHONPATH, then the user's PYTHONPATH: without the user's folders, the measured
    torch might not be the torch that the training uses.
    """
    path = os.pathsep.join(filter(None, (str(workers_path()), os.environ.get("PYTHONPATH"))))
    return {
        "PYTHONPATH": path,
        "PYTHONSAFEPATH": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def install_command(python: str) -> str:
    """Return the command that installs torch into an interpreter."""
    return f"{shlex.quote(python)} -m pip install torch"


def choose_interpreter(training: TrainingPython, explicit: str | None) -> Interpreter:
    """Return the interpreter that the user named, else the interpreter that the probe found.

    Raises InterpreterError if there is no interpreter, or if it cannot run the workers.
    """
    if explicit:
        return vet(explicit)
    if isinstance(training.path, str):
        return vet(training.path)
    if known(training.refused) and training.refused:
        raise InterpreterError(training.refused[0], "name the interpreter that you train with: --python PATH")
    why = f": {training.path}" if isinstance(training.path, Unknown) else ""
    raise InterpreterError(
        f"no Python interpreter with torch was found{why}", install_command(sys.executable)
    )


def vet(path: str, *, deadline_s: float = _DEADLINE_S) -> Interpreter:
    """Start the interpreter at `path` once and return its properties.

    Raises InterpreterError, with a remedy, if it cannot run the workers.
    """
    path = str(Path(path).absolute()) if os.sep in path else path
    choose_other = "name the interpreter that you train with: --python PATH"
    program = shutil.which(path)
    if program is None and not Path(path).exists():
        raise InterpreterError(f"there is no Python interpreter {path[:200]!r}", choose_other)
    if program is None:
        raise InterpreterError(
            f"{path} cannot be started: it is not a program, or you may not run it", choose_other
        )
    try:
        code, output = output_of(
            (program, "-m", "rigtune_worker.vet"),
            directory=workers_path(),
            environment=worker_environment(),
            deadline_s=deadline_s,
        )
    except (OSError, ValueError) as error:
        raise InterpreterError(f"{path} cannot be started: {error}", choose_other) from None
    answer = _read(output)
    if answer is not None:
        return _checked(path, answer)
    if code is None:
        raise InterpreterError(
            f"{path} did not start torch within {deadline_s:.0f} s",
            "try again: the second start is faster, or " + choose_other,
        )
    words = output.decode("utf-8", "replace").strip().splitlines()
    if os.environ.get("PYTHONPATH"):
        choose_other += ", or unset PYTHONPATH, because modules in its folders may prevent the start"
    raise InterpreterError(
        f"{path} is not a usable Python interpreter (exit {code}{': ' + words[-1][:200] if words else ''})",
        choose_other,
    )


def _read(output: bytes) -> _Answer | None:
    """Return the last line that is an answer, because importing torch may print other lines."""
    for line in reversed(output.splitlines()):
        try:
            return from_json(line, _Answer)
        except msgspec.DecodeError:
            continue
    return None


def _checked(path: str, answer: _Answer) -> Interpreter:
    if _version(answer.python) < LEAST_PYTHON:
        raise InterpreterError(
            f"{path} is Python {answer.python}, but the workers need 3.9 or newer",
            "name a newer interpreter: --python PATH",
        )
    if answer.torch is None:
        trouble = (
            f"torch cannot be imported in {path} ({answer.error})" if answer.error else f"{path} has no torch"
        )
        raise InterpreterError(trouble, install_command(path))
    if _version(answer.torch) < LEAST_TORCH:
        raise InterpreterError(
            f"{path} has torch {answer.torch}, but the workers need 2.4 or newer",
            f"{shlex.quote(path)} -m pip install --upgrade torch",
        )
    return Interpreter(
        path=path,
        python=answer.python,
        torch=answer.torch,
        cuda=answer.cuda,
        nccl_version=answer.nccl_version,
        gloo=answer.gloo,
        nccl=answer.nccl,
        devices=answer.devices,
        cuda_error=answer.cuda_error,
    )


def _version(text: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: `2.13.0+cpu` is (2, 13, 0)."""
    match = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in match.group().split(".")) if match else ()
