"""Compare the power of the GPUs and of the whole machine with the capacity of the power supplies."""

from collections.abc import Iterator
from typing import NamedTuple

from probes.base.record import NOT_RECORDED, Reason, Record, Unknown, known, map_known, value_or
from probes.base.units import percent
from probes.catalogue.hardware import GpuModel
from probes.facts import Gpu
from recipes.advice.advice_lines import Observed, lines_for, unread
from recipes.advice.hardware_links import listed
from recipes.advice.machine_parts import Parts, ReadValue, facts_of, figure, processor_of, tool_words
from recipes.machine.from_words import load_designs


class PowerBudget(Record, kw_only=True):
    """Power of the GPUs and of the machine compared with the capacity of the power supplies, in watts."""

    boards_w: float | Unknown
    """Sum of the GPUs' power limits."""
    machine_w: float | Unknown
    """Peak draw of a machine with these GPUs."""
    supplies_w: float | Unknown | None
    """Power of all supplies, as the machine or the user states it; None if unknown."""
    verdict: str
    source: str


class _Estimate(NamedTuple):
    """A power in watts, and the way in which it was estimated."""

    power_w: float
    how: str


def power_budget(parts: Parts) -> PowerBudget:
    """Return the power of boards, machine and supplies, with the texts of the advice about them."""
    limits = parts.of_each(_power_limit)
    boards = map_known(limits, lambda limits: sum(limit.value for limit in limits))
    machine = boards if isinstance(boards, Unknown) else _machine_power(parts, boards)
    tools = tool_words(parts)
    observed = (Observed(each.condition, {**tools, **each.words}) for each in observe_power(parts))
    lines = lines_for("hardware", observed)
    return PowerBudget(
        boards_w=boards,
        machine_w=map_known(machine, lambda estimate: estimate.power_w),
        supplies_w=value_or(parts.supplies_w, None),
        verdict=" ".join(line.text for line in lines),
        source="; ".join(dict.fromkeys(f"{line.source} ({line.date})" for line in lines)),
    )


def observe_power(parts: Parts) -> Iterator[Observed]:
    """Yield the conditions about power that hold on a machine with GPUs."""
    limits = parts.of_each(_power_limit)
    if isinstance(limits, Unknown):
        yield unread("board_power_unknown", limits)
        return
    boards, supplies = sum(limit.value for limit in limits), parts.supplies_w
    words = {
        "boards": _kilowatts(boards),
        "gpus": str(len(limits)),
        "limits": listed((limit.value for limit in limits), "W"),
        "field": facts_of(limits),
    }
    yield Observed("board_heat", words)
    machine = _machine_power(parts, boards)
    if parts.is_virtual and isinstance(supplies, Unknown):
        yield Observed("supplies_of_host", words)
    elif known(supplies) and supplies < boards:
        yield Observed("supplies_short", {**words, "supplies": _kilowatts(supplies)})
    elif isinstance(machine, Unknown):
        yield Observed("processor_power_unknown", {**words, "reason": machine.words})
    else:
        words |= {"machine": _kilowatts(machine.power_w), "how": machine.how}
        if isinstance(supplies, Unknown):
            yield Observed("supplies_unknown", {**words, "reason": supplies.words})
        else:
            is_tight = supplies < machine.power_w
            words["supplies"] = _kilowatts(supplies)
            yield Observed("supplies_tight" if is_tight else "supplies_enough", words)


def _machine_power(parts: Parts, boards_w: float) -> _Estimate | Unknown:
    """Return the peak draw of the machine; Unknown if it depends on processors whose power is unknown."""
    if any(row is not None and _is_module(row) for row in parts.rows):
        factor = figure("board_power_factor")
        return _Estimate(boards_w * factor, f"{factor:g} times the GPUs, as in a published machine")
    reserve = figure("power_reserve")
    return map_known(
        _processor_power(parts),
        lambda processors_w: _Estimate(
            (boards_w + processors_w) * (1 + reserve),
            f"GPUs {_kilowatts(boards_w)}, processors {_kilowatts(processors_w)}, and "
            f"{percent(reserve)} for other parts and peaks",
        ),
    )


def _power_limit(gpu: Gpu, row: GpuModel | None) -> ReadValue | Unknown:
    """Return the power limit of a GPU in watts: the present, else the default, else the published limit."""
    published = row.power_limit_w if row else None
    for value, fact in (
        (gpu.power_limit_w, "gpus[].power_limit_w"),
        (gpu.power_limit_default_w, "gpus[].power_limit_default_w"),
        (published, "published power limit of gpus[].name"),
    ):
        if known(value) and value is not None:
            return ReadValue(value, fact)
    return gpu.power_limit_w if isinstance(gpu.power_limit_w, Unknown) else NOT_RECORDED


def _is_module(row: GpuModel) -> bool:
    """Return whether a GPU is a module on a board with NVSwitches or direct NVLinks, as in a DGX.

    Grace superchips, and GPUs in racks whose NVLinks span nodes, have other power supplies and do not count.
    """
    is_joined = row.nvlink_count > 0 and not row.nvlink_bridge and row.link_kind == "nvlink"
    design = load_designs().get(row.design)
    is_in_rack = design is not None and design.domain_gpus is not None
    return is_joined and not row.host_link_bytes_per_s and not is_in_rack


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


def _kilowatts(power_w: float) -> str:
    return f"{power_w / 1000:.2f} kW"
