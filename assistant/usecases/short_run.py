"""Run some steps of a recipe, watch the run, and read what its ranks report."""

import contextlib
import math
import re
import shlex
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from assistant.processes.runner import Job, output_of, tail_of
from assistant.storage import remove_file
from assistant.usecases.events import Event, Progress, result_of
from assistant.usecases.export import export_recipe
from assistant.usecases.run_report import (
    Done,
    Failed,
    Line,
    OwnLogs,
    Start,
    Step,
    read_report,
)
from probes.base.units import duration, plural
from probes.logs.training_steps import StepLog
from recipes.launch.launch_files import find_launcher
from recipes.launch.recipe import Recipe
from recipes.launch.reference_files import imports_helper
from recipes.launch.verifying.foreground import cancelling, in_foreground, writes_output

_START_S = 300.0
"""Time to import torch on every rank, from a network file system without caches, and to connect the ranks."""
_STEP_S = 60.0
"""Time limit for one step if no step time is predicted."""
_PATIENCE = 10.0
"""The time limit for a step, as a multiple of its predicted time; `_START_S` is added for the run."""
_POLL_S = 0.5
_CANCEL_S = 30.0
"""Time for the command that ends a job of a scheduler."""
TAIL_LINES = 12
"""Lines of output that describe a failed run."""
REPORT_VARIABLE = "RIGTUNE_REPORT"
"""Variable with the path of the report, to which the user's program can write its steps."""
_CAUSE = re.compile(
    r"^(\[rank\d+\]: )*((launch(-all)?\.sh|rigtune_worker): |\w[\w.]*(Error|Exception)\b)|No module named"
)
_OUT_OF_MEMORY = re.compile(r"out of memory|OutOfMemoryError|can't allocate memory|Cannot allocate memory")
"""Words of torch, CUDA and the kernel for a failed allocation."""


_LONGEST_REASON = 1000
"""Maximum number of characters that are kept of a failure that a program reports."""


class ShortRun(NamedTuple):
    """A run that has ended."""

    lines: tuple[Line, ...]
    failure: str
    """Reason why the run failed; empty if it succeeded."""
    is_out_of_memory: bool
    is_too_slow: bool
    """True if the run was ended at its time limit."""
    is_stopped: bool
    """True if the user stopped the run."""
    output: tuple[str, ...]
    """Last lines of the output."""
    took_s: float
    own_log: StepLog = StepLog()
    """Steps in the output or the logs of the user's program, if the program wrote no report."""
    log: str = ""
    """Path of the whole output."""

    @property
    def start(self) -> Start | None:
        """The first line of the report; None if the program wrote no such line."""
        return next((line for line in self.lines if isinstance(line, Start)), None)

    @property
    def done(self) -> Done | None:
        """The last line of the reference program's report; None if it is missing."""
        return next((line for line in self.lines if isinstance(line, Done)), None)

    @property
    def steps_s(self) -> tuple[float, ...]:
        """Seconds of each step."""
        return tuple(line.duration_s for line in self.reported)

    @property
    def reported(self) -> tuple[Step, ...]:
        """Steps in the report."""
        return tuple(line for line in self.lines if isinstance(line, Step))

    @property
    def allocated_bytes(self) -> float | None:
        """Peak of the allocated memory in the report; None if the program does not report memory."""
        return max(
            (peak for line in self._peaks if (peak := line.peak_memory_bytes) is not None), default=None
        )

    @property
    def reserved_bytes(self) -> float | None:
        """Peak of the reserved memory in the report."""
        peaks = (peak for line in self._peaks if (peak := line.peak_reserved_bytes) is not None)
        return max(peaks, default=None)

    @property
    def _peaks(self) -> tuple[Step | Done, ...]:
        return (*self.reported, *filter(None, (self.done,)))


def other_program_notes(recipe: Recipe, measured: Recipe) -> tuple[str, ...]:
    """Return a note if a run measured the reference workload instead of the recipe's own program."""
    if recipe.command.kind == measured.command.kind:
        return ()
    return ("The reference workload ran with the recipe's shapes, not the recipe's own program.",)


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
    launcher: str = "torchrun",
    logs: Path | None = None,
) -> Generator[Event, None, ShortRun]:
    """Run `steps` steps of the recipe's program with the launcher's script in `folder`.

    The reference program ends by itself. A program of the user's reports each step as a line
    `{"event": "step", "step": 1, "duration_s": 0.5}` in the file that RIGTUNE_REPORT names, and is ended
    after the last step. The output goes to `TITLE.log`, that of a job of sbatch to `TITLE-job.log`. `python`
    overrides RIGTUNE_PYTHON of the shell and the interpreter of the recipe. `limit_s` is the longest time, at
    most `most_s`, without the time in a scheduler's queue; the default is 300 s plus a multiple of the
    prediction. If a program writes no report, its steps are read from its output and from the files in
    `logs`, unless `logs` is None. Raises UsageError for a recipe that cannot be started on this machine,
    OutputError if a file cannot be written, and WorkerError if nothing can be started.
    """
    began = time.monotonic()
    folder = folder.absolute()
    is_reference = recipe.command.kind == "reference"
    log, report = folder / f"{title}.log", folder / "report.jsonl"
    arguments = ("--steps", str(steps), "--report", str(report)) if is_reference else ()
    command, output = started_by(recipe, launcher, folder, arguments, title)
    files = export_recipe(recipe, (launcher,), folder, overwrite=True, with_helper=imports_helper(recipe))
    yield from result_of(files)
    remove_file(report)

    yield Progress(stage=stage, message=shlex.join(command))
    limit_s = min(most_s, _limit_s(recipe, steps) if limit_s is None else limit_s)
    lines: list[Line] = []
    # The interpreter that the user named for this run has precedence over RIGTUNE_PYTHON of the shell.
    environment: Mapping[str, str] = {
        **({"RIGTUNE_PYTHON": python} if python else {}),
        # A trial shows by itself whether the job can run here.
        "RIGTUNE_PREFLIGHT": "0",
        "RIGTUNE_LOGS": str(folder / "logs"),
        **({} if is_reference else {REPORT_VARIABLE: str(report)}),
    }
    is_asked, is_enough, code, fault = False, False, None, ""
    own_logs = None if is_reference or logs is None else OwnLogs((output, log), logs)
    is_queued = output != log
    with waiting_job(command, environment, log, output) as job:
        while code is None and time.monotonic() - began < limit_s and not (is_asked or is_enough or fault):
            code = job.wait(_POLL_S)
            if is_queued:
                # The scheduler creates the file when the job starts.
                is_queued, began = not output.exists(), time.monotonic()
            # The report is small, so reading all of it again is simpler than reading only its new lines.
            reported = len(lines)
            lines, fault = read_report(report)
            for line in lines[reported:]:
                if isinstance(line, Step):
                    yield Progress(stage=stage, message=_step_words(line), done=line.step, total=steps)
            is_asked = is_stopped()
            count = sum(isinstance(line, Step) for line in lines)
            if own_logs is not None and not count:
                count = own_logs.read(is_last=code is not None).steps
            is_enough = not is_reference and count >= steps
        tail = tail_of(output)
    took_s = time.monotonic() - began
    own_log = StepLog() if own_logs is None else own_logs.steps
    if fault or is_enough or (own_log.samples and code == 0):
        failure = fault
    elif not is_reference and code == 0:
        failure = f"the program wrote fewer than {plural(steps, 'step')} to the file "
        failure += f"that {REPORT_VARIABLE} names"
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
        own_log=own_log,
        log=str(output),
    )


def started_by(
    recipe: Recipe, launcher: str, folder: Path, arguments: tuple[str, ...], title: str
) -> tuple[tuple[str, ...], Path]:
    """Return the command that starts the job and waits for its end, and the file with the job's output.

    Raises UsageError for a recipe that the launcher cannot start, and for a launcher that does not wait.
    """
    command: tuple[str, ...] = find_launcher(launcher).load().start(recipe, str(folder), arguments)
    output = folder / f"{title}-job.log"
    command = in_foreground(command, launcher, str(folder), str(output))
    return command, output if writes_output(command) else folder / f"{title}.log"


@contextlib.contextmanager
def waiting_job(
    command: tuple[str, ...], environment: Mapping[str, str], log: Path, output: Path
) -> Iterator[Job]:
    """Start the command of `started_by`; at the end of the context the job ends, even in a scheduler.

    `log` gets the output of the command, and `output` is the file with the job's output, from which the text
    of an earlier job is removed. Raises WorkerError if nothing can be started.
    """
    remove_file(output)
    job = Job(command, directory=Path.cwd(), environment=environment, log=log)
    has_ended = False
    try:
        with job:
            yield job
            has_ended = job.wait(0) is not None
    finally:
        # The end of the waiting command does not end the job of a scheduler.
        if (cancel := cancelling(command)) and not has_ended:
            output_of(cancel, directory=Path.cwd(), environment={}, deadline_s=_CANCEL_S)


def _step_words(line: Step) -> str:
    loss = f" loss {line.loss:.3f}," if isinstance(line.loss, float) else ""
    return f"step {line.step}:{loss} {duration(line.duration_s)}"


def _limit_s(recipe: Recipe, steps: int) -> float:
    predicted_s = recipe.predicted.step_time_s
    return _START_S + steps * (_STEP_S if predicted_s is None else _PATIENCE * predicted_s)


def cause_in(tail: str) -> str:
    """Return the first line of an output that names an error; empty if there is none."""
    return next((line for line in tail.splitlines() if _CAUSE.search(line)), "")


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
    cause = cause_in(tail)
    if code:
        return f"{cause} (exit code {code})" if cause else f"exit code {code}"
    return cause or "it ended without a report"
