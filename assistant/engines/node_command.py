"""The command of a node as one line of shell, which ends by itself."""

import math
import shlex
from pathlib import Path

from assistant.processes.runner import tail_of
from probes.fleet.node_report import LONGEST_ANSWER_BYTES, MARK, NodeEnd

_MARK = MARK.encode()
GRACE_S = 5.0
"""Time between TERM and KILL on the node."""
HEAD_MARGIN_S = 10.0
"""Time that the head waits beyond the node's own limit, because a lost connection reports nothing."""
MOST_OUTPUT_BYTES = 2 * LONGEST_ANSWER_BYTES
"""Maximum number of bytes that a node's line prints: the longest answer, and as much other output."""
NOT_WHOLE = 75
"""Exit code of a node's line if the archive did not arrive whole, which does not show a fault of the node."""
_OUT_OF_TIME = (124, 137)
"""Exit codes of `timeout` for a command that it ended by TERM and by KILL."""


_TAIL_BYTES = 4096
"""Size of the end of an error output that is read."""


def timed_words(command: tuple[str, ...], limit_s: float) -> tuple[str, ...]:
    """Return the command as an argument of `timeout`, which ends the command on the node itself.

    Without `timeout`, a program would go on running when the head gives up its connection.
    """
    return ("timeout", "-k", f"{GRACE_S:g}", str(max(1, math.ceil(limit_s))), *command)


def timed(command: tuple[str, ...], limit_s: float) -> str:
    """Return the words of `timed_words` as a line of shell."""
    return shlex.join(timed_words(command, limit_s))


def bounded(line: str, limit_s: float) -> str:
    """Return shell that runs one command, prints a limited part of its output, and sets `code`.

    The part is the first `MOST_OUTPUT_BYTES` of the output and the end of the error output. A command that
    prints more is ended by SIGPIPE. `limit_s` is the time limit of the command: programs that it leaves
    behind may keep its output open for ever.
    """
    wait_s = limit_s + 2 * GRACE_S
    head = timed(("head", "-c", str(MOST_OUTPUT_BYTES)), wait_s)
    tail = timed(("tail", "-c", str(_TAIL_BYTES)), wait_s)
    # 3 takes the exit code, 4 and 5 are the outputs of the task, 6 is the pipe to `head`
    command = f"{line} 3>&- 4>&- 5>&- 6>&-; echo $? >&3"
    return (
        f"{{ code=$( {{ {{ {{ {command}; }} 2>&1 >&6 | {tail} >&5; }} 6>&1 | {head} >&4; }} 3>&1 ); "
        "} 4>&1 5>&2"
    )


def one_line(text: str, longest: int = 200) -> str:
    """Return a line of a node's output without control characters, cut to `longest` characters."""
    if not text.isprintable():
        text = "".join(character if character.isprintable() else " " for character in text)
    return text[:longest].strip()


def last_words(path: Path) -> str:
    """Return the last line of an error output in a file; empty if there is none."""
    return one_line("".join(tail_of(path, _TAIL_BYTES).splitlines()[-1:]))


class Records:
    """The marked lines in the output of one node, up to the longest answer."""

    size = 0
    """Bytes of the marked lines, also of those beyond the longest answer."""

    def in_line(self, line: bytes) -> bytes | None:
        """Return the record in a line of the output; None for any other line, and beyond the limit."""
        if not line.startswith(_MARK):
            return None
        self.size += len(line)
        return line[len(_MARK) :] if self.size <= LONGEST_ANSWER_BYTES else None


def end_of(node: str, code: int, detail: str, sent_bytes: int) -> NodeEnd:
    """Return the outcome of a command that exited with `code` after `sent_bytes` of marked lines."""
    if sent_bytes > LONGEST_ANSWER_BYTES:
        return NodeEnd(node, "exit", code, f"the node sent more than {LONGEST_ANSWER_BYTES >> 20} MiB")
    if code == 0:
        return NodeEnd(node, "ok", 0)
    if code == NOT_WHOLE:
        return NodeEnd(node, "no-answer", code, detail)
    return NodeEnd(node, "timed-out" if code in _OUT_OF_TIME else "exit", code, detail)
