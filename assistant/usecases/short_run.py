"""Run some steps of a recipe, watch the run, and read what its ranks report."""

import math
import os
import re
import shlex
import time
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Annotated, NamedTuple, TypeAlias

import msgspec

from assistant.processes.runner import Job
from assistant.storage import read_bytes
from assistant.usecases.events import Event, Progress, result_of
from assistant.usecases.export import export_recipe, find_launcher
from probes.base.errors import InputError, OutputError
from probes.base.record import Record
from probes.base.units import duration
from recipes.launch.recipe import Recipe

_START_S = 300.0
"""Time to import torch on every rank, from a network file system without caches, and to connect the ranks."""
_STEP_S = 60.0
"""Time limit for one step if no step time is predicted."""
_PATIENCE = 10.0
"""A run is stopped when its time exceeds the prediction by this factor."""
_POLL_S = 0.5
TAIL_LINES = 12
"""Lines of output that describe a failed run."""
REPORT_VARIABLE = "RIGTUNE_REPORT"
"""Variable with the path of the report, to which the user's program can write its steps."""
_CAUSE = re.compile(
    r"^((launch(-all)?\.sh|rigtune_worker): |(\[rank\d+\]: )?\w[\w.]*(Error|Exception)\b)|No module named"
)
_OUT_OF_MEMORY = re.compile(r"out of memory|OutOfMemoryError|can't allocate memory|Cannot allocate memory")
"""Words of torch, CUDA and the kernel for a failed allocation."""


_LONGEST_REASON = 1000
"""Largest number of characters of a failure that a program reports."""
_REPORT_BYTES = 64 * 1024**2
"""Largest report; a line of a step has about 60 bytes."""
_Seconds = Annotated[float, msgspec.Meta(ge=1e-9, le=1e9)]
"""A time that a step can have; ratios of such times are finite."""
_Bytes = Annotated[float, msgspec.Meta(ge=0, le=1e18)]


class Start(Record, kw_only=True, tag_field="event", tag="start"):
    """The first line of the reference program's report."""

    world_size: int
    backend: str
    device_name: str
    torch_version: str


class Step(Record, kw_only=True, tag_field="event", tag="step"):
    """One optimizer step; the user's own program reports only such lines."""

    step: int
    duration_s: _Seconds
    loss: float | None = None


class Done(Record, kw_only=True, tag_field="event", tag="done"):
    """The last line of the reference program's report."""

    steps: int
    interrupted: bool
    median_step_time_s: _Seconds
    peak_memory_bytes: _Bytes
    peak_reserved_bytes: _Bytes | None = None
    loss_first: float
    loss_last: float


class Failed(Record, kw_only=True, tag_field="event", tag="failed"):
    """The last line of a failed run of the reference program."""

    message: str
    kind: str = ""


Line: TypeAlias = Start | Step | Done | Failed


class ShortRun(NamedTuple):
    """A run that has ended."""

    lines: tuple[Line, ...]
    failure: str
    """Reason why the run failed; empty if it succeeded."""
    is_out_of_memory: bool
    is_too_slow: bool
    """Whether the run was ended at its time limit."""
    is_stopped: bool
    """Whether the user stopped the run."""
    output: tuple[str, ...]
    """Last lines of the output."""
    took_s: float

    @property
    def start(self) -> Start | None:
        """The first line of the report, if the reference program ran."""
        return next((line for line in self.lines if isinstance(line, Start)), None)

    @property
    def done(self) -> Done | None:
        """The last line of the report, if the reference program ran."""
        return next((line for line in self.lines if isinstance(line, Done)), None)

    @property
    def steps_s(self) -> tuple[float, ...]:
        """Seconds of each step."""
        return tuple(line.duration_s for line in self.lines if isinstance(line, Step))


def never() -> bool:
    """Return False: nobody requests a stop."""
    return False


def short_run(
    recipe: Recipe,
    folder: Path,
    *,
    stage: str,
    steps: int,
    title: str,
    python: str = "",
    limit_s: float | None = None,
    most_s: float = math.inf,
    is_stopped: Callable[[], bool] = never,
) -> Generator[Event, None, ShortRun]:
    """Run `steps` steps of the recipe's program with the torchrun launch script in `folder`.

    The reference program ends by itself. A program of the user's reports each step as a line
    `{"event": "step", "step": 1, "duration_s": 0.5}` in the file that RIGTUNE_REPORT names, and is ended
    after the last step. The output goes to `TITLE.log`. `python` overrides the interpreter of the shell and
    of the recipe; `limit_s` is the longest time, by default a multiple of the prediction, and never more than
    `most_s`. Raises UsageError for a recipe that cannot be started on this machine, OutputError if a file
    cannot be written, and WorkerError if nothing can be started.
    """
    began = time.monotonic()
    folder = folder.absolute()
    is_reference = recipe.command.kind == "reference"
    log, report = folder / f"{title}.log", folder / "report.jsonl"
    arguments = ("--steps", str(steps), "--report", str(report)) if is_reference else ()
    command: tuple[str, ...] = find_launcher("torchrun").load().start(recipe, str(folder), arguments)
    yield from result_of(export_recipe(recipe, ("torchrun",), folder, overwrite=True))
    _remove(report)

    yield Progress(stage=stage, message=shlex.join(command))
    limit_s = min(most_s, _limit_s(recipe, steps) if limit_s is None else limit_s)
    lines: list[Line] = []
    # The interpreter that the user named for this run has precedence over RIGTUNE_PYTHON of the shell.
    environment: Mapping[str, str] = {
        **({"RIGTUNE_PYTHON": python} if python else {}),
        **({} if is_reference else {REPORT_VARIABLE: str(report)}),
    }
    is_asked, is_enough, code, fault = False, False, None, ""
    with Job(command, directory=Path.cwd(), environment=environment, log=log) as job:
        while code is None and time.monotonic() - began < limit_s and not (is_asked or is_enough or fault):
            code = job.wait(_POLL_S)
            # The report is small, so reading all of it again is simpler than reading only its new lines.
            reported = len(lines)
            lines, fault = _read_report(report)
            for line in lines[reported:]:
                if isinstance(line, Step):
                    yield Progress(stage=stage, message=_step_words(line), done=line.step, total=steps)
            is_asked = is_stopped()
            is_enough = not is_reference and sum(isinstance(line, Step) for line in lines) >= steps
        tail = job.log_tail()
    took_s = time.monotonic() - began
    if fault or is_enough:
        failure = fault
    elif not is_reference and code == 0:
        failure = f"the program wrote fewer than {steps} steps to the file that {REPORT_VARIABLE} names"
    else:
        failure = _failure(lines, code, tail, limit_s)
    has_no_memory = any(isinstance(line, Failed) and line.kind == "out_of_memory" for line in lines)
    return ShortRun(
        lines=tuple(lines),
        failure=failure,
        is_out_of_memory=bool(failure) and (has_no_memory or bool(_OUT_OF_MEMORY.search(tail))),
        is_too_slow=code is None and not (is_asked or is_enough or fault),
        is_stopped=is_asked and code is None,
        output=tuple(tail.splitlines()[-TAIL_LINES:]),
        took_s=took_s,
    )


def _remove(report: Path) -> None:
    """Remove the report of an earlier run. Raises OutputError, for example if there is a folder."""
    try:
        report.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(
            f"cannot remove {report}: {os.strerror(error.errno or 0).lower()}",
            "remove it, or choose another folder",
        ) from error


def _step_words(line: Step) -> str:
    loss = "" if line.loss is None else f" loss {line.loss:.3f},"
    return f"step {line.step}:{loss} {duration(line.duration_s)}"


def _limit_s(recipe: Recipe, steps: int) -> float:
    predicted_s = recipe.predicted.step_time_s
    return _START_S + steps * (_STEP_S if predicted_s is None else _PATIENCE * predicted_s)


def _read_report(path: Path) -> tuple[list[Line], str]:
    """Return the lines of the report up to the first wrong line, and what is wrong; empty if nothing is.

    A last line without a line break may still be incomplete. A user's program can write anything to this
    path.
    """
    lines: list[Line] = []
    if not os.path.lexists(path):
        return lines, ""
    try:
        data = read_bytes(path, limit_bytes=_REPORT_BYTES)
    except InputError as error:
        return lines, error.message
    for number, line in enumerate(data.split(b"\n"), 1):
        try:
            lines += [msgspec.json.decode(line, type=Line)] if line.strip() else []
        except (UnicodeError, msgspec.DecodeError) as error:
            is_complete = number <= data.count(b"\n")
            return lines, f"line {number} of the report {path} is wrong: {error}" if is_complete else ""
    return lines, ""


def _failure(lines: list[Line], code: int | None, tail: str, limit_s: float) -> str:
    """Return the reason why the run failed; empty if it succeeded."""
    for line in lines:
        if isinstance(line, Failed):
            return line.message[:_LONGEST_REASON]
    if code is None:
        return f"it did not end within {duration(limit_s)}"
    done = [line for line in lines if isinstance(line, Done)]
    if code == 0 and done and not done[0].interrupted and isinstance(lines[0], Start):
        return ""
    cause = next((line for line in tail.splitlines() if _CAUSE.search(line)), "")
    if code:
        return f"{cause} (exit code {code})" if cause else f"exit code {code}"
    return cause or "it ended without a report"
