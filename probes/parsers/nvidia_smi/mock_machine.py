"""A machine description of nvml-mock: driver, GPUs, NVLinks, RDMA ports and their places.

Source of the format: the profiles of NVIDIA/k8s-test-infra (deployments/nvml-mock), read 2026-11.
`device_defaults` hold for every device; `devices` override them one by one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from probes.base.record import NOT_RECORDED, Reason, Unknown
from probes.facts import (
    Fabric,
    Gpu,
    GpuLimits,
    GpuMemoryHealth,
    Nic,
    NvLink,
    PciDevice,
    PcieLink,
    Software,
    counts,
)
from probes.parsers.tools.documents import at, load_yaml, members, table, whole, word
from probes.parsers.topology.pci_addresses import normal_address

T = TypeVar("T")

_TOP = re.compile(r"^(device_defaults|devices|system|nvlink|version):", re.MULTILINE)
_MOST_DEVICES = 256
_MOST_LINKS = 36
"""NVML_NVLINK_MAX_LINKS of nvml.h 13."""
_FABRIC_STATES = {
    "completed": "completed",
    "in_progress": "in progress",
    "not_started": "not started",
    "not_supported": "not supported",
}
_COMPUTE_MODES = {"default": "default", "exclusive_process": "exclusive process", "prohibited": "prohibited"}
_FLAGS = {"enabled": True, "disabled": False, "true": True, "false": False, "on": True, "off": False}
_PORT_STATES = {"ACTIVE", "INIT", "ARMED", "DOWN"}
_UNSAID = "the description does not tell"


def recognise(text: str) -> bool:
    return {"device_defaults", "devices"} <= {match[1] for match in _TOP.finditer(text[:400_000])}


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """The GPUs with everything that the description states of them."""
    document = load_yaml(text)
    nodes = _numa_nodes(document)
    driver = _text(at(document, "system", "driver_version"))
    return tuple(
        _gpu(device, index, nodes, driver, document.get("nvlink"))
        for index, device in enumerate(_devices(document))
    )


def attached_gpus(text: str) -> int | Unknown | None:
    """How many GPUs the description has."""
    return len(_devices(load_yaml(text))) or None


def parse_nics(text: str) -> tuple[Nic, ...]:
    """The RDMA ports: so many for each GPU, all alike."""
    document = load_yaml(text)
    ports = table(document, "infiniband")
    per_gpu = whole(ports.get("hcas_per_gpu")) or 0
    if ports.get("enabled") is not True or not 0 < per_gpu <= 16:
        return ()
    state = (word(ports.get("port_state")) or "").upper()
    rate = ports.get("rate_gbps")
    return tuple(
        Nic(
            name=f"mlx5_{index}",
            link_layer=_text(ports.get("link_layer")),
            state=state if state in _PORT_STATES else NOT_RECORDED,
            physical_state=_text(ports.get("phys_state")),
            rate_gbps=float(rate) if isinstance(rate, int | float) and 0 < rate < 1e5 else NOT_RECORDED,
            device_type=_text(ports.get("hca_type")),
            firmware_version=_text(ports.get("fw_version")),
            board_id=_text(ports.get("board_id")),
        )
        for index in range(len(_devices(document)) * per_gpu)
    )


def parse_devices(text: str) -> tuple[PciDevice, ...]:
    """The GPUs and NVSwitches as PCI devices."""
    document = load_yaml(text)
    nodes = _numa_nodes(document)
    found: list[PciDevice] = []
    for device in _devices(document):
        address = _address(at(device, "pci", "bus_id"))
        if isinstance(address, str):
            found.append(
                PciDevice(
                    bus_id=address,
                    kind="gpu",
                    device_id=_device_id(at(device, "pci", "device_id")),
                    numa_node=nodes.get(address, NOT_RECORDED),
                )
            )
    for switch in members(document, "nvlink", "switches")[:_MOST_DEVICES]:
        address = _address(at(switch, "bdf"))
        if isinstance(address, str):
            found.append(PciDevice(bus_id=address, kind="nvswitch"))
    return tuple(found)


def parse_software(text: str) -> Software:
    """The driver and the CUDA version that it brings."""
    system = table(load_yaml(text), "system")
    return Software(
        driver_version=_text(system.get("driver_version")),
        cuda_driver_version=_text(system.get("cuda_version")),
    )


def _devices(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The devices with the defaults filled in."""
    defaults = table(document, "device_defaults")
    return [
        _over(defaults, device)
        for device in members(document, "devices")[:_MOST_DEVICES]
        if isinstance(device, dict)
    ]


def _over(defaults: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    merged = dict(defaults)
    for name, value in own.items():
        base = merged.get(name)
        merged[name] = base | value if isinstance(base, dict) and isinstance(value, dict) else value
    return merged


def _gpu(
    device: dict[str, Any], position: int, nodes: dict[str, int], driver: str | Unknown, links: object
) -> Gpu:
    address = _address(at(device, "pci", "bus_id"))
    index = whole(device.get("index"))
    return Gpu(
        index=position if index is None or not 0 <= index < _MOST_DEVICES else index,
        name=_text(device.get("name")),
        uuid=_text(device.get("uuid")),
        serial=_text(device.get("serial")),
        memory_bytes=_number(at(device, "memory", "total_bytes")),
        memory_used_bytes=_number(at(device, "memory", "used_bytes")),
        pci_bus_id=address,
        pci_device_id=_device_id(at(device, "pci", "device_id")),
        driver_version=driver,
        vbios_version=_text(device.get("vbios_version")),
        gsp_firmware_version=_text(at(device, "gsp_firmware", "version")),
        inforom_version=_text(at(device, "inforom", "image_version")),
        compute_capability=_capability(at(device, "compute_capability")),
        pcie=PcieLink(
            generation=_number(at(device, "pcie", "current_link_gen")),
            generation_max=_number(at(device, "pcie", "max_link_gen")),
            width=_number(at(device, "pcie", "current_link_width")),
            width_max=_number(at(device, "pcie", "max_link_width")),
        ),
        pcie_replays=_number(at(device, "pcie", "replay_counter")),
        numa_node=nodes.get(address, NOT_RECORDED) if isinstance(address, str) else NOT_RECORDED,
        nvlinks=_nvlinks(links),
        fabric_state=_named(at(device, "fabric", "state"), _FABRIC_STATES),
        fabric=Fabric(
            clique_id=_number(at(device, "fabric", "clique_id")),
            cluster_uuid=_text(at(device, "fabric", "cluster_uuid")),
        ),
        virtualization=_text(at(device, "virtualization", "mode")),
        persistence_mode=_flag(device.get("persistence_mode")),
        compute_mode=_named(device.get("compute_mode"), _COMPUTE_MODES),
        mig_enabled=_flag(at(device, "mig", "mode_current")),
        mig_pending=_flag(at(device, "mig", "mode_pending")),
        ecc_enabled=_flag(at(device, "ecc", "mode_current")),
        ecc_corrected_volatile=_number(at(device, "ecc", "errors", "volatile", "single_bit", "total")),
        ecc_uncorrected_volatile=_number(at(device, "ecc", "errors", "volatile", "double_bit", "total")),
        row_remap_pending=_flag(at(device, "remapped_rows", "pending")),
        row_remap_failed=_flag(at(device, "remapped_rows", "failure_occurred")),
        memory_health=_memory_health(device),
        temperature_c=_number(at(device, "thermal", "temperature_gpu_c")),
        power_w=_watts(at(device, "power", "current_draw_mw")),
        power_limit_w=_watts(at(device, "power", "enforced_limit_mw")),
        power_limit_default_w=_watts(at(device, "power", "default_limit_mw")),
        sm_clock_mhz=_number(at(device, "clocks", "sm_current")),
        sm_clock_max_mhz=_number(at(device, "clocks", "sm_max")),
        throttle_reasons=_reasons(device.get("clocks_throttle_reasons")),
        limits=_limits(device),
        utilization_percent=_number(at(device, "utilization", "gpu")),
        processes=() if device.get("processes") == [] else NOT_RECORDED,
    )


def _memory_health(device: dict[str, Any]) -> GpuMemoryHealth:
    banks = {
        name: number
        for name, value in table(device, "remapped_rows", "availability_histogram").items()
        if (number := whole(value)) is not None
    }
    return GpuMemoryHealth(
        ecc_pending=_flag(at(device, "ecc", "mode_pending")),
        corrected_aggregate=_number(at(device, "ecc", "errors", "aggregate", "single_bit", "total")),
        uncorrected_aggregate=_number(at(device, "ecc", "errors", "aggregate", "double_bit", "total")),
        remapped_rows_corrected=_number(at(device, "remapped_rows", "correctable")),
        remapped_rows_uncorrected=_number(at(device, "remapped_rows", "uncorrectable")),
        remap_banks=counts(banks) if banks else NOT_RECORDED,
        retired_pages_single_bit=_number(at(device, "retired_pages", "single_bit_retirement", "count")),
        retired_pages_double_bit=_number(at(device, "retired_pages", "double_bit_retirement", "count")),
        retired_pages_pending=_flag(at(device, "retired_pages", "pending_retirement")),
    )


def _limits(device: dict[str, Any]) -> GpuLimits:
    return GpuLimits(
        temperature_slowdown_c=_number(at(device, "thermal", "slowdown_threshold_c")),
        temperature_shutdown_c=_number(at(device, "thermal", "shutdown_threshold_c")),
        temperature_max_operating_c=_number(at(device, "thermal", "max_operating_c")),
        memory_temperature_c=_number(at(device, "thermal", "temperature_memory_c")),
        power_limit_max_w=_watts(at(device, "power", "max_limit_mw")),
        memory_clock_mhz=_number(at(device, "clocks", "memory_current")),
        memory_clock_max_mhz=_number(at(device, "clocks", "memory_max")),
        application_sm_clock_mhz=_number(at(device, "clocks", "graphics_app")),
        application_sm_clock_default_mhz=_number(at(device, "clocks", "graphics_app_default")),
        performance_state=_text(device.get("performance_state")),
    )


def _nvlinks(links: object) -> tuple[NvLink, ...] | Unknown:
    """The links of each GPU. The simulator brings them up where there are switches; else nothing says that
    they are up.
    """
    count = whole(at(links, "links_per_gpu"))
    if links is None:
        return ()
    if count is None or not 0 <= count <= _MOST_LINKS or at(links, "links"):
        return Unknown(Reason.NOT_RECORDED, _UNSAID)
    rate = whole(at(links, "bandwidth_per_link_mbps"))
    switched = bool(members(links, "switches"))
    return tuple(
        NvLink(
            index=index,
            active=True if switched else Unknown(Reason.NOT_RECORDED, _UNSAID),
            bandwidth_bytes_per_s=rate * 1e6 if rate is not None and 0 < rate < 1 << 40 else NOT_RECORDED,
            remote="switch" if switched else NOT_RECORDED,
        )
        for index in range(count)
    )


def _numa_nodes(document: dict[str, Any]) -> dict[str, int]:
    """NUMA node by address, from the root complexes."""
    nodes: dict[str, int] = {}
    for root in members(document, "pcie_topology", "root_complexes")[:_MOST_DEVICES]:
        node = whole(at(root, "numa_node"))
        for device in members(root, "devices") if node is not None and 0 <= node < 1024 else ():
            address = _address(device)
            if isinstance(address, str) and node is not None:
                nodes[address] = node
    return nodes


def _reasons(value: object) -> tuple[str, ...] | Unknown:
    if not isinstance(value, dict) or "hw_slowdown" not in value:
        return NOT_RECORDED
    names = {"display_clocks_setting": "display_clock_setting"}
    return tuple(names.get(str(name), str(name)) for name, active in value.items() if active is True)


def _text(value: object) -> str | Unknown:
    found = word(value)
    return (
        Unknown(Reason.NOT_SUPPORTED, "n/a")
        if found is None and isinstance(value, str)
        else found or NOT_RECORDED
    )


def _number(value: object) -> int | Unknown:
    number = whole(value)
    if number is None or isinstance(value, str):
        return Unknown(Reason.NOT_SUPPORTED, "n/a") if isinstance(value, str) else NOT_RECORDED
    return number


def _watts(value: object) -> float | Unknown:
    number = _number(value)
    return number if isinstance(number, Unknown) else number / 1000


def _flag(value: object) -> bool | Unknown:
    if isinstance(value, bool):
        return value
    return _named(value, _FLAGS)


def _named(value: object, names: Mapping[str, T]) -> T | Unknown:
    found = word(value)
    return (
        NOT_RECORDED if found is None else names.get(found.lower(), Unknown(Reason.NOT_RECORDED, found[:60]))
    )


def _address(value: object) -> str | Unknown:
    return normal_address(value) if isinstance(value, str) else NOT_RECORDED


def _device_id(value: object) -> str | Unknown:
    """`10de:2330` for 0x233010DE, device before vendor as NVML has it."""
    number = whole(value)
    if number is None or not 0 < number < 1 << 32:
        return NOT_RECORDED
    return f"{number & 0xFFFF:04x}:{number >> 16:04x}"


def _capability(value: object) -> str | Unknown:
    major, minor = whole(at(value, "major")), whole(at(value, "minor"))
    return NOT_RECORDED if major is None or minor is None else f"{major}.{minor}"
