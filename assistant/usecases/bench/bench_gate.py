"""Detect what prevents benchmarks: no torch, GPUs that torch cannot use, or other users of the machine."""

import sys

from assistant.processes.interpreter import Interpreter, choose_interpreter
from assistant.processes.runner import busy_gpus, busy_host
from probes.base.errors import InterpreterError
from probes.base.record import Record
from probes.base.units import plural
from probes.bench.bench_requests import BenchRequest
from probes.facts import MachineFacts
from recipes.machine.ranks import training_gpus

_OWN_PYTHON = sys.executable


class Hindrance(Record, kw_only=True):
    """The reason why something cannot be measured."""

    kind: str
    """The kind of the `BenchFailure`."""
    message: str


class Gate(Record, kw_only=True):
    """The training interpreter, and what it cannot run."""

    interpreter: Interpreter | None
    hindrance: Hindrance | None = None
    """The reason why benchmarks cannot run; None if nothing prevents them.

    If there is no interpreter, the reason applies to all benchmarks that need torch; otherwise to the
    benchmarks that need GPUs.
    """

    def python_for(self, request: BenchRequest) -> str | Hindrance:
        """Return the interpreter for `request`; rigtune's own can run requests that do not need torch."""
        if self.interpreter is None:
            return self.hindrance if request.needs_torch and self.hindrance is not None else _OWN_PYTHON
        if self.hindrance is not None and request.needs_torch and request.device == "cuda":
            return self.hindrance
        return self.interpreter.path


def gate_of(facts: MachineFacts, python: str | None) -> Gate:
    """Start the user's interpreter (or the one that the probe found) once, and return what it can run."""
    try:
        interpreter = choose_interpreter(facts.training, python)
    except InterpreterError as error:
        hint = f": {error.hint}" if error.hint else ""
        message = " ".join(f"{error.message}{hint}".split())
        return Gate(interpreter=None, hindrance=Hindrance(kind="no_interpreter", message=message))
    gpus = training_gpus(facts)
    if not gpus or interpreter.devices:
        return Gate(interpreter=interpreter)
    built = f"built for CUDA {interpreter.cuda}" if interpreter.cuda else "built without CUDA"
    why = f": {interpreter.cuda_error}" if interpreter.cuda_error else ""
    message = (
        f"torch {interpreter.torch} in {interpreter.path} ({built}) "
        f"can use none of {plural(len(gpus), 'GPU')}{why}"
    )
    return Gate(interpreter=interpreter, hindrance=Hindrance(kind="unsupported", message=message))


def busy_with(facts: MachineFacts) -> str:
    """Return the programs that use the GPUs (or the CPUs if there are no GPUs) as text; empty for none."""
    return busy_gpus(facts) if training_gpus(facts) else busy_host()
