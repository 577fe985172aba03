"""Read shared libraries by the names of their files, like the loader; no library is opened."""

from __future__ import annotations

from collections.abc import Iterator

from probes.base.record import Reason, Unknown, items_of, when_missing
from probes.facts import Library
from probes.parsers.host.package_lists import library_version, parse_ld_cache
from probes.sources.base import Source

LIBRARY_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/local/nccl/lib",
    "/opt/nccl/build/lib",
)
"""Folders of the libraries in packages of NVIDIA, distributions and cloud images."""
_CACHE = "/etc/ld.so.cache"
_MOST_FOLDERS = 24


def loader_cache(source: Source) -> bytes | Unknown:
    """Return /etc/ld.so.cache; empty if the system has none, as with musl."""
    return when_missing(source.read(_CACHE), b"")


def version_of(source: Source, cache: bytes | Unknown, *sonames: str) -> tuple[str | Unknown | None, str]:
    """Return version and path of the first installed library; None if none is installed.

    The loader's cache states the path; without a cache the usual folders are read.
    """
    unknown = cache if isinstance(cache, Unknown) else None
    for soname in sonames:
        cached = () if isinstance(cache, Unknown) else parse_ld_cache(cache, soname)
        for path in cached if cache else [f"{folder}/{soname}" for folder in LIBRARY_FOLDERS]:
            target = source.link(path)
            if not isinstance(target, Unknown):
                return library_version(target), path
            if target.reason is not Reason.TOOL_MISSING:
                unknown = unknown or target
    return unknown, ""


def nccl_files(
    source: Source, cache: bytes | Unknown
) -> tuple[tuple[Library, ...] | Unknown, tuple[str, ...] | Unknown]:
    """Return every libnccl.so.2 on the loader's search path and NCCL's plugins, in search order."""
    if isinstance(cache, Unknown):
        return cache, cache
    libraries: dict[str, Library] = {}
    plugins: dict[str, None] = {}
    for path, found_by in _candidates(source, cache):
        name = path.rpartition("/")[2]
        if name.startswith("libnccl.so"):
            target = source.link(path)
            if not isinstance(target, Unknown):
                libraries.setdefault(
                    target, Library(path=path, version=library_version(target), found_by=found_by)
                )
        elif name.startswith("libnccl-") and found_by != "LD_PRELOAD":
            plugins[path] = None
    return tuple(libraries.values()), tuple(plugins)


def _candidates(source: Source, cache: bytes) -> Iterator[tuple[str, str]]:
    """Yield paths of NCCL's files and the reason why the loader uses them."""
    preloaded = source.env("LD_PRELOAD")
    for path in preloaded.replace(":", " ").split() if isinstance(preloaded, str) else ():
        if path.startswith("/"):
            yield path, "LD_PRELOAD"
    folders = source.env("LD_LIBRARY_PATH")
    for folder in folders.split(":")[:_MOST_FOLDERS] if isinstance(folders, str) else ():
        names = source.names(folder) if folder.startswith("/") else ()
        for name in items_of(names):
            if name == "libnccl.so.2" or (name.startswith("libnccl-") and ".so" in name):
                yield f"{folder.rstrip('/')}/{name}", "LD_LIBRARY_PATH"
    for path in parse_ld_cache(cache, "libnccl"):
        if path.endswith("/libnccl.so.2") or path.rpartition("/")[2].startswith("libnccl-"):
            yield path, "system"
