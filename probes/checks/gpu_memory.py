"""ECC mode, corrected errors, on-chip memory, spare rows and retired pages.

Before Ampere a GPU retires bad memory pages, since then it remaps rows; each query is meaningless on the
other kind. Source: NVIDIA GPU memory error management guide; NVIDIA RMA policy; azurehpc-health-checks;
facebookresearch/gcm.
"""

from __future__ import annotations

from collections.abc import Iterator

from probes.base.record import Reason, Unknown, known
from probes.catalogue.thresholds import Number, Thresholds
from probes.facts import Gpu, count_of
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import Judged, gpus_of, judge_each, smi_name

MODE = Judge(
    check_id="ecc-mode",
    why="Without ECC a flipped bit in memory changes gradients and weights, and nobody notices.",
)
CORRECTED = Judge(
    check_id="ecc-corrected", why="Memory that needs many corrections is about to need one that fails."
)
SRAM = Judge(
    check_id="ecc-sram",
    why="On-chip memory has no spare rows: it wears out for good, and each error ends a job.",
)
RESERVE = Judge(
    check_id="row-remap-reserve",
    why="When the spare rows of a bank are used up, its next bad row stays in use.",
)
PAGES = Judge(
    check_id="retired-pages",
    why="A retired page is memory that failed; a pending one is still in use and may fail again.",
)

REPLACE = Remedy(
    text="Take this GPU out of service and have it replaced.",
    command="nvidia-bug-report.sh",
    reversible=False,
)
_CONSUMER = ("geforce", "titan", "rtx")
_CONSUMER_DEFAULT = Unknown(Reason.NOT_SUPPORTED, "ECC is off by default on this board")


def _reset(gpu: Gpu) -> Remedy:
    return Remedy(
        text="Reset the GPU when no job uses it, or restart the machine.",
        command=f"nvidia-smi --gpu-reset -i {smi_name(gpu)}",
        needs_root=True,
    )


def ecc_mode(evidence: Evidence) -> Iterator[Finding]:
    gpus = yield from gpus_of(MODE, evidence)
    yield from judge_each(MODE, gpus, _mode, what="the ECC mode", good="ECC is on")


def _mode(gpu: Gpu) -> Judged:
    enabled, pending = gpu.ecc_enabled, gpu.memory_health.ecc_pending
    if isinstance(enabled, Unknown):
        return enabled
    if known(pending) and pending != enabled:
        return MODE.warned(
            f"GPU{gpu.index}",
            "the ECC mode changes with the next reset",
            expected="the mode that is wanted, in force",
            observed=f"{_word(enabled)} now, {_word(pending)} after a reset",
            remedy=_reset(gpu),
        )
    if enabled:
        return "on"
    if known(gpu.name) and any(word in gpu.name.lower() for word in _CONSUMER):
        return _CONSUMER_DEFAULT
    return MODE.warned(
        f"GPU{gpu.index}",
        "ECC is off",
        expected="on",
        observed="off",
        remedy=Remedy(
            text="Turn ECC on and reset the GPU.",
            command=f"nvidia-smi -i {smi_name(gpu)} -e 1",
            needs_root=True,
        ),
    )


def _word(enabled: bool) -> str:
    return "on" if enabled else "off"


def ecc_corrected(evidence: Evidence) -> Iterator[Finding]:
    gpus = yield from gpus_of(CORRECTED, evidence)
    limit = evidence.thresholds.ecc_corrected_most

    def judge(gpu: Gpu) -> Judged:
        errors = gpu.ecc_corrected_volatile
        if isinstance(errors, Unknown):
            return errors
        if errors <= limit.value:
            return f"{errors} corrected errors"
        return CORRECTED.warned(
            f"GPU{gpu.index}",
            "many corrected memory errors since the driver was loaded",
            expected=f"at most {limit.value:.0f}",
            observed=str(errors),
            remedy=Remedy(
                text="Watch whether the count rises under load; if it does, have the GPU tested and replaced."
            ),
            evidence=(limit.ref,),
        )

    yield from judge_each(
        CORRECTED, gpus, judge, what="the count of corrected errors", good="few corrected memory errors"
    )


def ecc_sram(evidence: Evidence) -> Iterator[Finding]:
    gpus = yield from gpus_of(SRAM, evidence)
    limit = evidence.thresholds.sram_uncorrected_most
    yield from judge_each(
        SRAM,
        gpus,
        lambda gpu: _sram(gpu, limit),
        what="the errors of on-chip memory",
        good="no wear of on-chip memory",
    )


def _sram(gpu: Gpu, limit: Number) -> Judged:
    errors, exceeded = gpu.memory_health.sram_uncorrected_aggregate, gpu.memory_health.sram_threshold_exceeded
    if gpu.memory_health.unrepairable is True:
        return _sram_failed(gpu, "memory that cannot be repaired", "the driver says so", limit)
    if exceeded is True:
        return _sram_failed(gpu, "on-chip memory is worn out", "the driver's threshold is exceeded", limit)
    if isinstance(errors, Unknown):
        return errors
    if errors > limit.value:
        return _sram_failed(
            gpu, "on-chip memory is worn out", f"{errors} uncorrected errors over the board's life", limit
        )
    if errors > 0:
        return SRAM.warned(
            f"GPU{gpu.index}",
            "on-chip memory has had uncorrected errors",
            expected="0",
            observed=f"{errors} over the board's life",
            remedy=Remedy(text="Watch this GPU; more errors in one place mean that it is replaced."),
            evidence=(limit.ref,),
        )
    return "0 uncorrected errors"


def _sram_failed(gpu: Gpu, summary: str, observed: str, limit: Number) -> Finding:
    return SRAM.failed(
        f"GPU{gpu.index}",
        summary,
        expected=f"at most {limit.value:.0f} uncorrected errors",
        observed=observed,
        remedy=REPLACE,
        evidence=(limit.ref,),
    )


def row_remap_reserve(evidence: Evidence) -> Iterator[Finding]:
    gpus = yield from gpus_of(RESERVE, evidence)
    limit = evidence.thresholds.rows_remapped_most
    yield from judge_each(
        RESERVE,
        gpus,
        lambda gpu: _reserve(gpu, limit),
        what="the spare memory rows",
        good="spare memory rows are left",
    )


def _reserve(gpu: Gpu, limit: Number) -> Judged:
    banks, remapped = gpu.memory_health.remap_banks, gpu.memory_health.remapped_rows_uncorrected
    if known(remapped) and remapped >= limit.value:
        return RESERVE.failed(
            f"GPU{gpu.index}",
            "as many rows are replaced as a GPU may have",
            expected=f"less than {limit.value:.0f}",
            observed=f"{remapped} rows",
            remedy=REPLACE,
            evidence=(limit.ref,),
        )
    if gpu.memory_health.repair_pending is True:
        return RESERVE.warned(
            f"GPU{gpu.index}",
            "a repair of memory waits for a reset",
            expected="none pending",
            observed="pending",
            remedy=_reset(gpu),
        )
    if isinstance(banks, Unknown):
        return banks
    used_up, low = count_of(banks, "none") or 0, count_of(banks, "low") or 0
    if used_up or low:
        return RESERVE.warned(
            f"GPU{gpu.index}",
            "memory banks without spare rows" if used_up else "memory banks with few spare rows",
            expected="0 such banks",
            observed=f"{used_up} banks without, {low} with few",
            remedy=Remedy(text="Plan the replacement of this GPU."),
        )
    return f"{count_of(banks, 'partial') or 0} banks in part used"


def retired_pages(evidence: Evidence) -> Iterator[Finding]:
    gpus = yield from gpus_of(PAGES, evidence)
    limits = evidence.thresholds
    yield from judge_each(
        PAGES,
        gpus,
        lambda gpu: _pages(gpu, limits),
        what="the retired pages",
        good="few memory pages are retired",
    )


def _pages(gpu: Gpu, limits: Thresholds) -> Judged:
    health = gpu.memory_health
    single, double = health.retired_pages_single_bit, health.retired_pages_double_bit
    total = sum(value for value in (single, double) if not isinstance(value, Unknown))
    observed = f"{total} pages" + (", some pending" if health.retired_pages_pending is True else "")
    if total > limits.retired_pages_most.value:
        return PAGES.failed(
            f"GPU{gpu.index}",
            "as many pages are retired as a GPU may have",
            expected=f"at most {limits.retired_pages_most.value:.0f}",
            observed=observed,
            remedy=REPLACE,
            evidence=(limits.retired_pages_most.ref,),
        )
    if health.retired_pages_pending is True:
        return PAGES.warned(
            f"GPU{gpu.index}",
            "a bad memory page waits for a reset",
            expected="none pending",
            observed=observed,
            remedy=_reset(gpu),
        )
    if total > limits.retired_pages_warn.value or (known(double) and double > 0):
        return PAGES.warned(
            f"GPU{gpu.index}",
            "memory pages are retired",
            expected=f"at most {limits.retired_pages_warn.value:.0f}, and none for a double bit error",
            observed=observed,
            remedy=Remedy(text="Watch the count; a GPU that keeps retiring pages is replaced."),
            evidence=(limits.retired_pages_warn.ref,),
        )
    for value in (double, single, health.retired_pages_pending):
        if isinstance(value, Unknown):
            return value
    return observed
