"""Read the packages of a Python interpreter from its files, and decide whether it may be started.

An interpreter that the user did not name may be started if nobody but the caller and root can have written
it. The owner of a file decides its content; the owner of a folder above the file, or of a link on the way,
decides which file is there. Sources: POSIX.1-2017, Base Definitions 4.6 (file access permissions) and 4.13
(pathname resolution); inode(7), the sticky bit.
"""

import pathlib
import posixpath
import re
import stat

from probes.base.patterns import pattern
from probes.base.record import Reason, Record, Unknown, items_of, map_known, quoted, when_missing
from probes.parsers.host.version_outputs import python_assignments
from probes.sources.base import Source, read_text

_LIB = pattern(r"python(\d+\.\d+)t?")
_SETTING = pattern(r"^\s*([\w-]+)\s*=\s*(.*?)\s*$", re.MULTILINE)
_NCCL = pattern(r"nvidia_nccl_cu\d+-(\d+\.\d+\.\d+[\w.]*)\.dist-info")
_QUESTION = "import sys; print(sys.prefix); print(sys.base_prefix); print(sys.version.split()[0])"

ROOT_UID = 0
_MOST_LINKS = 40
"""Maximum number of links that are followed, as in the kernel (MAXSYMLINKS)."""


class Python(Record, kw_only=True):
    """An interpreter: its version, and the folders from which it imports packages, in search order."""

    version: str | Unknown
    packages: tuple[str, ...]
    was_asked: bool = False
    """True if the interpreter was started once, because its files do not show where its packages are."""


class Torch(Record, kw_only=True):
    """The torch of an interpreter."""

    version: str
    cuda: str | Unknown | None
    """CUDA version of the build; None for a build without CUDA."""
    nccl: str | Unknown | None
    folder: str
    """Folder with torch's packages."""


def exists(source: Source, path: str) -> bool | Unknown:
    """Return whether an interpreter exists."""
    return map_known(when_missing(source.link(path), None), lambda target: target is not None)


def read_python(source: Source, path: str, *, directory: str, may_ask: bool) -> Python | Unknown:
    """Return the interpreter at `path`; `directory` is the working directory.

    A virtual environment has a pyvenv.cfg in the folder of the file or one level above (PEP 405); as in
    Python, links are followed only after that. A shim of pyenv is resolved by the rules of pyenv. Another
    file without a lib/pythonX.Y beside its folder is a wrapper. With `may_ask` a wrapper is started once;
    otherwise the result is Unknown.
    """
    path = _behind_shim(source, path, directory) or path
    folder = posixpath.dirname(posixpath.normpath(path))
    for prefix in (posixpath.dirname(folder), folder):
        configuration = read_text(source, posixpath.join(prefix, "pyvenv.cfg"))
        if not isinstance(configuration, Unknown):
            return _virtual_environment(source, prefix, dict(_SETTING.findall(configuration)))
    real = source.link(path)
    if isinstance(real, Unknown):
        return real
    installation = _installation(source, posixpath.dirname(posixpath.dirname(real)), posixpath.basename(real))
    if installation is not None:
        return installation
    if not may_ask:
        return Unknown(Reason.NOT_SUPPORTED, f"{path} is a wrapper, which must not be started here")
    return _asked(source, path)


def find_torch(source: Source, python: Python) -> Torch | Unknown | None:
    """Return the torch that `python` would import; None if no folder contains torch."""
    unknown: Unknown | None = None
    for folder in python.packages:
        text = read_text(source, f"{folder}/torch/version.py")
        if isinstance(text, Unknown):
            unknown = unknown if text.reason is Reason.TOOL_MISSING else unknown or text
            continue
        values = python_assignments(text)
        version = values.get("__version__")
        if not version:
            return Unknown(Reason.UNPARSABLE, f"{folder}/torch/version.py names no version")
        cuda = values.get(
            "cuda", Unknown(Reason.UNPARSABLE, f"{folder}/torch/version.py does not mention CUDA")
        )
        return Torch(
            version=version, cuda=cuda, nccl=None if cuda is None else _nccl(source, python), folder=folder
        )
    return unknown


def _nccl(source: Source, python: Python) -> str | Unknown:
    """Return the version of NVIDIA's wheel of NCCL; builds with NCCL inside libtorch have no wheel."""
    names = (name for folder in python.packages for name in items_of(source.names(folder)))
    wheel = next(filter(None, map(_NCCL.fullmatch, names)), None)
    inside = Unknown(
        Reason.NOT_SUPPORTED, "torch contains NCCL, but its files do not contain the version of NCCL"
    )
    return inside if wheel is None else wheel[1]


def _behind_shim(source: Source, path: str, directory: str) -> str | None:
    """Return the interpreter that a pyenv shim selects.

    The version comes from $PYENV_VERSION, a .python-version in a parent folder, or the global setting
    (pyenv(1), "Choosing the Python version"). The shim itself is not run, because its shell scripts take a
    tenth of a second.
    """
    root, marker, name = path.rpartition("/shims/")
    if not marker:
        return None
    named = source.env("PYENV_VERSION")
    folder = pathlib.PurePosixPath(directory)
    folders = (folder, *folder.parents) if folder.is_absolute() else ()
    files = (*(str(folder / ".python-version") for folder in folders), f"{root}/version")
    texts = (read_text(source, file) for file in files)
    version = (
        named
        if isinstance(named, str) and named
        else next((text for text in texts if isinstance(text, str)), "")
    )
    target = f"{root}/versions/{version}/bin/{name}"
    # A version from a file of the current folder selects a program that is started: the version must not be a
    # path (CVE-2022-35861 of pyenv).
    is_name = version and "/" not in version and not version.startswith(".")
    return target if is_name and exists(source, target) is True else None


def _virtual_environment(source: Source, prefix: str, settings: dict[str, str]) -> Python:
    number = settings.get("version") or settings.get("version_info", "")
    version = ".".join(number.split(".")[:3])
    short = ".".join(number.split(".")[:2])
    libraries = _libraries(source, prefix)
    chosen = short if short in libraries else libraries[0] if libraries else short
    packages = [f"{prefix}/lib/python{chosen}/site-packages", f"{prefix}/lib64/python{chosen}/site-packages"]
    if settings.get("include-system-site-packages", "").lower() == "true":
        home = posixpath.dirname(settings.get("home", ""))
        packages += [*_user_packages(source, chosen), *_prefix_packages(home, chosen)]
    unknown = Unknown(Reason.UNPARSABLE, f"{prefix}/pyvenv.cfg names no version")
    return Python(version=version or chosen or unknown, packages=tuple(packages))


def _installation(source: Source, prefix: str, executable: str) -> Python | None:
    libraries = _libraries(source, prefix)
    named = _LIB.fullmatch(executable)
    version = named[1] if named else libraries[0] if len(libraries) == 1 else ""
    if version not in libraries:
        return None
    return Python(
        version=version, packages=(*_user_packages(source, version), *_prefix_packages(prefix, version))
    )


def _asked(source: Source, path: str) -> Python | Unknown:
    text = source.run((path, "-c", _QUESTION)).text()
    if isinstance(text, Unknown):
        return text
    lines = text.split("\n")
    if len(lines) < 3 or not lines[0].startswith("/") or not re.fullmatch(r"\d+\.\d+\.\d+\S*", lines[2]):
        return Unknown(Reason.UNPARSABLE, f"{path} answers {quoted(text)}")
    prefix, base, version = lines[:3]
    short = ".".join(version.split(".")[:2])
    configuration = read_text(source, f"{prefix}/pyvenv.cfg")
    if prefix != base and not isinstance(configuration, Unknown):
        packages = _virtual_environment(source, prefix, dict(_SETTING.findall(configuration))).packages
    else:
        packages = (*_user_packages(source, short), *_prefix_packages(prefix, short))
    return Python(version=version, packages=packages, was_asked=True)


def _libraries(source: Source, prefix: str) -> list[str]:
    """Return the versions X.Y of the lib/pythonX.Y folders below `prefix`, newest first."""
    versions: set[str] = set()
    for folder in ("lib", "lib64"):
        matches = map(_LIB.fullmatch, items_of(source.names(posixpath.join(prefix, folder))))
        versions |= {match[1] for match in matches if match is not None}
    return sorted(versions, key=lambda version: [int(part) for part in version.split(".")], reverse=True)


def _prefix_packages(prefix: str, version: str) -> tuple[str, ...]:
    """Return the package folders of an installation, with those that only Debian's Python has."""
    library = posixpath.join(prefix, "lib")
    packages = (f"{library}/python{version}/site-packages", f"{prefix}/lib64/python{version}/site-packages")
    if prefix in ("/usr", ""):
        return (f"/usr/local/lib/python{version}/dist-packages", "/usr/lib/python3/dist-packages", *packages)
    if prefix == "/usr/local":
        return (*packages, f"/usr/local/lib/python{version}/dist-packages")
    return packages


def _user_packages(source: Source, version: str) -> tuple[str, ...]:
    """Return the folder of packages from `pip install --user` (PEP 370)."""
    home = source.env("HOME")
    return (f"{home}/.local/lib/python{version}/site-packages",) if isinstance(home, str) and home else ()


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
    return Unknown(Reason.UNPARSABLE, "/proc/self/status contains no user")


def refusal(source: Source, path: str, caller: int) -> str | Unknown:
    """Return why `path` must not be started for `caller`; empty if only the caller and root can write it.

    Every link on the path is followed step by step, and every folder of every step is checked.
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
    """Return the files and folders from the root to `path`, at least up to the first link."""
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
        return Unknown(Reason.UNPARSABLE, f"stat answers {quoted(text)}")
    return tuple(
        _Node(path=place, owner=owner, group=group, mode=mode)
        for place, (owner, group, mode) in zip(paths, rows, strict=True)
    )


def _writer(nodes: tuple[_Node, ...], caller: int) -> str:
    """Return who else can replace one of `nodes`; empty if nobody can."""
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
    """Return who can write `node` besides its owner.

    A group with the number of the caller is the private group of the caller, and counts as the caller.
    """
    if node.mode & stat.S_IWOTH:
        return "everybody"
    is_private = caller != ROOT_UID and node.owner == node.group == caller
    return f"group {node.group}" if node.mode & stat.S_IWGRP and not is_private else ""
