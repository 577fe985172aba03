"""Read modules, services, helpers and plugins of the software around training, for `collect/software.py`."""

from __future__ import annotations

from probes.base.evidence import command_ref, file_ref
from probes.base.record import (
    DEEP_ONLY,
    EvidenceRef,
    Reason,
    Record,
    Unknown,
    items_of,
    map_known,
    when_missing,
)
from probes.base.versions import numbers_of
from probes.parsers.host.package_lists import parse_efa_packages, parse_lsmod
from probes.reading.libraries import loader_cache, nccl_files, version_of
from probes.reading.outputs import outputs
from probes.reading.service_states import FABRIC_MANAGER, SHOW, Packages, imex, packages, services
from probes.sources.base import Source, read_text

_MODULES = ("/proc/modules", "/sys/module")
_RELEVANT_MODULES = (
    "nvidia",
    "nv_peer_mem",
    "gdrdrv",
    "ib_",
    "mlx",
    "rdma",
    "iw_cm",
    "efa",
    "irdma",
    "bnxt_re",
    "nouveau",
    "knem",
)
_OFED = "/sys/module/mlx_compat/version"
"""File that only the vendor's modules have; the kernel's modules need no such shim."""
_OFED_VERSION = "/sys/module/mlx5_core/version"
_GDRCOPY = "/sys/module/gdrdrv/version"
_EFA_PACKAGES = "/opt/amazon/efa_installed_packages"
_CHANNELS = "/dev/nvidia-caps-imex-channels"
_BY_PACKAGE = {
    "dcgm_version": ("datacenter-gpu-manager-4-core", "datacenter-gpu-manager"),
    "container_toolkit_version": ("nvidia-container-toolkit",),
    "libfabric_version": ("libfabric-aws", "libfabric1", "libfabric"),
    "gdrcopy_version": ("libgdrapi", "gdrcopy"),
    "ofed_version": ("mlnx-ofed-kernel-dkms", "mlnx-ofa_kernel", "doca-ofed"),
}


class _Version(Record, kw_only=True):
    value: str | Unknown | None
    """Version; None if nothing is installed."""
    ref: EvidenceRef | None = None


def installed(source: Source, evidence: list[EvidenceRef], *, deep: bool) -> dict[str, object]:
    """Return fields of `Software` by name."""
    by_package, cache = packages(source, deep=deep), loader_cache(source)
    by_library = {
        "dcgm_version": _library(source, cache, "libdcgm.so.4", "libdcgm.so.3", "libdcgm.so.2"),
        "container_toolkit_version": _library(source, cache, "libnvidia-container.so.1"),
        "libfabric_version": _libfabric(source, cache),
        "gdrcopy_version": _module(source, _GDRCOPY) or _library(source, cache, "libgdrapi.so.2"),
        "ofed_version": _ofed(source),
        "driver_library_version": _library(source, cache, "libnvidia-ml.so.1"),
    }
    versions = {name: _best(name, version, by_package, evidence) for name, version in by_library.items()}
    libraries, plugins = nccl_files(source, cache)
    states = services(source, deep=deep)
    if not isinstance(states, Unknown):
        evidence.append(command_ref(SHOW))
    return {
        **versions,
        "fabric_manager_version": _fabric_manager_version(source, evidence, deep=deep),
        "modules": _modules(source, evidence),
        "services": states,
        "imex": imex(source, deep=deep),
        "imex_channels": _channels(source),
        "nccl_plugins": plugins,
        "nccl_libraries": libraries,
    }


def _best(
    name: str, version: _Version, by_package: Packages | Unknown, evidence: list[EvidenceRef]
) -> str | Unknown | None:
    """Return the version in the file, else the version that the package manager reports."""
    if isinstance(version.value, str):
        evidence += [version.ref] if version.ref else []
        return version.value
    for package in _BY_PACKAGE.get(name, ()):
        if not isinstance(by_package, Unknown) and package in by_package.versions:
            evidence.append(command_ref(by_package.argv))
            return by_package.versions[package]
    return version.value


def _library(source: Source, cache: bytes | Unknown, *sonames: str) -> _Version:
    value, path = version_of(source, cache, *sonames)
    return _Version(value=value, ref=file_ref(path) if path else None)


def _module(source: Source, path: str) -> _Version | None:
    text = read_text(source, path)
    return None if isinstance(text, Unknown) else _Version(value=text, ref=file_ref(path))


def _libfabric(source: Source, cache: bytes | Unknown) -> _Version:
    """Return the version of libfabric; the library's file name states only the version of its interface."""
    text = read_text(source, _EFA_PACKAGES)
    if not isinstance(text, Unknown):
        return _Version(value=parse_efa_packages(text), ref=file_ref(_EFA_PACKAGES))
    library = _library(source, cache, "libfabric.so.1")
    if isinstance(library.value, str):
        return _Version(value=Unknown(Reason.NOT_SUPPORTED, "its library does not state it"))
    return library


def _ofed(source: Source) -> _Version:
    shim = read_text(source, _OFED)
    own = shim if isinstance(shim, Unknown) else read_text(source, _OFED_VERSION)
    if isinstance(own, Unknown):
        return _Version(value=when_missing(own, None))
    return _Version(value=own, ref=file_ref(_OFED_VERSION))


def _modules(source: Source, evidence: list[EvidenceRef]) -> tuple[str, ...] | Unknown:
    """Return loaded modules, and built-in ones with parameters; of a pasted lsmod only the former."""
    modules: set[str] = set()
    failure: Unknown | None = None
    loaded = read_text(source, _MODULES[0])
    if isinstance(loaded, Unknown):
        failure = loaded
    else:
        modules.update(parse_lsmod(loaded))
        evidence.append(file_ref(_MODULES[0]))
    names = source.names(_MODULES[1])
    if not isinstance(names, Unknown):
        modules.update(names)
    pasted = outputs(source, "lsmod")
    for output in items_of(pasted):
        modules.update(parse_lsmod(output.text))
        evidence.append(output.evidence)
    if failure is not None and isinstance(names, Unknown) and isinstance(pasted, Unknown):
        return failure
    return tuple(sorted(name for name in modules if name.startswith(_RELEVANT_MODULES)))


def _fabric_manager_version(
    source: Source, evidence: list[EvidenceRef], *, deep: bool
) -> str | Unknown | None:
    """Return the version, which only the command and the log state; None if not installed."""
    for output in items_of(outputs(source, "fabric-manager-log")):
        # Only pasted texts need this module.
        from probes.parsers.fabric.fabric_manager_log import parse_version  # noqa: PLC0415

        if (logged := parse_version(output.text)) is not None:
            evidence.append(output.evidence)
            return logged
    path = f"/usr/bin/{FABRIC_MANAGER[0]}"
    link = source.link(path)
    if isinstance(link, Unknown):
        return when_missing(link, None)
    if not deep:
        return DEEP_ONLY
    text = source.run(FABRIC_MANAGER, timeout_s=5).text()
    if isinstance(text, Unknown):
        return text
    version = text.strip().rpartition(":")[2].strip()
    if not numbers_of(version):
        return Unknown(Reason.UNPARSABLE, f"{FABRIC_MANAGER[0]}: {text[:60]!r}")
    evidence.append(command_ref(FABRIC_MANAGER))
    return version


def _channels(source: Source) -> int | Unknown:
    names = when_missing(source.names(_CHANNELS), ())
    return map_known(names, lambda names: sum(name.startswith("channel") for name in names))
