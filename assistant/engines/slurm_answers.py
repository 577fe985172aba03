"""The answers of the nodes of one srun, which writes the output of each task to a file of a folder."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from assistant.engines.clustershell_runs import Sink
from assistant.engines.node_command import MOST_OUTPUT_BYTES, Records, end_of, last_words, one_line
from probes.fleet.node_report import LONGEST_ANSWER_BYTES, NodeEnd, NodeLine

_NODE = "@rigtune-node "
"""Start of the first line of a task, which has the name of its node."""
_EXIT = "@rigtune-exit "
"""Start of the last line of a task, which has the exit code of its command."""
_ENDED_BY_SIGNAL = (137, 143)
"""Exit codes of a command that KILL or TERM ended; Slurm sends these signals in a step that it aborts."""


class _Answer(NamedTuple):
    """The output of one task of srun."""

    lines: tuple[bytes, ...] = ()
    size: int = 0
    """Bytes of the marked lines; of all output if it was cut off."""
    code: int | None = None
    """Exit code of the command; None if it did not end."""
    error: str = ""


def framed(line: str) -> str:
    """Return shell code that prints the node's name, runs `line`, which sets `code`, and prints `code`."""
    # the empty line ends half a record of a command that was ended
    return f"echo '{_NODE}'$SLURMD_NODENAME; {line}; echo; echo '{_EXIT}'$code"


def report_answers(
    folder: Path, nodes: tuple[str, ...], stderr: str, sink: Sink, *, may_repeat: bool
) -> tuple[str, ...]:
    """Report the nodes of a step; return the nodes to ask again, which Slurm cut off because of another node.

    The folder has `N.out` and `N.err` for each task N that began; `stderr` is the error output of srun. One
    answer is in memory at a time.
    """
    outputs = {_node_of(path): path for path in folder.glob("*.out")}
    return tuple(
        node
        for node in nodes
        if not _report(node, _answer_in(outputs.get(node)), stderr, sink, may_repeat=may_repeat)
    )


def _node_of(path: Path) -> str:
    """Return the node of a task from its first line, because the command may print such a line too."""
    with path.open("rb") as file:
        first = file.readline(LONGEST_ANSWER_BYTES)
    is_whole = first.startswith(_NODE.encode()) and first.endswith(b"\n")
    return first[len(_NODE) :].decode("utf-8", "replace").strip() if is_whole else ""


def _answer_in(path: Path | None) -> _Answer:
    """Return the answer in the output of a task; an empty answer for a node without one."""
    if path is None:
        return _Answer()
    code, lines, records = None, [], Records()
    for line in _lines_of(path):
        if line.startswith(_EXIT.encode()) and line[len(_EXIT) :].strip().isdigit():
            code = int(line[len(_EXIT) :])
        elif (record := records.in_line(line)) is not None:
            lines.append(record)
    sent = path.stat().st_size
    size = sent if sent >= MOST_OUTPUT_BYTES else records.size  # beyond the limit, the rest was cut off
    return _Answer(tuple(lines), size, code, last_words(path.with_suffix(".err")))


def _lines_of(path: Path) -> Iterator[bytes]:
    """Yield complete lines, and pieces of a line longer than any answer, but no unfinished last line."""
    with path.open("rb") as file:
        while line := file.readline(LONGEST_ANSWER_BYTES + 1):
            if line.endswith(b"\n") or len(line) > LONGEST_ANSWER_BYTES:
                yield line.removesuffix(b"\n")


def _report(node: str, answer: _Answer, stderr: str, sink: Sink, *, may_repeat: bool) -> bool:
    """Report the lines and the outcome of a node; return False if it was cut off and must be asked again."""
    code = answer.code
    about = [line for line in stderr.splitlines() if re.search(rf"\b{re.escape(node)}\b", line)]
    launch_failure = [line for line in about if "aunch" in line] if code is None else []
    if may_repeat and "aunch failed" in stderr and not launch_failure and code in (None, *_ENDED_BY_SIGNAL):
        return False
    for line in answer.lines:  # also of a node that did not end
        sink(NodeLine(node, line))
    if code is not None:
        sink(end_of(node, code, answer.error, answer.size))
    elif launch_failure:
        sink(NodeEnd(node, "no-answer", None, one_line(launch_failure[-1])))
    elif re.search(r"busy|not available|Unable to allocate|immediate", stderr):
        sink(NodeEnd(node, "not-started", None, one_line(stderr.splitlines()[-1])))
    else:
        last = (about or stderr.splitlines() or [""])[-1]
        sink(NodeEnd(node, "no-answer", None, answer.error or one_line(last)))
    return True
