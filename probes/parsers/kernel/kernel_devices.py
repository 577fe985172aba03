"""Rows of the kernel log's grammar: PCI devices that cannot be reached, refused transfers, unstable clocks.

Source: Linux drivers/pci (pci.c, setup-res.c), drivers/iommu/{intel,amd}, kernel/time/clocksource.c (read
2026-11).
"""

import re

from probes.parsers.kernel.kernel_events import (
    PCI,
    DeviceError,
    IommuFault,
    KernelRow,
    UnstableClock,
    card_of,
    row,
)


def _iommu_fault(match: re.Match[str]) -> IommuFault:
    named = match.groupdict()
    address = named["address"] or named.get("place")
    return IommuFault(
        message=match.string,
        device=card_of(address) if address else None,
        address=address,
        driver=named.get("driver"),
    )


DEVICE_ROWS: tuple[KernelRow, ...] = (
    row(
        DeviceError,
        ("change power state", "giving up"),
        rf"(?P<device>{PCI})\.[0-7]: (?:(?:Unable to|can't) change power state from \w{{1,10}} to D0.{{0,4}}"
        r"(?:device|config space) inaccessible|not ready \d{1,9}ms after .{1,40}; giving up)",
        fatal=True,
        variant="inaccessible",
    ),
    row(
        DeviceError,
        ("no space", "failed to assign"),
        rf"(?P<device>{PCI})\.[0-7]: BAR [0-5](?:: (?:no space for|failed to assign) \[mem|"
        r" \[mem[^\]]{1,60}\]: (?:can't assign; no space|failed to assign))",
        variant="no address space",
    ),
    row(
        DeviceError,
        "habanalabs ",
        r"^habanalabs \S{1,20}: .{0,120}?(?:hard-reset required|[Hh]eartbeat .{0,40}missing|"
        r"[Ff]ailed to (?:reset|initialize|load))",
        fatal=True,
        variant="habanalabs",
    ),
    row(
        IommuFault,
        "DMAR: [",
        r"DMAR: \[(?:DMA (?:Read|Write)|INTR-REMAP)[^\]]{0,40}\] "
        r"Request device \[(?P<address>[0-9a-f:.]{5,16})\]",
        make=_iommu_fault,
    ),
    row(
        IommuFault,
        "IO_PAGE_FAULT",
        r"(?:^(?P<driver>[\w-]{1,30}) (?P<place>[0-9a-f:.]{7,16}): )?"
        r"(?:AMD-Vi: Event logged \[|^)IO_PAGE_FAULT:? (?:device=|domain=\w{1,10} )?"
        r"(?P<address>[0-9a-f:.]{5,16}(?=[ \]]))?",
        make=_iommu_fault,
    ),
    row(
        UnstableClock,
        "nstable",
        r"[Mm]arking (?:(?:clocksource )?'?\w{1,20}'? (?:as )?)?unstable|Clocksource \w{1,20} unstable",
    ),
)
