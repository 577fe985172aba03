"""Test whether other hosts can be reached and see a folder of this machine."""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from assistant.runner import output_of
from probes.base.errors import WorkerError
from probes.bench.bench_requests import SpreadBy

_DEADLINE_S = 60.0
_AT_ONCE = 64
_TOKEN = "seen-by-all-hosts"  # noqa: S105 - a file's name
REMEDY = "name a folder on a file system that all hosts share, under the same path: --work-directory FOLDER"


def require_shared(hosts: tuple[str, ...], spread_by: SpreadBy, directory: Path) -> None:
    """Raise WorkerError that names the hosts which cannot be reached or do not see `directory`."""
    unseen = unseen_by(hosts, spread_by, directory)
    silent = {host: words for host, words in unseen.items() if words}
    if silent:
        host, words = next(iter(silent.items()))
        others = f" (and {', '.join(list(silent)[1:])})" if len(silent) > 1 else ""
        raise WorkerError(
            f"host {host}{others} cannot be reached by {spread_by}: {words}", _how(host, spread_by)
        )
    if unseen:
        raise WorkerError(
            f"{', '.join(unseen)} {'does' if len(unseen) == 1 else 'do'} not see the folder {directory}",
            REMEDY,
        )


def _how(host: str, spread_by: SpreadBy) -> str:
    if spread_by == "ssh":
        return f"`ssh -o BatchMode=yes {host} true` must work without a password"
    if spread_by == "slurm":
        return f"`srun --nodelist={host} true` must work"
    return f"`mpirun -n 1 -host {host} true` must work"


def unseen_by(hosts: tuple[str, ...], spread_by: SpreadBy, directory: Path) -> dict[str, str]:
    """Return the hosts that do not see a new file in `directory`, with the reasons.

    The reason is empty for a host that answers but does not see the file. Raises WorkerError if the file
    cannot be written.
    """
    token = secrets.token_hex(16)
    path = directory / _TOKEN
    try:
        directory.mkdir(parents=True, exist_ok=True)
        path.write_text(token)
    except OSError as error:
        raise WorkerError(
            f"cannot write to {directory}: {error.strerror}", "choose another work folder"
        ) from error
    if spread_by == "ssh":
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            answers = pool.map(lambda host: _asked(_over_ssh(host, path), directory), hosts)
            asked = dict(zip(hosts, answers, strict=True))
        return {host: _why(code, text) for host, (code, text) in asked.items() if token not in text}
    unseen = _unseen_by_ranks(hosts, spread_by, path, token)
    if len(hosts) > 1 and any(unseen.values()):
        # A launcher starts on no host if one is down; asked one by one, the good hosts answer.
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            alone = pool.map(lambda host: _unseen_by_ranks((host,), spread_by, path, token), unseen)
            return {host: why for each in alone for host, why in each.items()} or unseen
    return unseen


def _unseen_by_ranks(hosts: tuple[str, ...], spread_by: SpreadBy, path: Path, token: str) -> dict[str, str]:
    """Return the same as `unseen_by`, with one start of Slurm's or MPI's launcher for all hosts."""
    seen_by = (
        'printf "%s %s\\n" "${SLURMD_NODENAME:-${OMPI_COMM_WORLD_RANK:-$PMI_RANK}}" "$(cat "$0" 2>/dev/null)"'
    )
    program = ("sh", "-c", seen_by, str(path))
    count = str(len(hosts))
    start: tuple[str, ...]
    if spread_by == "slurm":
        start = (
            "srun",
            f"--nodelist={','.join(hosts)}",
            "-N",
            count,
            "-n",
            count,
            f"--immediate={_DEADLINE_S / 2:.0f}",
        )
    else:
        start = ("mpirun", "-n", count, "-host", ",".join(hosts))
    code, text = _asked((*start, *program), path.parent)
    saw = {line.split()[0] for line in text.splitlines() if line.split()[1:] == [token]}
    names = {host: host if spread_by == "slurm" else str(number) for number, host in enumerate(hosts)}
    return {host: _why(code, text) for host, name in names.items() if name not in saw}


def _over_ssh(host: str, path: Path) -> tuple[str, ...]:
    options = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=10")
    return ("ssh", *options, "--", host, f"cat -- {shlex.quote(str(path))} || exit 0")


def _asked(argv: Iterable[str], directory: Path) -> tuple[int | None, str]:
    """Return the exit code and the output; the code is None if there was no answer in time."""
    try:
        code, output = output_of(tuple(argv), directory=directory, environment={}, deadline_s=_DEADLINE_S)
    except OSError as error:
        return 127, str(error)
    return code, output.decode("utf-8", "replace")


def _why(code: int | None, text: str) -> str:
    """Return why a host did not answer; empty if it did."""
    if code == 0:
        return ""
    words = [line.strip() for line in text.splitlines() if line.strip()]
    if code is None:
        return f"no answer within {_DEADLINE_S:.0f} s" + (f" ({words[-1][:200]})" if words else "")
    return words[0][:200] if words else f"exit code {code}"
