"""Facts of a healthy host: kernel, clock, power."""

from __future__ import annotations

from probes.base.record import EvidenceRef
from probes.facts import Clock, Kernel, Power

KERNEL = Kernel(
    command_line="BOOT_IMAGE=/vmlinuz root=UUID=1 ro iommu=pt",
    iommu="passthrough",
    numa_balancing=False,
    transparent_hugepages="madvise",
    clocksource="tsc",
    uptime_s=864000.0,
    free_blocks_1mib=40000,
    memory_errors_corrected=0,
    memory_errors_uncorrected=0,
    zombie_processes=0,
    blocked_processes=(),
    load_average=0.3,
    local_port_first=32768,
    local_port_last=60999,
    somaxconn=4096,
    file_max=9223372036854775807,
    remove_ipc=False,
    evidence=(EvidenceRef(source="file", key="/proc/cmdline"),),
)
CLOCK = Clock(daemon="chronyd", synchronized=True)
POWER = Power(system_w=2400.0, supply_capacity_w=19800.0, failed_supplies=(), sensor_alarms=())
