"""`rigtune fleet pack`: build the archive that `rigtune fleet check` sends to nodes."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assistant.cli.options import PATH
from assistant.cli.output import emit_text
from probes.base.errors import UsageError

if TYPE_CHECKING:
    from assistant.engines.shipping import Shipment


@click.command("pack")
@click.option("--out", "folder", type=PATH, default=None, metavar="DIR",
              help="Folder for the archive (default: the one in which `fleet check` looks).")  # fmt: skip
@click.option("--python-version", "python", default=None, metavar="X.Y",
              help="Python on the nodes (default: the version of this one).")  # fmt: skip
@click.option("--wheelhouse", type=PATH, default=None, metavar="DIR",
              help="Folder with the wheels of rigtune and of what it needs; default: what is installed "
                   "here. Nothing is downloaded.")  # fmt: skip
def pack(folder: Path | None, python: str | None, wheelhouse: Path | None) -> None:
    """Build one archive of rigtune for nodes that do not have it, and print its path."""
    from assistant.formats.build import build_labels
    from assistant.usecases.fleet.archives import build_archive, default_folder

    if python is not None and re.fullmatch(r"3\.\d+", python) is None:
        raise UsageError(f"{python[:20]!r} is no version of Python", "write for example 3.11")
    archive = build_archive(folder or default_folder(), build_labels(), python, wheelhouse)
    emit_text(f"{archive.path}\n# {archive.size / 1e6:.1f} MB, for Python {archive.python}")


def shipment(paths: tuple[Path, ...], node_folder: str | None) -> "Shipment | None":
    """Return the archives to send, by default the packed ones of this version; None if there are none.

    Raises InputError for a file that is no archive, and UsageError for a relative folder.
    """
    from assistant.engines.shipping import DEFAULT_FOLDERS, Shipment
    from assistant.formats.build import build_labels, build_line
    from assistant.usecases.fleet.archives import archives_of, default_folder, read_archive

    if node_folder is not None and not node_folder.startswith("/"):
        raise UsageError(
            f"--node-folder {node_folder[:60]!r} is no absolute path", "write for example /scratch"
        )
    archives = tuple(map(read_archive, paths)) or archives_of(default_folder(), build_labels())
    if not archives:
        return None
    return Shipment(archives, build_line(), (node_folder,) if node_folder else DEFAULT_FOLDERS)
