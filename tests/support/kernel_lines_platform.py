"""Lines of the kernel log about AMD's GPUs and the platform, and further lines of all kinds."""

from __future__ import annotations

from typing import NamedTuple


class KernelLine(NamedTuple):
    """One message without time and host."""

    message: str
    event: str
    """Kind among the events of a machine's facts."""
    device: str | None
    log_event: str
    """Kind among the events that `explain` reads."""


AMD_AND_PLATFORM_LINES = (
    KernelLine(
        "amdgpu 0000:68:00.0: amdgpu: uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!",
        "amdgpu",
        "0000:68:00",
        "kernel.amdgpu",
    ),
    KernelLine(
        "amdgpu 0000:68:00.0: amdgpu: {3}[Hardware Error]: aca entry[00].STATUS=0xfaa00000000d080b",
        "amdgpu",
        "0000:68:00",
        "kernel.amdgpu",
    ),
    KernelLine(
        "amdgpu 0000:68:00.0: amdgpu: socket: 0, die: 0, 4 deferred hardware errors detected in umc block",
        "amdgpu",
        "0000:68:00",
        "kernel.amdgpu",
    ),
    KernelLine(
        "amdgpu 0000:68:00.0: amdgpu: socket: 0, die: 0, 12 correctable hardware errors detected "
        "in total in umc block",
        "amdgpu",
        "0000:68:00",
        "kernel.amdgpu",
    ),
    KernelLine(
        "amdgpu 0000:68:00.0: amdgpu: {14}poison is consumed by client 12, kick off gpu reset flow",
        "amdgpu",
        "0000:68:00",
        "kernel.amdgpu",
    ),
    KernelLine(
        "amdgpu 0000:68:00.0: amdgpu: Saved bad pages 150 reaches threshold value 128",
        "amdgpu",
        "0000:68:00",
        "kernel.amdgpu",
    ),
    KernelLine(
        "amdgpu 0000:68:00.0: amdgpu: [gfxhub0] no-retry page fault (src_id:0 ring:24 vmid:8 pasid:32771)",
        "amdgpu",
        "0000:68:00",
        "kernel.amdgpu",
    ),
    KernelLine(
        "amdgpu 0000:68:00.0: amdgpu:  for process python3.12 pid 6071 thread python3.12 pid 6071)",
        "amdgpu",
        "0000:68:00",
        "kernel.amdgpu",
    ),
    KernelLine(
        "amdgpu 0000:68:00.0: amdgpu: ring comp_1.0.0 timeout, signaled seq=5, emitted seq=7",
        "amdgpu",
        "0000:68:00",
        "kernel.amdgpu",
    ),
    KernelLine(
        "amdgpu 0000:68:00.0: amdgpu: MES failed to respond to msg=REMOVE_QUEUE",
        "amdgpu",
        "0000:68:00",
        "kernel.amdgpu",
    ),
    KernelLine("amdgpu 0000:68:00.0: amdgpu: GPU reset(2) failed", "amdgpu", "0000:68:00", "kernel.amdgpu"),
    KernelLine("amdgpu 0000:68:00.0: amdgpu: GPU reset begin!", "amdgpu", "0000:68:00", "kernel.amdgpu"),
    KernelLine("amdgpu 0000:68:00.0: amdgpu: device lost from bus!", "amdgpu", "0000:68:00", "kernel.amdgpu"),
    KernelLine(
        "amdgpu 0000:68:00.0: amdgpu: SMU: I'm not done with your previous command: SMN_C2PMSG_66:0x00000006",
        "amdgpu",
        "0000:68:00",
        "kernel.amdgpu",
    ),
    KernelLine(
        "amdgpu 0000:68:00.0: amdgpu: sq_intr: error, se 0, data 0x4, sh 0",
        "amdgpu",
        "0000:68:00",
        "kernel.amdgpu",
    ),
    KernelLine(
        "amdgpu 0000:68:00.0: amdgpu: GPU is throttled, expect performance decrease.",
        "amdgpu",
        "0000:68:00",
        "kernel.amdgpu",
    ),
    KernelLine(
        "amdgpu 0000:68:00.0: amdgpu: Runlist is getting oversubscribed. Expect reduced ROCm performance.",
        "amdgpu",
        "0000:68:00",
        "kernel.amdgpu",
    ),
    KernelLine(
        "amdgpu 0000:68:00.0: amdgpu: hw_init of IP block <gfx_v9_4_3> failed -110",
        "amdgpu",
        "0000:68:00",
        "kernel.amdgpu",
    ),
    KernelLine(
        "nvidia 0000:17:00.0: Unable to change power state from D3cold to D0, device inaccessible",
        "device-error",
        "0000:17:00",
        "kernel.device",
    ),
    KernelLine(
        "pci 0000:17:00.0: BAR 1: no space for [mem size 0x1000000000 64bit pref]",
        "device-error",
        "0000:17:00",
        "kernel.device",
    ),
    KernelLine("tsc: Marking TSC unstable due to clocksource watchdog", "clock", None, "kernel.clock"),
    KernelLine(
        "mce: [Hardware Error]: CPU 12: Machine Check Exception: 5 Bank 7: be00000000800400",
        "machine-check",
        None,
        "kernel.machine-check",
    ),
    KernelLine(
        "mce: Uncorrected hardware memory error in user-access at 3fff0000",
        "machine-check",
        None,
        "kernel.machine-check",
    ),
    KernelLine(
        "LustreError: 167-0: scratch-MDT0000-mdc-ffff8: This client was evicted by "
        "scratch-MDT0000; in progress operations using this service will fail.",
        "filesystem",
        "scratch-MDT0000",
        "kernel.filesystem",
    ),
    KernelLine(
        "Lustre: scratch-OST0001-osc-ffff8: Connection to scratch-OST0001 (at 10.0.0.1@o2ib) was "
        "lost; in progress operations using this service will wait for recovery to complete",
        "filesystem",
        "scratch-OST0001",
        "kernel.filesystem",
    ),
    KernelLine(
        "Lustre: scratch-OST0001-osc-ffff8: Connection restored to scratch-OST0001 (at 10.0.0.1@o2ib)",
        "filesystem-back",
        "scratch-OST0001",
        "kernel.filesystem-back",
    ),
    KernelLine(
        "mmfs: [E] Disk failure.  Volume gpfs1. rc = 5, Physical volume nsd01.",
        "storage",
        "gpfs1",
        "kernel.storage",
    ),
    KernelLine(
        "ena 0000:00:05.0 eth0: Keep alive watchdog timeout.", "nic-fault", "0000:00:05", "kernel.nic"
    ),
    KernelLine(
        "mlx5_core 0000:1a:00.0: mlx5_cmd_out_err:803:(pid 9): CREATE_MKEY(0x200) op_mod(0x0) "
        "failed, status limits exceeded(0x8), syndrome (0x1)",
        "kernel-limit",
        None,
        "kernel.limit",
    ),
    KernelLine("nouveau 0000:17:00.0: unknown chipset (180000a1)", "nvrm", "0000:17:00", "kernel.nvrm"),
    KernelLine("NVRM: BAR1 is 0M @ 0x0 (PCI:0000:17:00.0)", "nvrm", "0000:17:00", "kernel.nvrm"),
)

FURTHER_LINES = (
    KernelLine("NVRM: _kgspRpcRecvPoll: LibOS heartbeat timed out", "gsp-timeout", None, "kernel.gsp"),
    KernelLine(
        "NVRM: krcWatchdog_IMPL: RC watchdog: GPU is probably locked!  Notify Timeout Seconds: 7",
        "nvrm",
        None,
        "kernel.nvrm",
    ),
    KernelLine(
        "NVRM: nvGpuOpsReportFatalError: uvm encountered global fatal error 0x60, "
        "requiring os reboot to recover.",
        "nvrm",
        None,
        "kernel.nvrm",
    ),
    KernelLine("nvidia-uvm: Failed to register the GPU: NV_ERR_NO_MEMORY", "nvrm", None, "kernel.nvrm"),
    KernelLine(
        "nouveau 0000:17:00.0: bus: MMIO read of 00000000 FAULT at 022554 [ PRIVRING ]",
        "nvrm",
        "0000:17:00",
        "kernel.nvrm",
    ),
    KernelLine(
        "habanalabs hl0: Heartbeat event message is missing, hard-reset required",
        "device-error",
        None,
        "kernel.device",
    ),
    KernelLine(
        "clocksource: timekeeping watchdog on CPU3: hpet read-back delay of 118460ns, "
        "attempt 4, marking unstable",
        "clock",
        None,
        "kernel.clock",
    ),
    KernelLine(
        "bnxt_en 0000:21:00.0 eth0: Error (timeout: 500015) msg {0x15 0x3} len:0",
        "nic-fault",
        "0000:21:00",
        "kernel.nic",
    ),
    KernelLine("ice 0000:31:00.0: PF reset failed, -5", "nic-fault", "0000:31:00", "kernel.nic"),
    KernelLine("ixgbe 0000:01:00.0: Detected Tx Unit Hang", "nic-fault", "0000:01:00", "kernel.nic"),
    KernelLine("ib0: transmit timeout: latency 1640 msecs", "nic-fault", None, "kernel.nic"),
    KernelLine(
        "infiniband mlx5_0: create_qp:3120:(pid 4): Create QP type 2 failed", "nic-fault", None, "kernel.mlx5"
    ),
    KernelLine(
        "mlx5_core 0000:9a:00.0: mlx5_function_setup:1110:(pid 1): Firmware over 120000 MS in "
        "pre-initializing state, aborting",
        "nic-fault",
        "0000:9a:00",
        "kernel.mlx5",
    ),
    KernelLine(
        "python3: page allocation failure: order:4, mode:0x40dc0(GFP_KERNEL|__GFP_COMP|__GFP_ZERO), "
        "nodemask=(null)",
        "kernel-limit",
        None,
        "kernel.limit",
    ),
    KernelLine(
        "SLUB: Unable to allocate memory on node -1, gfp=0x20(GFP_ATOMIC)",
        "kernel-limit",
        None,
        "kernel.limit",
    ),
    KernelLine(
        "swiotlb buffer is full (sz: 65536 bytes), total 32768 (slots), used 31 (slots)",
        "kernel-limit",
        None,
        "kernel.limit",
    ),
    KernelLine(
        "watchdog: BUG: workqueue lockup - pool cpus=3 node=0 flags=0x0 nice=0 stuck for 33s!",
        "lockup",
        None,
        "kernel.lockup",
    ),
    KernelLine(
        "mce: CPU5: Core temperature is above threshold, cpu clock is throttled (total events = 12)",
        "machine-check",
        None,
        "kernel.machine-check",
    ),
    KernelLine(
        "thermal thermal_zone0: critical temperature reached, shutting down",
        "machine-check",
        None,
        "kernel.machine-check",
    ),
    KernelLine(
        "Uhhuh. NMI received for unknown reason 2d on CPU 0.", "machine-check", None, "kernel.machine-check"
    ),
    KernelLine(
        "NMI: IOCK error (debug interrupt?) for reason 71 on CPU 0.",
        "machine-check",
        None,
        "kernel.machine-check",
    ),
    KernelLine(
        "LustreError: 11-0: scratch-OST0007-osc-ffff9d: operation ost_read to node 10.1.1.7@o2ib "
        "failed: rc = -107",
        "filesystem",
        None,
        "kernel.filesystem",
    ),
    KernelLine(
        "LNetError: 3011:0:(o2iblnd_cb.c:3369:kiblnd_check_txs_locked()) Timed out tx: active_txs, 1 seconds",
        "filesystem",
        None,
        "kernel.filesystem",
    ),
    KernelLine(
        "NFS: state manager: check lease failed on NFSv4 server filer01 with error 5",
        "filesystem",
        None,
        "kernel.filesystem",
    ),
    KernelLine(
        "nfs4: Server 10.0.0.3 not responding, timed out", "filesystem", "10.0.0.3", "kernel.filesystem"
    ),
    KernelLine("ceph: mds0 hung", "filesystem", "mds0", "kernel.filesystem"),
    KernelLine(
        "libceph: osd12 (1)10.2.2.2:6801 socket error on read", "filesystem", "osd12", "kernel.filesystem"
    ),
    KernelLine(
        "beegfs: enabling unmount: Communication error: Receive from storage node timed out",
        "filesystem",
        None,
        "kernel.filesystem",
    ),
    KernelLine(
        "EXT4-fs warning (device nvme0n1p1): ext4_end_bio:342: I/O error 10 writing to inode 12",
        "filesystem",
        "nvme0n1p1",
        "kernel.filesystem",
    ),
    KernelLine(
        "JBD2: Detected IO errors while flushing file data on nvme0n1p2-8",
        "filesystem",
        "nvme0n1p2",
        "kernel.filesystem",
    ),
    KernelLine("ata1.00: failed command: READ FPDMA QUEUED", "storage", "ata1.00", "kernel.storage"),
    KernelLine(
        "sd 0:0:0:0: [sda] tag#3 FAILED Result: hostbyte=DID_BAD_TARGET driverbyte=DRIVER_OK",
        "storage",
        "sda",
        "kernel.storage",
    ),
    KernelLine(
        "megaraid_sas 0000:65:00.0: Adapter is OFFLINE and scheduling reset",
        "storage",
        None,
        "kernel.storage",
    ),
    KernelLine("device-mapper: multipath: Failing path 8:16.", "storage", "8:16", "kernel.storage"),
    KernelLine("mpt3sas_cm0: fault_state(0x0d04)!", "storage", "mpt3sas_cm0", "kernel.storage"),
)
