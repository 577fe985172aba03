"""The machine that this program runs on."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from probes.base.record import Reason, Unknown, printable
from probes.base.units import MIB
from probes.sources.base import CommandResult, Given, NvmlValue
from probes.sources.bounded import read_at_most
from probes.sources.commands import CommandRunner
from probes.sources.deadline import within
from probes.sources.nvml import NvmlClient

T = TypeVar("T")

_READ_TIMEOUT_S = 5.0
_KERNEL_TREES = {"/proc/": "/proc/self", "/sys/": "/sys/kernel", "/dev/": "/dev/null", "/run/": "/run"}
"""Answered by the kernel itself, or out of memory. A thread for each of a hundred such questions would cost
more than the questions; one that blocks in a wedged driver holds its collector alone, and that has a
deadline. The second path is always there.
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
"""What the kernel's words mean here. A driver without a value answers EINVAL or EOPNOTSUPP to a read of its
sysfs file.
"""


class LiveSource:
    """Asks the running machine. Every question is bounded in time and size; failures are values.

    Threads may share one. Use it as a context manager, or call `close()`, so that nothing of what it started
    stays behind.
    """

    title = "live"
    is_live = True

    def __init__(self) -> None:
        self._commands = CommandRunner()
        self._nvml = NvmlClient()

    def __enter__(self) -> LiveSource:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the NVML process and the commands that still run."""
        self._commands.close()
        self._nvml.close()

    def given(self, kind: str) -> tuple[Given, ...]:
        return ()

    def run(self, argv: tuple[str, ...], *, timeout_s: float = 10.0) -> CommandResult:
        return self._commands.run(argv, timeout_s=timeout_s)

    def read(self, path: str) -> bytes | Unknown:
        return _ask(path, lambda: _read(path))

    def names(self, directory: str) -> tuple[str, ...] | Unknown:
        return _ask(directory, lambda: tuple(sorted(map(printable, os.listdir(directory)))))  # noqa: PTH208 - names, not paths

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
    """The answer of the file system about `path`, its errors as values."""
    name = printable(path)
    tree = next((tree for tree in _KERNEL_TREES if path.startswith(tree)), "")
    try:
        answer = question() if tree else within(_READ_TIMEOUT_S, question)
    except OSError as error:
        if error.errno == errno.ENOENT and tree and not os.path.exists(_KERNEL_TREES[tree]):  # noqa: PTH110 - as above
            # In a chroot the file tells nothing by being absent.
            return Unknown(Reason.ERROR, f"{name}: {tree} is not mounted here")
        return Unknown(_REASONS.get(error.errno or 0, Reason.ERROR), f"{name}: {error.strerror}")
    except RuntimeError:
        # pathlib's word for a circle of symbolic links, before Python 3.13.
        return Unknown(Reason.ERROR, f"{name}: symbolic links in a circle")
    if isinstance(answer, Unknown) and answer.reason is Reason.TIMEOUT:
        return Unknown(Reason.TIMEOUT, f"{name}: {answer.detail}")
    return answer


def _read(path: str) -> bytes | Unknown:
    """The content of a regular file. Others are not even opened: opening a device can act on it, a FIFO never
    ends.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - one system call per question
        return Unknown(Reason.ERROR, f"{printable(path)}: not a regular file")
    # O_NONBLOCK: /proc/kmsg and its like wait for news otherwise.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with open(descriptor, "rb", buffering=0) as file:  # noqa: PTH123 - opened by its descriptor
        data = read_at_most(file, _MAX_FILE_BYTES)
    if data is None:
        return Unknown(Reason.ERROR, f"{printable(path)}: larger than {_MAX_FILE_BYTES // MIB} MiB")
    return data
