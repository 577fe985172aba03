"""Open the source that the user named: the live machine, a catalogue machine, a recording or pasted files."""

import sys
from pathlib import Path

from probes.base.errors import InputError, UsageError
from probes.base.record import printable
from probes.catalogue.hardware import load_catalogue
from probes.sources.base import MAX_GIVEN_BYTES, Readable, Source, read_bounded, refuse_named_pipe

_STDIN = "standard input"


def open_source(paths: tuple[Path, ...] = (), machine: str | None = None) -> Source:
    """Return the source for `--from` and `--machine`; the live machine if both are empty.

    The path `-` is standard input. Raises UsageError for both at once and for an unknown machine, and
    InputError for files that cannot be read or used.
    """
    if paths and machine is not None:
        raise UsageError(
            "--from and --machine exclude each other",
            "Give files of a machine, or the name of a catalogue machine.",
        )
    if machine is not None:
        return _catalogue_machine(machine)
    if paths:
        from probes.sources.loose import open_loose  # noqa: PLC0415 - not for a live check

        return open_loose(
            [(_STDIN if str(path) == "-" else printable(str(path)), _read(path)) for path in paths]
        )
    from probes.sources.live import LiveSource  # noqa: PLC0415 - not for planning

    return LiveSource()


def _catalogue_machine(name: str) -> Source:
    from probes.sources.catalogue import catalogue_source  # noqa: PLC0415 - see above

    catalogue = load_catalogue()
    row = catalogue.named_machine(name)
    gpu = catalogue.gpu(row.gpu)
    if gpu is None:
        raise LookupError(f"the catalogue has machine {row.id} but no GPU {row.gpu}")
    return catalogue_source(row, gpu)


def _read(path: Path) -> bytes:
    try:
        if str(path) == "-":
            return _bounded(sys.stdin.buffer, _STDIN) if sys.stdin is not None else b""
        if path.is_dir():
            raise InputError(f"{path} is a folder", "Give the files of this folder, one by one.")
        refuse_named_pipe(path)
        if not path.is_file() and not path.is_fifo():
            raise InputError(
                f"{path} is not a file", "Give a recording, or a file with the output of a command."
            )
        with path.open("rb") as file:
            return _bounded(file, str(path))
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror}", "Check the path and its permissions."
        ) from error


def _bounded(file: Readable, name: str) -> bytes:
    return read_bounded(
        file, name, MAX_GIVEN_BYTES, advice="Give a file with the output of one command, or a recording."
    )
