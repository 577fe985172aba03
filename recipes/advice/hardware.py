"""Observe what the hardware of a machine needs: power, slots, cooling, NICs, memory and CPU cores."""

from collections.abc import Iterator

from probes.base.grouping import grouped
from probes.base.record import NOT_RECORDED, Reason, Unknown, first_unknown, items_of, known
from probes.base.units import gib, plural
from probes.catalogue.hardware import GpuModel
from probes.catalogue.thresholds import load_thresholds
from probes.facts import Gpu
from probes.judging.reporting import fold_names
from recipes.advice.advice_lines import Observed, unread
from recipes.advice.hardware_links import observe_gpu_slots, observe_links
from recipes.advice.machine_parts import Parts, ReadValue, facts_of, figure, tool_words
from recipes.advice.power import observe_power

_HOT = ("hw_thermal_slowdown", "sw_thermal_slowdown")
_BRAKED = ("hw_power_brake_slowdown", "hw_slowdown")


def observe_hardware(parts: Parts) -> Iterator[Observed]:
    """Yield the conditions of `recipes/data/advice/hardware.toml` that hold."""
    tools = tool_words(parts)
    for observed in _observe(parts):
        yield Observed(observed.condition, {**tools, **observed.words})


def _observe(parts: Parts) -> Iterator[Observed]:
    if not parts.gpus:
        if parts.accelerators:
            yield Observed("other_accelerators", {"accelerators": parts.accelerators})
        elif isinstance(parts.facts.gpus, Unknown):
            yield unread("gpus_unknown", parts.facts.gpus)
        else:
            yield Observed("no_gpu")
    else:
        yield from observe_power(parts)
        yield from _lowered_limits(parts)
        yield from observe_gpu_slots(parts)
        yield from _temperatures(parts)
        yield from _throttling(parts)
        yield from _gpu_memory(parts)
        yield from _cores(parts)
    yield from observe_links(parts)


def _memory(gpu: Gpu, row: GpuModel | None) -> ReadValue | Unknown:
    """Return the memory of a GPU in bytes, as the driver reports it, or else as published."""
    if known(gpu.memory_bytes):
        return ReadValue(gpu.memory_bytes, "gpus[].memory_bytes")
    if row is not None:
        return ReadValue(row.memory_bytes, "published memory of gpus[].name")
    return gpu.memory_bytes if isinstance(gpu.memory_bytes, Unknown) else NOT_RECORDED


def _lowered_limits(parts: Parts) -> Iterator[Observed]:
    limits = ((gpu.power_limit_w, gpu.power_limit_default_w, f"GPU{gpu.index}") for gpu in parts.gpus)
    lowered = grouped(
        ((limit, default), name)
        for limit, default, name in limits
        if known(limit) and known(default) and limit < default
    )
    for (limit, default), names in lowered.items():
        yield Observed(
            "power_limit_lowered",
            {"gpus": fold_names(names), "limit": f"{limit:g}", "default": f"{default:g}"},
        )


def _temperatures(parts: Parts) -> Iterator[Observed]:
    if parts.is_planned:
        return
    margins = {gpu.index: _margin_c(gpu) for gpu in parts.gpus}
    missing = first_unknown(*margins.values())
    if missing is not None:
        yield unread("temperature_unknown", missing)
        return
    least = figure("temperature_margin_c")
    near = [index for index, margin in margins.items() if known(margin) and margin < least]
    smallest = min(margin for margin in margins.values() if known(margin))
    words = {
        "gpus": fold_names(f"GPU{index}" for index in near),
        "margin": f"{smallest:g}",
        "least": f"{least:g}",
    }
    yield Observed("temperature_high" if near else "temperature_good", words)


def _margin_c(gpu: Gpu) -> float | Unknown:
    """Return the degrees that remain until clocks are lowered.

    Hopper and newer GPUs report the margin itself. A margin of 0 or less on a cool GPU is a known error of
    the driver, and counts as unknown (`temperature_plausible_c` of the thresholds).
    """
    limits, now = gpu.limits, gpu.temperature_c
    margin = limits.temperature_margin_c
    if known(margin):
        is_cool = known(now) and now < load_thresholds().temperature_plausible_c.value
        implausible = Unknown(Reason.UNPARSABLE, f"a margin of {margin} at {now} degrees is not plausible")
        return implausible if margin <= 0 and is_cool else margin
    slowdown = limits.temperature_slowdown_c
    if known(now) and known(slowdown) and slowdown > 0:
        return slowdown - now
    return now if isinstance(now, Unknown) else slowdown if isinstance(slowdown, Unknown) else NOT_RECORDED


def _throttling(parts: Parts) -> Iterator[Observed]:
    if parts.is_planned:
        return
    reasons = [gpu.throttle_reasons for gpu in parts.gpus]
    missing = first_unknown(*reasons)
    throttled = False
    for condition, names in (("throttled_by_heat", _HOT), ("throttled_by_power", _BRAKED)):
        active = {gpu.index: set(items_of(gpu.throttle_reasons)) & set(names) for gpu in parts.gpus}
        gpus = [f"GPU{index}" for index, each in active.items() if each]
        if gpus:
            throttled = True
            words = ", ".join(sorted(set().union(*active.values())))
            yield Observed(condition, {"gpus": fold_names(gpus), "reasons": words})
    if missing is not None:
        yield unread("throttling_unknown", missing)
    elif not throttled:
        present = sorted({name for each in reasons for name in items_of(each)})
        yield Observed("not_throttled", {"reasons": ", ".join(present) or "none"})


def _gpu_memory(parts: Parts) -> Iterator[Observed]:
    sizes = parts.of_each(_memory)
    if isinstance(sizes, Unknown):
        yield unread("gpu_memory_unknown", sizes)
        return
    total = sum(size.value for size in sizes)
    words = {
        "each": " and ".join(dict.fromkeys(gib(size.value) for size in sizes)),
        "total": gib(total),
        "gpus": str(len(sizes)),
        "field": facts_of(sizes),
    }
    yield Observed("gpu_memory", words)
    host = parts.facts.memory.total_bytes
    if isinstance(host, Unknown):
        yield unread("host_memory_unknown", host)
        return
    least = total * figure("host_memory_per_gpu_memory")
    words |= {"host": gib(host), "least": gib(least)}
    yield Observed("host_memory_small" if host < least else "host_memory_enough", words)


def _cores(parts: Parts) -> Iterator[Observed]:
    if parts.is_planned:
        return
    cores = parts.facts.cpu.physical_cores
    if isinstance(cores, Unknown):
        yield unread("cores_unknown", cores)
        return
    wanted = int(figure("cores_per_gpu")) * len(parts.gpus)
    words = {
        "cores": str(cores),
        "counted_cores": plural(cores, "physical core"),
        "wanted": str(wanted),
        "gpus": str(len(parts.gpus)),
        "counted_gpus": plural(len(parts.gpus), "GPU"),
    }
    yield Observed("cores_few" if cores < wanted else "cores_enough", words)
