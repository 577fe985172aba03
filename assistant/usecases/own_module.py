"""Count the work of the user's own module, in the training interpreter and on the meta device."""

import tempfile
from collections.abc import Generator, Iterable
from pathlib import Path

from assistant.processes.interpreter import choose_interpreter, worker_environment
from assistant.processes.runner import output_of, worker_variables
from assistant.usecases.events import Event, StageStarted, stage
from probes.base.errors import WorkerError
from probes.base.units import duration
from probes.collect.collecting import CollectOptions, assemble, gather
from probes.collect.collector_table import PROBES
from probes.facts import TrainingPython
from probes.sources.base import Source
from recipes.job.models.counted import counted_model
from recipes.job.workload import VisionModel

_DEADLINE_S = 300.0
"""Time limit for one module; importing torch from a network file system without caches may take a minute."""
_KILLED = 128
"""Exit codes above this number are 128 plus the number of a signal."""


@stage("count")
def count_modules(
    targets: Iterable[str], source: Source, options: CollectOptions, *, deadline_s: float = _DEADLINE_S
) -> Generator[Event, None, dict[str, VisionModel]]:
    """Count the work of each of `targets`, once; the last event's result is the models by name.

    A target is `module:function` or `file.py:function`. Relative names start in the folder of `options`.
    Raises InterpreterError if no interpreter with torch is found, InputError if the user's function fails,
    and WorkerError if counting takes longer than `deadline_s` or is killed.
    """
    training = TrainingPython()
    if options.python is None:
        # Only the interpreter is needed, so the rest of the machine is not read.
        rows = [row for row in PROBES if row.id == "interpreter"]
        training = assemble(source.title, list(gather(source, options, rows))).training
    python = choose_interpreter(training, options.python).path
    models: dict[str, VisionModel] = {}
    for target in dict.fromkeys(targets):
        yield StageStarted(stage="count", title=f"Counting {target}")
        models[target] = _counted(python, target, options.directory, deadline_s)
    return models


def _counted(python: str, target: str, folder: str, deadline_s: float) -> VisionModel:
    with tempfile.TemporaryDirectory(prefix="rigtune-count-") as private:
        answer = Path(private) / "counts.json"
        try:
            code, output = output_of(
                (python, "-m", "rigtune_worker.count", target, "--out", str(answer), "--folder", folder),
                directory=Path(folder),
                environment={**worker_environment(), **worker_variables(threads=1)},
                deadline_s=deadline_s,
            )
        except (OSError, ValueError) as error:
            raise WorkerError(
                f"{target} cannot be counted: {python} does not start: {error}",
                "name another interpreter: --python PATH",
            ) from error
        if code is None:
            raise WorkerError(
                f"counting {target} did not end within {duration(deadline_s)} and was stopped",
                "build a smaller module, or a module without loops over its input",
            )
        if answer.is_file() and (text := answer.read_bytes()):
            return counted_model(text, target)
    lines = output.decode("utf-8", "replace").strip().splitlines()
    words = f": {lines[-1][:200]}" if lines else ""
    if code > _KILLED:
        raise WorkerError(
            f"counting {target} was killed by signal {code - _KILLED}{words}",
            "check whether memory ran out; the function must build the module on the device that it is given",
        )
    raise WorkerError(
        f"counting {target} ended with exit code {code} and no answer{words}",
        "make sure that the function does not exit the process",
    )
