"""Run one command and end everything that it started.

`assistant.processes.runner` starts this file as a separate script, with the standard library only:

python guard.py GRACE_S COMMAND...

Standard input shows whether rigtune still needs the command: when rigtune closes the other end, or is killed,
the command and all its descendants get SIGTERM, and SIGKILL after GRACE_S seconds. Descendants are found even
if they started new sessions, as torch's agent does for its ranks: this process adopts every orphaned
descendant (PR_SET_CHILD_SUBREAPER). The command's output goes to the guard's standard error. The exit status
is the command's, or 128 + N after signal N.
"""

import contextlib
import ctypes
import os
import select
import signal
import sys
import time
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
"""Options of prctl(2), from linux/prctl.h."""
LIFELINE = 0
CHUNK_BYTES = 4096
"""Bytes of one read; what is left is read the next time."""
KILL_AGAIN_S = 0.1
"""Time until descendants that started meanwhile are killed, too."""


def main(arguments: list[str]) -> int:
    grace_s, command = float(arguments[0]), arguments[1:]
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    wake = wake_on_signals()
    child = start(command)
    status: int | None = None
    while status is None:
        readable, _, _ = select.select([LIFELINE, wake], [], [])
        if wake in readable and signal.SIGCHLD not in os.read(wake, CHUNK_BYTES):
            break  # rigtune closed the pipe, or a signal requested the end
        if LIFELINE in readable and not os.read(LIFELINE, CHUNK_BYTES):
            break
        status = reap().get(child)
    if status is None:
        signal_tree(child, signal.SIGTERM)
        status = wait_for_tree(child, wake, time.monotonic() + grace_s)
    while True:
        signal_tree(child, signal.SIGKILL)
        ended = reap()
        status = ended.get(child, status)
        if not has_children():
            return 128 - status if status is not None and status < 0 else status or 0
        select.select([wake], [], [], KILL_AGAIN_S)


def prctl(option: int, value: int) -> None:
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None, use_errno=True).prctl(option, value)


def wake_on_signals() -> int:
    """Return a file descriptor from which the numbers of arriving signals can be read."""
    receive, send = os.pipe()
    os.set_blocking(send, False)
    signal.set_wakeup_fd(send, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    return receive


def start(command: list[str]) -> int:
    """Start the command in a new session; the kernel ends it when this process ends."""
    guard = os.getpid()
    child = os.fork()
    if child:
        return child
    try:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == guard:  # otherwise the guard has already ended
            os.setsid()
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(2, 1)
            os.execvp(command[0], command)  # noqa: S606 - the command is an argument list
    except OSError as error:
        os.write(2, f"cannot start {command[0]}: {error.strerror}\n".encode("utf-8", "replace"))
    os._exit(127)


def reap() -> dict[int, int]:
    """Return the exit code of each child that has ended, by process id; the code is -N after signal N."""
    ended: dict[int, int] = {}
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            ended[pid] = os.waitstatus_to_exitcode(status)
    return ended


def has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def wait_for_tree(child: int, wake: int, deadline: float) -> int | None:
    """Wait until this process has no descendants left, or until the deadline.

    Return the exit code of `child` if it ended.
    """
    status: int | None = None
    while True:
        status = reap().get(child, status)
        remaining = deadline - time.monotonic()
        if remaining <= 0 or not has_children():
            return status
        select.select([wake], [], [], remaining)
        with contextlib.suppress(BlockingIOError):
            os.set_blocking(wake, False)
            os.read(wake, CHUNK_BYTES)


def signal_tree(child: int, number: int) -> None:
    """Send the signal to the command's process group and to every descendant."""
    for send, pid in ((os.killpg, child), *((os.kill, pid) for pid in descendants())):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            send(pid, number)


def descendants() -> list[int]:
    """Return all descendants of this process; none on systems without procfs."""
    me = os.getpid()
    parent_of = parents()
    below = []
    for pid in parent_of:
        line = [pid]
        while line[-1] in parent_of and parent_of[line[-1]] not in line:
            line.append(parent_of[line[-1]])
        if pid != me and me in line:
            below.append(pid)
    return below


def parents() -> dict[int, int]:
    """Return the parent of every visible process."""
    parent_of: dict[int, int] = {}
    with contextlib.suppress(OSError):
        for directory in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError, IndexError):
                # The command's name is in parentheses, and may itself contain parentheses.
                parent_of[int(directory.name)] = int(
                    (directory / "stat").read_bytes().rpartition(b")")[2].split()[1]
                )
    return parent_of


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
