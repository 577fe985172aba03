"""Observe the connections of a machine: slots and lanes, PCIe switches, NICs and their distances."""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from probes.base.grouping import grouped
from probes.base.record import NOT_RECORDED, Unknown, first_unknown, items_of, known, only_known
from probes.base.units import plural
from probes.catalogue.hardware import GpuModel
from probes.facts import Nic, PcieLink
from probes.judging.affinity import affinity_of
from probes.judging.rails import NEAR, training_ports, training_rails
from probes.judging.reporting import fold_names
from recipes.advice.advice_lines import Observed, unread
from recipes.advice.machine_parts import Parts, figure, processor_of
from recipes.machine.cluster import slot_bytes_per_s
from recipes.machine.cluster_records import PcieSlot
from recipes.machine.from_words import load_designs

_Slot: TypeAlias = tuple[str, str, str]
"""Condition of a device's slot; the link in words, or why it is unknown; and the value to compare with.

That value is the largest width or generation of the device, or the rate of a NIC's port.
"""


def observe_links(parts: Parts) -> Iterator[Observed]:
    """Yield the conditions of `recipes/data/advice/hardware.toml` about NICs, lanes and switches."""
    yield from _nic_slots(parts)
    yield from _lanes(parts)
    yield from _switches(parts)
    yield from _nics(parts)


def observe_gpu_slots(parts: Parts) -> Iterator[Observed]:
    """Compare the link of each GPU with its slot and with its model."""
    if parts.is_planned:
        return
    slots = (
        (_gpu_slot(gpu.pcie, row, is_virtual=parts.is_virtual), f"GPU{gpu.index}")
        for gpu, row in zip(parts.gpus, parts.rows, strict=True)
    )
    yield from _slots(slots)


def _nic_slots(parts: Parts) -> Iterator[Observed]:
    if not parts.is_planned:
        yield from _slots((_nic_slot(nic), nic.name) for nic in items_of(parts.facts.nics))


def _slots(named: Iterable[tuple[_Slot, str]]) -> Iterator[Observed]:
    """Yield one observation for each group of devices whose slots have the same condition and words."""
    for (condition, slot, most), names in grouped(named).items():
        devices = fold_names(dict.fromkeys(names))
        yield Observed(condition, {"devices": devices, "slot": slot, "most": most, "reason": slot})


def _gpu_slot(link: PcieLink, row: GpuModel | None, *, is_virtual: bool) -> _Slot:
    if isinstance(link.width, Unknown) or isinstance(link.width_max, Unknown):
        reason = first_unknown(link.width, link.width_max) or NOT_RECORDED
        return "gpu_link_unknown", reason.words, ""
    slot, most = _slot(link), f"x{link.width_max}"
    if link.width < link.width_max:
        return "gpu_link_of_host" if is_virtual else "gpu_link_narrow", slot, most
    if row is not None and link.width_max < row.pcie_width:
        return "gpu_slot_narrow", slot, f"x{row.pcie_width}"
    if row is not None and known(link.generation_max) and link.generation_max < row.pcie_generation:
        return "gpu_slot_slow", slot, f"PCIe {row.pcie_generation}"
    return "gpu_link_full", slot, most


def _nic_slot(nic: Nic) -> _Slot:
    link = nic.pcie
    if isinstance(link.width, Unknown) or isinstance(link.width_max, Unknown):
        reason = first_unknown(link.width, link.width_max) or NOT_RECORDED
        return "nic_link_unknown", reason.words, ""
    if link.width < link.width_max:
        return "nic_link_narrow", _slot(link), f"x{link.width_max}"
    generation = link.generation if known(link.generation) else link.generation_max
    if isinstance(generation, Unknown) or isinstance(nic.rate_gbps, Unknown):
        rate = "unknown" if isinstance(nic.rate_gbps, Unknown) else f"{nic.rate_gbps:g} Gb/s"
        return "nic_link_full", _slot(link), rate
    carried = slot_bytes_per_s(PcieSlot(generation=generation, width=link.width)) * 8 / 1e9
    is_slow = 0 < carried < nic.rate_gbps
    return (
        "nic_slot_slow" if is_slow else "nic_link_full",
        f"PCIe {generation} x{link.width} carries {carried:.0f} Gb/s",
        f"{nic.rate_gbps:g} Gb/s",
    )


def _lanes(parts: Parts) -> Iterator[Observed]:
    """Compare the PCIe lanes of the processors with the lanes that the devices in a list of parts need."""
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
    """Report which GPUs and NICs share a PCIe switch."""
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
        # a single GPU has no other GPU with which it could share a switch
        if isinstance(links, Unknown) or len(parts.gpus) > 1:
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
        "counted_ports": plural(len(ports), "training port"),
        "gpus": str(gpus),
        "counted_gpus": plural(gpus, "GPU"),
        "rate": listed(only_known(rates), "Gb/s"),
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
    kinds = grouped((place.kind, place.gpu) for place in places if isinstance(place.kind, str))
    for kind, names in kinds.items():
        condition = "nic_near" if kind in NEAR else "nic_far"
        yield Observed(condition, {"gpus": fold_names(names), "kind": kind})


def _slot(link: PcieLink) -> str:
    generation = f"PCIe {link.generation_max} " if known(link.generation_max) else ""
    return f"{generation}x{link.width}"


def listed(values: Iterable[float], unit: str) -> str:
    """Return the distinct values with their unit: `300 and 350 W`."""
    return " and ".join(f"{value:g}" for value in dict.fromkeys(values)) + f" {unit}"
