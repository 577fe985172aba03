"""Check that all NVLinks of every GPU are up.

The expected number comes from the catalogue row of the GPU: 12 on A100, 18 on H100, and 8 on the A800, by
design. It never comes from the active links, which would hide a dead one. A GPU without a row is only
compared with its peers. A link that the driver reports as down is a fault, and so is one that it lists for
other GPUs only. A link that it lists for no GPU may be left out by design; it is only mentioned. Source: the
catalogue; NVIDIA health validation, which allows no inactive link.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from probes.base.record import EvidenceRef, Reason, Unknown, known
from probes.catalogue.hardware import GpuModel
from probes.facts import Gpu, NvLink
from probes.facts.gpu_facts import UNNUMBERED
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import Judged, judge_each, on_gpus

JUDGE = Judge(
    check_id="nvlink-active",
    why="A dead link takes its share of bandwidth from every all-reduce, and a GPU without links falls back "
    "to PCIe.",
)

NO_NVLINK = Unknown(Reason.NOT_SUPPORTED, "this GPU has no NVLink")
NO_BRIDGE = Unknown(Reason.NOT_SUPPORTED, "no NVLink is in use, and this GPU has them only with a bridge")

_RESET = Remedy(
    text="End all jobs and reset the GPUs; if the link stays down, the GPU module or its baseboard needs "
    "service.",
    command="nvidia-smi --gpu-reset",
    needs_root=True,
)


@on_gpus(JUDGE)
def check(gpus: tuple[Gpu, ...], evidence: Evidence) -> Iterable[Finding]:
    rows = {gpu.index: evidence.catalogue.checked_gpu(gpu.name) if known(gpu.name) else None for gpu in gpus}
    usual = _usual([gpu for gpu in gpus if rows[gpu.index] is None])
    most = max((len(gpu.nvlinks) for gpu in gpus if known(gpu.nvlinks)), default=0)
    alone = _is_alone(gpus, evidence)
    good = (
        "all NVLinks are up"
        if all(rows.values())
        else "as many NVLinks as the others; the catalogue has no checked figures of the GPU"
    )
    places = _Places(most=most, usual=usual, alone=alone)
    return judge_each(
        JUDGE, gpus, lambda gpu: _judge(gpu, rows[gpu.index], places), what="the NVLink state", good=good
    )


class _Places(NamedTuple):
    """Links that the other GPUs of the machine have."""

    most: int
    """Ports that the GPU with the most of them lists."""
    usual: int | None
    """Links up on most of the GPUs without checked figures in the catalogue."""
    alone: bool


def _judge(gpu: Gpu, row: GpuModel | None, places: _Places) -> Judged:
    links, expected = gpu.nvlinks, row.nvlink_count if row else places.usual
    if isinstance(links, Unknown):
        return NO_NVLINK if row and row.nvlink_count == 0 else links
    if expected is None:
        return Unknown(
            Reason.NOT_RECORDED, "no checked figures in the catalogue, and no other GPU to compare with"
        )
    up = sum(link.active is True for link in links)
    dead = [link for link in links if link.active is False]
    if expected == 0 and dead and isinstance(gpu.name, Unknown) and not places.alone:
        return JUDGE.warned(
            f"GPU{gpu.index}",
            "all NVLinks are down; so they are on a GPU whose bridge is not fitted",
            expected="links up, unless this GPU needs a bridge for them",
            observed="0 up" + _words(dead),
            remedy=_RESET,
        )
    if expected == 0:
        return NO_NVLINK
    if up >= expected:
        return f"{up} of {expected} links"
    if up == 0 and (places.alone or row is None or row.nvlink_bridge):
        return Unknown(Reason.NOT_SUPPORTED, "one GPU alone needs no NVLink") if places.alone else NO_BRIDGE
    unread = _unread(links)
    if unread is not None and (not dead or _may_be_up(links) + up >= expected):
        return unread
    return JUDGE.problem(
        f"GPU{gpu.index}",
        "NVLinks are down" if dead else "fewer NVLinks than such a GPU has",
        fails=dead or len(links) < places.most,
        expected=f"{expected} links up",
        observed=f"{up} up" + _words(dead),
        remedy=_RESET,
        evidence=(EvidenceRef(source="catalogue", key=row.id, detail=row.source),) if row else (),
    )


def _words(dead: list[NvLink]) -> str:
    """Return the dead links as text: `; down: link 6; switched off: link 10, 11`."""
    if any(link.index == UNNUMBERED for link in dead):
        return "; all links are inactive"
    down = [str(link.index) for link in dead if link.disabled is not True]
    off = [str(link.index) for link in dead if link.disabled is True]
    parts = (("down", down), ("switched off", off))
    return "".join(f"; {name}: link {', '.join(links)}" for name, links in parts if links)


def _may_be_up(links: tuple[NvLink, ...]) -> float:
    """Return how many more links may be up; any number if a list was cut."""
    unread = [link for link in links if isinstance(link.active, Unknown)]
    return math.inf if any(link.index == UNNUMBERED for link in unread) else len(unread)


def _is_alone(gpus: tuple[Gpu, ...], evidence: Evidence) -> bool:
    """Return whether this is the first GPU of its machine and no sign of other GPUs exists."""
    attached = evidence.facts.attached_gpus
    return (
        len(gpus) == 1
        and gpus[0].index in (0, UNNUMBERED)
        and not (isinstance(attached, int) and attached > 1)
    )


def _unread(links: tuple[NvLink, ...]) -> Unknown | None:
    return next((link.active for link in links if isinstance(link.active, Unknown)), None)


def _usual(gpus: list[Gpu]) -> int | None:
    """Return the number of links up that most GPUs have; None if there is no other GPU to compare with."""
    counts = Counter(sum(link.active is True for link in gpu.nvlinks) for gpu in gpus if known(gpu.nvlinks))
    if counts.total() < 2:
        return None
    return max(counts, key=lambda up: (counts[up], up))
