"""How GPUs reach each other and other machines, in a few lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.text import Text

from assistant.present.text import (
    BAD,
    CAUTION,
    DIM,
    GOOD,
    ODD,
    Panel,
    clean,
    folded,
    plural,
    settled,
    short,
    shown,
)
from probes.facts import Gpu, Interface, MachineFacts, Nic
from probes.record import Unknown, known
from probes.units import gbit_per_s

_NIC_NAMES_SHOWN = 4


def fabric(facts: MachineFacts, *, complete: bool) -> Panel:
    """How GPUs reach each other and other machines."""
    rows: list[tuple[str, Text]] = []
    if known(facts.gpus) and facts.gpus:
        rows.append(("NVLink", _nvlink(facts.gpus)))
        rows.append(("GPU-GPU", _gpu_links(facts)))
    rows.extend(_nic_rows(facts))
    rows.append(("network", _interfaces(facts.interfaces)))
    if known(facts.gpus) and facts.gpus:
        loaded = facts.software.peermem_loaded
        rows.append(("peermem", shown(loaded, lambda is_loaded: "loaded" if is_loaded else "not loaded")))
    return Panel("Fabric", settled(rows, complete))


def _nvlink(gpus: Sequence[Gpu]) -> Text:
    groups: dict[str, list[int]] = {}
    for gpu in gpus:
        links = gpu.nvlinks
        if isinstance(links, Unknown):
            words = f"? {links.reason.value.replace('_', ' ')}"
        elif not links:
            words = "none"
        else:
            words = f"{sum(link.active is True for link in links)} of {len(links)} links up"
        groups.setdefault(words, []).append(gpu.index)
    if len(groups) == 1:
        return Text(f"{next(iter(groups))} on every GPU" if "links up" in next(iter(groups)) else next(iter(groups)))
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    return Text(", ".join(f"{words} on GPU {folded(indices)}" for words, indices in ordered))


def _gpu_links(facts: MachineFacts) -> Text:
    if isinstance(facts.links, Unknown):
        return shown(facts.links)
    kinds = Counter(short(link.kind) for link in facts.links if link.a.startswith("GPU") and link.b.startswith("GPU"))
    if not kinds:
        return Text("one GPU" if known(facts.gpus) and len(facts.gpus) == 1 else "none listed", style=DIM)
    if len(kinds) == 1:
        return Text(f"{next(iter(kinds))} between all pairs")
    return Text(", ".join(f"{plural(number, 'pair')} {kind}" for kind, number in kinds.most_common()))


def _nic_rows(facts: MachineFacts) -> list[tuple[str, Text]]:
    if isinstance(facts.nics, Unknown):
        return [("RDMA", shown(facts.nics))]
    if not facts.nics:
        return [("RDMA", Text("no InfiniBand or RoCE device", style=DIM))]
    layers: dict[str, list[Nic]] = {}
    for nic in facts.nics:
        layers.setdefault(short(nic.link_layer), []).append(nic)
    names = {"Ethernet": "RoCE", "?": "RDMA"}
    return [(names.get(layer, layer), _nics(nics)) for layer, nics in layers.items()]


def _nics(nics: Sequence[Nic]) -> Text:
    rates = Counter(short(nic.rate_gbps, gbit_per_s) for nic in nics)
    text = Text(", ".join(f"{number} × {rate}" for rate, number in rates.most_common()))
    states: dict[str, list[str]] = {}
    for nic in nics:
        states.setdefault(short(nic.state), []).append(clean(nic.name))
    for state, names in sorted(states.items(), key=lambda item: -len(item[1])):
        words = f"  {len(names)} {state}"
        if state != "ACTIVE" and len(names) <= _NIC_NAMES_SHOWN:
            words += f" ({', '.join(names)})"
        text.append(words, style=GOOD if state == "ACTIVE" else ODD if state == "?" else BAD)
    return text


def _interfaces(interfaces: tuple[Interface, ...] | Unknown) -> Text:
    if isinstance(interfaces, Unknown):
        return shown(interfaces)
    real = [entry for entry in interfaces if entry.is_virtual is not True and entry.up is True]
    if not real:
        return Text("no interface up", style=CAUTION)
    words = (
        f"{clean(entry.name)} {gbit_per_s(entry.speed_gbps)}" if known(entry.speed_gbps) else clean(entry.name) for entry in real
    )
    return Text(", ".join(words))
