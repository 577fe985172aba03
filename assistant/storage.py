"""Write files completely or not at all, into a run folder that later runs can read.

A file gets its name only after its content is complete, so that readers of the folder find only complete
files, even if rigtune was killed. All results, recipes and scripts are written by the functions of this
module.
"""

import contextlib
import errno
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import BinaryIO

import msgspec
import platformdirs

from probes.base.errors import InputError, OutputError
from probes.base.record import Record, from_json, to_json
from probes.facts.measurements import SCHEMA_VERSION, MeasurementSet
from probes.sources.base import read_bounded, refuse_named_pipe
from recipes.launch.recipe import Artifact

_HINTS = {
    errno.EACCES: "choose a folder that you may write to",
    errno.EPERM: "choose a folder that you may write to",
    errno.EROFS: "the file system is read-only; choose another folder",
    errno.ENOSPC: "the disk is full; free some space or choose another folder",
    errno.EFBIG: "the file would be larger than the limit of this shell (ulimit -f)",
    errno.EDQUOT: "your quota is used up; free some space or choose another folder",
    errno.ENOTDIR: "a part of that path is a file; choose another folder",
    errno.EISDIR: "a folder has the name of the file; remove it or choose another folder",
}


_BLOCK_BYTES = 1 << 20
"""Bytes that are read at once in the search for the end of a journal's last complete line."""


def default_run_directory() -> Path:
    """Return a new run folder in the user's state directory, named by the UTC time."""
    return (
        platformdirs.user_state_path("rigtune")
        / "runs"
        / datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    )


@contextlib.contextmanager
def output_errors(path: Path) -> Iterator[None]:
    """Raise an OutputError that names `path` for each error of the system in the body."""
    try:
        yield
    except OSError as error:
        words = os.strerror(error.errno) if error.errno else str(error)
        hint = _HINTS.get(error.errno or 0, "check the path, or choose another folder")
        raise OutputError(f"cannot write {path}: {words.lower()}", hint) from error


def make_directory(path: Path) -> Path:
    """Create `path` and its missing parents. Raises OutputError if this fails or `path` is not writable."""
    with output_errors(path):
        path.mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return path


@contextlib.contextmanager
def scratch_folder(prefix: str) -> Iterator[Path]:
    """Yield a private temporary folder, which is removed at the end. Raises OutputError."""
    try:
        folder = tempfile.mkdtemp(prefix=prefix)
    except OSError as error:
        words = os.strerror(error.errno or 0).lower()
        place = os.environ.get("TMPDIR", "/tmp")  # noqa: S108 - the first place that Python tries
        raise OutputError(
            f"cannot make a temporary folder in {place}: {words}", "free some space there, or set TMPDIR"
        ) from error
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def refuse_unwritable(path: Path) -> None:
    """Raise OutputError if nothing can be written to `path`.

    Callers do this before long work. The disk may still fill up later.
    """
    with output_errors(path):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        target = (
            path
            if path.exists() and not path.is_file()
            else next(folder for folder in path.absolute().parents if folder.exists())
        )
        if target != path and not target.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not os.access(target, os.W_OK | (os.X_OK if target != path else 0)):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def write_bytes(path: Path, data: bytes, mode: int = 0o644, *, for_others: bool = False) -> None:
    """Replace `path` by a complete file with `data`, or leave it unchanged. Raises OutputError.

    A device or a pipe is written to directly. With `for_others`, the umask does not reduce `mode`, because a
    program of another user reads the file.
    """
    with writing(path, mode) as file:
        file.write(data)
        if for_others and stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            os.fchmod(file.fileno(), mode)


@contextlib.contextmanager
def writing(path: Path, mode: int = 0o644) -> Iterator[BinaryIO]:
    """Yield a file that replaces `path` when the body ends, and is dropped if the body raises.

    A device or a pipe is written to directly. Raises OutputError, also if the body fails to write.
    """
    with output_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if path.exists() and not path.is_file():
            with path.open("wb") as device:  # /dev/stdout and pipes cannot be replaced
                yield device
            return
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            with _complete(temporary, mode) as file:
                yield file
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def _complete(path: Path, mode: int) -> Iterator[BinaryIO]:
    """Yield a file that gets its name only when all its data is on disk, if the file system has O_TMPFILE.

    The caller's umask removes permissions from `mode`.
    """
    path.unlink(missing_ok=True)
    try:
        descriptor = os.open(path.parent, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, mode)
        named = False
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL):
            raise
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, mode)
        named = True
    with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor
        yield file
        file.flush()
        os.fsync(descriptor)
        if not named:
            # With a directory descriptor, Python uses linkat(AT_SYMLINK_FOLLOW); a plain link() would link
            # the symbolic link itself.
            os.link(f"/proc/self/fd/{descriptor}", path, src_dir_fd=descriptor, follow_symlinks=True)


@contextlib.contextmanager
def appending(path: Path, whole_bytes: int) -> Iterator[Callable[[bytes], None]]:
    """Yield a function that appends a line to a journal and returns when the line is on disk.

    The file is first cut to `whole_bytes`, the length of its complete lines, because a killed run may have
    left half a line. Raises OutputError, also if another process appends to the file, or has appended since
    the caller read the file.
    """
    with output_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as file:
            try:
                fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise OutputError(
                    f"another rigtune writes to {path}", "wait for its end, or choose another folder"
                ) from error
            except OSError:
                pass  # a file system without locks
            file.seek(whole_bytes)
            if b"\n" in file.read():
                raise OutputError(
                    f"another rigtune has written to {path} meanwhile",
                    "start again, so that its lines are read first",
                )
            file.truncate(whole_bytes)

            def append(line: bytes) -> None:
                with output_errors(path):
                    file.write(line)
                    file.flush()
                    os.fsync(file.fileno())

            yield append


def clear_partial_files(directory: Path) -> None:
    """Remove files of a run that was killed between completing a file and renaming it."""
    for leftover in directory.glob(".*.tmp"):
        with output_errors(leftover):
            leftover.unlink(missing_ok=True)


def write_record(path: Path, record: Record) -> None:
    """Write `record` as JSON that only its owner may read: it contains names of the machine and its users."""
    write_bytes(path, to_json(record), mode=0o600)


def remove_file(path: Path) -> None:
    """Remove a file of an earlier run if there is one. Raises OutputError, for example for a folder."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        words = os.strerror(error.errno or 0).lower()
        raise OutputError(f"cannot remove {path}: {words}", "remove it, or choose another folder") from error


def write_files(directory: Path, artifacts: Iterable[Artifact]) -> tuple[Path, ...]:
    """Write every artifact below `directory`, or none, and return the paths in order.

    The files get their names in the order of `artifacts` when all of them are complete. Raises OutputError,
    also for a path that leads out of the folder.
    """
    make_directory(directory)
    paths = {directory / artifact.path: artifact for artifact in artifacts}
    for artifact in paths.values():
        if Path(artifact.path).is_absolute() or ".." in Path(artifact.path).parts:
            raise OutputError(
                f"artifact {artifact.path!r} leads out of {directory}",
                "please report this bug: launchers name files below the folder",
            )
    with contextlib.ExitStack() as files:
        for path, artifact in reversed(paths.items()):  # the file that is opened last gets its name first
            file = files.enter_context(writing(path, artifact.mode))
            file.write(artifact.text.encode("utf-8", "surrogateescape"))
            file.flush()
    return tuple(paths)


def read_bytes(path: Path, *, limit_bytes: int = 256 * 1024**2) -> bytes:
    """Return the content of a file that the user named. Raises InputError."""
    with _opened(path) as file:
        return read_bounded(file, str(path), limit_bytes, advice="this is not a file of the expected kind")


def read_head(path: Path, size: int) -> bytes:
    """Return at most the first `size` bytes of a file that the user named. Raises InputError."""
    with _opened(path) as file:
        return file.read(size)


def complete_lines(path: Path, *, longest_bytes: int) -> Iterator[bytes]:
    """Yield the complete lines of a journal; a missing file has none. Raises InputError.

    A killed run may have left half a line at the end, which is left out.
    """
    if not path.exists():
        return
    with _opened(path) as file:
        while (line := file.readline(longest_bytes)).endswith(b"\n"):
            yield line
        if len(line) == longest_bytes:
            raise InputError(
                f"{path} has a line of more than {longest_bytes >> 20} MiB",
                "this is not a file of the expected kind",
            )


def complete_bytes(path: Path) -> int:
    """Return the size of the complete lines of a journal; 0 for a missing file. Raises InputError."""
    if not path.exists():
        return 0
    with _opened(path) as file:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - _BLOCK_BYTES)
            file.seek(start)
            if (place := file.read(end - start).rfind(b"\n")) >= 0:
                return start + place + 1
            end = start
    return 0


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    try:
        if path.is_dir():
            raise InputError(f"{path} is a folder, but a file is needed", "name the file itself")
        refuse_named_pipe(path)
        with path.open("rb") as file:
            yield file
    except OSError as error:
        words = os.strerror(error.errno).lower() if error.errno else str(error)
        raise InputError(f"cannot read {path}: {words}", "check the path and its permissions") from error


class _Written(Record, kw_only=True):
    """The required fields of a report of measurements.

    All fields of `MeasurementSet` have defaults; without these required fields, any JSON object would be
    accepted as a `MeasurementSet`.
    """

    schema_version: int
    measurements: tuple[msgspec.Raw, ...]


def read_measurements(path: Path) -> MeasurementSet:
    """Read a file of `rigtune bench` or `rigtune auto`. Raises InputError with the place of the fault."""
    remedy = "`rigtune bench -o FILE.json` writes such a file"
    data = read_bytes(path)
    if not data.strip():
        raise InputError(f"{path} is empty", remedy)
    try:
        version = from_json(data, _Written).schema_version
        measured = from_json(data, MeasurementSet)
    except msgspec.DecodeError as error:
        raise InputError(f"{path} is not a JSON report of measurements: {error}", remedy) from error
    if version != SCHEMA_VERSION:
        raise InputError(f"{path} was written by another version of rigtune (schema {version})", remedy)
    return measured
