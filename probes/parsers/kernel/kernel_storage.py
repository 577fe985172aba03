"""Rows of the kernel log's grammar: file systems, file servers and disks.

Source: Linux fs/{ext4,xfs,btrfs,nfs,ceph}, net/ceph, drivers/{nvme/host,md,ata,scsi}; Lustre, BeeGFS,
GPFS.
"""

import re

from probes.base.patterns import pattern
from probes.parsers.kernel.kernel_events import (
    FileServerBack,
    FilesystemError,
    KernelRow,
    StorageError,
    row,
)

_READ_ONLY = r"(?:[Rr]emounting filesystem read-only|forced readonly|re-mounted read-only)"
_BECAME_READ_ONLY = pattern(rf"{_READ_ONLY}|hut")
_NOT_A_DISK = pattern(r"(?:fd|sr|loop|nbd|zram)\d")


def _damaged(match: re.Match[str]) -> FilesystemError:
    fatal = True if _BECAME_READ_ONLY.search(match.string) else None
    return FilesystemError(message=match.string, device=match["device"], fatal=fatal)


def _disk(match: re.Match[str]) -> StorageError | None:
    is_disk = _NOT_A_DISK.match(match["device"]) is None
    return StorageError(message=match.string, device=match["device"]) if is_disk else None


def _beyond_end(match: re.Match[str]) -> StorageError:
    message = match.string
    is_named = message[:1].islower() and ": " in message
    return StorageError(message=message, device=message.partition(":")[0] if is_named else None)


STORAGE_ROWS: tuple[KernelRow, ...] = (
    row(FilesystemError, "EXT4-fs", r"EXT4-fs error \(device (?P<device>\S{1,40}?)\)", make=_damaged),
    row(
        FilesystemError,
        "EXT4-fs",
        r"EXT4-fs \((?P<device>\S{1,40}?)\): (?!(?:re-?)?mounted|unmount)"
        r".*(?:error|corrupt|Remounting filesystem read-only|aborted)",
        make=_damaged,
    ),
    row(
        FilesystemError,
        ("EXT4-fs warning", "JBD2: "),
        r"EXT4-fs warning \(device (?P<ext4>\S{1,40}?)\): .{0,80}I/O error|"
        r"^JBD2: .{0,80}(?:IO errors?|[Ee]rror -?\d+) .{0,60}?\bon (?P<disk>[\w-]{1,40}?)(?:-\d{1,4})?\.?$",
        make=lambda match: FilesystemError(message=match.string, device=match["ext4"] or match["disk"]),
    ),
    row(
        FilesystemError,
        "XFS (",
        r"XFS \((?P<device>\S{1,40}?)\): "
        r".*?(?:[Cc]orruption|I/O [Ee]rror|[Ss]hut(?:ting)? ?down|error -?\d+|log mount.*failed)",
        make=_damaged,
    ),
    row(
        FilesystemError,
        ("BTRFS error", "BTRFS critical"),
        r"BTRFS (?:error|critical)(?: \(device (?P<device>\S{1,40}?)\))?",
        make=_damaged,
    ),
    row(
        FilesystemError,
        ("emounting filesystem read-only", "forced readonly", "re-mounted read-only"),
        _READ_ONLY,
        fatal=True,
    ),
    row(
        FilesystemError,
        "not responding",
        r"nfs4?: [Ss]erver (?P<device>\S{1,80}) not responding",
        fatal=False,
        variant="nfs",
    ),
    row(FilesystemError, "NFS: ", r"^NFS: .{1,160}?(?:failed|error)\b", fatal=False, variant="nfs"),
    row(
        FilesystemError,
        ("ceph: ", "beegfs: "),
        r"^(?:(?:lib)?ceph: .{0,60}?\b(?P<server>mds\d+|osd\d+|mon\d+)\b.{0,80}?(?:hung|socket error|"
        r"session lost|connect error|timed out)|beegfs: .{0,160}?(?:timed out|[Cc]ommunication error))",
        make=lambda match: FilesystemError(
            message=match.string, device=match["server"], fatal=False, variant="server"
        ),
    ),
    row(FileServerBack, "nfs: server ", r"^nfs: server (?P<device>\S{1,80}) OK"),
    row(
        FilesystemError,
        "Lustre",
        r"LustreError: .{0,120}This client was evicted by (?P<device>[\w.-]{1,60})",
        fatal=False,
        variant="evicted",
    ),
    row(
        FilesystemError,
        "Lustre",
        r"Lustre: .{0,80}Connection to (?P<device>[\w.-]{1,60}) .{0,80}was lost",
        fatal=False,
        variant="lost",
    ),
    row(
        FilesystemError,
        ("LustreError: ", "LNetError: "),
        r"^LustreError: .{1,200}?\brc = -\d|^LNetError: .{1,200}?[Tt]imed out",
        fatal=False,
        variant="call failed",
    ),
    row(FileServerBack, "Lustre", r"Lustre: .{0,80}Connection restored to (?P<device>[\w.-]{1,60})"),
    row(
        StorageError,
        "Disk failure",
        r"mmfs\w{0,4}(?:\[\d{1,9}\])?: .{0,20}Disk failure\.(?:\s{1,4}Volume (?P<device>[\w.-]{1,60})\.)?",
        variant="gpfs",
    ),
    row(
        StorageError,
        "nvme nvme",
        r"nvme (?P<device>nvme\d+): (?:I/O (?:tag )?\d+ .*(?:timeout|aborting)|controller is down|"
        r"Device not ready|Removing after probe failure|.*[Ii]dentify.*failed)",
    ),
    row(
        StorageError,
        ("failed command: ", "FAILED Result: ", "megaraid_sas "),
        r"^(?P<device>ata\d{1,3}(?:\.\d\d)?): failed command: |^sd .{1,20}\[(?P<disk>sd\w{1,4})\].{0,40}"
        r"FAILED Result: |^megaraid_sas .{7,30}(?:Adapter is OFFLINE|[Ff]atal firmware error)",
        make=lambda match: StorageError(message=match.string, device=match["device"] or match["disk"]),
    ),
    row(
        StorageError,
        ("I/O error, dev ", "I/O error on dev", "critical medium error", "critical target error"),
        r"(?:I/O error, dev |[Bb]uffer I/O error on dev(?:ice)? |"
        r"(?:critical medium|critical target) error, dev )(?P<device>[\w-]{1,40})",
        make=_disk,
    ),
    row(
        StorageError, "multipath: Failing path", r"multipath: .{0,20}Failing path (?P<device>[\w:.]{1,20})\b"
    ),
    row(StorageError, "fault_state(", r"^(?P<device>mpt\d?sas_?\w{1,10}): fault_state\("),
    row(StorageError, "beyond end of device", r"attempt to access beyond end of device", make=_beyond_end),
    row(
        StorageError,
        "md/raid",
        r"md/raid\d*:(?P<array>md\S{1,20}): .*?(?:Disk failure on (?P<disk>\S{1,40}),|not clean|failed)",
        make=lambda match: StorageError(message=match.string, device=match["disk"] or match["array"]),
    ),
    row(StorageError, "md: ", r"md: (?P<device>\S{1,20}): .*(?:kicking|failed)"),
)
