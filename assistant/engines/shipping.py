"""Send the archive of rigtune to nodes that lack this version: the shell line that each node runs.

The line starts an installed rigtune of the wanted version, or else takes the archive into a private folder
on the node, compares its hash, starts it, and removes the folder.
"""

import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from assistant.engines.node_command import GRACE_S, NOT_WHOLE, timed
from assistant.storage import read_bytes

_NO_PLACE = 73
"""Exit code of the line if the node has no folder or no Python for the archive."""
_ASKS_S = 20
"""Time for an installed rigtune to state its version."""
_NEEDED_KIB = 64 * 1024
"""Free space for an archive, its unpacked files and their bytecode: 40 MB were measured (November 2026)."""
DEFAULT_FOLDERS = ("/tmp", "/var/tmp")  # noqa: S108 - `mktemp` makes a private folder there
"""Folders that are on a disk of the node itself on most systems."""
_LONGEST_ARCHIVE_BYTES = 2**30


class Archive(NamedTuple):
    """One file of `rigtune fleet pack`."""

    path: Path
    python: str
    """Version of Python that starts the archive: `3.11`."""
    sha256: str
    size: int
    """Bytes of the file."""
    machine: str
    """Architecture of the compiled modules in the archive, as `uname -m` names it: `x86_64`."""


class Shipment(NamedTuple):
    """The archives for nodes that do not have the wanted rigtune installed."""

    archives: tuple[Archive, ...]
    label: str
    """Output of `rigtune --version` of the wanted rigtune."""
    folders: tuple[str, ...] = DEFAULT_FOLDERS
    """Folders of a node in which the private folder may be made; the first that works is used."""

    def content(self) -> bytes:
        """Return all archives, one after the other, as a node reads them from its standard input."""
        return b"".join(
            read_bytes(archive.path, limit_bytes=_LONGEST_ARCHIVE_BYTES) for archive in self.archives
        )


def node_line(
    command: tuple[str, ...], limit_s: float, ship: Shipment | None, files: Sequence[str] = ()
) -> str:
    """Return the line of shell for a node, which ends by itself after `limit_s` seconds.

    Args:
        command: the path of the installed program, and its arguments.
        limit_s: seconds.
        ship: archives and the wanted version; None to start the program as it is.
        files: path of each archive on the node, if another program has copied them there; by default the
            node reads them from its standard input.
    """
    if ship is None:
        return timed(command, limit_s)
    program, *arguments = command
    words = shlex.join(arguments)
    ended = f"timeout -k {GRACE_S:g} $left"
    quoted = [shlex.quote(path) for path in files]
    removed = f"; rm -f -- {' '.join(quoted)}" if files else ""
    pythons = " or ".join(f"{archive.python} on {archive.machine}" for archive in ship.archives)
    no_python = f"this node has no Python {pythons} for the archive"
    no_folder = (
        f"no folder of this node has {_NEEDED_KIB >> 10} MiB free and lets programs run "
        f"(tried {shlex.join(ship.folders)}); give --node-folder DIR"
    )
    parts = [
        f"umask 077; end=$(($(date +%s)+{max(1, math.ceil(limit_s))}))",
        # `timeout 0` would have no limit
        "settle() { left=$((end-$(date +%s))); [ $left -gt 0 ] || exit 124; }",
        'fail() { echo "rigtune: $2" >&2; exit $1; }',
        f'dir=; clean() {{ rm -rf -- "$dir"{removed}; }}',
        f"for own in {shlex.quote(program)} rigtune; do "
        f'if [ "$(timeout {_ASKS_S} "$own" --version 2>/dev/null </dev/null)" = {shlex.quote(ship.label)} ]; '
        f'then clean; settle; exec {ended} "$own" {words} </dev/null; fi; done',
        "trap clean EXIT; trap 'exit 143' HUP INT TERM; python=",
        *_choices(ship.archives, quoted),
        f'[ -n "$python" ] || fail {_NO_PLACE} {shlex.quote(no_python)}',
        f"for base in {shlex.join(ship.folders)}; do "
        'dir=$(mktemp -d "$base/rigtune-XXXXXXXX" 2>/dev/null) || continue; '
        # a folder that executes nothing cannot load compiled modules
        f'[ "$(df -Pk "$dir" | tail -n 1 | awk "{{print \\$4}}")" -ge {_NEEDED_KIB} ] && '
        'cp /bin/sh "$dir/sh" 2>/dev/null && "$dir/sh" -c : 2>/dev/null && break; '
        'rm -rf -- "$dir"; dir=; done',
        f'[ -n "$dir" ] || fail {_NO_PLACE} {shlex.quote(no_folder)}',
        'settle; fetch >"$dir/rigtune.pyz" 2>/dev/null',
        '[ "$(sha256sum <"$dir/rigtune.pyz" | cut -c 1-64)" = $hash ] || '
        f'fail {NOT_WHOLE} "the archive did not arrive whole: is a disk full, or was the connection lost?"',
        f'settle; SHIV_ROOT="$dir" {ended} "$python" "$dir/rigtune.pyz" {words} </dev/null; exit $?',
    ]
    return shlex.join(("sh", "-c", "; ".join(parts)))


def _choices(archives: Sequence[Archive], files: Sequence[str]) -> list[str]:
    """Return the parts of the line that choose the first archive for the CPU and a Python of the node."""
    parts, offset = [], 1
    for number, archive in enumerate(archives):
        numbers = archive.python.replace(".", ", ")
        source = (
            f"cat -- {files[number]}"
            if files
            else f"timeout $((left/2+1)) tail -c +{offset} | head -c {archive.size}"
        )
        parts.append(
            f'[ -n "$python" ] || [ "$(uname -m)" != {archive.machine} ] || '
            f"for each in python{archive.python} python3; do "
            f'if "$each" -c "import sys; sys.exit(sys.version_info[:2] != ({numbers}))" 2>/dev/null; then '
            f"python=$each; hash={archive.sha256}; fetch() {{ {source}; }}; break; fi; done"
        )
        offset += archive.size
    return parts
