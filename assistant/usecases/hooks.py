"""Compare the version of exported hooks with the version of this rigtune."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from assistant.storage import read_head
from probes.base.errors import InputError, UsageError
from probes.base.record import Record, visible
from recipes.launch.provision import origin_of

_HEAD_BYTES = 4096
_MOST_FILES = 10_000


class Hook(Record, kw_only=True):
    """A file, and whether this version of rigtune wrote it."""

    path: str
    state: Literal["same", "differs", "unknown", "no hook"]
    words: str = ""


def judge_hooks(paths: Iterable[Path], *, version: str, commit: str) -> tuple[Hook, ...]:
    """Return the files that are named, and the hooks in the folders that are named.

    Raises UsageError if nothing is named, and InputError for a file that cannot be read or a folder without
    hooks.
    """
    hooks: list[Hook] = []
    for path in paths:
        if not path.is_dir():
            hooks.append(_judged(path, version, commit))
            continue
        inside = [hook for file in _files_below(path) if (hook := _judged_inside(file, version, commit))]
        if not inside:
            raise InputError(
                f"{path} contains no hook of rigtune",
                "name a folder with files that `rigtune export --provision KIND` wrote",
            )
        hooks += inside
    if not hooks:
        raise UsageError("--check needs a file or a folder", "rigtune export --check provision/")
    return tuple(hooks)


def _files_below(folder: Path) -> list[Path]:
    """Return the files below a folder. Raises InputError for a folder that cannot be listed."""

    def stop(error: OSError) -> None:
        words = (error.strerror or "error").lower()
        raise InputError(f"cannot list {error.filename}: {words}", "check the path and its permissions")

    files: list[Path] = []
    for above, _, names in os.walk(folder, onerror=stop):
        files += (Path(above, name) for name in names)
        if len(files) > _MOST_FILES:
            raise InputError(
                f"{folder} contains more than {_MOST_FILES} files", "name the folder of the hooks"
            )
    return sorted(path for path in files if path.is_file())


def _judged_inside(path: Path, version: str, commit: str) -> Hook | None:
    """Return the hook in a file of a folder; None for any other file."""
    try:
        hook = _judged(path, version, commit)
    except InputError as error:
        return Hook(path=visible(str(path)), state="unknown", words=visible(error.message))
    return None if hook.state == "no hook" else hook


def _judged(path: Path, version: str, commit: str) -> Hook:
    name = visible(str(path))
    written = origin_of(read_head(path, _HEAD_BYTES).decode("utf-8", "replace"))
    this = f"this is {version} (commit {commit})"
    if written is None:
        words = 'no line "Written by rigtune VERSION (commit ...)", which `export --provision` writes'
        return Hook(path=name, state="no hook", words=words)
    if not written[0]:
        words = f"written by a version of rigtune that did not write its number; {this}"
        return Hook(path=name, state="differs", words=words)
    words = f"written by {written[0]} (commit {written[1]}); {this}"
    if written[0] == version and "unknown" in (written[1], commit):
        return Hook(path=name, state="unknown", words=words)
    if written != (version, commit):
        return Hook(path=name, state="differs", words=words)
    return Hook(path=name, state="same", words=f"written by {version} (commit {commit})")
