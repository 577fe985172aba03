"""Read NVML's devices and NVLinks for several collectors, and explain why no driver answers."""

from collections.abc import Sequence

from probes.base.record import NOT_RECORDED, Reason, Unknown, quoted, value_or
from probes.base.units import plural
from probes.facts import NvLink
from probes.parsers.topology.pci_addresses import normal_address
from probes.reading.pci import DEVICES
from probes.sources.base import NvmlValue, Source, read_text

SMI_QUERY = ("nvidia-smi", "-q", "-x")
SMI_TOPOLOGY = ("nvidia-smi", "topo", "-m")
SMI_NVLINK = ("nvidia-smi", "nvlink", "-s")
SMI_TIMEOUT_S = 30.0
"""Deadline in seconds.

Without persistence mode, nvidia-smi first initialises every GPU, which takes seconds.
"""

_MAX_DEVICES = 256
"""Limit above the number in any PCIe machine: a larger number means a damaged recording."""
_MAX_NVLINKS = 36
"""NVML_NVLINK_MAX_LINKS of nvml.h 13."""
_SPEED_FIELD = 90
"""NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON: megabytes per second of an active link, one direction."""
_REMOTE_GPU, _REMOTE_SWITCH = 0, 2
"""nvmlIntNvLinkDeviceType_t."""
_BRIDGE_CLASS = "0x0680"
"""PCI class of an NVSwitch: `other bridge` (class 0680h)."""


def device_count(source: Source) -> int | Unknown:
    """Return the number of GPUs that NVML shows to this process."""
    count = source.nvml("nvmlDeviceGetCount")
    if isinstance(count, Unknown):
        return count
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= _MAX_DEVICES:
        return Unknown(Reason.UNPARSABLE, f"nvmlDeviceGetCount: {quoted(str(count))}")
    return count


def bus_id(source: Source, index: int) -> str | Unknown:
    """Return the PCI address of a GPU in the notation of sysfs."""
    return _address_in(source.nvml("nvmlDeviceGetPciInfo", index), "nvmlDeviceGetPciInfo")


def _address_in(info: NvmlValue | Unknown, call: str) -> str | Unknown:
    """Return the PCI address in the answer to an NVML call."""
    if isinstance(info, Unknown):
        return info
    match info:
        case {"busId": str(text)}:
            return normal_address(text)
    return Unknown(Reason.UNPARSABLE, f"{call}: {info!r}")


def nvlinks(source: Source, index: int, bus_ids: Sequence[str | Unknown]) -> tuple[NvLink, ...] | Unknown:
    """Return the NVLink ports of a GPU; empty if it has none.

    The result is Unknown if NVML hides the ports (MIG), or if the query of the first port fails.
    """
    links: list[NvLink] = []
    speed = _link_speed(source, index)
    for port in range(_MAX_NVLINKS):
        state = source.nvml("nvmlDeviceGetNvLinkState", index, port)
        if isinstance(state, Unknown):
            if _is_end(state):
                break
            if not links:
                return state
            links.append(NvLink(index=port, active=state))
        elif state:
            remote = _remote(source, index, port, bus_ids)
            links.append(NvLink(index=port, active=True, bandwidth_bytes_per_s=speed, remote=remote))
        else:
            links.append(NvLink(index=port, active=False))
    if not links and _mig_enabled(source, index):
        return Unknown(Reason.NOT_SUPPORTED, "NVML does not show the NVLinks of a GPU in MIG mode")
    return tuple(links)


def _is_end(state: Unknown) -> bool:
    """Return whether NVML reports a port beyond the last: `not supported` or `invalid argument`."""
    return state.reason is Reason.NOT_SUPPORTED or "invalid argument" in state.detail.lower()


def _mig_enabled(source: Source, index: int) -> bool:
    mode = source.nvml("nvmlDeviceGetMigMode", index)
    return isinstance(mode, list) and bool(mode) and mode[0] == 1


def _link_speed(source: Source, index: int) -> float | Unknown:
    answer = source.nvml("nvmlDeviceGetFieldValues", index, _SPEED_FIELD)
    if isinstance(answer, Unknown):
        return answer
    match answer:
        case [{"nvmlReturn": 0, "value": {"uiVal": int(speed)}}, *_] if speed > 0:
            return speed * 1e6
    return Unknown(Reason.NOT_SUPPORTED, "NVML reports no NVLink speed")


def _remote(source: Source, index: int, port: int, bus_ids: Sequence[str | Unknown]) -> str | Unknown:
    """Return `switch`, or the address of the GPU at the other end."""
    if source.nvml("nvmlDeviceGetNvLinkRemoteDeviceType", index, port) == _REMOTE_SWITCH:
        return "switch"
    info = source.nvml("nvmlDeviceGetNvLinkRemotePciInfo", index, port)
    address = _address_in(info, f"remote of NVLink {port}")
    if isinstance(address, Unknown) or address in bus_ids:
        return address
    device_class = read_text(source, f"{DEVICES}/{address}/class")
    if value_or(device_class, "").startswith(_BRIDGE_CLASS):
        return "switch"
    if source.nvml("nvmlDeviceGetNvLinkRemoteDeviceType", index, port) == _REMOTE_GPU:
        return address  # a GPU that belongs to another virtual machine or container
    return Unknown(
        Reason.NOT_SUPPORTED, f"NVLink {port} leads to {address}, which is neither a GPU nor a known switch"
    )


def driver_silence(addresses: tuple[str, ...] | Unknown, reason: Unknown) -> Unknown | None:
    """Return why there are no facts of GPUs; None if the PCI bus has no NVIDIA GPU at all.

    If a driver hangs or refuses access, a reason is returned even if the bus shows no GPU, because a virtual
    machine or container may hide it.
    """
    if isinstance(addresses, Unknown):
        return reason if reason.reason is not NOT_RECORDED.reason else addresses
    if not addresses:
        return reason if reason.reason in (Reason.TIMEOUT, Reason.PERMISSION) else None
    count = plural(len(addresses), "NVIDIA GPU")
    return Unknown(reason.reason, f"{count} on the PCI bus, but no driver answers ({reason.detail})")
