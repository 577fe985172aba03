"""Run trials of a training step, each in its own process, so that running out of memory ends only that trial.

    python -m rigtune_worker.trial

The first line of standard input is the request of the benchmark; each further line is a trial, a JSON object
with `case`, `budget_s` and `deadline_s`. The answer to each line is a line on standard output with `outcome`:

    ready          the answer to the first line
    fits           with `timing` (durations_s, warmup_calls, calls_per_sample) and `figures`
    out_of_memory  with `message`; also if the kernel killed the trial
    too_slow       not complete at its deadline
    unsupported, crashed   with `message`

This process imports torch once and forks for each trial; it never uses a GPU itself, because CUDA does not
survive a fork.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from typing import Any, BinaryIO

import torch

from .memory_limit import limit_memory, prefer_to_be_killed
from .own import ITEMS, OwnStep
from .parallel import choose_device, process_group
from .protocol import CaseError, SetupError, dump_line, is_out_of_memory
from .steps import reference_step, time_own_step, time_step
from .worker_process import die_with_parent, run_and_leave

LAUNCHER_VARIABLES = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RUN_ID",
)
"""Environment variables of the job to which the worker belongs.

A trial runs without these variables, because it trains alone.
"""

DIED = "the process that starts the trials has died"


class Trials:
    """The worker's side: a context manager that starts the process of the trials and ends it."""

    def __init__(self, request: dict[str, Any]) -> None:
        environment = {name: value for name, value in os.environ.items() if name not in LAUNCHER_VARIABLES}
        # A query for devices must not start CUDA before the fork (torch's page on CUDA environment
        # variables).
        environment["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
        self.process = subprocess.Popen(
            (sys.executable, "-m", "rigtune_worker.trial"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )
        self.send(request)
        self.answer()  # torch is imported

    def send(self, value: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(value) + "\n")
        self.process.stdin.flush()

    def attempt(self, case: dict[str, Any], budget_s: float, deadline_s: float) -> dict[str, Any]:
        """Return the answer to one trial. Raises CaseError if the process that starts trials has died."""
        try:
            self.send({"case": case, "budget_s": budget_s, "deadline_s": deadline_s})
        except OSError:
            raise CaseError("crashed", DIED) from None
        return self.answer()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        try:
            return json.loads(self.process.stdout.readline())
        except ValueError:
            raise CaseError("crashed", DIED) from None

    def __enter__(self) -> Trials:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def main() -> int:
    die_with_parent()
    # All other output, such as that of the user's step, goes to the log.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    # Python 3.12 warns that numpy's threads do not survive a fork; none of these threads has a lock at this
    # point.
    warnings.filterwarnings("ignore", category=DeprecationWarning, message=".*fork.*")
    # The first optimizer imports a large part of torch. Without this line, each trial would import it again.
    torch.optim.AdamW([torch.zeros(1, requires_grad=True)])
    request = json.loads(sys.stdin.readline())
    dump_line(answers, {"outcome": "ready"})
    for line in sys.stdin:
        dump_line(answers, run_apart(request, json.loads(line)))
    return 0


def run_apart(request: dict[str, Any], trial: dict[str, Any]) -> dict[str, Any]:
    """Run one trial in a child, and return its outcome."""
    with tempfile.TemporaryFile() as result:
        child = os.fork()
        if child == 0:
            be_child(request, trial, result)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        result.seek(0)
        written = result.read()
    if code == -signal.SIGALRM:
        return {"outcome": "too_slow", "message": f"not over after {trial['deadline_s']:.0f} s"}
    if code == -signal.SIGKILL:
        return {
            "outcome": "out_of_memory",
            "message": "killed, probably by the kernel because the host's memory is full",
        }
    if code < 0:
        return {"outcome": "crashed", "message": f"ended by signal {-code} ({signal.Signals(-code).name})"}
    if not written:
        return {"outcome": "crashed", "message": f"ended with exit code {code}"}
    return json.loads(written)


def be_child(request: dict[str, Any], trial: dict[str, Any], result: BinaryIO) -> None:
    """Run the trial and end this process."""
    # The default action ends the process even if it hangs outside Python.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(max(1, math.ceil(trial["deadline_s"])))

    def main() -> int:
        die_with_parent()
        prefer_to_be_killed()
        # Keep the user's code from reading the remaining trials.
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        result.write(json.dumps(run(request, trial)).encode())
        result.flush()
        return 0

    try:
        run_and_leave(main)
    finally:
        os._exit(1)


def run(request: dict[str, Any], trial: dict[str, Any]) -> dict[str, Any]:
    case, settings = trial["case"], request["settings"]
    try:
        device = choose_device(request["device"])
        with process_group(request["backend"], device):
            limit_memory(device, int(settings.get("memory_limit_bytes", 0)))
            if "step" not in case:
                timing, figures = time_step(
                    lambda: reference_step(case, request["model"], device), device, trial["budget_s"]
                )
            else:
                own = OwnStep(case["step"], str(settings.get("folder", "")))
                if not own.takes_micro_batch:
                    raise SetupError(f"{own.target} takes no micro_batch")
                timing, figures, items = time_own_step(own, device, trial["budget_s"], case["micro_batch"])
                figures.update(zip(ITEMS, items))
    except (CaseError, SetupError) as error:
        return {"outcome": getattr(error, "kind", "unsupported"), "message": str(error)}
    except Exception as error:
        if is_out_of_memory(error):
            return {"outcome": "out_of_memory", "message": str(error).strip().partition("\n")[0][:300]}
        traceback.print_exc()
        return {"outcome": "crashed", "message": f"{type(error).__name__}: {error}"[:300]}
    return {"outcome": "fits", "timing": list(timing), "figures": figures}


if __name__ == "__main__":
    run_and_leave(main)
