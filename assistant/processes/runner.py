"""Start programs in the training interpreter, watch them, and end them all before rigtune ends.

Every program runs below `assistant.processes.guard`, which ends the whole tree of processes on request, and
also when rigtune itself is killed.
"""

import contextlib
import os
import select
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import psutil

from probes.base.errors import WorkerError
from probes.base.record import items_of, value_or
from probes.facts import MachineFacts
from probes.sources.commands import close_pipes

_GUARD = Path(__file__).with_name("guard.py")
_LAUNCHER_VARIABLES = (
    "RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK",
    "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
    "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS",
    "TORCHELASTIC_USE_AGENT_STORE",
)  # fmt: skip
"""Variables of a job in which rigtune may run; a program that inherits them would wait for that job."""
_AGENT_PREFIX = "PET_"
"""Prefix of variables from which torch's agent reads its options; Kubeflow sets them.

Source: torch.distributed.argparse_util.
"""
_SHORT_GRACE_S = 1.0
_REAP_S = 2.0
"""Time that killed processes may take to disappear; a process that waits inside a driver never disappears."""
_OUTPUT_LIMIT_BYTES = 1024**2
_BUSY_CPU_PERCENT = 60.0
"""Load of all CPUs together above which other programs disturb a measurement."""
_CPU_SAMPLE_S = 0.5


def tail_of(path: Path, limit_bytes: int = 4000) -> str:
    """Return the end of a log, from the start of a line; empty if there is no such file."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - limit_bytes))
            text = file.read()
    except OSError:
        return ""
    if size > limit_bytes:
        text = text.partition(b"\n")[2]
    return text.decode("utf-8", "replace").strip()


class Job:
    """A running program. Use the job as a context manager: at its end all remaining processes are ended."""

    def __init__(
        self,
        argv: tuple[str, ...],
        *,
        directory: Path,
        environment: Mapping[str, str],
        log: Path,
        grace_s: float = 5.0,
    ) -> None:
        """Start `argv` in `directory`; write its output to the file `log`.

        `environment` is added to the variables of this process. `grace_s` is the time between SIGTERM and
        SIGKILL when the program is stopped. Raises WorkerError if nothing can be started.
        """
        self.argv, self.directory, self.log = argv, directory, log
        self._environment, self._grace_s = dict(environment), grace_s
        try:
            with log.open("wb") as output:
                self._guard = _start_guard(
                    argv, directory, environment, output=output.fileno(), grace_s=grace_s
                )
        except (OSError, ValueError) as error:
            raise WorkerError(
                f"cannot start {argv[0]}: {error}", "check that the folder exists and is writable"
            ) from error

    @property
    def command_line(self) -> str:
        """The shell command that runs the same program by hand."""
        return self.command_line_of(self.argv)

    def command_line_of(self, argv: tuple[str, ...]) -> str:
        """Return the shell command that runs `argv` in the folder and environment of this program."""
        variables = [f"{name}={shlex.quote(value)}" for name, value in sorted(self._environment.items())]
        return " ".join(("cd", shlex.quote(str(self.directory)), "&&", *variables, shlex.join(argv)))

    def wait(self, timeout_s: float) -> int | None:
        """Return the exit code, 128 + N after signal N; None if the program still runs after `timeout_s`."""
        assert self._guard.stdout is not None  # noqa: S101 - opened above
        # The guard writes nothing to its standard output, so this becomes readable only when the guard ends.
        if self._guard.returncode is None and not select.select([self._guard.stdout], [], [], timeout_s)[0]:
            return None
        return self._guard.wait()

    def stop(self) -> int:
        """Send SIGTERM to all processes, and SIGKILL to those left after `grace_s`; return the exit code."""
        assert self._guard.stdin is not None  # noqa: S101 - opened above
        with contextlib.suppress(OSError):
            self._guard.stdin.close()
        code = self.wait(self._grace_s + 10.0)
        if code is None:
            self._guard.kill()
            code = self._guard.wait()
        return code

    @property
    def log_bytes(self) -> int:
        """Number of bytes printed so far."""
        try:
            return self.log.stat().st_size
        except OSError:
            return 0

    def log_tail(self, limit_bytes: int = 4000) -> str:
        """Return the end of the output, from the start of a line."""
        return tail_of(self.log, limit_bytes)

    def __enter__(self) -> "Job":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        assert self._guard.stdout is not None  # noqa: S101 - opened above
        self._guard.stdout.close()


def output_of(
    argv: tuple[str, ...], *, directory: Path, environment: Mapping[str, str], deadline_s: float
) -> tuple[int | None, bytes]:
    """Return the exit code of a short program and the end of its output.

    The code is None if the program was too slow. Afterwards no process of the program is left, except
    processes that cannot be killed because they wait inside a driver or a dead network mount. Raises OSError
    or ValueError if nothing can be started.
    """
    ends = time.monotonic() + deadline_s
    output, ended = b"", False
    guard = _start_guard(argv, directory, environment, output=subprocess.PIPE, grace_s=_SHORT_GRACE_S)
    assert guard.stderr is not None  # noqa: S101 - opened above
    try:
        while not ended and (left := ends - time.monotonic()) > 0:
            if select.select([guard.stderr], [], [], left)[0]:
                chunk = os.read(guard.stderr.fileno(), 65536)
                output, ended = (output + chunk)[-_OUTPUT_LIMIT_BYTES:], not chunk
    finally:
        close_pipes(guard)  # the guard ends the program when its standard input closes
        try:
            guard.wait(_SHORT_GRACE_S + _REAP_S)
        except subprocess.TimeoutExpired:
            guard.kill()  # by now the guard has killed all that can be killed
            guard.wait()
    return guard.returncode if ended else None, output


def _start_guard(
    argv: tuple[str, ...], directory: Path, environment: Mapping[str, str], *, output: int, grace_s: float
) -> subprocess.Popen[bytes]:
    """Start `argv` below the guard.

    The program's output goes to the guard's standard error, which is `output`.
    """
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in _LAUNCHER_VARIABLES and not name.startswith(_AGENT_PREFIX)
    }
    return subprocess.Popen(
        (sys.executable, "-I", "-S", str(_GUARD), str(grace_s), *argv),
        cwd=directory,
        env={**inherited, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=output,
        start_new_session=True,
    )


def worker_variables(threads: int) -> dict[str, str]:
    """Return the variables of every program with several ranks on this node.

    Except for OMP_NUM_THREADS, variables that the user has set are left out.
    """
    wanted = {
        "OMP_NUM_THREADS": str(threads),
        # This is the order of nvidia-smi; by default CUDA puts the fastest GPU first.
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
    if sys.platform.startswith("linux"):
        # The loopback always works for the ranks of one node, but the host name of a new server often cannot
        # be resolved.
        wanted["GLOO_SOCKET_IFNAME"] = "lo"
    return {
        name: value for name, value in wanted.items() if name == "OMP_NUM_THREADS" or name not in os.environ
    }


def busy_gpus(facts: MachineFacts) -> str:
    """Return in words which GPUs are used by other processes; empty if no GPU is known to be used."""
    held = []
    for gpu in items_of(facts.gpus):
        names = {f"{value_or(each.name, 'process')} {each.pid}" for each in items_of(gpu.processes)}
        if names:
            held.append(f"GPU{gpu.index} is used by {', '.join(sorted(names))}")
    return "; ".join(held)


def busy_host() -> str:
    """Return in words how busy the CPUs are; empty if they are idle enough to measure.

    The call takes half a second.
    """
    percent = psutil.cpu_percent(interval=_CPU_SAMPLE_S)
    return f"the CPUs are {percent:.0f} % busy with other work" if percent > _BUSY_CPU_PERCENT else ""
