"""Files of one call that belong together: a file, and the files that it names.

Rules compare only files of one group, so that unrelated files get the same findings in one call as in
separate calls.
"""

import posixpath
import re

from recipes.lint.document import Document
from recipes.lint.views import code_lines

_WORD = re.compile(r"[\w.@+-]+")
_CONF_NAMES = ("nccl.conf", ".nccl.conf")


def groups(documents: tuple[Document, ...], folder: str = "") -> tuple[tuple[Document, ...], ...]:
    """Return the groups of files that belong together, each in the order of the call.

    A group begins with a file that no other file names. `folder` is the folder to which names are relative.
    """
    paths = [posixpath.normpath(posixpath.join(folder, document.name)) for document in documents]
    lines = ["\n".join(line for _, line in code_lines(document)) for document in documents]
    words = [frozenset(_WORD.findall(text)) for text in lines]
    named: list[set[int]] = [
        {
            other
            for other, path in enumerate(paths)
            if other != number
            and (
                _belongs_to_folder(documents[other], path, paths[number])
                or (
                    posixpath.basename(path) in words[number]
                    and _names(lines[number], paths[number], path, folder)
                )
            )
        }
        for number in range(len(documents))
    ]
    everywhere = {number for number, document in enumerate(documents) if document.kind == "environment"}
    if len(documents) == len(everywhere):
        return (documents,)
    below = set[int]().union(*named)
    members: list[set[int]] = []
    reached = set[int]()
    # files that no file names come first; other files are reached from these, or name each other in a circle
    for number in sorted(range(len(documents)), key=lambda each: (each in below, each)):
        if number in everywhere or (number in reached and number in below):
            continue
        group = _reachable(named, number)
        reached |= group
        members.append(group | everywhere)
    return tuple(tuple(documents[each] for each in sorted(group)) for group in members)


def _reachable(named: list[set[int]], start: int) -> set[int]:
    reached, left = {start}, [start]
    while left:
        new = named[left.pop()] - reached
        reached |= new
        left += new
    return reached


def _belongs_to_folder(document: Document, path: str, other: str) -> bool:
    """Return whether the file is an nccl.conf in the folder of `other`: NCCL reads it for scripts there."""
    is_conf = document.kind == "nccl-conf" and posixpath.basename(path) in _CONF_NAMES
    return is_conf and posixpath.dirname(path) == posixpath.dirname(other)


def _names(text: str, path: str, other: str, folder: str) -> bool:
    """Return whether the text of the file at `path` names the file at `other`.

    The name is relative to the folder of the file, to a folder above, or to the working directory.
    """
    parts = other.split("/")
    own = posixpath.dirname(path)
    for count in range(1, len(parts) + 1):
        above, name = "/".join(parts[:-count]), "/".join(parts[-count:])
        is_near = above in (own, folder, "") or own.startswith(f"{above}/")
        if is_near and any(_is_open(match[1]) for match in re.finditer(_mention(name), text)):
            return True
    return False


def _mention(name: str) -> str:
    return rf"(?<![^\s\"'=:,(])([^\s\"'=:,(]{{0,200}}?)(?<![\w.@+-]){re.escape(name)}(?![\w@+-]|\.\w)"


def _is_open(before: str) -> bool:
    """Return whether the text before a name may be the folder that `_names` tries.

    This is so if the text is empty, is an absolute path, or contains a variable or a template.
    """
    return not before.strip("./") or before.startswith("/") or any(mark in before for mark in "$`{<")
