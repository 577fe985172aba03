"""Cases of the checks of logs: healthy machines with one difference."""

from __future__ import annotations

from probes.base.record import NOT_RECORDED, Reason, Unknown
from probes.facts import LogEvent, MachineFacts
from tests.support.check_case import BOX, NODE, Case
from tests.support.machines import h100_node, with_gpus

CLOSED = h100_node(
    events=Unknown(Reason.PERMISSION, "dmesg: not permitted"),
    logs=Unknown(Reason.PERMISSION, "not permitted"),
)
UNLOGGED = h100_node(events=NOT_RECORDED, logs=NOT_RECORDED)
GPU4 = "0000:9b:00"


def logged(*events: LogEvent) -> MachineFacts:
    """Return a machine with these events, whose driver does not report the recovery that a GPU needs."""
    return with_gpus(h100_node(events=events), recovery_action=NOT_RECORDED)


def xid(code: int, device: str = GPU4, **changes: object) -> LogEvent:
    return LogEvent(
        **{
            "kind": "xid",
            "code": code,
            "device": device,
            "message": f"Xid (PCI:{device}): {code}, words",
            **changes,
        }
    )


def event(kind: str, message: str, **changes: object) -> LogEvent:
    return LogEvent(**{"kind": kind, "message": message, **changes})


def recovery(action: str, line: int, *, settled: bool = False) -> LogEvent:
    words = f"Xid (PCI:{GPU4}): 154, GPU recovery action changed from 0x0 (None) to 0x1 ({action})"
    return xid(154, message=words, line=line, last_line=line, settled=settled)


NVLINK = "Xid (PCI:0000:9b:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x025001c6 0x00000000)"
TORN_DOWN = f"Xid (PCI:{GPU4}): 45, pid=7, name=python3, Ch 00000001 caused by previous Xid 149"
NCCL_ONLY = h100_node(events=(), logs=("nccl-log",))
RECOVERED = with_gpus(logged(xid(95), recovery("GPU Reset Required", 7)), 4, recovery_action="none")
CHECKS = (
    "xid-hardware",
    "xid-reset",
    "xid-application",
    "gsp-timeout",
    "driver-messages",
    "out-of-memory",
    "lockups",
    "machine-check",
    "crashes",
    "filesystem-errors",
    "kernel-limits",
    "nic-driver",
    "device-errors",
    "refused-transfers",
    "clock",
    "nccl-warnings",
)

LOG_CASES = (
    *(Case(check_id, "a quiet log", NODE, ("PASS host",)) for check_id in CHECKS),
    *(Case(check_id, "a quiet log without GPU", BOX, ("PASS host",)) for check_id in CHECKS),
    *(Case(check_id, "log closed to this user", CLOSED, ("UNKNOWN host",)) for check_id in CHECKS),
    *(Case(check_id, "no log", UNLOGGED, ("SKIP host",)) for check_id in CHECKS),
    *(Case(check_id, "only a log of NCCL", NCCL_ONLY, ("SKIP host",)) for check_id in CHECKS[:-1]),
    Case("nccl-warnings", "only the kernel log", h100_node(events=(), logs=("kernel-log",)), ("SKIP host",)),
    Case(
        "kernel-limits",
        "no memory keys left",
        logged(event("kernel-limit", "CREATE_MKEY(0x200) op_mod(0x0) failed, status limits exceeded(0x8)")),
        ("WARN host",),
    ),
    Case(
        "device-errors",
        "an uncorrectable error of an AMD GPU",
        logged(event("amdgpu", "uncorrectable hardware error(X) detected!", device=GPU4, fatal=True)),
        ("FAIL GPU4",),
    ),
    Case(
        "device-errors",
        "a page fault of a program",
        logged(event("amdgpu", "[gfxhub0] no-retry page fault (src_id:0)", device=GPU4, fatal=False)),
        ("WARN GPU4",),
    ),
    Case(
        "device-errors",
        "a reset",
        logged(event("amdgpu", "GPU reset begin!", device=GPU4)),
        ("WARN GPU4",),
    ),
    Case(
        "device-errors",
        "a card that does not answer",
        logged(event("device-error", "Unable to change power state", device=GPU4, fatal=True)),
        ("FAIL GPU4",),
    ),
    Case(
        "device-errors",
        "a fault before the last boot",
        logged(event("device-error", "Unable to change power state", device=GPU4, fatal=True, settled=True)),
        ("PASS host",),
    ),
    Case(
        "refused-transfers",
        "of a GPU",
        logged(event("iommu-fault", "[IO_PAGE_FAULT device=9b:00.0]", device=GPU4)),
        ("WARN GPU4",),
    ),
    Case("clock", "given up", logged(event("clock", "Marking TSC unstable")), ("WARN host",)),
    Case(
        "kernel-limits",
        "all files in use",
        logged(event("kernel-limit", "VFS: file-max limit 100 reached")),
        ("WARN host",),
    ),
    Case(
        "nic-driver",
        "given up",
        logged(event("nic-fault", "gave up", device="0000:aa:00", fatal=True)),
        ("FAIL 0000:aa:00",),
    ),
    Case(
        "nic-driver",
        "a queue hung",
        logged(event("nic-fault", "TX timeout detected", device="eth0")),
        ("WARN eth0",),
    ),
    Case(
        "nic-driver",
        "before the boot",
        logged(event("nic-fault", "gave up", fatal=True, settled=True)),
        ("PASS host",),
    ),
    Case(
        "xid-hardware",
        "torn down by an NVLink fault that the log lacks",
        logged(xid(45, message=TORN_DOWN)),
        ("WARN GPU4",),
    ),
    Case("xid-application", "the same", logged(xid(45, message=TORN_DOWN)), ("PASS host",)),
    Case(
        "xid-application",
        "torn down, and why",
        logged(xid(45, message=TORN_DOWN), xid(149, message=NVLINK)),
        ("WARN GPU4",),
    ),
    Case("xid-hardware", "fallen off the bus", logged(xid(79)), ("FAIL GPU4",)),
    Case("xid-hardware", "another machine's card", logged(xid(79, "0000:aa:00")), ("FAIL 0000:aa:00",)),
    Case("xid-hardware", "fallen off once, before the boot", logged(xid(79, settled=True)), ("WARN GPU4",)),
    Case(
        "xid-hardware", "fallen off again and again", logged(xid(79, count=6, settled=True)), ("FAIL GPU4",)
    ),
    Case("xid-hardware", "two cards", logged(xid(64), xid(54, "0000:19:00")), ("FAIL GPU4", "FAIL GPU0")),
    Case("xid-hardware", "NVLink, old", logged(xid(74)), ("FAIL GPU4",)),
    Case(
        "xid-hardware",
        "NVLink 5, both words",
        logged(xid(149, message=NVLINK, fatal=True, sub_code=37), xid(145, "0000:19:00", fatal=False)),
        ("FAIL GPU4", "WARN GPU0"),
    ),
    Case("xid-hardware", "an application's fault", logged(xid(13, count=700)), ("PASS host",)),
    Case("xid-hardware", "nothing to do", logged(xid(162), xid(93)), ("PASS host",)),
    Case(
        "xid-reset",
        "uncorrectable memory error",
        logged(xid(48), xid(63), xid(94)),
        ("FAIL GPU4", "WARN GPU4"),
    ),
    Case("xid-reset", "uncontained", logged(xid(95)), ("FAIL GPU4",)),
    Case("xid-reset", "uncontained, before the boot", logged(xid(95, settled=True)), ("WARN GPU4",)),
    Case("xid-reset", "row remapped, and reset since", logged(xid(63, settled=True)), ("PASS host",)),
    Case("xid-reset", "asks for a reset", logged(recovery("GPU Reset Required", 7)), ("FAIL GPU4",)),
    Case(
        "xid-reset",
        "asked, and had it",
        logged(recovery("Drain and Reset", 3), recovery("None", 9)),
        ("PASS host",),
    ),
    Case("xid-reset", "asks again", logged(recovery("None", 3), recovery("Drain P2P", 9)), ("FAIL GPU4",)),
    Case("xid-reset", "reset since, by the GPU's word", RECOVERED, ("WARN GPU4",)),
    Case("xid-reset", "GSP is another check's", logged(xid(119)), ("PASS host",)),
    Case(
        "xid-application",
        "two kinds on one GPU",
        logged(xid(13, count=629), xid(43)),
        ("WARN GPU4", "WARN GPU4"),
    ),
    Case("xid-application", "contained", logged(xid(94)), ("WARN GPU4",)),
    Case("xid-application", "before the boot", logged(xid(31, settled=True)), ("PASS host",)),
    Case(
        "gsp-timeout",
        "Xid 119",
        logged(xid(119, count=5), event("gsp-timeout", "call 76 was never answered")),
        ("FAIL GPU4",),
    ),
    Case(
        "gsp-timeout",
        "a dump alone",
        logged(event("gsp-timeout", "call 76 was never answered")),
        ("FAIL host",),
    ),
    Case(
        "gsp-timeout",
        "rate limited",
        logged(event("gsp-timeout", "Rate limiting", device=GPU4)),
        ("FAIL GPU4",),
    ),
    Case(
        "gsp-timeout",
        "before the boot",
        logged(event("gsp-timeout", "Rate limiting", settled=True)),
        ("PASS host",),
    ),
    Case(
        "driver-messages",
        "cannot set up",
        logged(event("nvrm", "GPU 0000:9b:00.0: RmInitAdapter failed!", device=GPU4)),
        ("FAIL GPU4",),
    ),
    Case(
        "driver-messages",
        "two versions",
        logged(event("nvrm", "API mismatch: the client has 580.178")),
        ("FAIL host",),
    ),
    Case(
        "driver-messages",
        "set up since",
        logged(event("nvrm", "RmInitAdapter failed!", settled=True)),
        ("WARN host",),
    ),
    Case(
        "driver-messages",
        "an assertion",
        logged(event("nvrm", "Assertion failed: x [NV_ERR_OBJECT_NOT_FOUND]")),
        ("WARN host",),
    ),
    Case("driver-messages", "undocumented Xid", logged(xid(999)), ("WARN GPU4",)),
    Case(
        "driver-messages",
        "RDMA process died",
        logged(event("peermem", "ERROR detected invalid context")),
        ("WARN host",),
    ),
    Case(
        "driver-messages",
        "peermem refused",
        logged(event("peermem", "ERROR registering the client failed")),
        ("WARN host",),
    ),
    Case(
        "out-of-memory",
        "a kill",
        logged(event("out-of-memory", "Out of memory: Killed process 1", count=3)),
        ("WARN host",),
    ),
    Case(
        "out-of-memory",
        "before the boot",
        logged(event("out-of-memory", "Killed process 1", settled=True)),
        ("PASS host",),
    ),
    Case(
        "lockups",
        "hung task",
        logged(event("lockup", "task nvidia-smi:7 blocked for more than 120 seconds.")),
        ("WARN host",),
    ),
    Case(
        "lockups",
        "hard lockup",
        logged(event("lockup", "Watchdog detected hard LOCKUP on cpu 3")),
        ("FAIL host",),
    ),
    Case(
        "lockups",
        "panic",
        logged(event("panic", "Kernel panic - not syncing: x", fatal=True)),
        ("FAIL host",),
    ),
    Case(
        "machine-check",
        "a few corrected",
        logged(event("machine-check", "1 CE", fatal=False, count=9)),
        ("PASS host",),
    ),
    Case(
        "machine-check",
        "many corrected",
        logged(event("machine-check", "1 CE", fatal=False, count=10)),
        ("WARN host",),
    ),
    Case("machine-check", "uncorrected", logged(event("machine-check", "1 UE", fatal=True)), ("FAIL host",)),
    Case(
        "crashes", "in NCCL", logged(event("nccl-crash", "segfault in libnccl.so.2", count=2)), ("WARN host",)
    ),
    Case("crashes", "in torch", logged(event("crash", "segfault in libtorch_cuda.so")), ("WARN host",)),
    Case(
        "filesystem-errors",
        "read-only",
        logged(event("filesystem", "Remounting", fatal=True, device="sda1")),
        ("FAIL sda1",),
    ),
    Case(
        "filesystem-errors",
        "file server",
        logged(event("filesystem", "nfs: server a", fatal=False, device="a")),
        ("WARN a",),
    ),
    Case(
        "filesystem-errors",
        "I/O error",
        logged(event("storage", "I/O error, dev sda", device="sda")),
        ("WARN sda",),
    ),
    Case(
        "filesystem-errors",
        "dead disk",
        logged(event("storage", "controller is down", device="nvme0")),
        ("FAIL nvme0",),
    ),
    Case("nccl-warnings", "fatal", logged(event("nccl-warning", "Cuda failure", fatal=True)), ("FAIL host",)),
    Case(
        "nccl-warnings", "slow", logged(event("nccl-warning", "P2P is disabled", fatal=False)), ("WARN host",)
    ),
)
