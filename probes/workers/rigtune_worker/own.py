"""Load the user's own training step (contract: rigtune's page `own_step.md`), and report the user's errors.

def make(device, micro_batch):      # micro_batch may be left out, or have a default
    ...
    def step():                     # one optimizer step
        ...
        return {"tokens": 4096}     # the work of this rank: tokens, images or samples; or nothing
    return step
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import os
import sys
import sysconfig
import traceback
from types import TracebackType
from typing import Any, Callable, Iterator

from .protocol import CaseError, SetupError, is_out_of_memory

ITEMS = ("tokens", "images", "samples")
"""Names of the work that a step may report."""
DEFAULT_MICRO_BATCH = 1
OURS = os.path.dirname(os.path.abspath(__file__))
_HOW = "name it module:function or path/to/file.py:function"


class OwnFunction:
    """The loaded function that the user named."""

    def __init__(self, target: str, folder: str) -> None:
        """Load `module:function` or `file.py:function`.

        `folder` becomes the working folder for relative names. Raises SetupError if the name does not exist,
        CaseError if the user's module fails.
        """
        self.target = target
        self.make = load(target, folder)
        parameter = parameters_of(self.make, target).get("micro_batch")
        self.takes_micro_batch = parameter is not None
        default = getattr(parameter, "default", None)
        self.default_micro_batch = (
            default if isinstance(default, int) and default > 0 else DEFAULT_MICRO_BATCH
        )

    def call(self, device: Any, micro_batch: int) -> Any:
        """Return the result of the function. Raises CaseError if the function fails."""
        arguments = {"micro_batch": micro_batch} if self.takes_micro_batch else {}
        with users_errors(self.target):
            return self.make(device, **arguments)


class OwnStep(OwnFunction):
    """The function that returns the user's step."""

    def build(self, device: Any, micro_batch: int | None = None) -> CountedStep:
        """Return the step, ready to be called. Without `micro_batch`, the user's default is used."""
        micro_batch = self.default_micro_batch if micro_batch is None else micro_batch
        step = self.call(device, micro_batch)
        if not callable(step):
            raise CaseError(
                "unsupported", f"{self.target} returned {type(step).__name__}, not a step that can be called"
            )
        return CountedStep(step, self.target, micro_batch if self.takes_micro_batch else None)


class CountedStep:
    """The user's step, with the sum of the work that it reports."""

    def __init__(self, step: Callable[[], object], target: str, micro_batch: int | None) -> None:
        self.inner, self.target, self.micro_batch = step, target, micro_batch
        self.calls = 0
        self.totals = dict.fromkeys(ITEMS, 0.0)

    def __call__(self) -> None:
        with users_errors(self.target):
            report = self.inner()
        self.calls += 1
        for name, value in items_in(report, f"the step of {self.target}").items():
            self.totals[name] += value

    def per_step(self) -> list[float]:
        """Return tokens, images and samples of this rank's average step.

        Without a report, samples come from the micro-batch.
        """
        items = [self.totals[name] / max(1, self.calls) for name in ITEMS]
        if not any(items) and self.micro_batch is not None:
            items[ITEMS.index("samples")] = float(self.micro_batch)
        return items


def items_in(report: object, function: str) -> dict[str, float]:
    """Return the tokens, images and samples in the result of a user's function, which is named in words.

    Raises CaseError for anything but None or a dict with positive numbers.
    """
    if report is None:
        return {}
    if not isinstance(report, dict):
        raise CaseError("unsupported", f"{function} returned {type(report).__name__}: {_RETURN}")
    items = {}
    for name in set(ITEMS) & set(report):
        try:
            items[name] = float(report[name])
        except (TypeError, ValueError, OverflowError):
            items[name] = 0.0
        if not 0 < items[name] < float("inf"):
            raise CaseError("unsupported", f"{function} returned {report[name]!r:.80} {name}: {_RETURN}")
    return items


_RETURN = 'return nothing, or a dict such as {"tokens": 4096} with tokens, images or samples'


def load(target: str, folder: str) -> Callable[..., Any]:
    name, _, function = target.rpartition(":")
    if not name or not function.isidentifier():
        raise SetupError(f"{target!r} names no function: {_HOW}")
    if folder:
        os.chdir(folder)
        sys.path.insert(0, folder)
    with users_errors(target):
        module = load_file(name) if name.endswith(".py") else load_module(name)
    make = getattr(module, function, None)
    if not callable(make):
        raise SetupError(f"{name} has no function {function!r}: {_HOW}")
    return make


def load_file(path: str) -> Any:
    path = os.path.abspath(path)
    if not os.path.isfile(path):
        raise SetupError(f"there is no file {path}: {_HOW}")
    sys.path.insert(0, os.path.dirname(path))  # Python, too, puts the folder of a script first on sys.path
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise SetupError(f"{path} is no Python module: {_HOW}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # pickling and dataclasses look up the modules of classes in sys.modules
    spec.loader.exec_module(module)
    return module


def load_module(name: str) -> Any:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        raise SetupError(
            f"there is no module {name!r} in {os.getcwd()} or among the interpreter's packages: {_HOW}"
        )
    return importlib.import_module(name)


def parameters_of(make: Callable[..., Any], target: str) -> Any:
    """Return the parameters of the user's function. Raises SetupError if the contract is violated."""
    try:
        signature = inspect.signature(make)
    except (TypeError, ValueError):
        raise SetupError(f"{target} is no Python function") from None
    arguments = {"micro_batch": 1} if "micro_batch" in signature.parameters else {}
    try:
        signature.bind("cpu", **arguments)
    except TypeError as error:
        raise SetupError(
            f"{target}{signature} cannot be called as {target}(device, micro_batch): {error}"
        ) from None
    return signature.parameters


@contextlib.contextmanager
def users_errors(target: str) -> Iterator[None]:
    """Turn errors of the user's code into a CaseError of one line with file and line.

    The traceback goes to the log.
    """
    try:
        yield
    except (CaseError, SetupError):
        raise
    except SystemExit as error:
        place = place_of(error.__traceback__)
        raise CaseError("crashed", f"{target} called sys.exit({error.code!r}){place}") from None
    except Exception as error:
        print_users_traceback(error)
        place = (
            f" ({error.filename}:{error.lineno})"
            if isinstance(error, SyntaxError)
            else place_of(error.__traceback__)
        )
        words = str(error.msg if isinstance(error, SyntaxError) else error).strip().partition("\n")[0][:300]
        raise CaseError(
            "out_of_memory" if is_out_of_memory(error) else "crashed",
            f"{type(error).__name__}{': ' if words else ''}{words}{place}",
        ) from None


def print_users_traceback(error: Exception) -> None:
    """Print the traceback from the user's first line on, without the frames of rigtune's worker."""
    frames = error.__traceback__
    while frames is not None and frames.tb_next is not None and is_ours(frames.tb_frame.f_code.co_filename):
        frames = frames.tb_next
    traceback.print_exception(type(error), error, frames)


def place_of(frames: TracebackType | None) -> str:
    """Return ` (file:line)` of the deepest line of the user's code; empty if there is none."""
    place = ""
    for frame, line in traceback.walk_tb(frames):
        path = frame.f_code.co_filename
        if not is_ours(path) and not is_library(path):
            place = f" ({path}:{line})"
    return place


def is_ours(path: str) -> bool:
    return path.startswith((OURS, "<frozen"))


def is_library(path: str) -> bool:
    folders = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return path.startswith(tuple(folder + os.sep for folder in folders if folder))
