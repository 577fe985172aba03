"""How GPUs reach each other and other machines, in a few lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

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
    settled,
    short,
    shown,
)
from probes.base.record import Unknown, known, value_or
from probes.base.units import gbit_per_s, plural
from probes.facts import Gpu, Interface, MachineFacts, Nic
from probes.judging.affinity import Affinity, affinity_of
from probes.judging.rails import roles_of
from probes.judging.reporting import fold_names

_NIC_NAMES_SHOWN = 4
_ROLES = {
    "side": "for storage or management",
    "bond": "bond",
    "DPU": "DPU",
    "unused": "unused",
    "slow rail": "slower",
}


def fabric(facts: MachineFacts, *, complete: bool) -> Panel:
    """How GPUs reach each other and other machines."""
    rows: list[tuple[str, Text]] = []
    if known(facts.gpus) and facts.gpus:
        rows.append(("NVLink", _nvlink(facts.gpus)))
        rows.append(("GPU-GPU", _gpu_links(facts)))
        rows.append(("NVSwitch", _switches(facts)))
        rows.append(("rails", _rails(facts)))
    rows.extend(_nic_rows(facts))
    rows.append(("network", _interfaces(facts.interfaces)))
    if known(facts.gpus) and facts.gpus:
        loaded = facts.software.peermem_loaded
        rows.append(("peermem", shown(loaded, lambda is_loaded: "loaded" if is_loaded else "not loaded")))
    return Panel("Fabric", settled([row for row in rows if row[1].plain], complete))


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
        return Text(
            f"{next(iter(groups))} on every GPU" if "links up" in next(iter(groups)) else next(iter(groups))
        )
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    return Text(", ".join(f"{words} on GPU {folded(indices)}" for words, indices in ordered))


def _gpu_links(facts: MachineFacts) -> Text:
    if isinstance(facts.links, Unknown):
        return shown(facts.links)
    kinds = Counter(
        short(link.kind) for link in facts.links if link.a.startswith("GPU") and link.b.startswith("GPU")
    )
    if not kinds:
        return Text("one GPU" if known(facts.gpus) and len(facts.gpus) == 1 else "none listed", style=DIM)
    if len(kinds) == 1:
        return Text(f"{next(iter(kinds))} between all pairs")
    return Text(", ".join(f"{plural(number, 'pair')} {kind}" for kind, number in kinds.most_common()))


def _switches(facts: MachineFacts) -> Text:
    """NVSwitches, and GPUs that are not part of their fabric; nothing on machines without."""
    devices = value_or(facts.pci_devices, ())
    gpus = value_or(facts.gpus, ())
    text = Text("")
    count = sum(device.kind == "nvswitch" for device in devices)
    if count:
        text.append(f"{count} on the PCI bus")
    states: dict[str, list[int]] = {}
    for gpu in gpus:
        if isinstance(gpu.fabric_state, str) and gpu.fabric_state != "not supported":
            states.setdefault(clean(gpu.fabric_state), []).append(gpu.index)
    for state, indices in states.items():
        where = "" if len(indices) == len(gpus) else f" on GPU {folded(indices)}"
        text.append(", " if text.plain else "").append(
            f"fabric {state}{where}", style="" if state == "completed" else CAUTION
        )
    return text


def _rails(facts: MachineFacts) -> Text:
    """The training ports of the GPUs of each NUMA node; pairs one by one where they do not run in
    parallel.
    """
    entries = affinity_of(facts)
    if isinstance(entries, Unknown):
        return Text("")
    groups: dict[str, list[Affinity]] = {}
    for entry in entries:
        place = f"NUMA {entry.numa_node}" if isinstance(entry.numa_node, int) else ""
        groups.setdefault(place, []).append(entry)
    lines = []
    for place, here in groups.items():
        words = _given(here)
        if words:
            lines.append(f"{place}: {words}" if place and len(groups) > 1 else words)
    return Text("\n".join(clean(line) for line in lines))


def _given(entries: Sequence[Affinity]) -> str:
    given = [(entry, entry.nics) for entry in entries if not isinstance(entry.nics, Unknown) and entry.nics]
    if not given:
        return ""
    kinds = {f" {entry.kind}" if isinstance(entry.kind, str) else "" for entry, _ in given}
    nics = [nic for _, own in given for nic in own]
    if len(kinds) == 1 and nics == _in_order(nics) and len(set(nics)) == len(nics):
        return f"{fold_names([entry.gpu for entry, _ in given])} with {_few(nics)}{next(iter(kinds))}"
    each = [
        f"{entry.gpu} {'+'.join(own)}{f' {entry.kind}' if len(kinds) > 1 else ''}" for entry, own in given
    ]
    return ", ".join(each) + (next(iter(kinds)) if len(kinds) == 1 else "")


def _in_order(names: Sequence[str]) -> list[str]:
    return sorted(names, key=lambda name: (name.rstrip("0123456789"), len(name), name))


def _few(names: Sequence[str]) -> str:
    parts = fold_names(names).split(", ")
    more = len(parts) - _NIC_NAMES_SHOWN
    return ", ".join(parts[:_NIC_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _nic_rows(facts: MachineFacts) -> list[tuple[str, Text]]:
    if isinstance(facts.nics, Unknown):
        return [("RDMA", shown(facts.nics))]
    if not facts.nics:
        return [("RDMA", Text("no InfiniBand or RoCE device", style=DIM))]
    layers: dict[str, list[Nic]] = {}
    for nic in facts.nics:
        layers.setdefault(short(nic.link_layer), []).append(nic)
    names = {"Ethernet": "RoCE", "?": "RDMA"}
    roles = roles_of(facts)
    by_port = {} if isinstance(roles, Unknown) else roles
    return [(names.get(layer, layer), _nics(nics, by_port)) for layer, nics in layers.items()]


def _nics(nics: Sequence[Nic], roles: Mapping[tuple[str, int], str]) -> Text:
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
    # Nothing is said of a network whose ports are all for training.
    counts = Counter(_ROLES.get(roles.get((nic.name, nic.port), ""), "") for nic in nics)
    aside = [f"{number} {role}" if len(counts) > 1 else role for role, number in counts.items() if role]
    return text.append(f"  {', '.join(aside)}", style=DIM) if aside else text


def _interfaces(interfaces: tuple[Interface, ...] | Unknown) -> Text:
    if isinstance(interfaces, Unknown):
        return shown(interfaces)
    real = [entry for entry in interfaces if entry.is_virtual is not True and entry.up is True]
    if not real:
        return Text("no interface up", style=CAUTION)
    words = (
        f"{clean(entry.name)} {gbit_per_s(entry.speed_gbps)}"
        if known(entry.speed_gbps)
        else clean(entry.name)
        for entry in real
    )
    return Text(", ".join(words))
