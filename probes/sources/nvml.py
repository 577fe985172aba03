"""NVML, asked through a child process that can be killed.

A call into a wedged driver may never return and cannot be interrupted from inside, and a broken library takes its process
down. So the library lives in `nvml_child.py`; here are the deadlines and the translation of its errors.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import selectors
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, cast

import msgspec

from probes.patterns import pattern
from probes.record import Reason, Unknown
from probes.sources.base import NvmlValue
from probes.sources.process import close_pipes, kill_group, signal_group

_LIBRARY = "libnvidia-ml.so.1"
_LIBRARY_FOLDERS = ("/lib", "/usr/lib", "/lib64", "/usr/lib64", "/usr/local/lib")
_CALL = pattern(r"nvml(Device|System)Get[A-Za-z0-9_]*")
_REASONS = {
    3: Reason.NOT_SUPPORTED,
    4: Reason.PERMISSION,
    9: Reason.TOOL_MISSING,
    10: Reason.TIMEOUT,
    12: Reason.TOOL_MISSING,
    13: Reason.TOOL_MISSING,
}
"""nvmlReturn_t (nvml.h): NOT_SUPPORTED, NO_PERMISSION, DRIVER_NOT_LOADED, TIMEOUT, LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND."""


class _Answer(msgspec.Struct):
    """One line of the child."""

    value: Any = None
    """An `NvmlValue`; msgspec cannot resolve that recursive alias."""
    code: int | None = None
    words: str | None = None


class _LateError(Exception):
    """The child did not answer in time."""


class _GoneError(Exception):
    """The child ended instead of answering."""


class NvmlClient:
    """Asks NVML. Threads may share one; their calls are answered one after the other.

    The child starts at the first call, and not at all where the library is missing. After a call that missed its deadline
    every later call is `Unknown` (timeout) at once. A call that crashed the library is not tried again; others are, in a
    new child.
    """

    def __init__(self, *, timeout_s: float = 5.0, start_timeout_s: float = 20.0) -> None:
        """`start_timeout_s` bounds the first call: without persistence mode the driver first wakes every GPU."""
        self._timeout_s = timeout_s
        self._start_timeout_s = start_timeout_s
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._buffer = b""
        self._dead: Unknown | None = None
        self._closed = False
        self._crashed: dict[str, Unknown] = {}

    def call(self, call: str, *args: int) -> NvmlValue | Unknown:
        """The result of an NVML `Get` call by its name in pynvml, devices by index. ValueError for any other call."""
        if not _CALL.fullmatch(call):
            raise ValueError(f"{call} is not a read-only NVML call")
        with self._lock:
            if self._closed:
                return Unknown(Reason.ERROR, "the NVML process was closed")
            if self._dead is not None:
                return self._dead
            if call in self._crashed:
                return self._crashed[call]
            return self._ask(call, args)

    def close(self) -> None:
        """End the child, in the middle of a call too; later calls are `Unknown`."""
        self._closed = True
        child = self._child
        if child is not None:
            signal_group(child)  # whoever waits for its answer holds the lock
        with self._lock:
            self._stop()

    def _ask(self, call: str, args: tuple[int, ...]) -> NvmlValue | Unknown:
        timeout_s = self._timeout_s
        if self._child is None:
            self._dead = self._start()
            if self._dead is not None:
                return self._dead
            timeout_s = self._start_timeout_s
        try:
            line = self._exchange(msgspec.json.encode({"call": call, "args": args}) + b"\n", time.monotonic() + timeout_s)
            answer = msgspec.json.decode(line, type=_Answer)
        except _LateError:
            self._stop()
            self._dead = Unknown(Reason.TIMEOUT, f"{call} did not return within {timeout_s:g} s")
            return self._dead
        except _GoneError:
            self._crashed[call] = Unknown(Reason.ERROR, f"the NVML process {self._stop()} in {call}")
            return self._crashed[call]
        except msgspec.DecodeError as error:
            return Unknown(Reason.UNPARSABLE, f"{call}: {error}")
        if answer.words is not None:
            return Unknown(_REASONS.get(answer.code or 0, Reason.ERROR), f"{call}: {answer.words}")
        return cast("NvmlValue", answer.value)

    def _start(self) -> Unknown | None:
        """Start the child; why it cannot be started, or None."""
        if not _library_exists():
            return Unknown(Reason.TOOL_MISSING, f"{_LIBRARY} is not installed: there is no NVIDIA driver here")
        package = importlib.util.find_spec("pynvml")
        if package is None or package.origin is None:
            return Unknown(Reason.TOOL_MISSING, "the Python package nvidia-ml-py is not installed")
        program = str(Path(__file__).with_name("nvml_child.py"))
        try:
            self._child = subprocess.Popen(
                (sys.executable, "-I", "-S", program, str(Path(package.origin).parent)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            return Unknown(Reason.ERROR, f"the NVML process cannot be started: {error.strerror}")
        self._buffer = b""
        if self._closed:
            signal_group(self._child)
        return None

    def _exchange(self, request: bytes, deadline: float) -> bytes:
        """The child's next line after `request`."""
        child = self._child
        if child is None or child.stdin is None or child.stdout is None:
            raise _GoneError
        with contextlib.suppress(BrokenPipeError):
            os.write(child.stdin.fileno(), request)
        with selectors.DefaultSelector() as selector:
            selector.register(child.stdout.fileno(), selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not selector.select(max(deadline - time.monotonic(), 0)):
                    raise _LateError
                chunk = os.read(child.stdout.fileno(), 1 << 16)
                if not chunk:
                    raise _GoneError
                self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _stop(self) -> str:
        """End the child; how it ended, in words."""
        child, self._child = self._child, None
        if child is None:
            return "was not running"
        with contextlib.suppress(subprocess.TimeoutExpired):
            close_pipes(child)
            child.wait(0.5)
        if child.returncode is None:
            kill_group(child)
        code = child.returncode
        return f"died of signal {-code}" if code is not None and code < 0 else f"ended with exit code {code}"


def _library_exists() -> bool:
    """Whether the dynamic linker can find NVML, by the places of ld.so(8) and without loading anything into this process."""
    folders = (*os.environ.get("LD_LIBRARY_PATH", "").split(":"), *_LIBRARY_FOLDERS)
    if any(folder and Path(folder, _LIBRARY).exists() for folder in folders):
        return True
    try:
        return _LIBRARY.encode() in Path("/etc/ld.so.cache").read_bytes()
    except OSError:
        return False
