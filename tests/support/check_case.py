"""Helpers for the tables of check cases: a case, values that could not be read, and devices with faults."""

from __future__ import annotations

import datetime
from typing import NamedTuple

from probes.base.record import Reason, Unknown
from probes.base.units import GIB, MIB
from probes.facts import Filesystem, GpuProcess, Link, MachineFacts, NvLink, PcieLink
from probes.facts.measurements import Baseline, MeasurementSet
from probes.judging.policies.policy import Policy, SiteOutcome
from tests.support.machines import cpu_box, h100, h100_node, with_gpus, with_part


class Case(NamedTuple):
    check_id: str
    name: str
    facts: MachineFacts
    said: tuple[str, ...]
    """Status and subject of each finding."""
    policy: Policy = Policy()
    today: datetime.date | None = datetime.date(2026, 11, 21)
    measured: MeasurementSet = MeasurementSet()
    baselines: tuple[Baseline, ...] = ()
    site_outcomes: tuple[SiteOutcome, ...] = ()


NOT_SUPPORTED = Unknown(Reason.NOT_SUPPORTED, "[N/A]")
TIMEOUT = Unknown(Reason.TIMEOUT, "nvmlInit took longer than 10 s")
NOT_RECORDED = Unknown(Reason.NOT_RECORDED)

NODE = h100_node()
BOX = cpu_box()
ONE = h100_node(gpus=(h100(0),), pci_gpus=("0000:19:00.0",))
UNREAD = h100_node(gpus=NOT_RECORDED, pci_gpus=NOT_RECORDED, nics=NOT_RECORDED)
IN_CONTAINER = with_part(NODE, "container", runtime="docker")

ALL = "GPU0-7"


def nvlinks(*, up: int, of: int = 18, rate: float = 26.562e9) -> tuple[NvLink, ...]:
    return tuple(
        NvLink(index=n, active=n < up, bandwidth_bytes_per_s=rate, remote="switch") for n in range(of)
    )


def pcie(width: int, generation: int = 5) -> PcieLink:
    return PcieLink(generation=generation, generation_max=5, width=width, width_max=16)


def links(kind: str, gpus: range = range(8)) -> tuple[Link, ...]:
    return tuple(Link(a=f"GPU{gpu}", b=f"mlx5_{nic}", kind=kind) for gpu in gpus for nic in range(8))


def disk(used: float, **changes: object) -> MachineFacts:
    values = {
        "mount": "/",
        "kind": "ext4",
        "total_bytes": 1000 * GIB,
        "free_bytes": int(1000 * GIB * (1 - used)),
        **changes,
    }
    return h100_node(storage=(Filesystem(**values),))


def running(*processes: GpuProcess, used: int = 4 * MIB) -> MachineFacts:
    return with_gpus(NODE, 5, processes=processes, memory_used_bytes=used)
