"""Read a GPU from NVML and sysfs."""

from __future__ import annotations

from collections.abc import Sequence

from probes.base.evidence import file_ref, nvml_ref
from probes.base.record import EvidenceRef, Reason, Unknown, map_known
from probes.facts import Gpu, PcieLink
from probes.parsers.nvidia_smi.nvidia_words import VIRTUALIZATION_MODES
from probes.reading.nvidia import nvlinks
from probes.reading.nvml.device import Device, flag, item, member, named, whole_of
from probes.reading.nvml.health import FIELDS, fabric, limits, link_errors, memory_health, recovery_action
from probes.reading.pci import DEVICES, cpu_affinity, numa_node
from probes.sources.base import NvmlValue, Source

_CLOCK_SM = 1
_TEMPERATURE_GPU = 0
_CORRECTED, _UNCORRECTED = 0, 1
_VOLATILE = 0
_REPLAYS_FIELD = 94
_COMPUTE_MODES = {0: "default", 1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}
_FABRIC_STATES = {0: "not supported", 1: "not started", 2: "in progress", 3: "completed"}
"""States by number.

These tables and field numbers are those of nvml.h of NVML 13 (nvmlComputeMode_t, NVML_GPU_FABRIC_STATE_*,
NVML_FI_DEV_PCIE_REPLAY_COUNTER).
"""
_CORRUPTED = "corrupted"
_NO_INSTANCES = Unknown(Reason.NOT_SUPPORTED, "NVML gives the instances as handles only")


def read_gpu(
    source: Source, index: int, bus_ids: Sequence[str | Unknown], driver_version: str | Unknown
) -> Gpu:
    """Return all of NVML's values about device `index`, and its place from sysfs.

    `bus_ids` are those of all GPUs.
    """
    device = Device(source, index)
    address = bus_ids[index]
    memory = device.ask("nvmlDeviceGetMemoryInfo")
    remapped = device.ask("nvmlDeviceGetRemappedRows")
    mig, ecc = device.ask("nvmlDeviceGetMigMode"), device.ask("nvmlDeviceGetEccMode")
    fields = device.fields(*FIELDS)
    net = device.fabric_info()
    return Gpu(
        index=index,
        name=device.text("nvmlDeviceGetName"),
        uuid=device.text("nvmlDeviceGetUUID"),
        serial=device.text("nvmlDeviceGetSerial"),
        memory_bytes=whole_of(member(memory, "total")),
        memory_used_bytes=whole_of(member(memory, "used")),
        pci_bus_id=address,
        pci_device_id=_device_id(member(device.ask("nvmlDeviceGetPciInfo"), "pciDeviceId")),
        driver_version=driver_version,
        vbios_version=device.text("nvmlDeviceGetVbiosVersion"),
        gsp_firmware_version=device.text("nvmlDeviceGetGspFirmwareVersion"),
        inforom_version=device.text("nvmlDeviceGetInforomImageVersion"),
        inforom_valid=_inforom_valid(device.ask("nvmlDeviceGetInforomConfigurationChecksum")),
        compute_capability=device.compute_capability(),
        pcie=PcieLink(
            generation=device.whole("nvmlDeviceGetCurrPcieLinkGeneration"),
            generation_max=device.whole("nvmlDeviceGetMaxPcieLinkGeneration"),
            width=device.lanes("nvmlDeviceGetCurrPcieLinkWidth"),
            width_max=device.lanes("nvmlDeviceGetMaxPcieLinkWidth"),
        ),
        pcie_replays=fields[_REPLAYS_FIELD],
        numa_node=numa_node(source, address),
        cpu_affinity=cpu_affinity(source, address),
        nvlinks=link_errors(device, nvlinks(source, index, bus_ids)),
        fabric_state=named(member(net, "state"), _FABRIC_STATES),
        fabric=fabric(net),
        recovery_action=recovery_action(fields),
        virtualization=named(device.ask("nvmlDeviceGetVirtualizationMode"), VIRTUALIZATION_MODES),
        persistence_mode=flag(device.ask("nvmlDeviceGetPersistenceMode")),
        compute_mode=named(device.ask("nvmlDeviceGetComputeMode"), _COMPUTE_MODES),
        confidential_compute=flag(member(source.nvml("nvmlSystemGetConfComputeState"), "ccFeature")),
        mig_enabled=flag(item(mig, 0)),
        mig_pending=flag(item(mig, 1)),
        mig_devices=() if item(mig, 0) == 0 else _NO_INSTANCES,
        ecc_enabled=flag(item(ecc, 0)),
        ecc_corrected_volatile=device.whole("nvmlDeviceGetTotalEccErrors", _CORRECTED, _VOLATILE),
        ecc_uncorrected_volatile=device.whole("nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _VOLATILE),
        row_remap_pending=flag(item(remapped, 2)),
        row_remap_failed=flag(item(remapped, 3)),
        memory_health=memory_health(device, fields, ecc, remapped),
        temperature_c=device.whole("nvmlDeviceGetTemperature", _TEMPERATURE_GPU),
        power_w=device.watts("nvmlDeviceGetPowerUsage"),
        power_limit_w=device.watts("nvmlDeviceGetEnforcedPowerLimit"),
        power_limit_default_w=device.watts("nvmlDeviceGetPowerManagementDefaultLimit"),
        sm_clock_mhz=device.whole("nvmlDeviceGetClockInfo", _CLOCK_SM),
        sm_clock_max_mhz=device.whole("nvmlDeviceGetMaxClockInfo", _CLOCK_SM),
        throttle_reasons=device.throttle_reasons(),
        limits=limits(device, fields),
        utilization_percent=whole_of(member(device.ask("nvmlDeviceGetUtilizationRates"), "gpu")),
        processes=device.processes(),
        evidence=_evidence(index, address),
    )


def _evidence(index: int, address: str | Unknown) -> tuple[EvidenceRef, ...]:
    asked = nvml_ref(f"nvmlDeviceGet*({index})")
    return (asked,) if isinstance(address, Unknown) else (asked, file_ref(f"{DEVICES}/{address}"))


def _device_id(number: NvmlValue | Unknown) -> str | Unknown:
    """Return `10de:2330` for 0x233010DE."""
    return map_known(whole_of(number), lambda value: f"{value & 0xFFFF:04x}:{value >> 16 & 0xFFFF:04x}")


def _inforom_valid(checksum: NvmlValue | Unknown) -> bool | Unknown:
    """Return False if NVML refuses the checksum, as for a damaged InfoROM."""
    if isinstance(checksum, Unknown):
        return False if _CORRUPTED in checksum.detail.lower() else checksum
    return True
