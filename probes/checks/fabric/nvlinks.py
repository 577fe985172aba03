"""Check that the NVLinks of every GPU are up, run at full speed and count no errors.

The expected number comes from the catalogue row of the GPU: 12 on A100, 18 on H100, and 8 on the A800, by
design. A GPU without a row should have as many active links as most of its peers. If fewer links are up, a
link that the driver reports as down is a fault, and so is a link that the driver lists only for other GPUs. A
link that the driver lists for no GPU may be absent by design; this is only a warning.

The error counters count from the moment when the driver was loaded. A replay repairs a damaged packet and
costs little; a recovery trains the link anew and stalls the collective. A counter at its maximum no longer
counts, so that the number of errors is unknown but large. Source: the catalogue; NVIDIA health validation,
which allows no inactive link, and oracle-quickstart/oci-hpc (rates); NVIDIA/DCGM, health watches of NVLink
(recovery errors fail, replays and CRC errors warn); `nvidia-smi nvlink -e`.
"""

import math
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from probes.base.record import EvidenceRef, Reason, Unknown, first_unknown, known, value_or
from probes.base.units import gb_per_s, plural
from probes.catalogue.hardware import GpuModel
from probes.facts import Gpu, NvLink
from probes.facts.gpu_facts import UNNUMBERED
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import Judged, each_gpu, judge_each, on_gpus, unknown_among

ACTIVE = Judge(
    check_id="nvlink-active",
    why="A dead link takes its share of bandwidth from every all-reduce, and a GPU without links falls back "
    "to PCIe.",
)

_NO_NVLINK = Unknown(Reason.NOT_SUPPORTED, "this GPU has no NVLink")
_NONE_UP = Unknown(Reason.NOT_SUPPORTED, "no NVLink is up")
_NO_BRIDGE = Unknown(Reason.NOT_SUPPORTED, "no NVLink is in use; this GPU has NVLinks only with a bridge")
_MAY_NEED_BRIDGE = Unknown(Reason.NOT_SUPPORTED, "no NVLink is in use; this GPU may need a bridge for them")

_RESET = Remedy(
    text="End all jobs and reset the GPUs; if the link stays down, the GPU module or its baseboard needs "
    "service.",
    command="nvidia-smi --gpu-reset",
    needs_root=True,
)
SPEED = Judge(check_id="nvlink-speed", why="A ring all-reduce runs at the rate of its slowest link.")
ERRORS = Judge(
    check_id="nvlink-errors",
    why="Errors on a link slow down every collective that crosses it. They are an early sign of a failing "
    "connector or board.",
)

_NAMES = {"replay_errors": "replays", "recovery_errors": "recoveries", "crc_errors": "CRC errors"}
_COLLECTIVE = Remedy(
    text="Reset the GPUs and run a collective under load. Exchange two GPUs: errors that stay in the slot "
    "come from the baseboard or the bridge; errors that move come from the GPU.",
    command="nvidia-smi nvlink -e",
)


@on_gpus(ACTIVE)
def nvlink_active(gpus: tuple[Gpu, ...], evidence: Evidence) -> Iterable[Finding]:
    rows = {gpu.index: evidence.catalogue.checked_gpu(gpu.name) if known(gpu.name) else None for gpu in gpus}
    attached = evidence.facts.attached_gpus
    places = _Places(
        most=max((len(gpu.nvlinks) for gpu in gpus if known(gpu.nvlinks)), default=0),
        usual=_usual([gpu for gpu in gpus if rows[gpu.index] is None]),
        alone=len(gpus) == 1
        and gpus[0].index in (0, UNNUMBERED)
        and not (isinstance(attached, int) and attached > 1),
    )
    good = (
        "all NVLinks are up"
        if all(rows.values())
        else "as many NVLinks as the other GPUs; the catalogue has no checked figures for this model"
    )
    return judge_each(
        ACTIVE,
        gpus,
        lambda gpu: _judge_active(gpu, rows[gpu.index], places),
        what="the NVLink state",
        good=good,
    )


class _Places(NamedTuple):
    """Numbers of links that the machine's GPUs have."""

    most: int
    """Largest number of links that any GPU lists."""
    usual: int | None
    """Usual number of active links among GPUs without checked figures in the catalogue."""
    alone: bool
    """True if this is the machine's first GPU and nothing indicates other GPUs."""


def _judge_active(gpu: Gpu, row: GpuModel | None, places: _Places) -> Judged:
    links, expected = gpu.nvlinks, row.nvlink_count if row else places.usual
    if isinstance(links, Unknown):
        return _NO_NVLINK if row and row.nvlink_count == 0 else links
    if expected is None:
        return Unknown(
            Reason.NOT_RECORDED, "no checked figures in the catalogue, and no other GPU to compare with"
        )
    up = sum(link.active is True for link in links)
    dead = [link for link in links if link.active is False]
    if expected == 0 and dead and isinstance(gpu.name, Unknown) and not places.alone:
        return ACTIVE.warned(
            f"GPU{gpu.index}",
            "all NVLinks are down, which is normal only on a GPU without its NVLink bridge",
            expected="active links, unless this GPU needs a bridge for them",
            observed="0 up" + _words(dead),
            remedy=_RESET,
        )
    if expected == 0:
        return _NONE_UP if row is None and links else _NO_NVLINK
    if up >= expected:
        return f"{up} of {expected} links"
    if up == 0 and (places.alone or row is None or row.nvlink_bridge):
        if places.alone:
            return Unknown(Reason.NOT_SUPPORTED, "one GPU alone needs no NVLink")
        return _MAY_NEED_BRIDGE if row is None else _NO_BRIDGE
    unread = first_unknown(*(link.active for link in links))
    if unread is not None and (not dead or _may_be_up(links) + up >= expected):
        return unread
    return ACTIVE.problem(
        f"GPU{gpu.index}",
        "NVLinks are down" if dead else "fewer NVLinks are up than this GPU model has",
        fails=bool(dead) or len(links) < places.most,
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
    """Return how many more links may be up; infinity if the list was cut."""
    unread = [link for link in links if isinstance(link.active, Unknown)]
    return math.inf if any(link.index == UNNUMBERED for link in unread) else len(unread)


def _usual(gpus: list[Gpu]) -> int | None:
    """Return the number of active links that most GPUs have; None if there is no second GPU."""
    counts = Counter(sum(link.active is True for link in gpu.nvlinks) for gpu in gpus if known(gpu.nvlinks))
    if counts.total() < 2:
        return None
    return max(counts, key=lambda up: (counts[up], up))


@each_gpu(SPEED, what="the NVLink rate", good="NVLinks run at full speed")
def nvlink_speed(gpu: Gpu, evidence: Evidence) -> Judged:
    row = evidence.catalogue.checked_gpu(gpu.name) if known(gpu.name) else None
    floor = evidence.thresholds.nvlink_rate_minimum_fraction
    if row is not None and row.nvlink_count == 0:
        return _NO_NVLINK
    if isinstance(gpu.nvlinks, Unknown):
        return gpu.nvlinks
    up = [link for link in gpu.nvlinks if link.active is True]
    if not up:
        return _NONE_UP
    if row is None or not row.nvlink_bandwidth_bytes_per_s:
        return Unknown(Reason.NOT_SUPPORTED, "the catalogue has no NVLink rate for this GPU")
    unread = first_unknown(*(link.bandwidth_bytes_per_s for link in up))
    if unread is not None:
        return unread
    rates = {link.index: value_or(link.bandwidth_bytes_per_s, 0.0) for link in up}
    expected, slowest = row.nvlink_bandwidth_bytes_per_s, min(rates.values())
    slow = [index for index, rate in rates.items() if rate < floor.value * expected]
    if not slow:
        return gb_per_s(slowest)
    return SPEED.failed(
        f"GPU{gpu.index}",
        "NVLinks run below their rate",
        expected=gb_per_s(expected),
        observed=f"{gb_per_s(slowest)}; slow: link {', '.join(map(str, slow))}",
        remedy=Remedy(
            text="End all jobs and reset the GPUs; if the rate stays low, the GPU module or its baseboard "
            "needs service.",
            command="nvidia-smi --gpu-reset",
            needs_root=True,
        ),
        evidence=(EvidenceRef(source="catalogue", key=row.id, detail=row.source), floor.ref),
    )


@each_gpu(ERRORS, what="the NVLink error counters", good="no NVLink errors")
def nvlink_errors(gpu: Gpu, evidence: Evidence) -> Judged:
    row = evidence.catalogue.checked_gpu(gpu.name) if known(gpu.name) else None
    full = evidence.thresholds.nvlink_counter_end
    links = gpu.nvlinks
    if row is not None and row.nvlink_count == 0:
        return _NO_NVLINK
    if isinstance(links, Unknown):
        return links
    counted = [link for link in links if any(known(getattr(link, field)) for field in _NAMES)]
    if not counted:
        if not any(link.active is True for link in links):
            return _NONE_UP
        return unknown_among(*(link.replay_errors for link in links))
    bad = [(link, words) for link in counted if (words := _errors(link))]
    if not bad:
        return f"{plural(len(counted), 'link')} without errors"
    severe = any(_is_severe(link, full.value) for link, _ in bad)
    return ERRORS.problem(
        f"GPU{gpu.index}",
        "NVLinks count errors"
        if not severe
        else "NVLinks were retrained, or their error counters are at the maximum",
        fails=severe,
        expected="0 replays, recoveries and CRC errors",
        observed="; ".join(f"link {link.index}: {words}" for link, words in bad),
        remedy=_COLLECTIVE,
        evidence=(full.ref,) if severe else (),
    )


def _errors(link: NvLink) -> str:
    counts = {name: getattr(link, field) for field, name in _NAMES.items()}
    return ", ".join(
        f"{count} {name}" for name, count in counts.items() if isinstance(count, int) and count > 0
    )


def _is_severe(link: NvLink, full: float) -> bool:
    fewest = ((link.recovery_errors, 1), (link.crc_errors, full), (link.replay_errors, full))
    return any(known(count) and count >= least for count, least in fewest)
