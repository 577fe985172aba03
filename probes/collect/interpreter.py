"""Collect the Python interpreter that runs the training."""

import posixpath
from collections.abc import Iterator, Sequence

from probes.base.record import Reason, Unknown, command_ref, file_ref, map_known, when_missing
from probes.collect.collecting import CollectOptions
from probes.facts import TrainingPython
from probes.reading.pythons import (
    ROOT_UID,
    Python,
    Torch,
    caller_uid,
    exists,
    find_torch,
    read_python,
    refusal,
)
from probes.sources.base import Source

_HERE = "./.venv"
_OWN = "rigtune's own"
_ON_PATH = "PATH"
_ACTIVE = ("VIRTUAL_ENV", "CONDA_PREFIX")


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return `training`: the interpreter that the user named, or else the first candidate that has torch."""
    if options.python is not None:
        return {"training": _named(source, options, options.python)}
    silence: Unknown | None = None
    refused: list[str] = []
    for path, found_by in _candidates(source, options):
        if isinstance(path, Unknown):
            silence = silence or path
            continue
        # Reading the files of an interpreter is harmless; starting a wrapper is not.
        python, torch = _read(source, options, path, may_ask=False)
        if torch is None or (isinstance(torch, Unknown) and torch.reason is Reason.TOOL_MISSING):
            continue
        if why := _refusal(source, path, found_by):
            refused.append(
                f"{path} is not started: {why}; if you train with this interpreter, add --python {path}"
            )
            silence = silence or Unknown(Reason.PERMISSION, refused[-1])
            continue
        if isinstance(python, Unknown) and options.ask_interpreters:
            python, torch = _read(source, options, path, may_ask=True)
        if isinstance(python, Python) and isinstance(torch, Torch):
            return {"training": _training(path, found_by, python, torch, refused)}
        if isinstance(torch, Unknown):
            silence = silence or when_missing(torch, None)
    missing = silence or Unknown(Reason.TOOL_MISSING, "no interpreter with torch was found")
    return {
        "training": TrainingPython(
            path=silence,
            python_version=missing,
            torch_version=silence,
            torch_cuda_version=missing,
            nccl_version=missing,
            refused=tuple(refused) if refused or silence is None else silence,
        )
    }


def _read(
    source: Source, options: CollectOptions, path: str, *, may_ask: bool
) -> tuple[Python | Unknown, Torch | Unknown | None]:
    """Return an interpreter and its torch; with `may_ask`, a wrapper may be started once."""
    python = read_python(source, path, directory=options.directory, may_ask=may_ask)
    return python, map_known(python, lambda python: find_torch(source, python))


def _refusal(source: Source, path: str, found_by: str) -> str:
    """Return why an interpreter that the user did not name must not be started; empty if it may be started.

    An environment that the user has activated may be started. Root must not start anything that another user
    could have written: an active environment must also be on the PATH, as after activation, and the current
    folder is not trusted. If the permissions are unknown on a live machine, the interpreter is refused. Older
    recordings lack the permissions, but nothing is started from a recording.
    """
    if found_by == _OWN:
        return ""
    caller = caller_uid(source)
    if isinstance(caller, Unknown) and not source.is_live:
        return ""
    is_root = not isinstance(caller, int) or caller == ROOT_UID
    if found_by in _ACTIVE and not is_root:
        return ""
    why = refusal(source, path, caller if isinstance(caller, int) else ROOT_UID)
    if isinstance(why, Unknown):
        return f"who can write it is unknown ({why.words})" if source.is_live else ""
    if why or not is_root:
        return why
    if found_by == _HERE:
        return "as root, rigtune starts no interpreter from the current folder unless you name it"
    folders = source.env("PATH")
    if isinstance(folders, str) and posixpath.dirname(path) in map(posixpath.normpath, folders.split(":")):
        return ""
    return f"as root, rigtune starts the interpreter of ${found_by} only if it is also on the PATH"


def _named(source: Source, options: CollectOptions, name: str) -> TrainingPython:
    path = _absolute(source, options, name)
    if isinstance(path, Unknown):
        return _unreadable(path, path)
    there = exists(source, path)
    if there is not True:
        absent = there or Unknown(Reason.TOOL_MISSING, f"{path} does not exist")
        return _unreadable(absent, absent)
    python, torch = _read(source, options, path, may_ask=options.ask_interpreters)
    if isinstance(python, Unknown):
        return _unreadable(path, python)
    return _training(path, "--python", python, torch)


def _unreadable(path: str | Unknown, reason: Unknown) -> TrainingPython:
    return TrainingPython(
        path=path,
        found_by="--python",
        python_version=reason,
        torch_version=reason,
        torch_cuda_version=reason,
        nccl_version=reason,
        refused=(),
    )


def _training(
    path: str, found_by: str, python: Python, torch: Torch | Unknown | None, refused: Sequence[str] = ()
) -> TrainingPython:
    question = command_ref((path, "-c", "..."), "started once to learn where its packages are")
    evidence = [question] if python.was_asked else []
    version: str | Unknown | None
    if isinstance(torch, Torch):
        version, cuda, nccl = torch.version, torch.cuda, torch.nccl
        evidence.append(file_ref(f"{torch.folder}/torch/version.py"))
    else:
        version = torch
        cuda = nccl = torch or Unknown(Reason.TOOL_MISSING, f"{path} has no torch")
        evidence += map(file_ref, python.packages)
    return TrainingPython(
        path=path,
        found_by=found_by,
        python_version=python.version,
        torch_version=version,
        torch_cuda_version=cuda,
        nccl_version=nccl,
        refused=tuple(refused),
        evidence=tuple(evidence),
    )


def _candidates(source: Source, options: CollectOptions) -> Iterator[tuple[str | Unknown, str]]:
    """Yield path and origin of the candidates by priority.

    Candidates that do not exist are left out; candidates that cannot be checked are kept.
    """
    for variable in _ACTIVE:
        prefix = source.env(variable)
        if isinstance(prefix, Unknown):
            yield prefix, variable
        elif prefix:
            yield from _if_there(source, f"{prefix}/bin/python", variable)
    if options.directory:
        yield from _if_there(source, f"{options.directory}/.venv/bin/python", _HERE)
    if options.own_python:
        yield from _if_there(source, options.own_python, _OWN)
    path = _on_path(source, "python3")
    if path is not None:
        yield path, _ON_PATH


def _if_there(source: Source, path: str, found_by: str) -> Iterator[tuple[str | Unknown, str]]:
    there = exists(source, path)
    if there:
        yield map_known(there, lambda _: path), found_by


def _on_path(source: Source, name: str) -> str | Unknown | None:
    """Return the first file of that name on $PATH."""
    folders = source.env("PATH")
    if not isinstance(folders, str):
        return folders
    paths = (posixpath.join(folder, name) for folder in folders.split(":") if folder.startswith("/"))
    return next((path for file in paths for path, _ in _if_there(source, file, _ON_PATH)), None)


def _absolute(source: Source, options: CollectOptions, name: str) -> str | Unknown:
    """Return the path to which the user's shell would resolve `name`."""
    if "/" not in name:
        return _on_path(source, name) or Unknown(Reason.TOOL_MISSING, f"no {name} on $PATH")
    if name.startswith("~/"):
        home = source.env("HOME")
        return (
            posixpath.join(home, name[2:]) if isinstance(home, str) else Unknown(Reason.NOT_RECORDED, "$HOME")
        )
    return posixpath.normpath(posixpath.join(options.directory, name))
