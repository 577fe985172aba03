"""Run the commands of a policy's site checks on this machine.

Each command runs as the caller, in the root folder, under a guard that ends all processes that the command
started. A policy or a program that others can write is not trusted (`probes/reading/pythons.py`).
"""

import contextlib
import os
import queue
import time
from pathlib import Path

from assistant.processes.runner import output_of
from probes.base.errors import InputError
from probes.base.record import Reason, Unknown, first_unknown
from probes.judging.policies.policy import SiteCheck, SiteOutcome
from probes.reading.pythons import caller_uid, refusal
from probes.sources.base import Source, start_thread
from probes.sources.commands import path_of_program

AT_ONCE = 8
"""Number of commands that run at the same time."""
_SLACK_S = 30.0
"""Time to check permissions, and to kill the processes that a command started."""
_MOST_LINES = 1000
_NOT_EXECUTED = 127
"""Exit code of the guard if it cannot start a program; shells use the same code."""


def require_own(path: Path, source: Source) -> None:
    """Raise InputError unless only the caller and root can write the policy that names the commands."""
    why = _refusal(source, str(path.absolute()))
    if why:
        raise InputError(
            f"{path}: its site checks are not run: {why}",
            "make the policy and the folders above it writable only for yourself or root, or add "
            "--skip site-checks",
        )


def run_site_checks(
    checks: tuple[SiteCheck, ...], source: Source, *, budget_s: float | None = None
) -> tuple[SiteOutcome, ...]:
    """Run every command, several at once, and return the results in the order of `checks`.

    A command has its own deadline, and at most the remaining part of `budget_s`.
    """
    ends = None if budget_s is None else time.monotonic() + budget_s
    waiting: queue.SimpleQueue[SiteCheck] = queue.SimpleQueue()
    results: queue.SimpleQueue[SiteOutcome | BaseException] = queue.SimpleQueue()
    for check in checks:
        waiting.put(check)

    def work() -> None:
        while True:
            try:
                check = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                results.put(_outcome(check, source, ends))
            except BaseException as error:  # noqa: BLE001 - raised again in the caller
                results.put(error)

    for _ in range(min(AT_ONCE, len(checks))):
        start_thread(work)
    rounds = -(-len(checks) // AT_ONCE)
    gives_up = time.monotonic() + rounds * (max((check.timeout_s for check in checks), default=0) + _SLACK_S)
    late = Unknown(Reason.TIMEOUT, "the command and its guard do not end")
    outcomes = {check.name: SiteOutcome(name=check.name, exit_code=late) for check in checks}
    with contextlib.suppress(queue.Empty):
        for _ in checks:
            result = results.get(timeout=max(gives_up - time.monotonic(), 0))
            if isinstance(result, BaseException):
                raise result
            outcomes[result.name] = result
    return tuple(outcomes.values())


def _outcome(check: SiteCheck, source: Source, ends: float | None) -> SiteOutcome:
    left_s = check.timeout_s if ends is None else min(check.timeout_s, ends - time.monotonic())
    program = path_of_program(check.command[0])
    unknown = _unusable(check.command[0], program, source)
    if unknown is None and left_s <= 0:
        unknown = Unknown(Reason.TIMEOUT, "no time was left of --budget")
    if unknown is not None or program is None:
        return SiteOutcome(name=check.name, exit_code=unknown or Unknown(Reason.TOOL_MISSING))
    argv = (program, *check.command[1:])
    try:
        code, output = output_of(argv, directory=Path("/"), environment={"LC_ALL": "C"}, deadline_s=left_s)
    except (OSError, ValueError) as error:
        return SiteOutcome(name=check.name, exit_code=Unknown(Reason.ERROR, f"cannot start: {error}"))
    lines = tuple(line for line in output.decode("utf-8", "replace").splitlines() if line.strip())
    if code is None:
        return SiteOutcome(
            name=check.name,
            exit_code=Unknown(Reason.TIMEOUT, f"{check.command[0]} took longer than {left_s:.3g} s"),
        )
    if code == _NOT_EXECUTED and lines and lines[-1].startswith(f"cannot start {program}: "):
        return SiteOutcome(name=check.name, exit_code=Unknown(Reason.ERROR, lines[-1]))
    return SiteOutcome(name=check.name, exit_code=code, lines=lines[-_MOST_LINES:])


def _unusable(name: str, program: str | None, source: Source) -> Unknown | None:
    """Return why a program cannot or must not be started; None if it may be."""
    if program is None or not os.path.exists(program):  # noqa: PTH110 - a path with odd characters is False
        return Unknown(Reason.TOOL_MISSING, f"{name} is not installed")
    if os.path.isdir(program) or not os.access(program, os.X_OK):  # noqa: PTH112
        return Unknown(Reason.PERMISSION, f"{name} is not executable for this user")
    why = _refusal(source, program)
    return Unknown(Reason.PERMISSION, f"not started: {why}") if why else None


def _refusal(source: Source, path: str) -> str:
    caller = caller_uid(source)
    why = caller if isinstance(caller, Unknown) else refusal(source, path, caller)
    unknown = first_unknown(why)
    return f"who can write {path} is unknown ({unknown.words})" if unknown else str(why)
