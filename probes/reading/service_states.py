"""Read services and packages that only commands report, in deep checks."""

from __future__ import annotations

from probes.base.record import (
    DEEP_ONLY,
    NOT_RECORDED,
    Reason,
    Record,
    Unknown,
    first_unknown,
    map_known,
    only_known,
    when_missing,
)
from probes.facts import State
from probes.parsers.host.package_lists import parse_imex, parse_packages, parse_units
from probes.sources.base import Source

UNITS = (
    "nvidia-persistenced", "nvidia-fabricmanager", "nvidia-imex", "nvidia-dcgm", "dcgm-exporter",
    "openibd", "slurmd", "munge", "containerd", "docker", "irqbalance", "nvidia-cdi-refresh",
)  # fmt: skip
SHOW = ("systemctl", "show", "-p", "Id,LoadState,ActiveState", *(f"{unit}.service" for unit in UNITS))
_SYSTEMD = "/run/systemd/system"
IMEX = ("nvidia-imex-ctl", "-N")
_IMEX_FILES = ("/usr/bin/nvidia-imex-ctl",)
_PACKAGES = (
    "datacenter-gpu-manager", "datacenter-gpu-manager-4-core", "nvidia-container-toolkit", "libfabric1",
    "libfabric-aws", "libfabric", "libgdrapi", "gdrcopy", "mlnx-ofed-kernel-dkms", "mlnx-ofa_kernel",
    "doca-ofed", "libnccl2", "nvidia-imex",
)  # fmt: skip
FABRIC_MANAGER = ("nv-fabricmanager", "--version")
DPKG = ("dpkg-query", "-W", "-f", "${Package} ${Version}\\n", *_PACKAGES)
RPM = ("rpm", "-q", "--qf", "%{NAME} %{VERSION}\\n", *_PACKAGES)


def services(source: Source, *, deep: bool) -> tuple[State, ...] | Unknown:
    """Return the states of the installed services."""
    if not deep:
        return DEEP_ONLY
    running = source.names(_SYSTEMD)
    if isinstance(running, Unknown) and running.reason is not Reason.NOT_RECORDED:
        return Unknown(Reason.NOT_SUPPORTED, "systemd does not run here")
    text = source.run(SHOW, timeout_s=5).text()
    if isinstance(text, Unknown):
        return when_missing(text, Unknown(Reason.NOT_SUPPORTED, "systemd is not installed"))
    return tuple(State(name=name, value=value) for name, value in parse_units(text).items())


class Packages(Record, kw_only=True):
    """The versions that a package manager reports."""

    versions: dict[str, str]
    argv: tuple[str, ...]


def packages(source: Source, *, deep: bool) -> Packages | Unknown:
    """Return the versions of relevant installed packages; both managers list missing ones on stderr."""
    if not deep:
        return DEEP_ONLY
    failure: Unknown = NOT_RECORDED
    for argv in (DPKG, RPM):
        result = source.run(argv, timeout_s=10)
        if result.failure is None:
            return Packages(versions=parse_packages(result.stdout.decode("utf-8", "replace")), argv=argv)
        failure = result.failure
    return failure


def imex(source: Source, *, deep: bool) -> str | Unknown | None:
    """Return the state of the IMEX domain; None if IMEX is not installed."""
    links = [source.link(path) for path in _IMEX_FILES]
    if not only_known(links):
        return first_unknown(*(when_missing(link, None) for link in links))
    if not deep:
        return DEEP_ONLY
    return map_known(source.run(IMEX, timeout_s=10).text(), parse_imex)
