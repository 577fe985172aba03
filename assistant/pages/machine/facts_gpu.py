"""Describe the GPUs: their models, their state, and how they are connected."""

from collections import Counter
from collections.abc import Sequence

from assistant.pages.blocks import Tone
from assistant.pages.machine.facts_words import (
    Line,
    Part,
    Subject,
    cut,
    first,
    flag,
    joined,
    noted,
    ranged,
    said,
    size,
    subject,
    unknown_subject,
)
from probes.base.grouping import grouped
from probes.base.record import Unknown, first_unknown, items_of, known, value_or
from probes.base.units import plural
from probes.facts import Gpu, Link, MachineFacts, MigDevice, PcieLink
from probes.judging.reporting import accelerator_words, fold_names, subject_name

_PROCESSES_SHOWN = 3
_USUAL_REASONS = frozenset(
    {"gpu_idle", "applications_clocks_setting", "sw_power_cap", "sync_boost", "display_clocks_setting"}
)
"""NVML's names for the clock event reasons of a GPU that is idle or works at its limits."""


def sections(facts: MachineFacts, *, verbose: bool) -> list[Subject]:
    gpus = facts.gpus
    others = subject("Not NVIDIA", [_others(facts)])
    if isinstance(gpus, Unknown):
        return [_unseen(facts, gpus), others, _links(facts), _fabric(facts, ())]
    return [
        _models(gpus, facts),
        others,
        subject("GPU state", _state(gpus, verbose=verbose)),
        _links(facts),
        _fabric(facts, gpus),
    ]


def connections(facts: MachineFacts, *, verbose: bool) -> list[Subject]:
    """Return the connections between the GPUs; empty without GPUs."""
    gpus = value_or(facts.gpus, ())
    groups = grouped(
        (joined([("NVLinks", _nvlinks(gpu))], tone=_link_tone(gpu)), subject_name(gpu)) for gpu in gpus
    )
    lines = [
        line._replace(text=f"{fold_names(names)}: {line.text}" if line.text else "")
        for line, names in groups.items()
    ]
    return [subject("NVLinks", lines), _links(facts), _fabric(facts, gpus)] if gpus else []


def _link_tone(gpu: Gpu) -> Tone:
    return "caution" if "down" in value_or(_nvlinks(gpu), "") else ""


def _unseen(facts: MachineFacts, why: Unknown) -> Subject:
    """Return the GPUs that only the PCI bus shows. Without such GPUs, return that the GPUs are unknown."""
    if known(facts.pci_gpus) and facts.pci_gpus:
        words = (
            f"{plural(len(facts.pci_gpus), 'NVIDIA GPU')} on the PCI bus: "
            f"{', '.join(first(facts.pci_gpus, 8))}"
        )
        return subject("GPUs", [Line(words, (("the driver's report", why),))])
    return unknown_subject("GPUs", why)


def _others(facts: MachineFacts) -> Line:
    """Return the accelerators of other vendors; rigtune recognises them, but does not examine them."""
    counted = accelerator_words(facts)
    return Line(f"{counted} (recognised, but not examined)" if counted else "", tone="caution")


def _models(gpus: Sequence[Gpu], facts: MachineFacts) -> Subject:
    groups = grouped((_model(gpu), subject_name(gpu)) for gpu in gpus)
    lines = [
        Line(
            ": ".join([fold_names(names)] + [_times(names, gpus) + line.text] * bool(line.text)),
            line.unknown,
            line.tone,
        )
        for line, names in groups.items()
    ]
    if isinstance(facts.attached_gpus, int) and facts.attached_gpus != len(gpus):
        lines.append(Line(f"the driver reports {plural(facts.attached_gpus, 'attached GPU')}"))
    return subject("GPUs", lines or ["no NVIDIA GPU" if items_of(facts.accelerators) else "none"])


def _times(names: Sequence[str], gpus: Sequence[Gpu]) -> str:
    """Return the number of GPUs as `8 x `; empty for one GPU and for an unknown model."""
    is_named = any(subject_name(gpu) == names[0] and known(gpu.name) for gpu in gpus)
    return f"{len(names)} x " if is_named and len(names) > 1 else ""


def _model(gpu: Gpu) -> Line:
    """Return the properties that stay the same while the machine runs, and faults of the board."""
    health = gpu.memory_health
    parts: list[Part] = [
        ("name", said(gpu.name)),
        ("memory", size(gpu.memory_bytes)),
        ("compute capability", said(gpu.compute_capability, "compute capability {}")),
        ("power limit", said(gpu.power_limit_w, "{:.0f} W")),
        ("PCIe link", _pcie(gpu.pcie)),
        ("NVLinks", _nvlinks(gpu)),
        ("MIG", flag(gpu.mig_enabled, yes=_slices(gpu.mig_devices))),
        ("ECC", flag(gpu.ecc_enabled, no="ECC off")),
        ("ECC errors", noted(gpu.ecc_uncorrected_volatile, 0, form="uncorrected ECC errors: {}")),
        ("row remapping", flag(gpu.row_remap_failed, yes="row remapping failed")),
        ("remapped rows", noted(health.remapped_rows_uncorrected, 0, form="remapped rows: {}")),
        ("pending row remapping", flag(gpu.row_remap_pending, yes="row remapping pending")),
        ("retired pages", flag(health.retired_pages_pending, yes="page retirement pending")),
        ("repair", flag(health.unrepairable, yes="memory beyond repair")),
        ("recovery action", noted(gpu.recovery_action, "none", form="needs {}")),
        ("persistence mode", flag(gpu.persistence_mode, no="persistence off")),
        ("compute mode", noted(gpu.compute_mode, "default", form="{} compute mode")),
        ("confidential computing", flag(gpu.confidential_compute, yes="confidential computing")),
        ("virtualisation", noted(gpu.virtualization, "none", "pass-through", form="{} virtualisation")),
    ]
    if known(gpu.failed_queries) and gpu.failed_queries:
        parts.append(("errors", f"driver errors: {', '.join(first(gpu.failed_queries, 3))}"))
    trouble = (gpu.row_remap_failed, gpu.row_remap_pending, health.retired_pages_pending, health.unrepairable)
    is_bad = (
        True in trouble
        or value_or(gpu.ecc_uncorrected_volatile, 0) > 0
        or bool(value_or(gpu.failed_queries, ()))
    )
    return joined(parts, tone="bad" if is_bad else _link_tone(gpu))


def _pcie(link: PcieLink) -> str | Unknown:
    """Return the highest generation and the present width of the GPU's link.

    An idle GPU lowers the generation of its link, but not the width.
    """
    if isinstance(link.width, Unknown) and isinstance(link.generation_max, Unknown):
        return link.width
    width = value_or(link.width, value_or(link.width_max, 0))
    generation = value_or(link.generation_max, value_or(link.generation, 0))
    words = " ".join(["PCIe"] + [f"Gen{generation}"] * bool(generation) + [f"x{width}"] * bool(width))
    return words + (
        f" of x{link.width_max}" if known(link.width_max) and width and width < link.width_max else ""
    )


def _nvlinks(gpu: Gpu) -> str | Unknown:
    if isinstance(gpu.nvlinks, Unknown):
        return gpu.nvlinks
    up = sum(link.active is True for link in gpu.nvlinks)
    down = sum(link.active is False for link in gpu.nvlinks)
    if not gpu.nvlinks:
        return "no NVLink"
    if not up and not down:
        return first_unknown(*(link.active for link in gpu.nvlinks)) or ""
    return f"{plural(up, 'NVLink')} up" + (f", {down} down" if down else "")


def _slices(devices: tuple[MigDevice, ...] | Unknown) -> str:
    if isinstance(devices, Unknown):
        return "MIG on"
    if not devices:
        return "MIG on, but no slice exists"
    profiles = Counter(value_or(device.profile, "?") for device in devices)
    return "MIG on: " + " + ".join(
        f"{count} x {name}" if count > 1 else name for name, count in profiles.items()
    )


def _state(gpus: Sequence[Gpu], *, verbose: bool) -> list[Line]:
    """Return the ranges of the changing readings over all GPUs, then the unusual readings."""
    clocks = ranged((gpu.sm_clock_mhz for gpu in gpus), "MHz")
    fastest = ranged((gpu.sm_clock_max_mhz for gpu in gpus), "MHz")
    draws = ranged((gpu.power_w for gpu in gpus), "W")
    caps = ranged((gpu.power_limit_w for gpu in gpus), "W")
    margins = ranged((gpu.limits.temperature_margin_c for gpu in gpus), "°C below throttling")
    memory = ranged((gpu.limits.memory_temperature_c for gpu in gpus), "°C")
    parts: list[Part] = [
        ("temperature", ranged((gpu.temperature_c for gpu in gpus), "°C")),
        ("temperature margin", margins),
        ("memory temperature", _after("memory ", memory)),
        ("power", _of(draws, caps)),
        ("SM clock", _of(_after("SM clock ", clocks), fastest)),
        ("utilisation", ranged((gpu.utilization_percent for gpu in gpus), "% busy")),
    ]
    lines = [joined(parts)] if gpus else []
    held = grouped(
        (reason, subject_name(gpu))
        for gpu in gpus
        for reason in value_or(gpu.throttle_reasons, ())
        if verbose or reason not in _USUAL_REASONS
    )
    lines += [
        Line(f"clocks held by {reason.replace('_', ' ')}: {fold_names(names)}", (), "caution")
        for reason, names in held.items()
    ]
    return lines + _processes(gpus)


def _after(lead: str, words: str | Unknown) -> str | Unknown:
    return words if isinstance(words, Unknown) or not words else lead + words


def _of(words: str | Unknown, most: str | Unknown) -> str | Unknown:
    """Return readings such as `66-72 of 700 W`, in which the unit appears only once."""
    if isinstance(words, Unknown) or isinstance(most, Unknown) or not words or not most:
        return words
    return f"{words.rpartition(' ')[0]} of {most}"


def _processes(gpus: Sequence[Gpu]) -> list[Line]:
    users = [
        f"{subject_name(gpu)} {cut(value_or(process.name, 'process').rsplit('/', 1)[-1], 24)} ({process.pid})"
        for gpu in gpus
        for process in value_or(gpu.processes, ())
    ]
    return [Line(f"used by {', '.join(first(users, _PROCESSES_SHOWN))}")] if users else []


def _links(facts: MachineFacts) -> Subject:
    links = facts.links
    if isinstance(links, Unknown):
        return unknown_subject("GPU links", links)
    between = Counter(_kind(link) for link in links if link.a.startswith("GPU") and link.b.startswith("GPU"))
    words = [f"{plural(count, 'GPU pair')} {kind}" for kind, count in between.most_common()]
    if not words:
        return subject("GPU links", [] if known(facts.gpus) and len(facts.gpus) < 2 else ["none"])
    return subject("GPU links", [", ".join(words), *_refused(facts)])


def _refused(facts: MachineFacts) -> list[str]:
    """Return the number of pairs without peer access, for each reason of the driver."""
    pairs = grouped(
        (f"{access.capability} {access.status}", frozenset((access.a, access.b)))
        for access in value_or(facts.peer_access, ())
        if access.status != "OK"
    )
    return [
        f"peer access refused ({code}) between {plural(len(set(refused)), 'pair')}"
        for code, refused in pairs.items()
    ]


def _kind(link: Link) -> str:
    if isinstance(link.kind, Unknown):
        return "of unknown distance"
    return f"{link.kind} x{link.nvlink_count}" if link.nvlink_count else link.kind


def _fabric(facts: MachineFacts, gpus: Sequence[Gpu]) -> Subject:
    """Return the NVSwitches and the fabric state that GPUs and services report; empty without any of them."""
    switches = [device for device in value_or(facts.pci_devices, ()) if device.kind == "nvswitch"]
    software = facts.software
    groups = grouped((_membership(gpu), subject_name(gpu)) for gpu in gpus)
    members = [f"{fold_names(names)} {line.text}" for line, names in groups.items() if line.text]
    words = [plural(len(switches), "NVSwitch")] * bool(switches) + members
    if isinstance(software.fabric_manager, str):
        version = software.fabric_manager_version
        number = f" {version}" if isinstance(version, str) else ""
        words.append(f"Fabric Manager{number} {software.fabric_manager}")
    if isinstance(software.imex, str):
        channels = software.imex_channels
        count = f", {plural(channels, 'channel')}" if isinstance(channels, int) else ""
        words.append(f"IMEX {software.imex}{count}")
    odd = any(value_or(gpu.fabric_state, "completed") not in ("completed", "not supported") for gpu in gpus)
    return subject("NVSwitch", [Line("; ".join(words), (), "caution" if odd else "")])


def _membership(gpu: Gpu) -> Line:
    fabric = gpu.fabric
    if gpu.fabric_state == "not supported" or isinstance(gpu.fabric_state, Unknown):
        return Line("")
    # The driver reports a cluster if the fabric connects several machines; otherwise the cluster's UUID is
    # zero.
    cluster = (
        fabric.cluster_uuid
        if isinstance(fabric.cluster_uuid, str) and fabric.cluster_uuid.strip("0-")
        else None
    )
    return joined(
        (
            ("fabric", f"fabric {gpu.fabric_state}"),
            ("status", noted(fabric.status, "success", "Success")),
            ("clique", "" if cluster is None else said(fabric.clique_id, "clique {}")),
            ("cluster", said(cluster, "cluster {}")),
            (
                "health",
                ""
                if isinstance(fabric.health, Unknown)
                else ", ".join(flag.replace("_", " ") for flag in fabric.health),
            ),
        )
    )
