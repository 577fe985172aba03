"""Removal of a launcher that the user pasted in front of the program, after `--`."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from recipes.launch.imports.chains import (
    LAUNCHERS,
    STRUCTURE,
    OptionUse,
    chain_of_words,
    is_idle,
    options_of,
    words_of,
)
from recipes.launch.imports.hidden_secrets import HIDDEN, is_secret, referring, without_secrets
from recipes.launch.imports.spelled_settings import is_of_launcher, meaning, module_of
from recipes.lint.document import Command
from recipes.lint.views import starts

_BY_LAUNCHER = "is set by the launcher that rigtune writes"
_UNKNOWN = "is left out: `rigtune import` reads a whole launch and keeps such options"
_BY_VARIABLE = "export this variable in the shell that starts the job; no file gets its value"
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_EXPORT = "export the variable in the shell that starts the job, or use `rigtune import`"


class Unwrapped(NamedTuple):
    """A program without its launchers."""

    words: tuple[str, ...]
    """The program and its arguments; a module follows `-m`."""
    dropped: tuple[str, ...]
    """One sentence for each option, wrapper, variable or secret that was left out or replaced."""


def unwrap(words: Sequence[str]) -> Unwrapped:
    """Return the program of a command line, and a sentence for each option of its launchers.

    `torchrun --nproc-per-node 8 train.py --lr 1` becomes `train.py --lr 1`. A command without a launcher
    stays as it is, apart from secrets.
    """
    words = tuple(words)
    if words and _ASSIGNMENT.match(words[0]):
        words = ("env", *words)
    plain = _unwrapped(words)
    safe = referring(plain.words)
    secrets = [f"{reference} takes the place of a secret: {_BY_VARIABLE}" for reference in safe.values()]
    return Unwrapped(tuple(safe.get(word, word) for word in plain.words), (*plain.dropped, *secrets))


def _unwrapped(words: tuple[str, ...]) -> Unwrapped:
    chain = chain_of_words(words)
    launchers = () if chain is None else chain.commands[:-1]
    is_wrapped = any(starts(command) in ("python", "env", *LAUNCHERS) for command in launchers)
    module = module_of(words)
    if chain is None or not (is_wrapped or module):
        return Unwrapped(words, ())
    if module:
        return Unwrapped(("-m", module, *words[2:]), (f"`{' '.join(words[:2])}` is started as {module}",))
    dropped = [sentence for command in launchers for sentence in _dropped(command)]
    for item in chain.leaf.settings:
        value = HIDDEN if is_secret(item.name, item.value or item.written) else item.written
        dropped.append(f"{item.name}={value} is left out: {_EXPORT}")
    return Unwrapped((*(("-m",) if chain.is_module else ()), *chain.words), tuple(dropped))


def _dropped(command: Command) -> list[str]:
    """Return a sentence for each option of a launcher or wrapper."""
    name = starts(command)
    if command.program == "python" or is_idle(command):
        return []
    if name not in LAUNCHERS:
        words = " ".join(words_of(command))
        return [f"{words} is left out: rigtune's launchers start the program without this wrapper"]
    # `-x` of mpirun sets variables, which are reported separately.
    uses = [use for use in options_of(command) if use.name not in (*STRUCTURE, "x")]
    return [_sentence(use) for use in uses] or [
        f"{command.written} is replaced by the launcher that rigtune writes"
    ]


def _sentence(use: OptionUse) -> str:
    is_ours = meaning(use.owner, use.name, use.value) or is_of_launcher(use.owner, use.name)
    return f"{without_secrets(use.written)} {_BY_LAUNCHER if is_ours else _UNKNOWN}"
