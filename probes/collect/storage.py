"""Collect filesystems that a job may use: disks, network mounts, and the container's own root."""

from __future__ import annotations

from probes.base.evidence import command_ref, file_ref
from probes.base.record import Reason, Unknown, map_known
from probes.collect.collecting import CollectOptions
from probes.facts import Filesystem
from probes.parsers.host.mounts import Mount, Space, parse_mounts
from probes.reading.space import DF, spaces
from probes.sources.base import Source, read_text

_MOUNTS = "/proc/self/mounts"
_KERNEL_KINDS = frozenset({
    "autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs",
    "efivarfs", "fuse.gvfsd-fuse", "fuse.lxcfs", "fuse.portal", "fusectl", "hugetlbfs", "mqueue", "nsfs",
    "proc", "pstore", "ramfs", "rpc_pipefs", "securityfs", "selinuxfs", "squashfs", "sysfs", "tmpfs",
    "tracefs",
})  # fmt: skip
"""Filesystems of the kernel and of the desktop, which store no data.

Source: Linux 6.12, Documentation/filesystems.
"""
_SYSTEM_FOLDERS = (
    "/boot", "/dev", "/etc", "/proc", "/run", "/snap", "/sys", "/usr", "/var/lib/docker",
    "/var/lib/kubelet",
)  # fmt: skip


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return `storage`, in the order of mounting."""
    text = read_text(source, _MOUNTS)
    if isinstance(text, Unknown):
        return {"storage": text}
    spaces_by_mount = spaces(source)
    return {
        "storage": tuple(
            _filesystem(mount, spaces_by_mount) for mount in parse_mounts(text) if _is_usable(mount)
        )
    }


def _is_usable(mount: Mount) -> bool:
    if mount.kind in _KERNEL_KINDS:
        return mount.kind == "tmpfs" and mount.path == "/tmp"  # noqa: S108 - a mount point, not a file
    return not any(mount.path == folder or mount.path.startswith(f"{folder}/") for folder in _SYSTEM_FOLDERS)


def _filesystem(mount: Mount, spaces_by_mount: dict[str, Space] | Unknown) -> Filesystem:
    space = map_known(spaces_by_mount, lambda spaces_by_mount: _space(mount, spaces_by_mount))
    unknown = isinstance(space, Unknown)
    return Filesystem(
        mount=mount.path,
        device=mount.device,
        kind=mount.kind,
        total_bytes=map_known(space, lambda space: space.total_bytes),
        free_bytes=map_known(space, lambda space: space.available_bytes),
        read_only="ro" in mount.options,
        evidence=(file_ref(_MOUNTS),) if unknown else (file_ref(_MOUNTS), command_ref(DF)),
    )


def _space(mount: Mount, spaces_by_mount: dict[str, Space]) -> Space | Unknown:
    """Return the space by mount point; df lists a device that is mounted in several places only once."""
    if mount.path in spaces_by_mount:
        return spaces_by_mount[mount.path]
    same_device = (
        space
        for space in spaces_by_mount.values()
        if mount.device.startswith("/") and space.device == mount.device
    )
    return next(same_device, Unknown(Reason.ERROR, f"df does not list {mount.path}"))
