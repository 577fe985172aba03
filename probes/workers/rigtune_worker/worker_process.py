"""The life of a worker process: it ends with its launcher, and without taking the interpreter down."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import traceback
from typing import Callable, Optional

PR_SET_PDEATHSIG = 1
"""linux/prctl.h"""


def die_with_parent(parent: Optional[int] = None) -> None:
    """Ask the kernel to kill this process when its parent ends, so that no rank outlives a killed launcher
    (Linux).

    Who forks gives its own number as `parent`: it may have ended before the new process asks.
    """
    if not sys.platform.startswith("linux"):
        return
    parent = os.getppid() if parent is None else parent
    try:
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    except (OSError, AttributeError):
        return
    if os.getppid() != parent:
        sys.exit(1)


def run_and_leave(main: Callable[[], int]) -> None:
    """Run `main` and end this process with its exit code, 1 for an exception, at once.

    Python's own end is no safe place for torch's threads: one of gloo that still holds the last collective's
    tensor aborts the process (SIGABRT after all work is done), and a rank that failed would wait in NCCL's
    for ranks that wait for it.
    """
    code = 1
    try:
        code = main()
    except SystemExit:
        raise  # wrong usage: nothing of torch runs yet
    except BaseException:
        tell_exception()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def tell_exception() -> None:
    """Print the exception being handled to the log, unless its disk is full."""
    with contextlib.suppress(OSError, ValueError):
        traceback.print_exc()
