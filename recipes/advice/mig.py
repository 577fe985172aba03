"""Observe how the GPUs of a machine can be divided by MIG, and which partition suits many small jobs."""

import math
from collections.abc import Iterator

from probes.base.grouping import grouped
from probes.base.record import NOT_RECORDED, Record, Unknown, items_of, known
from probes.base.rows import load_rows
from probes.base.units import GIB, gib
from probes.catalogue.hardware import GpuModel
from probes.catalogue.thresholds import Cited
from probes.facts import Gpu
from probes.judging.reporting import fold_names
from recipes.advice.advice_lines import Observed, unread
from recipes.advice.machine_parts import Parts
from recipes.machine.mig_profiles import MigModel, MigProfile, memory_of, mig_model
from recipes.planning.reasons import memory_risk


class Capabilities(Cited, kw_only=True):
    """Compute capabilities of the GPUs that support MIG."""

    names: tuple[str, ...]
    needs_reset: tuple[str, ...]
    """Capabilities of the GPUs that need a reset to change the MIG mode."""


class Need(Record, kw_only=True):
    """The memory that one job needs."""

    memory_bytes: float
    """Smallest memory with which the job runs; an instance with this memory is large enough."""
    worst_bytes: float
    """Largest memory that the job may need; the same as `memory_bytes` for a stated need."""
    basis: str
    """Origin of the figures, in words."""


def observe_mig(parts: Parts, need: Need | None = None) -> Iterator[Observed]:
    """Yield the conditions of `recipes/data/advice/mig.toml` that hold."""
    if parts.maker != "nvidia":
        yield Observed("other_accelerators", {"accelerators": parts.accelerators})
        return
    if not parts.gpus:
        if isinstance(parts.facts.gpus, Unknown):
            yield unread("gpus_unknown", parts.facts.gpus)
        else:
            yield Observed("no_gpu")
        return
    rows = {row.id: row for row in parts.rows if row is not None}
    pairs = zip(parts.rows, parts.gpus, strict=True)
    groups = grouped(("" if row is None else row.id, gpu) for row, gpu in pairs)
    if nameless := groups.pop("", []):
        name = nameless[0].name
        reason = name.words if isinstance(name, Unknown) else name
        yield Observed("model_unknown", {"gpus": _names(nameless), "reason": reason})
    for row_id, gpus in groups.items():
        yield from _of_model(rows[row_id], gpus, need, is_planned=parts.is_planned)


def _of_model(row: GpuModel, gpus: list[Gpu], need: Need | None, *, is_planned: bool) -> Iterator[Observed]:
    model = mig_model(row)
    capable = load_rows("recipes", "capabilities", Capabilities, file="advice/mig")[0]
    name = gpus[0].name if known(gpus[0].name) else row.title
    words = {"model": row.title, "name": name, "indexes": ",".join(str(gpu.index) for gpu in gpus)}
    if model is None:
        is_capable = row.compute_capability in capable.names
        yield Observed("profiles_unknown" if is_capable else "not_supported", words)
        return
    yield Observed("profile", words | _all_profiles(model, row))
    if not is_planned:
        yield from _states(gpus)
    yield Observed("mig_possible", words)
    if row.compute_capability in capable.needs_reset:
        yield Observed("reset_needed", {**words, "capability": row.compute_capability})
    if need is None:
        yield Observed("need_unknown", words)
    else:
        yield from _partition(model, row, gpus, need, words)


def _states(gpus: list[Gpu]) -> Iterator[Observed]:
    unknown = [gpu for gpu in gpus if isinstance(gpu.mig_enabled, Unknown)]
    on = [gpu for gpu in gpus if gpu.mig_enabled is True]
    off = [gpu for gpu in gpus if gpu.mig_enabled is False]
    pending = [
        gpu
        for gpu in gpus
        if known(gpu.mig_pending) and known(gpu.mig_enabled) and gpu.mig_pending != gpu.mig_enabled
    ]
    if unknown:
        state = unknown[0].mig_enabled
        reason = state.words if isinstance(state, Unknown) else NOT_RECORDED.words
        yield Observed("state_unknown", {"gpus": _names(unknown), "reason": reason})
    if on:
        yield Observed("state_on", {"gpus": _names(on), "instances": _instances(on)})
    if off:
        yield Observed("state_off", {"gpus": _names(off)})
    if pending:
        indexes = ",".join(str(gpu.index) for gpu in pending)
        yield Observed("state_pending", {"gpus": _names(pending), "indexes": indexes})


def _partition(
    model: MigModel, row: GpuModel, gpus: list[Gpu], need: Need, words: dict[str, str]
) -> Iterator[Observed]:
    words = {**words, "need": gib(need.memory_bytes), "basis": need.basis, "gpus": _names(gpus)}
    fitting = [
        profile
        for profile in model.profiles
        if memory_of(profile, model, row).size_bytes >= need.memory_bytes
    ]
    if not fitting:
        yield Observed("need_too_large", words | _profile_words(model, model.profiles[-1], row))
        return
    chosen = max(fitting, key=lambda profile: profile.count)
    if chosen.slices == model.slices:
        yield Observed("whole_gpu", words | _profile_words(model, model.profiles[-2], row))
        return
    divided = [gpu for gpu in gpus if items_of(gpu.mig_devices)]
    if divided:
        indexes = ",".join(str(gpu.index) for gpu in divided)
        there = {"gpus": _names(divided), "indexes": indexes, "instances": _instances(divided)}
        yield Observed("instances_exist", there)
    yield Observed("partition", words | _profile_words(model, chosen, row, len(gpus)))
    room = memory_of(chosen, model, row).size_bytes
    if need.worst_bytes > room:
        risk = memory_risk(need.memory_bytes, need.worst_bytes, room)
        worst = f"{math.ceil(need.worst_bytes / GIB)}"
        yield Observed("partition_tight", {**words, "profile": chosen.name, "risk": risk, "worst": worst})
    faster = next(
        (each for each in fitting if each.slices > chosen.slices and each.slices < model.slices), None
    )
    if faster is not None:
        more = {"fewer_slices": str(chosen.slices)}
        yield Observed("partition_faster", words | _profile_words(model, faster, row, len(gpus)) | more)


def _all_profiles(model: MigModel, row: GpuModel) -> dict[str, str]:
    memories = [memory_of(profile, model, row) for profile in model.profiles]
    return {
        "profiles": "; ".join(
            f"{profile.count} x {profile.name} ({profile.slices}/{model.slices}, {gib(memory.size_bytes)})"
            for profile, memory in zip(model.profiles, memories, strict=True)
        ),
        "origin": "; ".join(dict.fromkeys(memory.origin for memory in memories)),
    }


def _profile_words(model: MigModel, profile: MigProfile, row: GpuModel, gpus: int = 1) -> dict[str, str]:
    memory = memory_of(profile, model, row)
    return {
        "profile": profile.name,
        "profiles": ",".join([profile.name] * profile.count),
        "count": str(profile.count),
        "jobs": str(profile.count * gpus),
        "slices": str(profile.slices),
        "all_slices": str(model.slices),
        "memory": gib(memory.size_bytes),
        "origin": memory.origin,
    }


def _instances(gpus: list[Gpu]) -> str:
    """Return the instances of some GPUs: `4 on GPU0: 3g.40gb, 2g.20gb, 2 x 1g.10gb`."""
    parts = []
    for gpu in gpus:
        if isinstance(gpu.mig_devices, Unknown):
            parts.append(f"unknown on GPU{gpu.index} ({gpu.mig_devices.words}; read them with nvidia-smi -L)")
            continue
        names = [device.profile if known(device.profile) else "?" for device in gpu.mig_devices]
        counted = [f"{names.count(name)} x {name}" for name in dict.fromkeys(names)]
        parts.append(f"{', '.join(counted) or 'none'} on GPU{gpu.index}")
    return "; ".join(parts)


def _names(gpus: list[Gpu]) -> str:
    return fold_names(f"GPU{gpu.index}" for gpu in gpus)
