"""Command lines of launchers that name no script, say options where the script gets them, or meet on one
port.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from recipes.lint.context import Context
from recipes.lint.document import Command, Document
from recipes.lint.finding import LintFinding
from recipes.lint.readers.grammars import DEEPSPEED_OPTIONS, TORCHRUN_OPTIONS
from recipes.lint.rule_table import make_finding
from recipes.lint.views import commands, has_unknown_words, is_set, option, resolved

Documents = tuple[Document, ...]

_KNOWN = {"torchrun": TORCHRUN_OPTIONS, "deepspeed": DEEPSPEED_OPTIONS}
_OF_TORCHRUN = frozenset(
    {"nproc-per-node", "nnodes", "node-rank", "rdzv-backend", "rdzv-endpoint", "standalone", "master-port"}
)
_OF_ACCELERATE = frozenset(
    {"num-processes", "num-machines", "machine-rank", "main-process-port", "main-process-ip", "multi-gpu"}
)
_DEFAULT_PORT = "29500"
"""Of torchrun without a rendezvous, and of deepspeed. Source: torch/distributed/run.py,
deepspeed/constants.py.
"""


def scripts(documents: Documents, context: Context) -> Iterator[LintFinding]:
    """What a launcher starts, and the options before it."""
    del context
    for document in documents:
        for command in commands(document, *_KNOWN) if document.kind in ("shell", "sbatch") else ():
            if _script_of(document, command) is None and _is_all_known(command):
                yield make_finding(
                    "launcher-without-script",
                    document,
                    command.place,
                    f"{command.program} is given no script to start",
                    fix="Name the script behind the options; a line that goes on ends with a backslash.",
                )
        for launcher, own in (("torchrun", _OF_TORCHRUN), ("accelerate", _OF_ACCELERATE)):
            for command in commands(document, launcher):
                yield from _behind(document, command, own)


def _script_of(document: Document, command: Command) -> Command | None:
    below = (*command.inside, command.program)
    at = document.commands.index(command) + 1
    follows = document.commands[at] if at < len(document.commands) else None
    return follows if follows is not None and follows.inside[: len(below)] == below else None


def _is_all_known(command: Command) -> bool:
    """Whether each word is an option of the launcher's or its value, so that none of them can be the
    script.
    """
    told = command.options.keys()
    is_literal = all(argument.is_literal for argument in command.arguments)
    is_plain = not any(
        re.search(r"\.py\b|[{}<>\[\]*]|\.\.\.", argument.text) for argument in command.arguments
    )
    return bool(told) and "help" not in told and told <= _KNOWN[command.program] and is_literal and is_plain


def _behind(document: Document, command: Command, own: frozenset[str]) -> Iterator[LintFinding]:
    script = _script_of(document, command)
    if script is None or command.options or has_unknown_words(command):
        return
    lost = [name for name in script.options if name in own]
    if lost:
        yield make_finding(
            "launcher-options-late",
            document,
            script.place,
            f"--{lost[0]} stands behind {script.program}, which gets it; {command.program} goes by its own "
            "defaults",
            fix=f"Write the options of {command.program} before {script.program}.",
        )


def ports(documents: Documents, context: Context) -> Iterator[LintFinding]:
    """Launchers of one machine that run at the same time."""
    del context
    for document in documents:
        if document.kind not in ("shell", "sbatch"):
            continue
        running: dict[str, Command] = {}
        for command in document.commands:
            if command.program == "wait":
                running.clear()
            port = _port(document, command)
            if port is None:
                continue
            earlier = running.get(port)
            if earlier is not None:
                yield make_finding(
                    "port-shared",
                    document,
                    command.place,
                    f"{command.program} takes port {port}, as that of line {earlier.place.line} does, which "
                    "still runs",
                    fix="Give each a port of its own: --master-port, or torchrun --standalone.",
                )
            elif _goes_on(document, command):
                running[port] = command


def _port(document: Document, command: Command) -> str | None:
    """The port that a launcher takes on this machine, where the file says all that it depends on."""
    if command.program not in _KNOWN or command.inside or command.is_conditional:
        return None
    if not all(argument.is_literal for argument in command.arguments) or is_set(
        document, "PET_MASTER_PORT", "PET_RDZV_ENDPOINT"
    ):
        return None
    if {
        "standalone",
        "rdzv-endpoint",
        "rdzv-backend",
        "hostfile",
        "node-rank",
        "num-nodes",
    } & command.options.keys():
        return None
    if option(command, "nnodes") not in (None, "1"):
        return None
    told = resolved(document, option(command, "master-port") or _DEFAULT_PORT)
    return told if told is not None and told.isdecimal() and told != "0" else None


def _goes_on(document: Document, command: Command) -> bool:
    """Whether the shell does not wait for it: `... &`."""
    for line in document.lines[command.place.line - 1 :]:
        code = line.rstrip()
        if not code.endswith("\\"):
            return re.search(r"(?<![&|>])&\s*(?:#.*|\S+=\$!.*|pids?\+?=.*)?$", code) is not None
    return False
