"""Outputs of nvidia-smi that are not XML: report, table, CSV, list, monitors and errors."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.base.record import Reason, Unknown
from probes.base.units import MIB
from probes.facts import Gpu
from probes.facts.gpu_facts import UNNUMBERED
from probes.parsers.nvidia_smi import (
    nvsmi_csv,
    nvsmi_short,
    nvsmi_table,
    nvsmi_text,
    nvsmi_xml,
)

REPORT = """
==============NVSMI LOG==============

Driver Version                            : 610.10.01 [Deprecated; use KMD Version instead]
KMD Version                               : 610.10.01
CUDA UMD Version                          : 13.3

Attached GPUs                             : 3
GPU 00000000:1B:00.0
    Product Name                          : NVIDIA X100
    MIG Mode
        Current                           : Disabled
        Pending                           : Enabled
    GPU Recovery Action                   : Reset
    PCI
        Device Id                         : 0x233010DE
        GPU Link Info
            PCIe Generation
                Max                       : 5
                Current                   : 1
            Link Width
                Max                       : 16x
                Current                   : 8x
    Fan Speed                             : ERR!
    Clocks Event Reasons
        Idle                              : Not Active
        SW Power Cap                      : Active
        HW Slowdown                       : Active
            HW Thermal Slowdown           : Active
    FB Memory Usage
        Total                             : 1000 MiB
        Used                              : 10 MiB
    ECC Errors
        Volatile
            SRAM Uncorrectable Parity     : 1
            DRAM Uncorrectable            : 2
        Aggregate
            SRAM Uncorrectable Parity     : 3
            SRAM Uncorrectable SEC-DED    : 4
            SRAM Threshold Exceeded       : Yes
    Remapped Rows
        Pending                           : Yes
        Bank Remap Availability Histogram
            Max                           : 639 bank(s)
            None                          : 1 bank(s)
    Temperature
        GPU Current Temp                  : 41 C
        GPU Current T.Limit Temp          : 46 C
    GPU Power Readings
        Instantaneous Power Draw          : 70.50 W
        GPU Ceiling Power Limit
            Current Power Limit           : 600.00 W
    Applications Clocks
        Graphics                          : Requested functionality has been deprecated
    Processes
        GPU instance ID                   : N/A
        Process ID                        : 42
            Type                          : C
            Name                          : python
            Used GPU Memory               : 5 MiB
        Process ID                        : 43
            Type                          : G
            Name                          : Xorg
            Used GPU Memory               : 5 MiB

GPU 00000000:3B:00.0
    Product Name                          : NVIDIA X100
    Addressing Mode                       : Unknown Error
    Fabric
        State                             : Completed
        Health
            Bandwidth                     : Full
            Route Unhealthy               : True
    [...]
"""


def test_report() -> None:
    log = nvsmi_text.parse_smi_text(REPORT)
    assert (log.driver_version, log.cuda_version, log.attached_gpus, len(log.gpus)) == (
        "610.10.01",
        "13.3",
        3,
        2,
    )
    first, second = log.gpus
    assert (first.name, first.pci_bus_id, first.pci_device_id) == ("NVIDIA X100", "0000:1b:00.0", "10de:2330")
    assert (first.mig_enabled, first.mig_pending, first.recovery_action) == (False, True, "gpu reset")
    assert (first.pcie.generation, first.pcie.generation_max, first.pcie.width, first.pcie.width_max) == (
        1,
        5,
        8,
        16,
    )
    assert first.throttle_reasons == ("sw_power_cap", "hw_slowdown", "hw_thermal_slowdown")
    assert (first.ecc_uncorrected_volatile, first.memory_health.sram_uncorrected_aggregate) == (3, 7)
    assert (first.memory_health.sram_threshold_exceeded, first.row_remap_pending) == (True, True)
    assert isinstance(first.memory_health.remap_banks, tuple)
    assert {bank.name: bank.value for bank in first.memory_health.remap_banks} == {"max": 639, "none": 1}
    assert (first.temperature_c, first.limits.temperature_margin_c) == (41, 46)
    assert (first.power_w, first.power_limit_w, first.memory_bytes) == (70.5, 600.0, 1000 * MIB)
    assert isinstance(first.processes, tuple)
    assert [(process.pid, process.name) for process in first.processes] == [(42, "python")]
    assert isinstance(first.limits.fan_percent, Unknown)
    assert first.limits.fan_percent.reason is Reason.ERROR
    assert isinstance(first.limits.application_sm_clock_mhz, Unknown)
    assert first.limits.application_sm_clock_mhz.reason is Reason.NOT_SUPPORTED
    assert second.failed_queries == ("addressing_mode",)
    assert second.fabric.health == ("route_unhealthy",)


def test_a_report_names_where_it_was_cut() -> None:
    assert [line.why for line in nvsmi_text.unread(REPORT)] == [
        "the report was shortened here",
        "the header counts 3 GPUs, but the report contains 2",
    ]


def test_a_report_that_lost_its_indentation() -> None:
    flat = "\n".join(line.strip() for line in REPORT.splitlines())
    gpu = nvsmi_text.parse_gpus(flat)[0]
    assert (gpu.name, gpu.pcie.width, gpu.mig_enabled) == ("NVIDIA X100", 8, False)
    assert gpu.memory_health.sram_uncorrected_aggregate == 7


def test_a_part_without_its_gpu() -> None:
    part = (
        "    Retired Pages\n        Single Bit ECC : 3\n        Double Bit ECC : 0\n"
        "        Pending Page Blacklist : Yes\n"
    )
    assert nvsmi_text.recognise(part)
    (gpu,) = nvsmi_text.parse_gpus(part)
    assert gpu.index == UNNUMBERED
    assert (gpu.memory_health.retired_pages_single_bit, gpu.memory_health.retired_pages_pending) == (3, True)


def test_unknown_names_of_throttle_reasons_are_not_read_as_none() -> None:
    odd = REPORT.replace("HW Slowdown ", "Odd HW Slowdown ").replace("Thermal Slowdown ", "Thermal Odd ")
    reasons = nvsmi_text.parse_gpus(odd)[0].throttle_reasons
    assert isinstance(reasons, Unknown)


TABLE = """
| NVIDIA-SMI 610.10.01              KMD Version: 610.10.01     CUDA UMD Version: 13.3     |
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
|=========================================+========================+======================|
|   0  NVIDIA X100 80GB ...           On  |   00000008:01:00.0 Off |                    2 |
|ERR!   39C    P0            162W / 1200W |   1024MiB / 189471MiB  |     12%   E. Process |
|                                         |                        |             Enabled* |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA X100                    Off |   00000009:01:00.0 Off |                  Off |
| N/A  ERR!   ERR!           ERR! / ERR!  |      ERR! /      ERR!  |    ERR!        ERR!  |
| MIG devices:                                                                            |
|  0    2   0   0  |           11091MiB / 40448MiB    | 60      0 |  3   0    3    0    3 |
| Processes:                                                                              |
|=========================================================================================|
|    0   N/A  N/A           20037      C   ffmpeg                                  538MiB |
|    0   N/A  N/A           20038      G   Xorg                                     10MiB |
"""


def test_table() -> None:
    table = nvsmi_table.parse_table(TABLE)
    assert (table.driver_version, table.cuda_version) == ("610.10.01", "13.3")
    first, second = table.gpus
    assert (first.name, first.pci_bus_id, first.persistence_mode) == (
        "NVIDIA X100 80GB ...",
        "0008:01:00.0",
        True,
    )
    assert (first.ecc_enabled, first.ecc_uncorrected_volatile) == (True, 2)
    assert (first.temperature_c, first.power_w, first.power_limit_w) == (39, 162.0, 1200.0)
    assert (first.memory_used_bytes, first.memory_bytes) == (1024 * MIB, 189471 * MIB)
    assert (first.utilization_percent, first.compute_mode) == (12, "exclusive process")
    assert (first.mig_enabled, first.mig_pending) == (True, False)
    assert isinstance(first.mig_devices, tuple)
    assert [device.memory_bytes for device in first.mig_devices] == [40448 * MIB]
    assert isinstance(first.processes, tuple)
    assert [process.name for process in first.processes] == ["ffmpeg"]
    assert first.failed_queries == ("fan",)
    assert (second.ecc_enabled, second.processes) == (False, ())
    assert isinstance(second.memory_bytes, Unknown)
    assert second.memory_bytes.reason is Reason.ERROR


CSV = """name, index, pci.bus_id, memory.total [MiB], temperature.gpu, clocks_throttle_reasons.active, \
power.draw [W], fan.speed
NVIDIA X100, 0, 00000000:1B:00.0, 1000 MiB, 41, 0x0000000000000048, 70.50 W, [N/A]
NVIDIA X100, 1, 00000000:3B:00.0, 1000, 42, [Unknown Error], 71, 30
NVIDIA X100, 2
"""


def test_csv() -> None:
    first, second = nvsmi_csv.parse_gpus(CSV)
    assert (first.index, first.pci_bus_id, first.memory_bytes, first.temperature_c) == (
        0,
        "0000:1b:00.0",
        1000 * MIB,
        41,
    )
    assert first.throttle_reasons == ("hw_slowdown", "hw_thermal_slowdown")
    assert (second.memory_bytes, second.power_w, second.limits.fan_percent) == (1000 * MIB, 71.0, 30)
    assert isinstance(second.throttle_reasons, Unknown)
    assert second.failed_queries == ("clocks_event_reasons.active",)
    assert [line.line for line in nvsmi_csv.unread(CSV)] == [4]


def test_csv_without_header() -> None:
    text = "0, 00000000:01:00.0, NVIDIA X1\n4, 00000000:05:00.0, NVIDIA X1, 535.10\n"
    assert [(gpu.index, gpu.pci_bus_id, gpu.name) for gpu in nvsmi_csv.parse_gpus(text)] == [
        (0, "0000:01:00.0", "NVIDIA X1"),
        (4, "0000:05:00.0", "NVIDIA X1"),
    ]


def test_csv_of_processes() -> None:
    text = (
        "gpu_uuid, pid, process_name, used_gpu_memory [MiB]\nGPU-aaaaaaaa, 7, python, 10 MiB\n"
        "GPU-aaaaaaaa, 8, python, 20 MiB\n"
    )
    (gpu,) = nvsmi_csv.parse_gpus(text)
    assert isinstance(gpu.processes, tuple)
    assert [(process.pid, process.memory_bytes) for process in gpu.processes] == [
        (7, 10 * MIB),
        (8, 20 * MIB),
    ]


LIST = (
    "GPU 0: NVIDIA X100 (UUID: GPU-1)\n  MIG 3g.40gb     Device  0: (UUID: MIG-1)\n"
    "GPU 1: NVIDIA X100 (UUID: GPU-2)\n"
)


def test_list() -> None:
    first, second = nvsmi_short.parse_list(LIST)
    assert isinstance(first.mig_devices, tuple)
    assert [(device.profile, device.uuid) for device in first.mig_devices] == [("3g.40gb", "MIG-1")]
    assert (first.mig_enabled, second.uuid) == (True, "GPU-2")
    assert not nvsmi_short.recognise_list(LIST + "\t Link 0: 25 GB/s\n")


DMON = """# gpu    pwr  gtemp  mtemp     sm    mem   mclk   pclk
# Idx      W      C      C      %      %    MHz    MHz
    0    630     53     41    100      8   3201   1980
"""
PMON = """# gpu         pid   type     sm    mem    command
# Idx           #    C/G      %      %    name
    0       7     C     99      0    python -m x
    0       7     C     97      1    python -m x
    1       -     -      -      -    -
"""


def test_monitors() -> None:
    (gpu,) = nvsmi_short.parse_monitor(DMON)
    assert (gpu.power_w, gpu.temperature_c, gpu.limits.memory_temperature_c, gpu.sm_clock_mhz) == (
        630.0,
        53,
        41,
        1980,
    )
    first, second = nvsmi_short.parse_monitor(PMON)
    assert isinstance(first.processes, tuple)
    assert [(process.pid, process.sm_percent, process.memory_percent) for process in first.processes] == [
        (7, 97, 1)
    ]
    assert second.processes == ()


@pytest.mark.parametrize(
    ("text", "index", "address"),
    [
        (
            "Unable to determine the device handle for GPU 0000:CB:00.0: Unknown Error",
            UNNUMBERED,
            "0000:cb:00.0",
        ),
        ("Unable to determine the device handle for GPU3: 0000:04:00.0: GPU is lost.", 3, "0000:04:00.0"),
    ],
)
def test_a_gpu_that_an_error_names(text: str, index: int, address: str) -> None:
    (gpu,) = nvsmi_short.parse_error(text)
    assert (gpu.index, gpu.pci_bus_id) == (index, address)
    assert isinstance(gpu.name, Unknown)
    assert gpu.name.reason is Reason.ERROR
    assert nvsmi_short.failure(text) is None


def test_messages_in_place_of_gpus() -> None:
    text = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.178\n"
    failure = nvsmi_short.failure(text)
    assert failure is not None
    assert "version mismatch" in failure.detail
    assert nvsmi_short.library_version(text) == "580.178"
    assert nvsmi_short.failure("No devices were found\n") is not None
    assert (
        nvsmi_short.parse_error("WARNING: infoROM is corrupted at gpu 0000:3B:00.0\n")[0].inforom_valid
        is False
    )


MODULES = (nvsmi_csv, nvsmi_table, nvsmi_text, nvsmi_xml)
TEXTS = (REPORT, TABLE, CSV, LIST, DMON, PMON)


def read_all(text: str) -> list[Gpu]:
    gpus: list[Gpu] = []
    for module in MODULES:
        module.recognise(text)
        gpus += module.parse_gpus(text)
        module.unread(text)
    for function in (nvsmi_short.recognise_list, nvsmi_short.recognise_monitor, nvsmi_short.recognise_error):
        function(text)
    nvsmi_short.unread_list(text)
    return [
        *gpus,
        *nvsmi_short.parse_list(text),
        *nvsmi_short.parse_monitor(text),
        *nvsmi_short.parse_error(text),
    ]


@given(st.text(max_size=400))
def test_arbitrary_text_never_raises(text: str) -> None:
    assert all(isinstance(gpu, Gpu) for gpu in read_all(text))


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(TEXTS), st.data())
def test_damaged_text_invents_nothing(text: str, data: st.DataObject) -> None:
    """Check that a cut text yields no GPU and no name that the whole text does not contain."""
    lines = text.splitlines(keepends=True)
    kept = data.draw(st.lists(st.sampled_from(range(len(lines))), unique=True).map(sorted))
    whole_gpus = {gpu.pci_bus_id for gpu in read_all(text)} | {gpu.uuid for gpu in read_all(text)}
    damaged = "".join(lines[number] for number in kept)
    for gpu in read_all(damaged):
        assert isinstance(gpu.pci_bus_id, Unknown) or gpu.pci_bus_id in whole_gpus
        assert isinstance(gpu.name, Unknown) or gpu.name in text
