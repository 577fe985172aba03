"""Build a `Gpu` from a report of `nvidia-smi -q`: single fields, and values spread over a section."""

from __future__ import annotations

from probes.base.record import NOT_RECORDED, EvidenceRef, Reason, Unknown
from probes.facts import Count, Gpu, GpuProcess, MigDevice
from probes.parsers.nvidia_smi.nvidia_words import memory_bytes, printed, switch, whole
from probes.parsers.nvidia_smi.nvsmi_fields import FIELDS, RESET_FLAGS, gpu_of, read_field
from probes.parsers.nvidia_smi.nvsmi_tree import Tree
from probes.parsers.nvidia_smi.nvsmi_values import banks, is_failure

REASON_NAMES = frozenset(
    (
        "gpu_idle",
        "applications_clocks_setting",
        "sw_power_cap",
        "hw_slowdown",
        "sync_boost",
        "sw_thermal_slowdown",
        "hw_thermal_slowdown",
        "hw_power_brake_slowdown",
        "display_clock_setting",
    )
)
"""Names of nvmlClocksEventReasons (NVML 13) in lower case."""
_REASONS = {"display_clocks_setting": "display_clock_setting", "idle": "gpu_idle"}
"""NVML's name of a clock event reason for which nvidia-smi uses a different one."""
_PREFIXES = ("clocks_event_reasons", "clocks_throttle_reasons")
_VIOLATIONS = {
    "sw_power_capping": "sw_power_cap",
    "sw_therm_slowdown": "sw_thermal_slowdown",
    "hw_therm_slowdown": "hw_thermal_slowdown",
    "hw_power_brake": "hw_power_brake_slowdown",
    "hw_power_braking": "hw_power_brake_slowdown",
}
"""NVML's name of a clock event reason by nvidia-smi's name of its counter."""
BANKS = ("max", "high", "partial", "low", "none")
_REPAIRS = ("channel_repair_pending", "tpc_repair_pending")
HEALTH_FLAGS = {
    "route_recovery_in_progress": "route_recovery",
    "route_unhealthy": "route_unhealthy",
    "access_timeout_recovery": "access_timeout",
}
_CLEAR = ("false", "no", "none", "full", "healthy")
"""Values in lower case of a health flag that is not raised."""


def read_tree(
    index: int, tree: Tree, driver: str | Unknown = NOT_RECORDED, evidence: tuple[EvidenceRef, ...] = ()
) -> Gpu:
    """Return the GPU that one report describes."""
    values: dict[str, object] = {row.field: read_field(row, row.paths, tree.text_at) for row in FIELDS}
    values |= {
        "driver_version": driver,
        "ecc_corrected_volatile": _errors(tree, "volatile", "single_bit", ("sram_correct", "dram_correct")),
        "ecc_uncorrected_volatile": _errors(
            tree, "volatile", "double_bit", ("sram_uncorrect", "dram_uncorrect")
        ),
        "memory_health.corrected_aggregate": _errors(
            tree, "aggregate", "single_bit", ("sram_correct", "dram_correct")
        ),
        "memory_health.uncorrected_aggregate": _errors(
            tree, "aggregate", "double_bit", ("sram_uncorrect", "dram_uncorrect")
        ),
        "memory_health.sram_uncorrected_volatile": _errors(tree, "volatile", "", ("sram_uncorrect",)),
        "memory_health.sram_uncorrected_aggregate": _errors(tree, "aggregate", "", ("sram_uncorrect",)),
        "memory_health.repair_pending": _repair_pending(tree),
        "memory_health.remap_banks": _remap_banks(tree),
        "limits.violations_us": _violations(tree),
        "fabric.health": fabric_health(dict(tree.below("fabric/health")), tree.text_at("fabric/health")),
        "recovery_action": _recovery_action(tree, values["recovery_action"]),
        "throttle_reasons": _throttle_reasons(tree),
        "mig_devices": _mig_devices(tree, values["mig_enabled"]),
        "processes": _processes(tree),
        "failed_queries": tuple(dict.fromkeys(path for path, text in tree.items() if is_failure(text))),
        "evidence": evidence,
    }
    return gpu_of(index, values)


def _errors(tree: Tree, period: str, old: str, starts: tuple[str, ...]) -> int | Unknown:
    """Return a count of ECC errors: one total per kind up to schema 10, later a sum over the memories.

    Newer drivers split the uncorrectable errors of SRAM into parity and SECDED.
    """
    section = f"ecc_errors/{period}"
    if old and tree.has_section(f"{section}/{old}"):
        return whole(tree.text_at(f"{section}/{old}/total"), f"{section}/{old}/total")
    counters = [(name, text) for name, text in tree.below(section) if name.startswith(starts)]
    if not counters:
        text = tree.text_at(section)
        return Unknown(Reason.NOT_RECORDED, f"no {section}") if not text else whole(text, section)
    values = [whole(text, f"{section}/{name}") for name, text in counters]
    total = sum(value for value in values if not isinstance(value, Unknown))
    unread = [value for value in values if isinstance(value, Unknown)]
    if total > 0 or not unread:
        return total  # Errors of one memory count even if another memory's counter cannot be read.
    return next((value for value in unread if value.reason is not Reason.NOT_SUPPORTED), unread[0])


def _repair_pending(tree: Tree) -> bool | Unknown:
    flags = [
        switch(text, name) for name in _REPAIRS if (text := tree.text_at(f"ecc_errors/{name}")) is not None
    ]
    if any(flag is True for flag in flags):
        return True
    return next((flag for flag in flags if isinstance(flag, Unknown)), False if flags else NOT_RECORDED)


def _remap_banks(tree: Tree) -> tuple[Count, ...] | Unknown:
    for section in (
        "remapped_rows/row_remapper_histogram",
        "remapped_rows/bank_remap_availability_histogram",
    ):
        texts = {name.rpartition("_")[2]: text for name, text in tree.below(section)}
        values = {name: banks(texts[name], f"{section}/{name}") for name in BANKS if name in texts}
        if values:
            unknown = next((value for value in values.values() if isinstance(value, Unknown)), None)
            return unknown or tuple(Count(name=name, value=int(str(value))) for name, value in values.items())
    text = tree.text_at("remapped_rows/row_remapper_histogram") or tree.text_at("remapped_rows")
    value = printed(text, "remapped_rows") if text else NOT_RECORDED
    return value if isinstance(value, Unknown) else NOT_RECORDED


def _violations(tree: Tree) -> tuple[Count, ...] | Unknown:
    for prefix in _PREFIXES:
        counters: list[Count] = []
        unknown: Unknown | None = None
        for name, text in tree.below(f"{prefix}_counters"):
            short = name.removeprefix(f"{prefix}_counters_")
            value = whole(text, name, "us")
            if isinstance(value, Unknown):
                unknown = unknown or value
            else:
                counters.append(Count(name=_VIOLATIONS.get(short, short), value=value))
        if counters or unknown:
            return tuple(counters) or unknown or ()
    return NOT_RECORDED


def fabric_health(flags: dict[str, str], whole_section: str | None = None) -> tuple[str, ...] | Unknown:
    """Return the raised flags of a fabric's health, such as `degraded_bandwidth` or `route_unhealthy`.

    `flags` contains the printed words by nvidia-smi's names; `whole_section` is the text of a section without
    flags.
    """
    if not flags:
        text = printed(whole_section, "fabric/health") if whole_section else NOT_RECORDED
        return text if isinstance(text, Unknown) else NOT_RECORDED
    raised: list[str] = []
    failure: Unknown | None = None
    known = False
    for name, text in flags.items():
        value = printed(text, f"fabric/health/{name}")
        if isinstance(value, Unknown):
            failure = failure or value
            continue
        known = True
        if value.lower() in _CLEAR or name in ("summary", "partition_assigned"):
            continue
        if name == "bandwidth":
            raised.append("degraded_bandwidth")
        elif name == "incorrect_configuration":
            raised.append(f"incorrect_configuration: {value.lower()[:60]}")
        else:
            raised.append(HEALTH_FLAGS.get(name, name))
    if not raised and flags.get("summary", "").strip().lower() == "unhealthy":
        raised.append("unhealthy")
    return tuple(raised) if known else failure or NOT_RECORDED


def _recovery_action(tree: Tree, action: object) -> object:
    """Return the recovery action; for drivers without one, the action that their reset flags imply."""
    if not isinstance(action, Unknown) or action.reason is not Reason.NOT_RECORDED:
        return action
    reset, drain = (read_field(row, row.paths, tree.text_at) for row in RESET_FLAGS)
    if reset is True:
        return "gpu reset"
    if drain is True:
        return "drain and reset"
    return "none" if reset is False else reset


def _throttle_reasons(tree: Tree) -> tuple[str, ...] | Unknown:
    for prefix in _PREFIXES:
        flags = tree.below(prefix)
        if flags:
            singular = prefix.removesuffix("s")
            named = [(name.removeprefix(f"{singular}_"), text) for name, text in flags]
            return active_reasons([(_REASONS.get(name, name), text) for name, text in named])
        if text := tree.text_at(prefix):
            value = printed(text, prefix)
            return (
                value
                if isinstance(value, Unknown)
                else Unknown(Reason.UNPARSABLE, f"{prefix}: {value[:60]!r}")
            )
    return Unknown(Reason.NOT_RECORDED, "no clocks_event_reasons")


def active_reasons(flags: list[tuple[str, str]]) -> tuple[str, ...] | Unknown:
    """Return the active clock event reasons.

    Unknown if `hw_slowdown` is missing beside a name that NVML does not have: a damaged text may then hide
    the hardware's own flag.
    """
    active: list[str] = []
    for name, text in flags:
        value = switch(text, name)
        if isinstance(value, Unknown):
            return value
        if value:
            active.append(name)
    names = {name for name, _ in flags}
    strange = sorted(names - REASON_NAMES)
    if strange and "hw_slowdown" not in names:
        return Unknown(
            Reason.UNPARSABLE, f"no hw_slowdown among the clock event reasons, but {strange[0][:40]!r}"
        )
    return tuple(active)


def _mig_devices(tree: Tree, enabled: object) -> tuple[MigDevice, ...] | Unknown:
    sections = tree.numbered("mig_devices/mig_device") or tree.numbered("mig_device")
    if not sections:
        return () if enabled is False else NOT_RECORDED
    return tuple(
        MigDevice(
            memory_bytes=memory_bytes(
                tree.text_at(f"{section}/fb_memory_usage/total")
                or tree.text_at(f"{section}/shared_fb_memory_usage/total"),
                "fb_memory_usage/total",
            )
        )
        for section in sections
    )


def _processes(tree: Tree) -> tuple[GpuProcess, ...] | Unknown:
    sections = tree.numbered("processes/process_info")
    if not sections:
        text = tree.text_at("processes")
        if text is None:
            return Unknown(Reason.NOT_RECORDED, "no processes")
        if text.strip() in ("", "None"):
            return ()
        value = printed(text, "processes")
        return (
            value if isinstance(value, Unknown) else Unknown(Reason.UNPARSABLE, f"processes: {value[:60]!r}")
        )
    running: list[GpuProcess] = []
    for section in sections:
        pid = whole(tree.text_at(f"{section}/pid"), "pid")
        # NVML lists processes that compute. Type G only draws.
        if not isinstance(pid, Unknown) and tree.text_at(f"{section}/type") != "G":
            name = printed(tree.text_at(f"{section}/process_name"), "process_name")
            running.append(
                GpuProcess(
                    pid=pid,
                    name=name,
                    memory_bytes=memory_bytes(tree.text_at(f"{section}/used_memory"), "used_memory"),
                )
            )
    return tuple(running)
