"""Build a `Gpu` from the fields and sections of a report of `nvidia-smi -q`, which is XML or text."""

import re
from collections.abc import Iterable

from probes.base.record import (
    NOT_RECORDED,
    EvidenceRef,
    Reason,
    Unknown,
    first_unknown,
    known,
    only_known,
    quoted,
    value_or,
)
from probes.facts import Count, Gpu, GpuProcess, MigDevice
from probes.parsers.nvidia_smi.nvidia_words import (
    EVENT_REASONS,
    banks,
    is_failure,
    memory_bytes,
    printed,
    switch,
    unreadable,
    whole,
)
from probes.parsers.nvidia_smi.nvsmi_fields import FIELDS, RESET_FLAGS, gpu_of, read_field

REASON_NAMES = frozenset(EVENT_REASONS.values())
_REASONS = {"display_clocks_setting": "display_clock_setting", "idle": "gpu_idle"}
"""NVML's names of clock event reasons for which nvidia-smi uses other names."""
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
_NO_WORD = re.compile(r"[^a-z0-9]+")


def path_word(label: str) -> str:
    """Return a label or tag as part of a path: `t_limit` for `T.Limit`, `cliqueid` for `CliqueId`."""
    return _NO_WORD.sub("_", label.lower()).strip("_")


class Tree:
    """Values by path, such as `ecc_errors/volatile/dram_uncorrectable`.

    Sections that occur several times are numbered: `mig_device#2`.
    """

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._sections: dict[str, int] = {}

    def add(self, path: str, value: str) -> None:
        """Add a value; if a path occurs twice, the first value is kept."""
        self._values.setdefault(path, value)

    def section(self, path: str) -> str:
        """Return the path for a section that begins; it has a number unless the section is the first with its
        name.
        """
        count = self._sections[path] = self._sections.get(path, 0) + 1
        return path if count == 1 else f"{path}#{count}"

    def text_at(self, path: str) -> str | None:
        """Return the text at `path`: empty for a section, None if `path` does not exist.

        If a section on the way contains words in place of values (`GPU is lost`), return those words.
        """
        if path in self._values:
            return self._values[path]
        if path in self._sections:
            return ""
        while "/" in path:
            path = path.rpartition("/")[0]
            if path in self._values:
                return self._values[path]
        return None

    def below(self, path: str) -> list[tuple[str, str]]:
        """Return the name and text of every value in a section and in the sections within it."""
        start = f"{path}/"
        return [
            (key.rpartition("/")[2], value) for key, value in self._values.items() if key.startswith(start)
        ]

    def items(self) -> list[tuple[str, str]]:
        return list(self._values.items())

    def has_section(self, path: str) -> bool:
        return path in self._sections

    def numbered(self, path: str) -> list[str]:
        """Return the paths of all sections of that name."""
        count = self._sections.get(path, 0)
        return [path if number == 1 else f"{path}#{number}" for number in range(1, count + 1)]


def read_tree(
    index: int, tree: Tree, driver: str | Unknown = NOT_RECORDED, evidence: tuple[EvidenceRef, ...] = ()
) -> Gpu:
    """Return the GPU that one report describes."""
    values: dict[str, object] = {row.field: read_field(row, row.paths, tree.text_at) for row in FIELDS}
    values |= {
        "driver_version": driver,
        "ecc_corrected_volatile": _errors(tree, "volatile", "single_bit", "correct"),
        "ecc_uncorrected_volatile": _errors(tree, "volatile", "double_bit", "uncorrect"),
        "memory_health.corrected_aggregate": _errors(tree, "aggregate", "single_bit", "correct"),
        "memory_health.uncorrected_aggregate": _errors(tree, "aggregate", "double_bit", "uncorrect"),
        "memory_health.sram_uncorrected_volatile": _errors(tree, "volatile", "", "uncorrect"),
        "memory_health.sram_uncorrected_aggregate": _errors(tree, "aggregate", "", "uncorrect"),
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


def _errors(tree: Tree, period: str, old: str, kind: str) -> int | Unknown:
    """Return a count of ECC errors: up to schema 10 the total of a kind, later a sum over the memories.

    Newer drivers split the uncorrectable errors of SRAM into parity and SECDED. Without `old`, the name of
    the section up to schema 10, only the errors of SRAM are counted.
    """
    section = f"ecc_errors/{period}"
    if old and tree.has_section(f"{section}/{old}"):
        return whole(tree.text_at(f"{section}/{old}/total"), f"{section}/{old}/total")
    starts = (f"sram_{kind}", f"dram_{kind}") if old else f"sram_{kind}"
    counters = [(name, text) for name, text in tree.below(section) if name.startswith(starts)]
    if not counters:
        return whole(tree.text_at(section), section)
    values = [whole(text, f"{section}/{name}") for name, text in counters]
    total = sum(only_known(values))
    unread = [value for value in values if isinstance(value, Unknown)]
    if total > 0 or not unread:
        return total  # Errors of one memory are counted even if another memory's counter cannot be read.
    return next((value for value in unread if value.reason is not Reason.NOT_SUPPORTED), unread[0])


def _repair_pending(tree: Tree) -> bool | Unknown:
    flags = [
        switch(text, name) for name in _REPAIRS if (text := tree.text_at(f"ecc_errors/{name}")) is not None
    ]
    if True in flags:
        return True
    return first_unknown(*flags) or (False if flags else NOT_RECORDED)


def _remap_banks(tree: Tree) -> tuple[Count, ...] | Unknown:
    for section in (
        "remapped_rows/row_remapper_histogram",
        "remapped_rows/bank_remap_availability_histogram",
    ):
        texts = {name.rpartition("_")[2]: text for name, text in tree.below(section)}
        values = {name: banks(texts[name], f"{section}/{name}") for name in BANKS if name in texts}
        if values:
            return bank_counts(values)
    text = tree.text_at("remapped_rows/row_remapper_histogram") or tree.text_at("remapped_rows")
    return reason_in(text, "remapped_rows")


def bank_counts(values: dict[str, int | Unknown]) -> tuple[Count, ...] | Unknown:
    """Return the counts by name; Unknown if there are no counts, or one is unknown."""
    if unknown := first_unknown(*values.values()):
        return unknown
    return tuple(Count(name=name, value=value_or(value, 0)) for name, value in values.items()) or NOT_RECORDED


def reason_in(text: str | None, what: str) -> Unknown:
    """Return the reason that a text states in place of the values of a section."""
    value = printed(text, what) if text else NOT_RECORDED
    return value if isinstance(value, Unknown) else NOT_RECORDED


def _violations(tree: Tree) -> tuple[Count, ...] | Unknown:
    for prefix in _PREFIXES:
        counters = tree.below(f"{prefix}_counters")
        names = {name: name.removeprefix(f"{prefix}_counters_") for name, _ in counters}
        if counters:
            return violation_counts(
                (_VIOLATIONS.get(names[name], names[name]), whole(text, name, "us"))
                for name, text in counters
            )
    return NOT_RECORDED


def violation_counts(values: Iterable[tuple[str, int | Unknown]]) -> tuple[Count, ...] | Unknown:
    """Return the known counters by name; if all counters are unknown, return the first Unknown."""
    pairs = list(values)
    known = tuple(Count(name=name, value=value) for name, value in pairs if not isinstance(value, Unknown))
    return known or first_unknown(*(value for _, value in pairs)) or NOT_RECORDED


def fabric_health(flags: dict[str, str], whole_section: str | None = None) -> tuple[str, ...] | Unknown:
    """Return the raised flags of a fabric's health, such as `degraded_bandwidth` or `route_unhealthy`.

    `flags` contains the printed words by nvidia-smi's names; `whole_section` is the text of a section without
    flags.
    """
    if not flags:
        return reason_in(whole_section, "fabric/health")
    raised: list[str] = []
    values = {name: printed(text, f"fabric/health/{name}") for name, text in flags.items()}
    for name, value in values.items():
        if isinstance(value, Unknown) or value.lower() in _CLEAR or name in ("summary", "partition_assigned"):
            continue
        if name == "bandwidth":
            raised.append("degraded_bandwidth")
        elif name == "incorrect_configuration":
            raised.append(f"incorrect_configuration: {value.lower()[:60]}")
        else:
            raised.append(HEALTH_FLAGS.get(name, name))
    if not raised and flags.get("summary", "").strip().lower() == "unhealthy":
        raised.append("unhealthy")
    return tuple(raised) if only_known(values.values()) else first_unknown(*values.values()) or NOT_RECORDED


def _recovery_action(tree: Tree, action: object) -> object:
    """Return the recovery action; if the driver prints none, the action that its reset flags imply."""
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
            return unreadable(text, prefix)
    return Unknown(Reason.NOT_RECORDED, "no clocks_event_reasons")


def active_reasons(flags: list[tuple[str, str]]) -> tuple[str, ...] | Unknown:
    """Return the active clock event reasons.

    The result is Unknown if a flag cannot be read. It is also Unknown if `hw_slowdown` is missing and the
    text contains a name that NVML does not have: the text may be damaged and hide the hardware's own flag.
    """
    values = [(name, switch(text, name)) for name, text in flags]
    if unknown := first_unknown(*(value for _, value in values)):
        return unknown
    names = dict(flags)
    strange = sorted(names.keys() - REASON_NAMES)
    if strange and "hw_slowdown" not in names:
        return Unknown(
            Reason.UNPARSABLE, f"no hw_slowdown among the clock event reasons, but {quoted(strange[0])}"
        )
    return tuple(name for name, value in values if value)


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
        return () if text.strip() in ("", "None") else unreadable(text, "processes")
    # NVML lists processes that compute. Processes of type G only use graphics.
    return tuple(
        GpuProcess(
            pid=pid,
            name=printed(tree.text_at(f"{section}/process_name"), "process_name"),
            memory_bytes=memory_bytes(tree.text_at(f"{section}/used_memory"), "used_memory"),
        )
        for section in sections
        if known(pid := whole(tree.text_at(f"{section}/pid"), "pid"))
        and tree.text_at(f"{section}/type") != "G"
    )
