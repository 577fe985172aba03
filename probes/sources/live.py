"""The machine that this program runs on.

A call may block in the kernel, for example for a file of a hung network mount. `within` bounds such calls.
"""

import errno
import os
import queue
import stat
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from probes.base.record import Reason, Unknown, printable
from probes.base.units import MIB
from probes.sources.base import CommandResult, Given, NvmlValue, read_at_most, start_thread
from probes.sources.commands import CommandRunner
from probes.sources.nvml import NvmlClient

T = TypeVar("T")

_READ_TIMEOUT_S = 5.0
_KERNEL_TREES = {"/proc/": "/proc/self", "/sys/": "/sys/kernel", "/dev/": "/dev/null", "/run/": "/run"}
"""Folder trees whose files the kernel generates or keeps in memory, each with a path that always exists.

These files are read without a thread, because starting a thread takes longer than reading. A read that blocks
in a hung driver delays only its collector, and the collector has a deadline.
"""
_MAX_FILE_BYTES = 32 * MIB
_REASONS = {
    errno.ENOENT: Reason.TOOL_MISSING,
    errno.ENOTDIR: Reason.TOOL_MISSING,
    errno.EACCES: Reason.PERMISSION,
    errno.EPERM: Reason.PERMISSION,
    errno.EOPNOTSUPP: Reason.NOT_SUPPORTED,
    errno.EINVAL: Reason.NOT_SUPPORTED,
    errno.ETIMEDOUT: Reason.TIMEOUT,
}
"""Reason for each error number. If a driver has no value, a sysfs read fails with EINVAL or EOPNOTSUPP."""


class LiveSource:
    """Reads the running machine. Answers are bounded in size; failures are values.

    Every question is bounded in time, except for files that the kernel generates (`_KERNEL_TREES`).
    Threads may share a source. Use it as a context manager, or call `close()`, so that no started process
    remains.
    """

    title = "live"
    is_live = True

    def __init__(self) -> None:
        self._commands = CommandRunner()
        self._nvml = NvmlClient()

    def __enter__(self) -> "LiveSource":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the NVML process and all running commands."""
        self._commands.close()
        self._nvml.close()

    def given(self, kind: str) -> tuple[Given, ...]:
        return ()

    def run(self, argv: tuple[str, ...], *, timeout_s: float = 10.0) -> CommandResult:
        return self._commands.run(argv, timeout_s=timeout_s)

    def read(self, path: str) -> bytes | Unknown:
        return _ask(path, lambda: _read(path))

    def names(self, directory: str) -> tuple[str, ...] | Unknown:
        return _ask(directory, lambda: tuple(sorted(map(printable, os.listdir(directory)))))  # noqa: PTH208

    def link(self, path: str) -> str | Unknown:
        return _ask(path, lambda: printable(str(Path(path).resolve(strict=True))))

    def nvml(self, call: str, *args: int) -> NvmlValue | Unknown:
        return self._nvml.call(call, *args)

    def expect(self, device: int, like: int) -> None:
        self._nvml.expect(device, like)

    def env(self, name: str) -> str | Unknown | None:
        value = os.environ.get(name)
        return None if value is None else printable(value)


def _ask(path: str, question: Callable[[], T | Unknown]) -> T | Unknown:
    """Return the answer of the file system about `path`, with errors as values."""
    name = printable(path)
    tree = next((tree for tree in _KERNEL_TREES if path.startswith(tree)), "")
    try:
        answer = question() if tree else within(_READ_TIMEOUT_S, question)
    except OSError as error:
        if error.errno == errno.ENOENT and tree and not Path(_KERNEL_TREES[tree]).exists():
            # In a chroot, a missing file has no meaning.
            return Unknown(Reason.ERROR, f"{name}: {tree} is not mounted here")
        return Unknown(_REASONS.get(error.errno or 0, Reason.ERROR), f"{name}: {error.strerror}")
    except RuntimeError:
        # Before Python 3.13, pathlib raises this error if symbolic links form a circle.
        return Unknown(Reason.ERROR, f"{name}: symbolic links in a circle")
    if isinstance(answer, Unknown) and answer.reason is Reason.TIMEOUT:
        return Unknown(Reason.TIMEOUT, f"{name}: {answer.detail}")
    return answer


def _read(path: str) -> bytes | Unknown:
    """Return the content of a regular file.

    Other files are not opened, because opening a device can change its state, and reading a FIFO never ends.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - one system call per question
        return Unknown(Reason.ERROR, f"{printable(path)}: not a regular file")
    # Without O_NONBLOCK, files such as /proc/kmsg wait for new lines.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with open(descriptor, "rb", buffering=0) as file:  # noqa: PTH123 - opened by its descriptor
        data = read_at_most(file, _MAX_FILE_BYTES)
    if data is None:
        return Unknown(Reason.ERROR, f"{printable(path)}: larger than {_MAX_FILE_BYTES // MIB} MiB")
    return data


class _Helper:
    """A daemon thread that executes one call after another."""

    def __init__(self) -> None:
        self.calls: queue.SimpleQueue[Callable[[], Any] | None] = queue.SimpleQueue()
        self.outcomes: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()
        start_thread(self._work)

    def _work(self) -> None:
        while (function := self.calls.get()) is not None:
            try:
                self.outcomes.put((function(), None))
            except BaseException as error:  # noqa: BLE001 - raised again in the caller
                self.outcomes.put((None, error))


_idle: list[_Helper] = []
"""Helpers for later calls, because starting a thread takes longer than most calls."""


def within(timeout_s: float, function: Callable[[], T]) -> T | Unknown:
    """Return or raise the result of `function`; `Unknown` (timeout) if the call takes longer.

    The call runs on a daemon thread, which is left behind after the deadline: nothing can stop a thread that
    waits inside the kernel, but other calls are not delayed.
    """
    try:
        helper = _idle.pop()
    except IndexError:
        helper = _Helper()
    helper.calls.put(function)
    try:
        value, error = helper.outcomes.get(timeout=timeout_s)
    except queue.Empty:
        helper.calls.put(None)  # the helper ends if the kernel ever returns
        return Unknown(Reason.TIMEOUT, f"no answer within {timeout_s:g} s")
    _idle.append(helper)
    if error is not None:
        raise error
    result: T = value
    return result
