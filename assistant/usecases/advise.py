"""Advise what to install on this machine, or on one that is planned."""

import datetime

import msgspec

from probes.base.errors import UsageError
from probes.base.nearest import did_you_mean
from probes.catalogue.hardware import Catalogue, GpuModel
from probes.facts import MachineFacts
from recipes.install.hardware_plan import hardware_of, planned_hardware
from recipes.install.installation import InstallationAdvice, advise_installation

MOST_GPUS = 1024


def advise_install(
    facts: MachineFacts,
    catalogue: Catalogue,
    *,
    gpu: str | None = None,
    count: int = 1,
    operating_system: str | None = None,
    supplies_w: float | None = None,
) -> InstallationAdvice:
    """Return the installation advice for the GPUs of `facts`, or for `count` of the catalogue's `gpu`.

    Raises UsageError for a GPU or distribution that no table contains, and for numbers that no machine has.
    """
    if not 1 <= count <= MOST_GPUS:
        raise UsageError(f"--count {count} is not a possible number of GPUs", f"give 1 to {MOST_GPUS}")
    if supplies_w is not None and supplies_w <= 0:
        raise UsageError(
            f"--supplies-watts {supplies_w:g} is not a possible power",
            "give the power that all supplies deliver together, such as 10200",
        )
    if operating_system is not None:
        software = msgspec.structs.replace(facts.software, operating_system=operating_system)
        facts = msgspec.structs.replace(facts, software=software)
    hardware = (
        hardware_of(facts, catalogue) if gpu is None else planned_hardware(_model(gpu, catalogue), count)
    )
    return advise_installation(
        facts, hardware, today=datetime.datetime.now(datetime.timezone.utc).date(), supplies_w=supplies_w
    )


def _model(name: str, catalogue: Catalogue) -> GpuModel:
    if row := catalogue.gpu_named(name):
        return row
    raise UsageError(
        f"there is no GPU {name[:80]!r} in the catalogue",
        did_you_mean(name, (row.id for row in catalogue.gpus), "`rigtune list gpus` lists all"),
    )
