"""Read libraries, modules, services and packages of the software around training, for `collect/software.py`.

Libraries are found by their file names, as by the loader; no library is opened.
"""

from collections.abc import Iterator

from probes.base.record import (
    DEEP_ONLY,
    NOT_RECORDED,
    EvidenceRef,
    Reason,
    Record,
    Unknown,
    command_ref,
    file_ref,
    first_unknown,
    items_of,
    known,
    map_known,
    quoted,
    value_or,
    when_missing,
)
from probes.base.versions import numbers_of
from probes.facts import Library, State, states
from probes.parsers.host.package_lists import (
    library_version,
    parse_efa_packages,
    parse_imex,
    parse_ld_cache,
    parse_lsmod,
    parse_packages,
    parse_units,
)
from probes.reading.texts import outputs
from probes.sources.base import Source, read_text

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
_MODULES = "/proc/modules"
_RELEVANT_MODULES = (
    "nvidia", "nv_peer_mem", "gdrdrv", "ib_", "mlx", "rdma", "iw_cm", "efa", "irdma", "bnxt_re", "nouveau",
    "knem",
)  # fmt: skip
_OFED = "/sys/module/mlx_compat/version"
"""File of the compatibility layer of the vendor's modules (OFED).

The file does not exist with the kernel's own modules, which need no such layer.
"""
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
_UNITS = (
    "nvidia-persistenced", "nvidia-fabricmanager", "nvidia-imex", "nvidia-dcgm", "dcgm-exporter",
    "openibd", "slurmd", "munge", "containerd", "docker", "irqbalance", "nvidia-cdi-refresh",
)  # fmt: skip
_SHOW = ("systemctl", "show", "-p", "Id,LoadState,ActiveState", *(f"{unit}.service" for unit in _UNITS))
_SYSTEMD = "/run/systemd/system"
_IMEX = ("nvidia-imex-ctl", "-N")
_IMEX_FILE = "/usr/bin/nvidia-imex-ctl"
_PACKAGES = (
    "datacenter-gpu-manager", "datacenter-gpu-manager-4-core", "nvidia-container-toolkit", "libfabric1",
    "libfabric-aws", "libfabric", "libgdrapi", "gdrcopy", "mlnx-ofed-kernel-dkms", "mlnx-ofa_kernel",
    "doca-ofed", "libnccl2", "nvidia-imex",
)  # fmt: skip
_FABRIC_MANAGER = ("nv-fabricmanager", "--version")
_DPKG = ("dpkg-query", "-W", "-f", "${Package} ${Version}\\n", *_PACKAGES)
_RPM = ("rpm", "-q", "--qf", "%{NAME} %{VERSION}\\n", *_PACKAGES)


class _Version(Record, kw_only=True):
    value: str | Unknown | None
    """Version; None if nothing is installed."""
    ref: EvidenceRef | None = None


class _Packages(Record, kw_only=True):
    """The versions that a package manager reports."""

    versions: dict[str, str]
    argv: tuple[str, ...]


def installed(source: Source, evidence: list[EvidenceRef], *, deep: bool) -> dict[str, object]:
    """Return fields of `Software` by name."""
    packages = _packages(source) if deep else DEEP_ONLY
    cache = when_missing(source.read(_CACHE), b"")  # a system with musl has no such file
    by_library = {
        "dcgm_version": _library(source, cache, "libdcgm.so.4", "libdcgm.so.3", "libdcgm.so.2"),
        "container_toolkit_version": _library(source, cache, "libnvidia-container.so.1"),
        "libfabric_version": _libfabric(source, cache),
        "gdrcopy_version": _gdrcopy(source, cache),
        "ofed_version": _ofed(source),
        "driver_library_version": _library(source, cache, "libnvidia-ml.so.1"),
    }
    versions = {name: _best(name, version, packages, evidence) for name, version in by_library.items()}
    libraries, plugins = _nccl_files(source, cache)
    devices = when_missing(source.names(_CHANNELS), ())
    services = _services(source, evidence) if deep else DEEP_ONLY
    return {
        **versions,
        "fabric_manager_version": _fabric_manager_version(source, evidence, deep=deep),
        "modules": _modules(source, evidence),
        "services": services,
        "imex": _imex(source, deep=deep),
        "imex_channels": map_known(devices, lambda names: sum(name.startswith("channel") for name in names)),
        "nccl_plugins": plugins,
        "nccl_libraries": libraries,
    }


def _best(
    name: str, version: _Version, packages: _Packages | Unknown, evidence: list[EvidenceRef]
) -> str | Unknown | None:
    """Return the version in the file, or else the version that the package manager reports."""
    if isinstance(version.value, str):
        evidence += [version.ref] if version.ref else []
        return version.value
    for package in _BY_PACKAGE.get(name, ()):
        if not isinstance(packages, Unknown) and package in packages.versions:
            evidence.append(command_ref(packages.argv))
            return packages.versions[package]
    return version.value


def _library(source: Source, cache: bytes | Unknown, *sonames: str) -> _Version:
    """Return the version of the first installed library; None if none is installed.

    The loader's cache contains the path; if there is no cache, the usual folders are read.
    """
    unknown = first_unknown(cache)
    for soname in sonames:
        cached = () if isinstance(cache, Unknown) else parse_ld_cache(cache, soname)
        for path in cached if cache else [f"{folder}/{soname}" for folder in LIBRARY_FOLDERS]:
            target = source.link(path)
            if not isinstance(target, Unknown):
                return _Version(value=library_version(target), ref=file_ref(path))
            unknown = unknown or when_missing(target, None)
    return _Version(value=unknown)


def _gdrcopy(source: Source, cache: bytes | Unknown) -> _Version:
    module = read_text(source, _GDRCOPY)
    if isinstance(module, Unknown):
        return _library(source, cache, "libgdrapi.so.2")
    return _Version(value=module, ref=file_ref(_GDRCOPY))


def _libfabric(source: Source, cache: bytes | Unknown) -> _Version:
    """Return the version of libfabric; the library's file name has only the version of its interface."""
    text = read_text(source, _EFA_PACKAGES)
    if not isinstance(text, Unknown):
        return _Version(value=parse_efa_packages(text), ref=file_ref(_EFA_PACKAGES))
    library = _library(source, cache, "libfabric.so.1")
    if isinstance(library.value, str):
        return _Version(value=Unknown(Reason.NOT_SUPPORTED, "the library does not contain its version"))
    return library


def _ofed(source: Source) -> _Version:
    shim = read_text(source, _OFED)
    own = shim if isinstance(shim, Unknown) else read_text(source, _OFED_VERSION)
    if isinstance(own, Unknown):
        return _Version(value=when_missing(own, None))
    return _Version(value=own, ref=file_ref(_OFED_VERSION))


def _modules(source: Source, evidence: list[EvidenceRef]) -> tuple[str, ...] | Unknown:
    """Return the relevant modules that are loaded or built in (lsmod lists only those that are loaded)."""
    loaded, in_sysfs = read_text(source, _MODULES), source.names("/sys/module")
    pasted = outputs(source, "lsmod")
    if isinstance(loaded, Unknown) and isinstance(in_sysfs, Unknown) and isinstance(pasted, Unknown):
        return loaded
    modules = {*parse_lsmod(value_or(loaded, "")), *items_of(in_sysfs)}
    evidence += [] if isinstance(loaded, Unknown) else [file_ref(_MODULES)]
    for output in items_of(pasted):
        modules.update(parse_lsmod(output.text))
        evidence.append(output.evidence)
    return tuple(sorted(name for name in modules if name.startswith(_RELEVANT_MODULES)))


def _fabric_manager_version(
    source: Source, evidence: list[EvidenceRef], *, deep: bool
) -> str | Unknown | None:
    """Return the version of Fabric Manager; None if it is not installed.

    Only the command and the log contain the version.
    """
    for output in items_of(outputs(source, "fabric-manager-log")):
        from probes.parsers.fabric.fabric_manager_log import parse_version  # noqa: PLC0415 - pastes only

        logged = parse_version(output.text)
        if logged is not None:
            evidence.append(output.evidence)
            return logged
    program = when_missing(source.link(f"/usr/bin/{_FABRIC_MANAGER[0]}"), None)
    if program is None or isinstance(program, Unknown):
        return program
    if not deep:
        return DEEP_ONLY
    text = source.run(_FABRIC_MANAGER, timeout_s=5).text()
    if isinstance(text, Unknown):
        return text
    version = text.strip().rpartition(":")[2].strip()
    if not numbers_of(version):
        return Unknown(Reason.UNPARSABLE, f"{_FABRIC_MANAGER[0]}: {quoted(text)}")
    evidence.append(command_ref(_FABRIC_MANAGER))
    return version


def _nccl_files(
    source: Source, cache: bytes | Unknown
) -> tuple[tuple[Library, ...] | Unknown, tuple[str, ...] | Unknown]:
    """Return every libnccl.so.2 on the loader's search path and NCCL's plugins, in search order."""
    if isinstance(cache, Unknown):
        return cache, cache
    libraries: dict[str, Library] = {}
    plugins: dict[str, None] = {}
    for path, found_by in _nccl_paths(source, cache):
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


def _nccl_paths(source: Source, cache: bytes) -> Iterator[tuple[str, str]]:
    """Yield the path of each of NCCL's files, and how the loader finds the file."""
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


def _services(source: Source, evidence: list[EvidenceRef]) -> tuple[State, ...] | Unknown:
    """Return the states of the installed services."""
    running = source.names(_SYSTEMD)
    if isinstance(running, Unknown) and running.reason is not Reason.NOT_RECORDED:
        return when_missing(running, Unknown(Reason.NOT_SUPPORTED, "systemd does not run here"))
    text = source.run(_SHOW, timeout_s=5).text()
    evidence += [command_ref(_SHOW)] if known(text) else []
    services = map_known(text, lambda text: states(parse_units(text)))
    return when_missing(services, Unknown(Reason.NOT_SUPPORTED, "systemd is not installed"))


def _packages(source: Source) -> _Packages | Unknown:
    """Return the versions of relevant installed packages; messages about missing packages are ignored."""
    failure: Unknown = NOT_RECORDED
    for argv in (_DPKG, _RPM):
        result = source.run(argv, timeout_s=10)
        if result.failure is None:
            return _Packages(versions=parse_packages(result.stdout.decode("utf-8", "replace")), argv=argv)
        failure = result.failure
    return failure


def _imex(source: Source, *, deep: bool) -> str | Unknown | None:
    """Return the state of the IMEX domain; None if IMEX is not installed."""
    program = when_missing(source.link(_IMEX_FILE), None)
    if program is None or isinstance(program, Unknown):
        return program
    return map_known(source.run(_IMEX, timeout_s=10).text(), parse_imex) if deep else DEEP_ONLY
