"""Ask the hosts of a measurement first: whether they answer, see the work folder, and are free."""

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from assistant.engines.engine_table import Wanted, find_engine
from probes.base.errors import WorkerError
from probes.base.grouping import first_names
from probes.base.units import plural
from probes.bench.bench_requests import SpreadBy
from probes.fleet.node_report import MARK, NodeEnd, NodeLine, Outcome

_DEADLINE_S = 60.0
"""Time for the answer of a host."""
_QUESTION = f"""\
token=$(cat -- "$0" 2>/dev/null)
used=$(nvidia-smi --query-compute-apps=pid --format=csv,noheader 2>/dev/null | grep -c '^[0-9]')
echo "{MARK}$token $used"
"""
"""Command that prints the content of a file, and the number of programs on the GPUs."""
_TOKEN = "seen-by-all-hosts"  # noqa: S105 - a file's name
REMEDY = "name a folder on a file system that all hosts share, under the same path: --work-directory FOLDER"


class HostAnswer(NamedTuple):
    """The answer of a host before a measurement."""

    outcome: Outcome
    """Outcome of the command; `not-started` if the engine did not get the host."""
    detail: str = ""
    """Reason why there was no answer."""
    sees_folder: bool = False
    gpu_programs: int = 0
    """Programs that use its GPUs."""


def use_by_others(answer: HostAnswer, *, force: bool) -> str:
    """Return why a benchmark must leave the host out: the engine did not get it, or its GPUs are in use.

    The result is empty for a free host. With `force`, programs on the GPUs do not count.
    """
    if answer.outcome == "not-started":
        return answer.detail
    if answer.gpu_programs and not force:
        return f"{plural(answer.gpu_programs, 'program')} on its GPUs"
    return ""


def question_of(hosts: tuple[str, ...], directory: Path) -> Wanted:
    """Return the command that each host runs before a measurement in `directory`."""
    return Wanted(hosts, ("sh", "-c", _QUESTION, str(directory / _TOKEN)), _DEADLINE_S)


def ask_hosts(hosts: tuple[str, ...], spread_by: SpreadBy, directory: Path) -> dict[str, HostAnswer]:
    """Ask every host whether it sees a new file in `directory`, and whether programs use its GPUs.

    Raises WorkerError if the file cannot be written, and the errors of the engine.
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
    words: dict[str, list[str]] = {}
    ends: dict[str, NodeEnd] = {}

    def sink(event: NodeLine | NodeEnd) -> None:
        if isinstance(event, NodeEnd):
            ends[event.node] = event
        else:
            words[event.node] = event.text.decode("utf-8", "replace").split()

    find_engine(spread_by).load().run(question_of(hosts, directory), sink)
    answers = {}
    for host in hosts:
        end = ends[host]
        said = words.get(host, [])
        sees = token in said
        used = int(said[-1]) if sees and said[-1].isdecimal() else 0
        why = end.detail or (f"exit code {end.exit_code}" if end.outcome == "exit" else end.outcome)
        answers[host] = HostAnswer(end.outcome, "" if end.outcome == "ok" else why, sees, used)
    return answers


def require_shared(answers: Mapping[str, HostAnswer], spread_by: SpreadBy, directory: Path) -> None:
    """Raise WorkerError if hosts did not answer or do not see `directory`; the error names the hosts.

    Hosts that others use are no error.
    """
    unseen = {
        host: answer
        for host, answer in answers.items()
        if not answer.sees_folder and answer.outcome != "not-started"
    }
    silent = {host: answer.detail for host, answer in unseen.items() if answer.detail}
    if silent:
        host, words = next(iter(silent.items()))
        others = f" (and {first_names(list(silent)[1:])})" if len(silent) > 1 else ""
        raise WorkerError(
            f"host {host}{others} cannot be reached by {spread_by}: {words}",
            find_engine(spread_by).reach_hint.format(host=host),
        )
    if unseen:
        verb = "does" if len(unseen) == 1 else "do"
        raise WorkerError(f"{first_names(list(unseen))} {verb} not see the folder {directory}", REMEDY)
