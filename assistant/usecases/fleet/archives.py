"""Archives of rigtune for nodes: build them from installed packages or from a wheelhouse, and find them."""

import hashlib
import importlib.metadata
import importlib.util
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import platformdirs

from assistant.engines.node_command import one_line
from assistant.engines.shipping import Archive
from assistant.storage import output_errors, read_bytes, scratch_folder, write_bytes
from probes.base.errors import InputError, UsageError, WorkerError

_PACKAGES = Path(__file__).resolve().parents[3]
"""Folder with the packages `assistant`, `probes` and `recipes`."""
_NAMES = ("assistant", "probes", "recipes")
_HASH_LETTERS = 16
_NAME = re.compile(
    r"rigtune-(?P<version>[^-]+)-(?P<commit>\w+)-py(?P<major>\d)(?P<minor>\d+)-(?P<machine>\w+)"
    r"-(?P<sha256>[0-9a-f]{16})\.pyz"
)
_LAST_LINES = 3


def default_folder() -> Path:
    """Return the folder in which `fleet pack` puts archives and `fleet check` looks for them."""
    return platformdirs.user_data_path("rigtune") / "archives"


def build_archive(
    folder: Path, build: Mapping[str, str], python: str | None = None, wheelhouse: Path | None = None
) -> Archive:
    """Build an archive that a Python of version `python` (default: this one) starts.

    Without a `wheelhouse`, the archive has the packages that are installed here, with the `version` and
    `commit` of `build`. Raises UsageError if these packages are for another Python, if rigtune itself is not
    installed or if shiv is missing, InputError for wheels of an older rigtune, WorkerError if pip or shiv
    fails, and OutputError.
    """
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    python = python or own
    if wheelhouse is None and python != own:
        raise UsageError(
            f"the packages that are installed here are for Python {own}, not for {python}",
            "give --wheelhouse DIR with wheels for that version; `assistant/docs/nodes.md` shows how",
        )
    if importlib.util.find_spec("shiv") is None:
        raise UsageError(
            "building an archive needs the Python module shiv",
            f"{shlex.quote(sys.executable)} -m pip install shiv",
        )
    with scratch_folder("rigtune-pack-") as scratch:
        site, built = scratch / "site", scratch / "rigtune.pyz"
        if wheelhouse is None:
            with output_errors(site):
                _copy_installed(site, build)
        else:
            _run(
                *("pip", "--disable-pip-version-check", "install", "--no-index", "--no-compile", "--quiet"),
                *("--only-binary=:all:", "--python-version", python, "--find-links", str(wheelhouse)),
                *("--target", str(site), "rigtune"),
            )
        _run(
            *("shiv", "--site-packages", str(site), "--reproducible", "--compressed"),
            *("--python", "/usr/bin/env python3", "--entry-point", "rigtune:main"),
            *("--output-file", str(built)),
        )
        data = read_bytes(built)
        labels = _labels_in(site)
    sha256 = hashlib.sha256(data).hexdigest()
    tag = f"py{python.replace('.', '')}-{platform.machine()}"
    path = folder / f"rigtune-{labels[0]}-{labels[1]}-{tag}-{sha256[:_HASH_LETTERS]}.pyz"
    write_bytes(path, data, 0o755)
    return Archive(path, python, sha256, len(data), platform.machine())


def read_archive(path: Path) -> Archive:
    """Return the archive in a file. Raises InputError if its name is wrong, or has not the file's hash."""
    match = _NAME.fullmatch(path.name)
    if match is None:
        raise InputError(f"{path} is no archive of rigtune", "`rigtune fleet pack` builds archives")
    data = read_bytes(path)
    sha256 = hashlib.sha256(data).hexdigest()
    if not sha256.startswith(match["sha256"]):
        raise InputError(f"{path} was changed after it was built", "build it again: `rigtune fleet pack`")
    return Archive(path, f"{match['major']}.{match['minor']}", sha256, len(data), match["machine"])


def archives_of(folder: Path, build: Mapping[str, str]) -> tuple[Archive, ...]:
    """Return the newest archive for each Python and CPU that has the version and commit of `build`."""
    newest: dict[tuple[str | Any, ...], tuple[float, Path]] = {}
    for path, match in _archives_in(folder):
        if (match["version"], match["commit"]) == (build["version"], build["commit"]):
            kind, entry = match.group("major", "minor", "machine"), (path.stat().st_mtime, path)
            newest[kind] = max(newest.get(kind, entry), entry)
    return tuple(read_archive(path) for _, path in newest.values())


def _archives_in(folder: Path) -> Iterator[tuple[Path, re.Match[str]]]:
    for path in sorted(folder.glob("rigtune-*.pyz")):
        if match := _NAME.fullmatch(path.name):
            yield path, match


def _run(module: str, *arguments: str) -> None:
    name = f"{module}.cli" if module == "shiv" else module
    done = subprocess.run(
        (sys.executable, "-I", "-m", name, *arguments), capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = " ".join((done.stderr or done.stdout).strip().splitlines()[-_LAST_LINES:])
        raise WorkerError(f"{module} failed: {one_line(last, 400)}", "check the wheelhouse and the disk")


def _labels_in(site: Path) -> tuple[str, str]:
    """Return version and commit of the rigtune in a folder of packages. Raises InputError."""
    (own,) = importlib.metadata.distributions(name="rigtune", path=[str(site)])
    try:
        return own.version, (site / "rigtune/_app/assistant/COMMIT").read_text("ascii").strip()[:12]
    except (FileNotFoundError, UnicodeDecodeError):
        raise InputError(
            f"the wheel of rigtune {own.version} does not state the commit of its build",
            "put a wheel of this rigtune into the wheelhouse; `assistant/docs/nodes.md` shows how",
        ) from None


def _copy_installed(site: Path, build: Mapping[str, str]) -> None:
    """Copy rigtune as a wheel lays it out, and the packages that it needs, into a new folder.

    Raises UsageError if a package that it needs, or rigtune itself, is not installed.
    """
    try:
        names = _needed_by("rigtune", set())
    except importlib.metadata.PackageNotFoundError:
        raise UsageError(
            "rigtune runs from a source tree here, and no installed package states what it needs",
            "install rigtune with pip, or give --wheelhouse DIR",
        ) from None
    application = site / "rigtune" / "_app"
    for name in _NAMES:
        for file in (_PACKAGES / name).rglob("*"):
            if file.is_file():
                _copy(file, application / file.relative_to(_PACKAGES))
    (application / "assistant" / "COMMIT").write_text(f"{build['commit']}\n", "ascii")
    shutil.copy2(application / "assistant" / "_entry.py", site / "rigtune" / "__init__.py")
    shutil.copy2(application / "assistant" / "_module_entry.py", site / "rigtune" / "__main__.py")
    metadata = site / f"rigtune-{build['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: rigtune\nVersion: {build['version']}\n")
    for name in names:
        for part in importlib.metadata.files(name) or ():
            if ".." not in part.parts:
                _copy(Path(str(part.locate())), site / part)


def _copy(file: Path, target: Path) -> None:
    """Copy a file, but no bytecode, which another process may replace meanwhile."""
    if file.parent.name != "__pycache__":
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, target)


def _needed_by(name: str, known: set[str]) -> set[str]:
    """Return the names of all installed packages that a package needs without its extras."""
    for text in importlib.metadata.requires(name) or ():
        requirement, _, marker = text.partition(";")
        match = re.match(r"[\w.-]+", requirement)
        if match is None or "extra" in marker or match[0] in known:
            continue
        try:
            importlib.metadata.distribution(match[0])
        except importlib.metadata.PackageNotFoundError:
            if marker:  # needed on other systems or by other versions of Python
                continue
            raise UsageError(f"the package {match[0]} is not installed", "install rigtune again") from None
        known.add(match[0])
        _needed_by(match[0], known)
    return known
