"""Observe what the hardware of a machine needs: power, slots, cooling, NICs and memory."""

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from probes.base.record import NOT_RECORDED, Reason, Unknown, first_unknown, items_of, known, only_known
from probes.base.rows import load_rows
from probes.base.units import gib, percent
from probes.catalogue.hardware import GpuModel
from probes.catalogue.thresholds import Cited, load_thresholds
from probes.facts import Gpu, Nic, PcieLink
from probes.judging.affinity import affinity_of
from probes.judging.rails import NEAR, training_ports, training_rails
from probes.judging.reporting import fold_names
from recipes.advice.advice_lines import Observed, unread
from recipes.advice.machine_parts import Parts, figure, processor_of
from recipes.machine.cluster import slot_bytes_per_s
from recipes.machine.cluster_records import PcieSlot
from recipes.machine.from_words import load_designs

_ON_BOARD = ("sxm", "sxm2", "sxm3")
_HOT = ("hw_thermal_slowdown", "sw_thermal_slowdown")
_BRAKED = ("hw_power_brake_slowdown", "hw_slowdown")


def observe_hardware(parts: Parts) -> Iterator[Observed]:
    """Yield the conditions of `recipes/data/advice/hardware.toml` that hold."""
    tools = tool_words(parts)
    for observed in _observe(parts):
        yield Observed(observed.condition, {**tools, **observed.words})


def tool_words(parts: Parts) -> dict[str, str]:
    """Return the commands that read and set the GPUs of this maker, by their names in the rows."""
    rows = load_rows("recipes", "tools", Tools, file="advice/hardware")
    return next(dict(row.words) for row in rows if row.maker == parts.maker)


def _observe(parts: Parts) -> Iterator[Observed]:
    if not parts.gpus:
        if parts.accelerators:
            yield Observed("other_accelerators", {"accelerators": parts.accelerators})
        elif isinstance(parts.facts.gpus, Unknown):
            yield unread("gpus_unknown", parts.facts.gpus)
        else:
            yield Observed("no_gpu")
    else:
        yield from _power(parts)
        yield from _lowered_limits(parts)
        yield from _gpu_slots(parts)
        yield from _temperatures(parts)
        yield from _throttling(parts)
        yield from _gpu_memory(parts)
        yield from _cores(parts)
    yield from _nic_slots(parts)
    yield from _lanes(parts)
    yield from _switches(parts)
    yield from _nics(parts)


class Tools(Cited, kw_only=True):
    """The commands of one maker's tools."""

    maker: Literal["nvidia", "amd", "other"]
    words: dict[str, str]


class _Read(NamedTuple):
    """A value, and the name of the fact from which the value was taken."""

    value: float
    fact: str


def _power_limit(gpu: Gpu, row: GpuModel | None) -> _Read | Unknown:
    """Return the power limit of a GPU in watts: the present, the default, or the published limit."""
    published = row.power_limit_w if row else None
    for value, fact in (
        (gpu.power_limit_w, "gpus[].power_limit_w"),
        (gpu.power_limit_default_w, "gpus[].power_limit_default_w"),
        (published, "published power limit of gpus[].name"),
    ):
        if known(value) and value is not None:
            return _Read(value, fact)
    return gpu.power_limit_w if isinstance(gpu.power_limit_w, Unknown) else NOT_RECORDED


def _memory(gpu: Gpu, row: GpuModel | None) -> _Read | Unknown:
    """Return the memory of a GPU in bytes, as the driver reports or else as published."""
    if known(gpu.memory_bytes):
        return _Read(gpu.memory_bytes, "gpus[].memory_bytes")
    if row is not None:
        return _Read(row.memory_bytes, "published memory of gpus[].name")
    return gpu.memory_bytes if isinstance(gpu.memory_bytes, Unknown) else NOT_RECORDED


def _power(parts: Parts) -> Iterator[Observed]:
    limits = parts.of_each(_power_limit)
    if isinstance(limits, Unknown):
        yield unread("board_power_unknown", limits)
        return
    boards = sum(limit.value for limit in limits)
    words = {
        "boards": _kilowatts(boards),
        "gpus": str(len(limits)),
        "limits": _listed((limit.value for limit in limits), "W"),
        "field": _fields(limits),
    }
    yield Observed("board_heat", words)
    if parts.is_virtual:
        yield Observed("supplies_of_host", words)
        return
    on_board = any(row is not None and row.form in _ON_BOARD for row in parts.rows)
    processors = _processor_power(parts)
    if on_board:
        machine = boards * figure("board_power_factor")
        words["how"] = f"{figure('board_power_factor'):g} times the GPUs, as in a published machine"
    elif isinstance(processors, Unknown):
        yield Observed("processor_power_unknown", {**words, "reason": processors.words})
        return
    else:
        machine = (boards + processors) * (1 + figure("power_reserve"))
        words["how"] = (
            f"GPUs {_kilowatts(boards)}, processors {_kilowatts(processors)}, and "
            f"{percent(figure('power_reserve'))} for other parts and peaks"
        )
    words["machine"] = _kilowatts(machine)
    if isinstance(parts.supplies_w, Unknown):
        yield Observed("supplies_unknown", {**words, "reason": parts.supplies_w.words})
        return
    words["supplies"] = _kilowatts(parts.supplies_w)
    if parts.supplies_w < boards:
        yield Observed("supplies_short", words)
    else:
        yield Observed("supplies_tight" if parts.supplies_w < machine else "supplies_enough", words)


def _processor_power(parts: Parts) -> float | Unknown:
    cpu = parts.facts.cpu
    if isinstance(cpu.model, Unknown):
        return cpu.model
    if isinstance(cpu.sockets, Unknown):
        return cpu.sockets
    family = processor_of(cpu.model)
    if family is None or family[1] is None:
        return Unknown(Reason.NOT_RECORDED, f"rigtune has no power figure of {cpu.model[:60]}")
    return family[1] * cpu.sockets


def _lowered_limits(parts: Parts) -> Iterator[Observed]:
    lowered: dict[tuple[float, float], list[str]] = {}
    for gpu in parts.gpus:
        limit, default = gpu.power_limit_w, gpu.power_limit_default_w
        if known(limit) and known(default) and limit < default:
            lowered.setdefault((limit, default), []).append(f"GPU{gpu.index}")
    for (limit, default), names in lowered.items():
        yield Observed(
            "power_limit_lowered",
            {"gpus": fold_names(names), "limit": f"{limit:g}", "default": f"{default:g}"},
        )


def _gpu_slots(parts: Parts) -> Iterator[Observed]:
    if parts.is_planned:
        return
    groups: dict[tuple[str, str, str], list[str]] = {}
    for gpu, row in zip(parts.gpus, parts.rows, strict=True):
        link = gpu.pcie
        if isinstance(link.width, Unknown) or isinstance(link.width_max, Unknown):
            reason = first_unknown(link.width, link.width_max) or NOT_RECORDED
            key = ("gpu_link_unknown", reason.words, "")
        elif link.width < link.width_max:
            key = ("gpu_link_narrow", _slot(link), f"x{link.width_max}")
        elif row is not None and link.width_max < row.pcie_width:
            key = ("gpu_slot_narrow", _slot(link), f"x{row.pcie_width}")
        elif row is not None and known(link.generation_max) and link.generation_max < row.pcie_generation:
            key = ("gpu_slot_slow", _slot(link), f"PCIe {row.pcie_generation}")
        else:
            key = ("gpu_link_full", _slot(link), f"x{link.width_max}")
        groups.setdefault(key, []).append(f"GPU{gpu.index}")
    for (condition, slot, most), names in groups.items():
        yield Observed(condition, {"devices": fold_names(names), "slot": slot, "most": most, "reason": slot})


def _nic_slots(parts: Parts) -> Iterator[Observed]:
    nics = items_of(parts.facts.nics)
    if parts.is_planned:
        return
    groups: dict[tuple[str, str, str], list[str]] = {}
    for nic in nics:
        groups.setdefault(_nic_slot(nic), []).append(nic.name)
    for (condition, slot, most), names in groups.items():
        devices = fold_names(dict.fromkeys(names))
        yield Observed(condition, {"devices": devices, "slot": slot, "most": most, "reason": slot})


def _nic_slot(nic: Nic) -> tuple[str, str, str]:
    link = nic.pcie
    if isinstance(link.width, Unknown) or isinstance(link.width_max, Unknown):
        reason = first_unknown(link.width, link.width_max) or NOT_RECORDED
        return "nic_link_unknown", reason.words, ""
    if link.width < link.width_max:
        return "nic_link_narrow", _slot(link), f"x{link.width_max}"
    generation = link.generation if known(link.generation) else link.generation_max
    if isinstance(generation, Unknown) or isinstance(nic.rate_gbps, Unknown):
        return "nic_link_full", _slot(link), "unknown"
    carried = slot_bytes_per_s(PcieSlot(generation=generation, width=link.width)) * 8 / 1e9
    is_slow = 0 < carried < nic.rate_gbps
    return (
        "nic_slot_slow" if is_slow else "nic_link_full",
        f"{_slot(link)} carries {carried:.0f} Gb/s",
        f"{nic.rate_gbps:g} Gb/s",
    )


def _lanes(parts: Parts) -> Iterator[Observed]:
    """Compare the lanes of the processors with those that a list of parts needs."""
    cpu = parts.facts.cpu
    if not parts.is_planned:
        return
    family = processor_of(cpu.model) if known(cpu.model) else None
    if family is None or isinstance(cpu.sockets, Unknown):
        yield unread("lanes_unknown", cpu.model if isinstance(cpu.model, Unknown) else NOT_RECORDED)
        return
    row = family[0]
    devices = len(parts.gpus) + len(items_of(parts.facts.nics))
    wanted = devices * int(figure("lanes_per_device"))
    lanes = row.lanes if cpu.sockets == 1 else row.lanes_of_two
    words = {
        "wanted": str(wanted),
        "lanes": str(lanes),
        "devices": str(devices),
        "generation": str(row.generation),
        "cpu": f"{cpu.sockets} x {cpu.model}",
    }
    yield Observed("lanes_short" if lanes < wanted else "lanes_enough", words)


def _switches(parts: Parts) -> Iterator[Observed]:
    """Report which GPUs and NICs are below one PCIe switch."""
    links = parts.facts.links
    nics = items_of(parts.facts.nics)
    if parts.is_planned or not (parts.gpus or nics):
        return
    pairs = [
        link
        for link in items_of(links)
        if link.kind != "NVLINK" and known(link.kind) and "GPU" in (link.a[:3], link.b[:3])
    ]
    if not pairs:
        if isinstance(links, Unknown) or len(parts.gpus) > 1:  # a single GPU shares nothing
            yield unread("switches_unknown", links if isinstance(links, Unknown) else NOT_RECORDED)
        return
    groups: list[set[str]] = []
    for link in pairs:
        if link.kind in NEAR:
            joined = [group for group in groups if group & {link.a, link.b}]
            groups = [group for group in groups if group not in joined]
            groups.append({link.a, link.b}.union(*joined))
    for condition, is_shared in (("switch_shared", True), ("switch_paired", False)):
        chosen = [each for each in groups if (sum(name[:3] == "GPU" for name in each) > 1) == is_shared]
        if chosen:
            yield Observed(condition, {"devices": "; ".join(map(fold_names, chosen))})
    if not groups:
        hidden = parts.is_virtual
        kinds = ", ".join(sorted({str(link.kind) for link in pairs}))
        yield Observed("topology_hidden" if hidden else "no_switch", {"kinds": kinds})


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

    GPUs from Hopper on report the margin itself. A margin of 0 or less on a cool GPU is a known error of the
    driver, and counts as unknown (`temperature_plausible_c` of the thresholds).
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


def _nics(parts: Parts) -> Iterator[Observed]:
    facts, gpus = parts.facts, len(parts.gpus)
    if isinstance(facts.nics, Unknown):
        yield unread("nics_unknown", facts.nics)
        return
    ports = training_ports(facts)
    down = training_rails(facts).down
    if not facts.nics:
        yield Observed("no_nic")
    elif isinstance(ports, Unknown):
        yield unread("rails_unknown", ports)
    else:
        if down:
            yield Observed("rails_down", {"ports": fold_names(nic.name for nic in down)})
        yield from _rails(parts, ports, gpus)
    yield from _distances(parts)


def _rails(parts: Parts, ports: tuple[Nic, ...], gpus: int) -> Iterator[Observed]:
    rates = [nic.rate_gbps for nic in ports]
    missing = first_unknown(*rates)
    if missing is not None:
        yield unread("rails_unknown", missing)
    if missing is not None or not ports or not gpus:
        return
    per_gpu = sum(only_known(rates)) / gpus
    words = {
        "ports": fold_names(nic.name for nic in ports),
        "count": str(len(ports)),
        "gpus": str(gpus),
        "rate": _listed(only_known(rates), "Gb/s"),
        "per_gpu": f"{per_gpu:.4g}",
    }
    row = next((row for row in parts.rows if row is not None and row.design), None)
    design = load_designs()[row.design] if row else None
    if design is None or not design.network_gbps:
        yield Observed("rail_rate", words)
    else:
        usual = design.network_gbps / design.gpus_per_node
        words |= {"usual": f"{usual:.4g}", "design": design.title}
        yield Observed("rail_rate_low" if per_gpu < usual else "rail_rate_usual", words)
    even = gpus % len(ports) == 0 or len(ports) % gpus == 0
    if not even:
        yield Observed("rails_uneven", words)


def _distances(parts: Parts) -> Iterator[Observed]:
    if parts.is_planned or not parts.gpus or not items_of(parts.facts.nics):
        return
    places = items_of(affinity_of(parts.facts))
    groups: dict[str, list[str]] = {}
    for place in places:
        if isinstance(place.kind, str):
            groups.setdefault(place.kind, []).append(place.gpu)
    for kind, names in groups.items():
        condition = "nic_near" if kind in NEAR else "nic_far"
        yield Observed(condition, {"gpus": fold_names(names), "kind": kind})


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
        "field": _fields(sizes),
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
    words = {"cores": str(cores), "wanted": str(wanted), "gpus": str(len(parts.gpus))}
    yield Observed("cores_few" if cores < wanted else "cores_enough", words)


def _slot(link: PcieLink) -> str:
    generation = f"PCIe {link.generation_max} " if known(link.generation_max) else ""
    return f"{generation}x{link.width}"


def _fields(values: Iterable[_Read]) -> str:
    return " and ".join(dict.fromkeys(value.fact for value in values))


def _listed(values: Iterable[float], unit: str) -> str:
    return " and ".join(f"{value:g}" for value in dict.fromkeys(values)) + f" {unit}"


def _kilowatts(power_w: float) -> str:
    return f"{power_w / 1000:.2f} kW"
