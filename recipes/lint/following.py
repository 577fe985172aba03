"""Files that a script reads, if it names them."""

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
    """Return the relative paths of files that belong to a script or a compose file.

    A script sources them or gives them to a launcher as a list of hosts or of variables; a compose file names
    them in `env_file`. Paths that only the run knows and paths above the file are left out.
    """
    if document.kind not in ("shell", "sbatch", "compose"):
        return ()
    names: dict[str, None] = dict.fromkeys(str(item.value) for item in entries(document, _ENV_FILES))
    for command in document.commands:
        if command.program in _SOURCING and command.arguments and command.arguments[0].is_literal:
            names[command.arguments[0].text] = None
        for path in (option(command, _READERS.get(command.program, "")) or "").split("\n"):
            names[path] = None
    return tuple(name for name in names if _RELATIVE.fullmatch(name) and ".." not in name.split("/"))
