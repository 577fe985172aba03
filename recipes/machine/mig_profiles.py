"""The sizes of instances into which MIG divides a GPU: one table for advice and for strategies."""

import functools
import re

from probes.base.record import Record, StrictRecord
from probes.base.rows import load_rows
from probes.base.units import MIB
from probes.catalogue.hardware import GpuModel, load_catalogue
from probes.catalogue.thresholds import Cited
from recipes.constants import constant

_EIGHTHS = 8
"""Number of equal parts of a GPU's memory; an instance has whole parts only."""


class MigProfile(StrictRecord, kw_only=True):
    """A size of an instance."""

    name: str
    count: int
    """Largest number of instances of this profile on one GPU."""
    slices: int
    """Compute slices of one instance."""
    memory_mib: int | None = None
    """Memory that the driver reports; None if no report is known."""


class MigModel(Cited, kw_only=True):
    """The profiles of some GPU models, from the smallest to the whole GPU."""

    ids: tuple[str, ...]
    """Ids of the catalogue's GPUs."""
    slices: int
    profiles: tuple[MigProfile, ...]


class MigMemory(Record, kw_only=True):
    """The memory of an instance."""

    size_bytes: float
    origin: str


@functools.lru_cache(maxsize=1)
def load_mig_models() -> tuple[MigModel, ...]:
    """Return the profiles of all GPU models with MIG."""
    return load_rows("recipes", "gpus", MigModel, file="mig_profiles")


def mig_model(row: GpuModel) -> MigModel | None:
    """Return the profiles of a GPU model; None if no row has its profiles."""
    return next((model for model in load_mig_models() if row.id in model.ids), None)


def memory_of(profile: MigProfile, model: MigModel, row: GpuModel) -> MigMemory:
    """Return the memory of an instance.

    The profile with all slices has the memory of the GPU. If no report of the driver is known, the result is
    a lower bound that follows from the profile's name.
    """
    if profile.slices == model.slices:
        return MigMemory(size_bytes=row.memory_bytes, origin="memory of the whole GPU")
    if profile.memory_mib is not None:
        return MigMemory(size_bytes=profile.memory_mib * MIB, origin=f"{model.source} ({model.date})")
    share = constant("mig_nominal_share")
    match = re.search(r"\.(\d+)gb", profile.name)
    nominal = float(match[1]) if match else 0.0
    return MigMemory(
        size_bytes=nominal * 1e9 * share, origin=f"at least {share:g} of {nominal:g}e9 bytes in the name"
    )


def divisions(model: MigModel) -> tuple[tuple[int, int, int], ...]:
    """Return the ways to divide a GPU into several equal instances.

    Each way has the number of instances, and the compute slices and eighths of the memory of one instance.
    """
    row = load_catalogue().gpu(model.ids[0])
    if row is None:
        raise ValueError(f"the catalogue has no GPU {model.ids[0]}")
    shares = ((each, bandwidth_share(memory_of(each, model, row), row)) for each in model.profiles)
    return tuple(
        (profile.count, profile.slices, round(share * _EIGHTHS))
        for profile, share in shares
        if profile.count > 1
    )


def bandwidth_share(memory: MigMemory, row: GpuModel) -> float:
    """Return the part of the GPU's memory bandwidth that an instance has, in whole eighths.

    Source: NVIDIA MIG user guide, partitioning: a memory slice is an eighth of the memory and its bandwidth;
    some GPUs have four slices. The driver keeps a part of each slice, so its size is rounded.
    """
    return round(_EIGHTHS * memory.size_bytes / row.memory_bytes) / _EIGHTHS
