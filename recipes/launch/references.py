"""References to variables of the shell: `{$HF_TOKEN}` stands for a value that no file contains.

A filled-in argument marks such a reference by NUL characters, which no other argument can contain. Every
launcher writes the reference in the words of its shell or engine.
"""

import re
import shlex
from collections.abc import Callable, Iterable

NAME = re.compile(r"[A-Z_][A-Z0-9_]*", re.ASCII)
"""Names that a reference may have; the variables of rigtune's own scripts are in small letters."""
_MARK = re.compile("\0([^\0]*)\0")
_UNSET = "export this secret in the shell that starts the job, or in the file of the slot setup"


def reference(name: str) -> str:
    """Return the mark of a variable for a filled-in argument."""
    return f"\0{name}\0"


def referenced(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the variables to which filled-in texts refer, each once."""
    return tuple(dict.fromkeys(match[1] for text in texts for match in _MARK.finditer(text)))


def spelled(text: str, spell: Callable[[str], str]) -> str:
    """Return the text with every reference as `spell` writes the name of its variable."""
    return _MARK.sub(lambda match: spell(match[1]), text)


def shell_quoted(text: str) -> str:
    """Return a filled-in argument as one word of a POSIX shell; an unset variable ends the script."""
    pieces = _MARK.split(text)  # plain texts at even places, names at odd ones
    if len(pieces) == 1:
        return shlex.quote(text)
    return "".join(
        f'"{braced(piece)}"' if place % 2 else shlex.quote(piece) if piece else ""
        for place, piece in enumerate(pieces)
    )


def braced(name: str) -> str:
    """Return the reference in braces, as a shell and compose read it: an unset variable is an error."""
    return f"${{{name}:?{_UNSET}}}"
