"""Read the packages of a Python interpreter from its files, without a start."""

from __future__ import annotations

import posixpath
import re

from probes.base.patterns import pattern
from probes.base.record import Reason, Record, Unknown, items_of, map_known, when_missing
from probes.parsers.host.version_outputs import python_assignments
from probes.sources.base import Source, read_text

_LIB = pattern(r"python(\d+\.\d+)t?")
_SETTING = pattern(r"^\s*([\w-]+)\s*=\s*(.*?)\s*$", re.MULTILINE)
_NCCL = pattern(r"nvidia_nccl_cu\d+-(\d+\.\d+\.\d+[\w.]*)\.dist-info")
_WHERE = "import sys; print(sys.prefix); print(sys.base_prefix); print(sys.version.split()[0])"


class Python(Record, kw_only=True):
    """An interpreter: its version and the folders that it imports packages from, in search order."""

    version: str | Unknown
    packages: tuple[str, ...]
    was_asked: bool = False
    """True if the interpreter was started once, because its files state nothing."""


class Torch(Record, kw_only=True):
    """The torch of an interpreter."""

    version: str
    cuda: str | Unknown | None
    """None for a build without CUDA."""
    nccl: str | Unknown | None
    folder: str
    """Folder of its packages."""


def exists(source: Source, path: str) -> bool | Unknown:
    """Return whether an interpreter exists."""
    return map_known(when_missing(source.link(path), None), lambda target: target is not None)


def read_python(source: Source, path: str, *, directory: str, may_ask: bool) -> Python | Unknown:
    """Return the interpreter at `path`, as seen from the working directory.

    A virtual environment has a pyvenv.cfg one or two levels above the named file (PEP 405); like in Python,
    links are followed only after that. A shim of pyenv is resolved by pyenv's own rules. Another file without
    a lib/pythonX.Y beside it is a wrapper: it is started once if `may_ask` allows it, and is Unknown
    otherwise.
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
        return Unknown(Reason.NOT_SUPPORTED, f"{path} is a wrapper, and it is not to be started here")
    return _asked(source, path)


def find_torch(source: Source, python: Python) -> Torch | Unknown | None:
    """Return the first torch that `python` would import; None if it has none."""
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
            "cuda", Unknown(Reason.UNPARSABLE, f"{folder}/torch/version.py does not speak of CUDA")
        )
        return Torch(
            version=version, cuda=cuda, nccl=None if cuda is None else _nccl(source, python), folder=folder
        )
    return unknown


def _nccl(source: Source, python: Python) -> str | Unknown:
    """Return the version of NVIDIA's wheel of NCCL; builds with NCCL inside libtorch have no wheel."""
    for folder in python.packages:
        for name in items_of(source.names(folder)):
            if (match := _NCCL.fullmatch(name)) is not None:
                return match[1]
    return Unknown(Reason.NOT_SUPPORTED, "torch carries NCCL inside and its files do not state the version")


def _behind_shim(source: Source, path: str, directory: str) -> str | None:
    """Return the interpreter that a pyenv shim selects.

    The version comes from $PYENV_VERSION, a .python-version in a parent folder, or the global setting
    (pyenv(1), "Choosing the Python version"). This saves the tenth of a second of the shim's shell scripts.
    """
    root, marker, name = path.rpartition("/shims/")
    if not marker:
        return None
    named = source.env("PYENV_VERSION")
    files = [posixpath.join(folder, ".python-version") for folder in _upwards(directory)]
    texts = (read_text(source, file) for file in (*files, f"{root}/version"))
    version = (
        named
        if isinstance(named, str) and named
        else next((text for text in texts if isinstance(text, str)), "")
    )
    target = f"{root}/versions/{version}/bin/{name}"
    # A file of the current folder names a version, never a path: what it leads to is started (CVE-2022-35861
    # of pyenv).
    is_name = version and "/" not in version and not version.startswith(".")
    return target if is_name and exists(source, target) is True else None


def _upwards(directory: str) -> list[str]:
    folders = [directory] if directory.startswith("/") else []
    while folders and folders[-1] != "/":
        folders.append(posixpath.dirname(folders[-1]))
    return folders


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
    text = source.run((path, "-c", _WHERE)).text()
    if isinstance(text, Unknown):
        return text
    lines = text.split("\n")
    if len(lines) < 3 or not lines[0].startswith("/") or not re.fullmatch(r"\d+\.\d+\.\d+\S*", lines[2]):
        return Unknown(Reason.UNPARSABLE, f"{path} answers {text[:60]!r}")
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
        names = source.names(posixpath.join(prefix, folder))
        if not isinstance(names, Unknown):
            versions.update(match[1] for name in names if (match := _LIB.fullmatch(name)) is not None)
    return sorted(versions, key=lambda version: [int(part) for part in version.split(".")], reverse=True)


def _prefix_packages(prefix: str, version: str) -> tuple[str, ...]:
    """Return the package folders of an installation; Debian's own Python has three."""
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
