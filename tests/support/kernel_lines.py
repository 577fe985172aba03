"""Lines of the kernel log, with the kinds of event that the facts and `explain` have for them."""

from __future__ import annotations

from tests.support.kernel_lines_platform import AMD_AND_PLATFORM_LINES, FURTHER_LINES, KernelLine

GPU_LINES = (
    KernelLine(
        "NVRM: Xid (PCI:0000:17:00): 79, pid=7, name=python3, GPU has fallen off the bus.",
        "xid",
        "0000:17:00",
        "kernel.xid",
    ),
    KernelLine("Xid 79 (PCI:0000:46:00): GPU has fallen off the bus", "xid", "0000:46:00", "kernel.xid"),
    KernelLine(
        "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
        "sxid",
        "0000:c1:00",
        "kernel.sxid",
    ),
    KernelLine(
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.144.03  Mon Dec 30 17:44:08 UTC 2024",
        "driver-loaded",
        None,
        "kernel.driver",
    ),
    KernelLine(
        "NVRM: GPU 0000:46:00.0: RmInitAdapter failed! (0x62:0xffff:1860)",
        "nvrm",
        "0000:46:00",
        "kernel.nvrm",
    ),
    KernelLine(
        "NVRM: GPU 0000:46:00.0: GPU has fallen off the bus.", "nvrm", "0000:46:00", "kernel.gpu-lost"
    ),
    KernelLine(
        "NVRM: fallen off the bus and is not responding to commands.", "nvrm", None, "kernel.gpu-lost"
    ),
    KernelLine("NVRM: API mismatch: the client has the version 580.178, but", "nvrm", None, "kernel.nvrm"),
    KernelLine(
        "NVRM: GPU at 0000:46:00.0 installed in this system is not supported",
        "nvrm",
        "0000:46:00",
        "kernel.nvrm",
    ),
    KernelLine("NVRM: The NVIDIA probe routine failed for 1 device(s).", "nvrm", None, "kernel.nvrm"),
    KernelLine(
        "NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x51)",
        "nvrm",
        None,
        "kernel.nvrm",
    ),
    KernelLine(
        "NVRM: nvAssertOkFailedNoLog: Assertion failed: Object not found [NV_ERR_OBJECT_NOT_FOUND] (0x57) @ "
        "a.c:1",
        "nvrm",
        None,
        "kernel.nvrm",
    ),
    KernelLine("nvidia: disagrees about version of symbol module_layout", "nvrm", None, "kernel.nvrm"),
    KernelLine(
        "nvidia 0000:46:00.0: probe with driver nvidia failed with error -1", "nvrm", None, "kernel.nvrm"
    ),
    KernelLine(
        "NVRM: Rate limiting GSP RPC error prints for GPU at PCI:0000:9b:00 (printing 1 of every 30).",
        "gsp-timeout",
        "0000:9b:00",
        "kernel.gsp",
    ),
    KernelLine(
        "NVRM: GPU 0000:9b:00.0: GSP RM heartbeat timed out", "gsp-timeout", "0000:9b:00", "kernel.gsp"
    ),
    KernelLine("NVRM: GPU6 RPC event history (CPU <- GSP):", "gsp-timeout", None, "kernel.gsp"),
    KernelLine(
        "NVRM:      0    76   GSP_RM_CONTROL 4127 0x0000000020803039 0x00000000000000b0 0x00065013160bb6e0"
        " 0x0000000000000000   y",
        "gsp-timeout",
        None,
        "kernel.gsp",
    ),
    KernelLine(
        "nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping",
        "peermem",
        None,
        "kernel.peermem",
    ),
    KernelLine(
        "nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -22)",
        "peermem",
        None,
        "kernel.peermem",
    ),
    KernelLine(
        "nvidia-nvswitch1: Failed to initialize the device", "nvswitch", "nvidia-nvswitch1", "kernel.nvswitch"
    ),
)

HOST_LINES = (
    KernelLine(
        "pci 0000:04:00.0: 252.048 Gb/s available PCIe bandwidth, limited by 16.0 GT/s PCIe x16 link at "
        "0000:01:00.0",
        "pcie-limited",
        "0000:04:00",
        "kernel.pcie-limited",
    ),
    KernelLine(
        "mlx5_core 0000:04:00.0: 63.008 Gb/s available bandwidth, limited by 8 GT/s x8 link at 0000:00:03.1",
        "pcie-limited",
        "0000:04:00",
        "kernel.pcie-limited",
    ),
    KernelLine(
        "mlx5_core 0000:1a:00.0: 504.112 Gb/s available PCIe bandwidth (32.0 GT/s PCIe x16 link)",
        "pcie-link",
        "0000:1a:00",
        "kernel.pcie-link",
    ),
    KernelLine(
        "pcieport 0000:40:01.1: AER: Corrected error received: 0000:41:00.0",
        "pcie-error",
        "0000:41:00",
        "kernel.aer",
    ),
    KernelLine(
        "pcieport 0000:40:01.1: AER: Multiple Uncorrected (Fatal) error received: 0000:41:00.0",
        "pcie-error",
        "0000:41:00",
        "kernel.aer",
    ),
    KernelLine(
        "pcieport 0000:40:01.1: AER: Correctable error message received from 0000:41:00.0",
        "pcie-error",
        "0000:41:00",
        "kernel.aer",
    ),
    KernelLine(
        "nvme 0000:41:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
        "pcie-error",
        "0000:41:00",
        "kernel.aer",
    ),
    KernelLine("pcieport 0000:40:01.1: pciehp: Slot(8): Link Down", "pcie-error", "0000:40:01", "kernel.aer"),
    KernelLine(
        "pcieport 0000:40:01.1: pciehp: Slot(8): Card not present", "pcie-error", "0000:40:01", "kernel.aer"
    ),
    KernelLine(
        "pcieport 0000:40:01.1: DPC: containment event, status:0x1f01",
        "pcie-error",
        "0000:40:01",
        "kernel.aer",
    ),
    KernelLine(
        "mlx5_core 0000:1a:00.0: mlx5_pcie_event:299:(pid 9): Detected insufficient power on the PCIe slot "
        "(27W).",
        "slot-power",
        "0000:1a:00",
        "kernel.slot-power",
    ),
    KernelLine(
        "DMAR: [DMA Read NO_PASID] Request device [17:00.0] fault addr 0x12 [fault reason 0x06]",
        "iommu-fault",
        "0000:17:00",
        "kernel.iommu-fault",
    ),
    KernelLine(
        "AMD-Vi: Event logged [IO_PAGE_FAULT device=17:00.0 domain=0x000f address=0x0 flags=0x0020]",
        "iommu-fault",
        "0000:17:00",
        "kernel.iommu-fault",
    ),
    KernelLine("mlx5_core 0000:53:00.0 enp83s0f0np0: Link down", "link-down", "enp83s0f0np0", "kernel.link"),
    KernelLine("mlx5_core 0000:53:00.0 mlx5_3: Port: 1 Link ACTIVE", "link-up", "mlx5_3", "kernel.link"),
    KernelLine(
        "bond0: (slave enp83s0f0np0): link status definitely down, disabling slave",
        "link-down",
        "enp83s0f0np0",
        "kernel.link",
    ),
    KernelLine(
        "bond0: link status definitely up for interface eth2, 100000 Mbps full duplex",
        "link-up",
        "eth2",
        "kernel.link",
    ),
    KernelLine(
        "bond0: link status down for interface eno4, disabling it in 200 ms",
        "link-down",
        "eno4",
        "kernel.link",
    ),
    KernelLine(
        "bond0: (slave eno4): link status down for interface, in 200 ms", "link-down", "eno4", "kernel.link"
    ),
    KernelLine("bond0: now running without any active interface!", "link-down", "bond0", "kernel.link"),
    KernelLine("bond0: active interface up!", "link-up", "bond0", "kernel.link"),
    KernelLine(
        "tg3 0000:02:00.0 eno8303: Link is up at 1000 Mbps, full duplex", "link-up", "eno8303", "kernel.link"
    ),
    KernelLine("bnxt_en 0000:21:00.0 ens1f0np0: NIC Link is Down", "link-down", "ens1f0np0", "kernel.link"),
    KernelLine(
        "mlx5_core 0000:41:00.1: Port module event: module 1, Cable unplugged",
        "cable",
        "0000:41:00",
        "kernel.cable",
    ),
    KernelLine(
        "mlx5_core 0000:41:00.0: Port module event[error]: module 0, Cable error, High Temperature",
        "cable",
        "0000:41:00",
        "kernel.cable",
    ),
    KernelLine(
        "mlx5_core 0000:41:00.0: temp_warn: High temperature on sensors with bit set 1",
        "cable",
        "0000:41:00",
        "kernel.cable",
    ),
    KernelLine(
        "mlx5_core 0000:1a:00.0: firmware version: 28.39.2048",
        "nic-firmware",
        "0000:1a:00",
        "kernel.nic-firmware",
    ),
    KernelLine(
        "mlx5_core 0000:3b:00.0 ens1f0: TX timeout detected", "nic-fault", "0000:3b:00", "kernel.mlx5"
    ),
    KernelLine(
        "NETDEV WATCHDOG: ens1f0 (ice): transmit queue 6 timed out", "nic-fault", "ens1f0", "kernel.nic"
    ),
    KernelLine(
        "mlx5_core 0000:3b:00.0: poll_health:800:(pid 0): device's health compromised",
        "nic-fault",
        "0000:3b:00",
        "kernel.mlx5",
    ),
    KernelLine(
        "mlx5_core: probe of 0000:01:00.0 failed with error -22", "nic-fault", "0000:01:00", "kernel.mlx5"
    ),
    KernelLine(
        "ice 0000:01:00.0: ice: probe with driver ice failed with error -5",
        "nic-fault",
        "0000:01:00",
        "kernel.nic",
    ),
    KernelLine(
        "infiniband efa 0000:c6:00.0: Failed to process command REG_MR (opcode 7)",
        "nic-fault",
        "0000:c6:00",
        "kernel.nic",
    ),
    KernelLine("VFS: file-max limit 1000000 reached", "kernel-limit", None, "kernel.limit"),
    KernelLine(
        "nf_conntrack: nf_conntrack: table full, dropping packet", "kernel-limit", None, "kernel.limit"
    ),
    KernelLine("neighbour: arp_cache: neighbor table overflow!", "kernel-limit", None, "kernel.limit"),
    KernelLine(
        "cgroup: fork rejected by pids controller in /user.slice", "kernel-limit", None, "kernel.limit"
    ),
    KernelLine(
        "Memory cgroup out of memory: Killed process 7 (python) total-vm:1kB",
        "out-of-memory",
        None,
        "kernel.oom-kill",
    ),
    KernelLine("Killed process 77 (python3) total-vm:1kB", "out-of-memory", None, "kernel.oom-kill"),
    KernelLine("python3 invoked oom-killer: gfp_mask=0xcc0", "out-of-memory", None, "kernel.oom-kill"),
    KernelLine(
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task=python,pid=7,uid=0",
        "out-of-memory",
        None,
        "kernel.oom-kill",
    ),
    KernelLine(
        "watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [python:1234]", "lockup", None, "kernel.lockup"
    ),
    KernelLine("NMI watchdog: Watchdog detected hard LOCKUP on cpu 3", "lockup", None, "kernel.lockup"),
    KernelLine(
        "INFO: task nvidia-smi:1234 blocked for more than 120 seconds.", "lockup", None, "kernel.lockup"
    ),
    KernelLine(
        "INFO: task fsync:1234 blocked in I/O wait for more than 120 seconds.",
        "lockup",
        None,
        "kernel.lockup",
    ),
    KernelLine("rcu: INFO: rcu_sched self-detected stall on CPU", "lockup", None, "kernel.lockup"),
    KernelLine("rcu: rcu_sched kthread starved for 5250 jiffies! g1 f0x0", "lockup", None, "kernel.lockup"),
    KernelLine(
        "EDAC MC0: 1 UE memory read error on CPU_SrcID#0", "machine-check", None, "kernel.machine-check"
    ),
    KernelLine(
        "mce: [Hardware Error]: Machine check events logged", "machine-check", None, "kernel.machine-check"
    ),
    KernelLine("{1}[Hardware Error]: event severity: fatal", "machine-check", None, "kernel.machine-check"),
    KernelLine("EDAC skx MC1: HANDLING MCE MEMORY ERROR", "machine-check", None, "kernel.machine-check"),
    KernelLine(
        "Memory failure: 0x3f5c1: recovery action for dirty LRU page: Recovered",
        "machine-check",
        None,
        "kernel.machine-check",
    ),
    KernelLine(
        "EXT4-fs error (device sda1): ext4_find_entry:1455: inode #2: comm ls",
        "filesystem",
        "sda1",
        "kernel.filesystem",
    ),
    KernelLine("EXT4-fs (sda1): Remounting filesystem read-only", "filesystem", "sda1", "kernel.filesystem"),
    KernelLine(
        "XFS (dm-0): Corruption of in-memory data detected. Shutting down filesystem",
        "filesystem",
        "dm-0",
        "kernel.filesystem",
    ),
    KernelLine(
        "BTRFS error (device sdb1): parent transid verify failed", "filesystem", "sdb1", "kernel.filesystem"
    ),
    KernelLine("BTRFS: device sdb1 forced readonly", "filesystem", None, "kernel.filesystem"),
    KernelLine(
        "nfs: server storage-1 not responding, timed out", "filesystem", "storage-1", "kernel.filesystem"
    ),
    KernelLine("nfs: server storage-1 OK", "filesystem-back", "storage-1", "kernel.filesystem-back"),
    KernelLine("nvme nvme0: I/O 123 QID 4 timeout, aborting", "storage", "nvme0", "kernel.storage"),
    KernelLine(
        "nvme nvme0: controller is down; will reset: CSTS=0xffffffff", "storage", "nvme0", "kernel.storage"
    ),
    KernelLine("blk_update_request: I/O error, dev sdb, sector 12345", "storage", "sdb", "kernel.storage"),
    KernelLine(
        "Buffer I/O error on dev dm-3, logical block 7, async page read", "storage", "dm-3", "kernel.storage"
    ),
    KernelLine("critical medium error, dev sdc, sector 99 op 0x0:(READ)", "storage", "sdc", "kernel.storage"),
    KernelLine("nvme0n1: attempt to access beyond end of device", "storage", "nvme0n1", "kernel.storage"),
    KernelLine("md/raid1:md0: Disk failure on sdb1, disabling device.", "storage", "sdb1", "kernel.storage"),
    KernelLine("md: md0: recovery failed", "storage", "md0", "kernel.storage"),
    KernelLine(
        "pt_main_thread[2536443]: segfault at 7f ip 00 sp 00 error 4 in libnccl.so.2[7f7c+d3d3000]",
        "nccl-crash",
        None,
        "kernel.segfault",
    ),
    KernelLine(
        "traps: python3[77] general protection fault ip:7f sp:7f error:0 in libtorch_cuda.so[7f+1000]",
        "crash",
        None,
        "kernel.segfault",
    ),
    KernelLine("Kernel panic - not syncing: Fatal exception", "panic", None, "kernel.panic"),
    KernelLine("BUG: unable to handle page fault for address: ffffb0", "panic", None, "kernel.panic"),
)

LINES = (*GPU_LINES, *HOST_LINES, *AMD_AND_PLATFORM_LINES, *FURTHER_LINES)

ENVELOPES = (
    "[ 4100.250000] {}",
    "[ 4100.250000][ T1234] {}",
    "[ 4100.250000 <    0.000012>] {}",
    "<3>[ 4100.250000] {}",
    "    [ 4100.250000] {}",
    "3,2048,4100250000,-;{}",
    "3,2048,4100250000,-,caller=T123;{}",
    "kern  :err   : [ 4100.250000] {}",
    "kern  :err   : 2025-02-10T16:28:06,000000+00:00 {}",
    "kern: warning: [2025-01-21T04:41:44.283302Z]: {}",
    "2025-02-10T16:28:06,000000+00:00 {}",
    "[Mon Feb 10 16:28:06 2025] {}",
    "[Feb10 16:28] {}",
    "[  +0.000012] {}",
    "Feb 10 16:28:06 kit-7 kernel: {}",
    "Feb 10 16:28:06 kit-7 kernel: [ 4100.250000] {}",
    "Okt 06 17:59:27 gpu-7 kernel: {}",
    "11月 15 14:15:47 gpu-7 kernel: {}",
    "Apr  9 21:05:38.106121 gpu-7 WARNING kernel: [10601.214044] {}",
    "2025-02-10T16:28:06+0000 kit-7 kernel: {}",
    "Mon 2025-02-10 16:28:06 UTC kit-7 kernel: {}",
    "1739204886.000000 kit-7 kernel: {}",
    "[ 4100.250000] kit-7 kernel: {}",
    "<3>1 2025-02-10T16:28:06.000000+00:00 kit-7 kernel - - - {}",
    "kit-7: [ 4100.250000] {}",
    "kit-7: [Mon Feb 10 16:28:06 2025] {}",
    "kit[07-09]: [ 4100.250000] {}",
    "10.0.0.7: kern:    err: [2025-02-10T16:28:06.000000Z]: {}",
    "/var/log/kern.log.1:Feb 10 16:28:06 kit-7 kernel: {}",
    "/var/log/dmesg:88:[ 4100.250000] {}",
    "88:[ 4100.250000] {}",
    "> [ 4100.250000] {}",
    "2025-02-10T16:28:06.000000000Z stdout F [ 4100.250000] {}",
    '{{"__REALTIME_TIMESTAMP": "1739204886000000", "_HOSTNAME": "kit-7", "_TRANSPORT": "kernel", '
    '"MESSAGE": "{}"}}',
    '{{"jsonPayload": {{"message": "[ 4100.250000] {}"}}, "timestamp": "2025-02-10T16:28:06Z"}}',
    '{{"log": "[ 4100.250000] {}\\n", "stream": "stdout", "time": "2025-02-10T16:28:06Z"}}',
)
"""Forms of the kernel's lines in logs, with the place of the message."""
