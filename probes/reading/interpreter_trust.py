"""Decides whether a program that nobody named may be started: can anybody but the caller and root have
written it?

A file is what its owner wants it to be, and so is everything that the owner of a folder above it, or of a
link on the way, may put in its place. POSIX.1-2017, Base Definitions 4.6 (file access permissions) and 4.13
(pathname resolution); inode(7), the sticky bit.
"""

from __future__ import annotations

import posixpath
import stat

from probes.base.record import Reason, Record, Unknown
from probes.sources.base import Source, read_text

ROOT_UID = 0
_MOST_LINKS = 40
"""The kernel's own limit (MAXSYMLINKS)."""


class _Node(Record, kw_only=True):
    """A file, folder or link, without following it."""

    path: str
    owner: int
    group: int
    mode: int


def caller_uid(source: Source) -> int | Unknown:
    """Return the effective user ID with which commands are started."""
    status = read_text(source, "/proc/self/status")
    if isinstance(status, Unknown):
        return status
    for line in status.splitlines():
        if line.startswith("Uid:"):
            numbers = line.split()[1:]
            if len(numbers) > 1 and numbers[1].isdecimal():
                return int(numbers[1])
    return Unknown(Reason.UNPARSABLE, "/proc/self/status states no user")


def refusal(source: Source, path: str, caller: int) -> str | Unknown:
    """Return why `path` must not be started for `caller`; empty where only the caller and root can have
    written it.

    Every link on the way is followed in single steps, and every folder of every step is looked at.
    """
    for _ in range(_MOST_LINKS):
        nodes = _way_to(source, path)
        if isinstance(nodes, Unknown):
            return nodes
        link = next((number for number, node in enumerate(nodes) if stat.S_ISLNK(node.mode)), None)
        reason = _writer(nodes if link is None else nodes[: link + 1], caller)
        if reason or link is None:
            return reason
        target = source.run(("readlink", "-n", "--", nodes[link].path)).text()
        if isinstance(target, Unknown):
            return target
        rest = path[len(nodes[link].path) :]
        path = posixpath.join(posixpath.dirname(nodes[link].path), target) + rest
    return f"{path} goes through too many links"


def _way_to(source: Source, path: str) -> tuple[_Node, ...] | Unknown:
    """Return what lies on the way to `path`, from the root of the file system on, up to the first link at
    least.
    """
    parts = [part for part in path.split("/") if part not in ("", ".")]
    paths = ["/", *("/" + "/".join(parts[: number + 1]) for number in range(len(parts)))]
    text = source.run(("stat", "-c", "%u %g %f", "--", *paths)).text()
    if isinstance(text, Unknown):
        return text
    try:
        rows = [
            (int(owner), int(group), int(mode, 16))
            for owner, group, mode in map(str.split, text.splitlines())
        ]
    except ValueError:
        rows = []
    if len(rows) != len(paths):
        return Unknown(Reason.UNPARSABLE, f"stat answers {text[:60]!r}")
    return tuple(
        _Node(path=place, owner=owner, group=group, mode=mode)
        for place, (owner, group, mode) in zip(paths, rows, strict=True)
    )


def _writer(nodes: tuple[_Node, ...], caller: int) -> str:
    """Return who else can put something in the place of one of `nodes`; empty where nobody can."""
    for number, node in enumerate(nodes):
        if node.owner not in (caller, ROOT_UID):
            return f"{node.path} belongs to user {node.owner}"
        if stat.S_ISLNK(node.mode) or not (writers := _writers(node, caller)):
            continue
        below = nodes[number + 1] if number + 1 < len(nodes) else None
        is_sticky = stat.S_ISDIR(node.mode) and node.mode & stat.S_ISVTX
        if not (is_sticky and below is not None and below.owner == caller):
            return f"{writers} can write {node.path}"
    return ""


def _writers(node: _Node, caller: int) -> str:
    """Return who can write `node` besides its owner. A group of the caller's own, with the caller's number,
    is the caller.
    """
    if node.mode & stat.S_IWOTH:
        return "everybody"
    is_private = caller != ROOT_UID and node.owner == node.group == caller
    return f"group {node.group}" if node.mode & stat.S_IWGRP and not is_private else ""
