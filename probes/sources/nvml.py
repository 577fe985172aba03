"""NVML, called through a child process that can be killed.

A call into a wedged driver may never return and cannot be interrupted from inside, and a broken library
crashes its process. Therefore the library is loaded in `nvml_child.py`; this module has the deadlines and
translates the errors.
"""

import contextlib
import importlib.util
import os
import select
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from probes.base.patterns import pattern
from probes.base.record import Reason, Unknown
from probes.sources.base import NvmlValue
from probes.sources.commands import close_pipes, kill_group, signal_group

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
"""nvmlReturn_t (nvml.h): NOT_SUPPORTED, NO_PERMISSION, DRIVER_NOT_LOADED, TIMEOUT, LIBRARY_NOT_FOUND,
FUNCTION_NOT_FOUND.
"""


_PAIRS = frozenset({"nvmlDeviceGetTopologyCommonAncestor", "nvmlDeviceGetP2PStatus"})
"""Calls about two devices."""
_FIRST_OF_DEVICE = "nvmlDeviceGetPciInfo"
"""Call that is made for each device before calls about pairs, so that a hang identifies one device."""
_FIRST = ("nvmlDeviceGetCount", ())
"""The first question to a new child process, which makes it initialise the library."""
_MORE_TIME = 2
"""Factor for the deadline of a second attempt."""
LONGEST_WAIT_S = 30.0
"""Total seconds for all calls that miss their deadline.

This value is a choice: without persistence mode, a driver initialises eight GPUs in 24 s, because each takes
one to three seconds for the scrubbing of its memory (NVIDIA Driver Persistence guide, read 2026-11).
"""

_Question = tuple[str, tuple[int, ...]]
"""An NVML call and its arguments."""


class _Answer(msgspec.Struct):
    """A line that the child writes."""

    value: Any = None
    """An `NvmlValue`; msgspec cannot resolve that recursive alias."""
    code: int | None = None
    words: str | None = None


_DECODER = msgspec.json.Decoder(_Answer)


class _LateError(Exception):
    """The child did not answer in time."""


class _GoneError(Exception):
    """The child ended instead of answering."""


class NvmlClient:
    """Calls NVML through a child process. Threads may share a client; their calls are answered in turn.

    The child process starts at the first call, or never if the library is missing. If a call misses its
    deadline, the child is ended, and a new child repeats the call once, with more time. A device that misses
    two deadlines is not queried again, but other devices are. A call about no device, or about two devices,
    is not repeated after two missed deadlines, but other calls are made. The client makes no more calls if
    the first call, which initialises the library, crashes or misses two deadlines, or if late calls together
    exceed `LONGEST_WAIT_S`. Any other call that crashed the library is not repeated, but other calls use a
    new child. The child answers in the order of the questions, so many questions may be pending (see
    `expect`).
    """

    def __init__(self, *, timeout_s: float = 5.0, start_timeout_s: float = 10.0) -> None:
        """Store the deadlines in seconds.

        `start_timeout_s` bounds the first call, in which some drivers initialise every GPU.
        """
        self._timeout_s = timeout_s
        self._start_timeout_s = start_timeout_s
        self._left_s = LONGEST_WAIT_S
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._buffer = b""
        self._dead: Unknown | None = None
        self._closed = False
        self._crashed: dict[str, Unknown] = {}
        self._late: set[int | str] = set()
        """Devices, and names of calls without a single device, that missed a deadline once."""
        self._hung: dict[int | str, Unknown] = {}
        """Devices and names of calls that missed two deadlines."""
        self._asked: dict[int, dict[_Question, None]] = {}
        """Questions about each device so far, in order."""
        self._pending: deque[_Question] = deque()
        """Questions that the child has not answered yet."""
        self._early: dict[_Question, bytes] = {}
        """Answers that arrived before their call."""

    def call(self, call: str, *args: int) -> NvmlValue | Unknown:
        """Return the result of an NVML `Get` call by its name in pynvml; ValueError for any other call."""
        if not _CALL.fullmatch(call):
            raise ValueError(f"{call} is not a read-only NVML call")
        with self._lock:
            if self._closed:
                return Unknown(Reason.ERROR, "the NVML process was closed")
            return self._ask(call, args)

    def expect(self, device: int, like: int) -> None:
        """Send for `device` all questions that were asked about the device `like`; do not wait for answers.

        One round trip replaces eighty. `call` returns the answers, each with its own deadline; unused answers
        are dropped at the next `expect`.
        """
        with self._lock:
            if self._child is None:
                return
            if device in self._hung:
                return
            asked = self._asked.get(device, {})
            questions = [
                (call, (device, *args[1:]))
                for call, args in self._asked.get(like, {})
                if call not in self._crashed
            ]
            self._early.clear()
            self._send([question for question in questions if question not in asked])

    def close(self) -> None:
        """End the child, even in the middle of a call; later calls return `Unknown`."""
        self._closed = True
        child = self._child
        if child is not None:
            signal_group(child)  # the thread that waits for an answer holds the lock
        with self._lock:
            self._stop()

    def _ask(self, call: str, args: tuple[int, ...]) -> NvmlValue | Unknown:
        if call in _PAIRS:
            for device in args[:2]:
                if device not in self._asked and device not in self._hung:
                    self._ask(_FIRST_OF_DEVICE, (device,))
        while True:
            silent = self._silence(call, args)
            if silent is not None:
                return silent
            try:
                answer = _DECODER.decode(self._line((call, args)))
            except _LateError:
                continue
            except _GoneError:
                # The crash may belong to an earlier pending question.
                guilty = self._pending[0][0]
                crash = Unknown(Reason.ERROR, f"the NVML process {self._stop()} in {guilty}")
                self._crashed[guilty] = crash
                self._dead = crash if guilty == _FIRST[0] else None
                continue
            except msgspec.DecodeError as error:
                return Unknown(Reason.UNPARSABLE, f"{call}: {error}")
            if answer.words is not None:
                return Unknown(_REASONS.get(answer.code or 0, Reason.ERROR), f"{call}: {answer.words}")
            return cast("NvmlValue", answer.value)

    def _silence(self, call: str, args: tuple[int, ...]) -> Unknown | None:
        """Return why a question is not asked, or None if the question may be asked."""
        subjects = (call, *_devices(call, args))
        hung = next((self._hung[subject] for subject in subjects if subject in self._hung), None)
        return hung or self._dead or self._crashed.get(call)

    def _line(self, question: _Question) -> bytes:
        """Return the answer to `question`; start a child if needed. Raises _LateError, _GoneError."""
        if self._child is None:
            self._dead = self._start()
            if self._dead is not None:
                raise _LateError
            line = self._line_within(_FIRST, self._start_timeout_s)
            if question == _FIRST:
                return line
        return self._line_within(question, self._timeout_s)

    def _line_within(self, question: _Question, timeout_s: float) -> bytes:
        """Return the answer to `question`; note a missed deadline and raise _LateError."""
        culprit = _culprit(question)
        if culprit in self._late:
            timeout_s *= _MORE_TIME
        begun = time.monotonic()
        try:
            return self._line_for(question, begun + min(timeout_s, self._left_s))
        except _LateError:
            waited_s = time.monotonic() - begun
            self._note_late(self._pending[0], waited_s)
            raise

    def _note_late(self, question: _Question, waited_s: float) -> None:
        """End the child that did not answer `question` in time; decide which questions are not repeated."""
        self._stop()
        self._left_s -= waited_s
        culprit = _culprit(question)
        late_before = sorted(f"GPU{subject}" for subject in self._late if isinstance(subject, int))
        if culprit in self._late:
            words = f"{question[0]} did not return within {waited_s:.0f} s, even in a second attempt"
            silence = self._hung[culprit] = Unknown(Reason.TIMEOUT, words)
            if question == _FIRST:
                # A device that hangs in the kernel may prevent a new start of the driver.
                self._hung.update(dict.fromkeys(self._late, silence))
                self._dead = _not_asked(late_before) if late_before else silence
        self._late.add(culprit)
        if self._left_s <= 0 and self._dead is None:
            self._dead = _not_asked(late_before or [question[0]])

    def _start(self) -> Unknown | None:
        """Start the child; return the reason if the start fails, otherwise None."""
        if not _library_exists():
            return Unknown(
                Reason.TOOL_MISSING, f"{_LIBRARY} is not installed: there is no NVIDIA driver here"
            )
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
        self._pending.clear()
        if self._closed:
            signal_group(self._child)
        return None

    def _line_for(self, question: _Question, deadline: float) -> bytes:
        """Return the child's answer to `question`, which is sent now unless already pending."""
        if question in self._early:
            return self._early.pop(question)
        if question not in self._pending:
            self._send((question,))
        while True:
            line = self._next_line(deadline)
            answered_question = self._pending.popleft()
            if answered_question == question:
                return line
            self._early[answered_question] = line

    def _send(self, questions: Iterable[_Question]) -> None:
        child = self._child
        if child is None or child.stdin is None:
            raise _GoneError
        lines = bytearray()
        for call, args in questions:
            lines += msgspec.json.encode({"call": call, "args": args}) + b"\n"
            self._pending.append((call, args))
            if args and call not in _PAIRS:
                self._asked.setdefault(args[0], {})[call, args] = None
        with contextlib.suppress(BrokenPipeError):
            os.write(child.stdin.fileno(), lines)

    def _next_line(self, deadline: float) -> bytes:
        child = self._child
        if child is None or child.stdout is None:
            raise _GoneError
        descriptor = child.stdout.fileno()
        while b"\n" not in self._buffer:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            if not poll.poll(max(deadline - time.monotonic(), 0) * 1000):
                raise _LateError
            chunk = os.read(descriptor, 1 << 16)
            if not chunk:
                raise _GoneError
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _stop(self) -> str:
        """End the child and return a phrase about how it ended."""
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


def _not_asked(late: Sequence[str]) -> Unknown:
    return Unknown(Reason.NOT_RECORDED, f"not queried, because {', '.join(late)} did not answer in time")


def _devices(call: str, args: tuple[int, ...]) -> tuple[int, ...]:
    """Return the devices to which a question refers."""
    if not call.startswith("nvmlDevice"):
        return ()
    return args[: 2 if call in _PAIRS else 1]


def _culprit(question: _Question) -> int | str:
    """Return the cause to assume if `question` is not answered: its only device, or else the call."""
    devices = _devices(*question)
    return devices[0] if len(devices) == 1 else question[0]


def _library_exists() -> bool:
    """Return whether the dynamic linker can find NVML, without loading the library into this process.

    The folders and the cache of ld.so(8) are searched.
    """
    folders = (*os.environ.get("LD_LIBRARY_PATH", "").split(":"), *_LIBRARY_FOLDERS)
    if any(folder and Path(folder, _LIBRARY).exists() for folder in folders):
        return True
    try:
        return _LIBRARY.encode() in Path("/etc/ld.so.cache").read_bytes()
    except OSError:
        return False
