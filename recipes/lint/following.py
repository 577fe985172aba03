"""Files that a script reads beside itself, as far as it names them."""

from __future__ import annotations

import re

from recipes.lint.document import Document
from recipes.lint.views import entries, option

_SOURCING = frozenset({"source", "."})
_READERS = {"deepspeed": "hostfile", "mpirun": "hostfile", "docker": "env-file", "podman": "env-file"}
"""Options of programs that name a file."""
_ENV_FILES = r"services\.[^.\[]+\.env_file(?:\[\d+\])?(?:\.path)?"
_RELATIVE = re.compile(r"(?:\./)?[\w.][\w./@+-]*")


def names_in(document: Document) -> tuple[str, ...]:
    """Relative paths that the script sources, or gives a launcher as list of hosts or of variables, and those
    of a compose file's `env_file`; what only the run knows is left out, and so is what lies above the file.
    """
    if document.kind not in ("shell", "sbatch", "compose"):
        return ()
    found: dict[str, None] = dict.fromkeys(str(item.value) for item in entries(document, _ENV_FILES))
    for command in document.commands:
        if command.program in _SOURCING and command.arguments and command.arguments[0].is_literal:
            found[command.arguments[0].text] = None
        for told in (option(command, _READERS.get(command.program, "")) or "").split("\n"):
            found[told] = None
    return tuple(name for name in found if _RELATIVE.fullmatch(name) and ".." not in name.split("/"))
