"""Names for numbers of NVML, shared by nvidia-smi's parsers and NVML's own calls."""

from __future__ import annotations

from probes.base.record import Reason, Unknown

EVENT_REASONS = {
    0x1: "gpu_idle",
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
"""Names by bit of nvmlClocksEventReasons (nvml.h of NVML 13)."""
RECOVERY_ACTIONS = {
    0: "none",
    1: "gpu reset",
    2: "node reboot",
    3: "drain p2p",
    4: "drain and reset",
    5: "recover imex domain",
    6: "bus reset",
    7: "system reboot",
}
"""Names by number of nvmlDeviceGpuRecoveryAction_t (nvml.h of NVML 13)."""
VIRTUALIZATION_MODES = {0: "none", 1: "pass-through", 2: "vgpu", 3: "host vgpu", 4: "host vsga"}
"""Names by number of nvmlGpuVirtualizationMode_t (nvml.h of NVML 13)."""
_HEALTH_FLAGS = {0: "degraded_bandwidth", 2: "route_recovery", 4: "route_unhealthy", 6: "access_timeout"}
"""Names of flags by the position of their two bits (NVML_GPU_FABRIC_HEALTH_MASK_*).

The value of the two bits is 0 (not supported), 1 (true) or 2 (false).
"""
_CONFIGURATION_SHIFT, _CONFIGURATION_MASK = 8, 0xF
_CONFIGURATION_RIGHT = (0, 1)


def event_reasons(mask: str | int) -> tuple[str, ...] | Unknown:
    """Return the names of the bits that are set in a mask such as `0x0000000000000004`."""
    try:
        bits = mask if isinstance(mask, int) else int(mask[:40], 16)
    except ValueError:
        return Unknown(Reason.UNPARSABLE, f"clock event reasons {str(mask)[:40]!r}")
    return tuple(name for bit, name in EVENT_REASONS.items() if bits & bit)


def fabric_health(mask: int) -> tuple[str, ...] | Unknown:
    """Return the flags that are true in a fabric health mask; Unknown if the GPU supports none of them."""
    if mask == 0:
        return Unknown(Reason.NOT_SUPPORTED, "the GPU states no fabric health")
    raised = [name for shift, name in _HEALTH_FLAGS.items() if (mask >> shift) & 3 == 1]
    if (mask >> _CONFIGURATION_SHIFT) & _CONFIGURATION_MASK not in _CONFIGURATION_RIGHT:
        raised.append("incorrect_configuration")
    return tuple(raised)
