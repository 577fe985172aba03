"""Parts of a machine that are slower than they should be, read from the same facts as the checks.

A plan uses the lower rates and names each such part.
"""

from collections.abc import Iterable
from typing import NamedTuple

from probes.base.record import Unknown, items_of, known, value_or
from probes.base.units import gb_per_s
from probes.catalogue.hardware import GpuModel
from probes.catalogue.thresholds import load_thresholds
from probes.facts import Gpu, MachineFacts, Nic
from probes.facts.gpu_facts import PcieLink
from probes.judging.rails import is_down, training_ports, training_rails
from recipes.machine.cluster import slot_bytes_per_s
from recipes.machine.cluster_records import PcieSlot

_SHOWN = 8


class SlowLinks(NamedTuple):
    """Faults of the NVLinks; each figure is that of the worst GPU."""

    links: int | None = None
    """Fewest links that are up on a GPU, if links are down; None if none is down, or if unknown."""
    rate_share: float = 1.0
    """Rate of the slowest link divided by its usual rate; 1 if no link is below the checks' limit."""
    warnings: tuple[str, ...] = ()


def slow_links(gpus: tuple[Gpu, ...], row: GpuModel | None) -> SlowLinks:
    """Return what is wrong with the NVLinks of the GPUs: links that are down, and links below their rate.

    As in the checks, the usual values come only from catalogue rows that a recording has confirmed. If no GPU
    has a link that is up, the links are assumed to be unused (for example without a bridge), not broken.
    """
    if row is None or not row.checked or not row.nvlink_count:
        return SlowLinks()
    up_by_gpu = {
        gpu.index: [link for link in items_of(gpu.nvlinks) if link.active is True]
        for gpu in gpus
        if known(gpu.nvlinks) and all(known(link.active) for link in gpu.nvlinks)
    }
    counts = {index: len(links) for index, links in up_by_gpu.items()}
    broken = {index: count for index, count in counts.items() if count < row.nvlink_count}
    is_dead = any(link.active is False for gpu in gpus for link in items_of(gpu.nvlinks))
    if not is_dead or not any(counts.values()):
        broken = {}
    floor = load_thresholds().nvlink_rate_minimum_fraction.value * row.nvlink_bandwidth_bytes_per_s
    slowest = {
        index: min((value_or(link.bandwidth_bytes_per_s, floor) for link in links), default=floor)
        for index, links in up_by_gpu.items()
    }
    slow = {index: rate for index, rate in slowest.items() if rate < floor}
    warnings = []
    if broken:
        fewest = min(broken.values())
        used = "the lower bandwidth for all GPUs" if fewest else "PCIe between the GPUs"
        warnings.append(
            f"{_gpus(broken)} with only {fewest} of {row.nvlink_count} NVLinks up: the plan uses {used}"
        )
    if slow:
        rate = min(slow.values())
        warnings.append(
            f"{_gpus(slow)} with NVLinks at {gb_per_s(rate)} instead of "
            f"{gb_per_s(row.nvlink_bandwidth_bytes_per_s)}: the plan uses the lower rate for all GPUs"
        )
    return SlowLinks(
        links=min(broken.values(), default=None),
        rate_share=min(slow.values()) / row.nvlink_bandwidth_bytes_per_s if slow else 1.0,
        warnings=tuple(warnings),
    )


def missing_links(pairs: Iterable[tuple[str, int]], row: GpuModel | None, *, is_usual: bool) -> str:
    """Return a warning if GPUs that usually have NVLink to each other use PCIe; else an empty text.

    `pairs` has one entry for each connection that the facts show: its kind and its number of NVLinks.
    `is_usual` states whether every usual machine with these GPUs joins all of them by NVLink.
    """
    kinds = [kind for kind, _ in pairs]
    if row is None or not is_usual or row.nvlink_bridge or not row.nvlink_count or not kinds:
        return ""
    without = sum(kind not in ("NVLINK", "") for kind in kinds)
    if not without:
        return ""
    return (
        f"no NVLink joins {without} of {len(kinds)} pairs of GPUs, although machines with {row.title} "
        "usually join all GPUs by NVLink: the plan uses PCIe between the GPUs"
    )


def lanes_warning(gpus: tuple[Gpu, ...]) -> str:
    """Return a warning about GPUs that do not use all their PCIe lanes; an empty text if there are none."""
    narrow = {gpu.index: gpu.pcie for gpu in gpus if _lacks_lanes(gpu.pcie)}
    if not narrow:
        return ""
    worst = min(narrow.values(), key=lambda link: value_or(link.width, 0))
    return (
        f"{_gpus(narrow)} with {worst.width} of {worst.width_max} PCIe lanes: "
        "the plan uses the lower rate for PCIe and for the network"
    )


def _lacks_lanes(link: PcieLink) -> bool:
    return known(link.width) and known(link.width_max) and 0 < link.width < link.width_max


class SlowPorts(NamedTuple):
    """Limits of the network's rate, from ports and GPUs that are slower than they should be."""

    port_limit_bytes_per_s: float | None = None
    """Lowest rate of the PCIe slots of ports that do not use all lanes; None if all ports do."""
    node_limit_bytes_per_s: float | None = None
    """Rate at which all GPUs together can send over their slots; None if all GPUs use all lanes.

    Each GPU counts with the rate of the slowest GPU that does not use all lanes.
    """
    warnings: tuple[str, ...] = ()


def slow_ports(facts: MachineFacts, gpus: tuple[Gpu, ...]) -> SlowPorts:
    """Return what is wrong with the training ports: ports that are down or slow, and lanes that are missing.

    All ranks wait for the slowest port, because each of them sends an equal share.
    """
    ports = training_ports(facts)
    if isinstance(ports, Unknown):
        return SlowPorts()
    rails, warnings = training_rails(facts), []
    down = [nic for nic in rails.down if is_down(nic)]
    of_ports = f"{len(ports)} of {len(ports) + len(down) + len(rails.slower)} training ports"
    if down:
        rest = f"the plan uses {of_ports}" if ports else "the plan uses TCP, if there is an interface for it"
        warnings.append(f"{_names(down)} {'is' if len(down) == 1 else 'are'} down: {rest}")
    if rails.slower:
        rates = sorted({f"{value_or(nic.rate_gbps, 0.0):g}" for nic in rails.slower})
        warnings.append(
            f"{_names(rails.slower)} {'runs' if len(rails.slower) == 1 else 'run'} at {', '.join(rates)} "
            f"instead of {value_or(ports[0].rate_gbps, 0.0):g} Gb/s: the plan uses {of_ports}"
        )
    narrow = [nic for nic in ports if _lacks_lanes(nic.pcie) and _slot_rate(nic.pcie)]
    if narrow:
        worst = min(narrow, key=lambda nic: _slot_rate(nic.pcie))
        warnings.append(
            f"{_names(narrow)} with {worst.pcie.width} of {worst.pcie.width_max} PCIe lanes: "
            "the plan uses the rate of these lanes, if it is lower than the port's"
        )
    slot = min((_slot_rate(gpu.pcie) for gpu in gpus if _lacks_lanes(gpu.pcie)), default=0.0)
    return SlowPorts(
        port_limit_bytes_per_s=min((_slot_rate(nic.pcie) for nic in narrow), default=None),
        node_limit_bytes_per_s=len(gpus) * slot or None,
        warnings=tuple(warnings),
    )


def _slot_rate(link: PcieLink) -> float:
    """Return the line rate of the lanes in use; 0 if the generation is unknown.

    An idle GPU lowers its generation, so the largest generation counts.
    """
    generation = value_or(link.generation_max, value_or(link.generation, 0))
    return slot_bytes_per_s(PcieSlot(generation=generation, width=value_or(link.width, 0)))


def _gpus(indexes: Iterable[int]) -> str:
    return _listed([f"GPU{index}" for index in sorted(indexes)])


def _names(nics: Iterable[Nic]) -> str:
    nics = tuple(nics)
    is_single = len({nic.name for nic in nics}) == len(nics)
    return _listed([nic.name if is_single else f"{nic.name}:{nic.port}" for nic in nics])


def _listed(names: list[str]) -> str:
    """Return the names as text, shortened if there are many."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
