"""Parse lists of installed software.

These are the loader's cache, packages, `systemctl show`, IMEX, `lsmod` (which prints /proc/modules), and
versions that texts about other subjects mention.
"""

import re

from probes.base.patterns import pattern
from probes.base.record import Reason, Record, Unknown, quoted

_NVIDIA_SMI = pattern(r"(Driver|CUDA) Version\s*:\s*(\d{1,4}\.\d{1,4}(?:\.\d{1,4})?)")
_LIBRARY_MISMATCH = pattern(r"NVML library version:\s*(\d{1,4}\.\d{1,4}(?:\.\d{1,4})?)")
_LOADING = pattern(
    r"NVRM: loading NVIDIA UNIX (Open )?(?:\S{1,20} )?Kernel Module(?: for \S{1,20})?"
    r"\s{1,8}(\d{1,4}\.\d{1,4}(?:\.\d{1,4})?)"
)
_LINUX = pattern(r"\] Linux version (\d\S{1,60}) ")
_LIBRARY = pattern(r"\.so\.(\d{1,6}(?:\.\d{1,6}){1,3})$")
_IMEX = pattern(r"Domain State:\s*([A-Z_]{1,30})", re.IGNORECASE)
_EFA_LIBFABRIC = pattern(
    r"libfabric\S{0,20}?[-_ ](\d{1,3}\.\d{1,3}\.\d{1,3}\S{0,20}?)(?:-|\.el|\.amzn20|_|\s|$)"
)
_LONGEST_NAME = 4096

_HEADER = pattern(r"^Module\s+Size\s+Used by\s*$", re.MULTILINE)
_ROW = pattern(r"([A-Za-z0-9_-]{1,64})\s+(\d{1,12})\s+(-?\d{1,9})(?:\s.*)?")
_PART = pattern(
    r"^([a-z][a-z0-9_]{1,63})[ \t]+\d{3,10}[ \t]+-?\d{1,5}"
    r"(?:[ \t]+(?:-|[a-z][\w,]*)(?:[ \t]+Live[ \t].*)?)?[ \t]*$",
    re.MULTILINE,
)
"""A row of the list without its header, as `lsmod | grep` prints it."""
_OURS = frozenset(
    {
        "nvidia",
        "nvidia_uvm",
        "nvidia_peermem",
        "nv_peer_mem",
        "gdrdrv",
        "amdgpu",
        "efa",
        "ib_core",
        "mlx4_core",
        "mlx5_core",
    }
)
"""Modules whose rows identify a part of the list."""


def parse_ld_cache(data: bytes, beginning: str) -> tuple[str, ...]:
    """Return the paths of libraries in /etc/ld.so.cache whose file name starts with `beginning`.

    They are in the order in which the loader finds them.
    """
    name_start = f"/{beginning}".encode()
    paths: list[str] = []
    position = data.find(name_start)
    while position >= 0:
        start = data.rfind(b"\0", max(0, position - _LONGEST_NAME), position) + 1
        end = data.find(b"\0", position, position + _LONGEST_NAME)
        if start and end > 0 and data[start : start + 1] == b"/" and b"/" not in data[position + 1 : end]:
            paths.append(data[start:end].decode("utf-8", "replace"))
        position = data.find(name_start, position + 1)
    return tuple(dict.fromkeys(paths))


def library_version(path: str) -> str | Unknown:
    """Return the version of a library's path: `4.2.3` for `.../libdcgm.so.4.2.3`."""
    match = _LIBRARY.search(path)
    return match[1] if match else Unknown(Reason.NOT_SUPPORTED, f"{path[:120]} does not state a version")


def parse_packages(text: str) -> dict[str, str]:
    """Return versions by package from lines `name version`, the format requested from dpkg-query and rpm."""
    rows = (line.split() for line in text.splitlines())
    return {row[0]: row[1] for row in rows if len(row) == 2 and row[1][:1].isdigit()}


def parse_units(text: str) -> dict[str, str]:
    """Return states by unit, without `.service`, of `systemctl show -p Id,LoadState,ActiveState`.

    Units that do not exist are left out.
    """
    states: dict[str, str] = {}
    for block in text.split("\n\n"):
        fields = {
            name: value.strip() for name, _, value in (line.partition("=") for line in block.splitlines())
        }
        unit, state = fields.get("Id", ""), fields.get("ActiveState", "")
        if unit and state and fields.get("LoadState") != "not-found":
            states[unit.removesuffix(".service")] = state
    return states


def parse_imex(text: str) -> str | Unknown:
    """Return the state of the IMEX domain from the output of `nvidia-imex-ctl -N`."""
    match = _IMEX.search(text)
    return (
        match[1].upper() if match else Unknown(Reason.UNPARSABLE, f"nvidia-imex-ctl: {quoted(text.strip())}")
    )


def parse_efa_packages(text: str) -> str | Unknown:
    """Return the version of libfabric from /opt/amazon/efa_installed_packages."""
    match = _EFA_LIBFABRIC.search(text)
    return match[1] if match else Unknown(Reason.UNPARSABLE, "efa_installed_packages names no libfabric")


class Mentioned(Record, kw_only=True):
    """Versions that a text about another subject mentions; None for a version that it does not contain."""

    driver: str | None = None
    driver_open: bool | None = None
    cuda: str | None = None
    library: str | None = None
    kernel: str | None = None


def parse_mentioned(text: str) -> Mentioned:
    """Return the versions in an output or error of nvidia-smi, or of the last start in a kernel log."""
    smi = {match[1]: match[2] for match in _NVIDIA_SMI.finditer(text[:20_000])}
    mismatch = _LIBRARY_MISMATCH.search(text[:20_000])
    loads = list(_LOADING.finditer(text)) if "NVRM: loading" in text else []
    kernels = list(_LINUX.finditer(text)) if "] Linux version" in text else []
    return Mentioned(
        driver=loads[-1][2] if loads else smi.get("Driver"),
        driver_open=bool(loads[-1][1]) if loads else None,
        cuda=smi.get("CUDA"),
        library=mismatch[1] if mismatch else None,
        kernel=kernels[-1][1] if kernels else None,
    )


def recognise_lsmod(text: str) -> bool:
    if is_whole(text):
        return True
    return any(name in text for name in _OURS) and any(row[1] in _OURS for row in _PART.finditer(text))


def is_whole(text: str) -> bool:
    """Return whether the list is complete, so that a module that is missing from it is not loaded.

    A part of the list has no header.
    """
    return _HEADER.search(text) is not None


def parse_lsmod(text: str) -> tuple[str, ...]:
    """Return the loaded modules by name, with underscores, in the order of the text.

    Rows before a header are ignored.
    """
    header = _HEADER.search(text)
    rows = (
        _ROW.fullmatch(line[:1000].rstrip()) for line in text[header.end() if header else 0 :].splitlines()
    )
    return tuple(dict.fromkeys(row[1].replace("-", "_") for row in rows if row is not None))
