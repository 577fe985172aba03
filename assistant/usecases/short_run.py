"""Run some steps of a recipe, watch the run, and read what its ranks report."""

import contextlib
import re
import shlex
import time
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec

from assistant.processes.runner import Job
from assistant.usecases.events import Event, Progress, result_of
from assistant.usecases.export import export_recipe, find_launcher
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


class Start(Record, kw_only=True, tag_field="event", tag="start"):
    """The first line of the reference program's report."""

    world_size: int
    backend: str
    device_name: str
    torch_version: str


class Step(Record, kw_only=True, tag_field="event", tag="step"):
    """One optimizer step; the user's own program reports only such lines."""

    step: int
    duration_s: float
    loss: float | None = None


class Done(Record, kw_only=True, tag_field="event", tag="done"):
    """The last line of the reference program's report."""

    steps: int
    interrupted: bool
    median_step_time_s: float
    peak_memory_bytes: float
    peak_reserved_bytes: float | None = None
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
    is_stopped: Callable[[], bool] = never,
) -> Generator[Event, None, ShortRun]:
    """Run `steps` steps of the recipe's program with the torchrun launch script in `folder`.

    The reference program ends by itself. A program of the user's reports each step as a line
    `{"event": "step", "step": 1, "duration_s": 0.5}` in the file that RIGTUNE_REPORT names, and is ended
    after the last step. The output goes to `TITLE.log`. `python` overrides the interpreter of the shell and
    of the recipe; `limit_s` is the longest time, by default a multiple of the prediction. Raises UsageError
    for a recipe that cannot be started on this machine, and WorkerError if nothing can be started.
    """
    began = time.monotonic()
    folder = folder.absolute()
    is_reference = recipe.command.kind == "reference"
    log, report = folder / f"{title}.log", folder / "report.jsonl"
    arguments = ("--steps", str(steps), "--report", str(report)) if is_reference else ()
    command: tuple[str, ...] = find_launcher("torchrun").load().start(recipe, str(folder), arguments)
    yield from result_of(export_recipe(recipe, ("torchrun",), folder, overwrite=True))
    report.unlink(missing_ok=True)

    yield Progress(stage=stage, message=shlex.join(command))
    limit_s = _limit_s(recipe, steps) if limit_s is None else limit_s
    lines: list[Line] = []
    # The interpreter that the user named for this run has precedence over RIGTUNE_PYTHON of the shell.
    environment: Mapping[str, str] = {
        **({"RIGTUNE_PYTHON": python} if python else {}),
        **({} if is_reference else {REPORT_VARIABLE: str(report)}),
    }
    is_asked, is_enough, code = False, False, None
    with Job(command, directory=Path.cwd(), environment=environment, log=log) as job:
        while code is None and time.monotonic() - began < limit_s and not is_asked and not is_enough:
            code = job.wait(_POLL_S)
            # The report is small, so reading all of it again is simpler than reading only its new lines.
            reported, lines = len(lines), _read_report(report)
            for line in lines[reported:]:
                if isinstance(line, Step):
                    yield Progress(stage=stage, message=_step_words(line), done=line.step, total=steps)
            is_asked = is_stopped()
            is_enough = not is_reference and sum(isinstance(line, Step) for line in lines) >= steps
        tail = job.log_tail()
    took_s = time.monotonic() - began
    failure = "" if is_enough else _failure(lines, code, tail, limit_s)
    if not is_enough and not is_reference and code == 0:
        failure = f"the program wrote fewer than {steps} steps to the file that {REPORT_VARIABLE} names"
    has_no_memory = any(isinstance(line, Failed) and line.kind == "out_of_memory" for line in lines)
    return ShortRun(
        lines=tuple(lines),
        failure=failure,
        is_out_of_memory=bool(failure) and (has_no_memory or bool(_OUT_OF_MEMORY.search(tail))),
        is_too_slow=code is None and not is_asked and not is_enough,
        is_stopped=is_asked and code is None,
        output=tuple(tail.splitlines()[-TAIL_LINES:]),
        took_s=took_s,
    )


def _step_words(line: Step) -> str:
    loss = "" if line.loss is None else f" loss {line.loss:.3f},"
    return f"step {line.step}:{loss} {duration(line.duration_s)}"


def _limit_s(recipe: Recipe, steps: int) -> float:
    predicted_s = recipe.predicted.step_time_s
    return _START_S + steps * (_STEP_S if predicted_s is None else _PATIENCE * predicted_s)


def _read_report(path: Path) -> list[Line]:
    """Return the complete lines of the report; the last line may still be incomplete."""
    lines: list[Line] = []
    with contextlib.suppress(OSError, UnicodeError, msgspec.DecodeError):
        for line in path.read_bytes().splitlines():
            lines.append(msgspec.json.decode(line, type=Line))
    return lines


def _failure(lines: list[Line], code: int | None, tail: str, limit_s: float) -> str:
    """Return the reason why the run failed; empty if it succeeded."""
    for line in lines:
        if isinstance(line, Failed):
            return line.message
    if code is None:
        return f"it did not end within {duration(limit_s)}"
    done = [line for line in lines if isinstance(line, Done)]
    if code == 0 and done and not done[0].interrupted and isinstance(lines[0], Start):
        return ""
    cause = next((line for line in tail.splitlines() if _CAUSE.search(line)), "")
    if code:
        return f"{cause} (exit code {code})" if cause else f"exit code {code}"
    return cause or "it ended without a report"
