"""The prediction for one case: whether the run fits, its memory and its time, or why the case was refused."""

from collections.abc import Mapping
from typing import Any

from probes.base.record import Record, Unknown
from probes.base.units import GIB
from recipes.cases.case import CaseError, case_of_row
from recipes.cases.case_layout import recompute_words
from recipes.cases.model import OwnModels
from recipes.cases.notes import FIGURES, grounds_of
from recipes.cases.resolved import Here, resolve
from recipes.cases.resolved_case import ResolvedCase
from recipes.job.candidate import Candidate
from recipes.job.models.counts import flops_per_token
from recipes.job.workload import VisionWorkload
from recipes.planning.layout_words import degree_words
from recipes.predict.breakdowns import MemoryBreakdown, TimeBreakdown
from recipes.predict.familiarity import Familiarity
from recipes.predict.job_prediction import time_for
from recipes.predict.memory.activations import fuses_attention
from recipes.predict.memory.peak import figure_bytes
from recipes.predict.parameters import Rates, kind_of, memory_interval, time_interval
from recipes.predict.training_job import ImageJob, Job, TransformerJob

SCHEMA_VERSION = 1


class Recomputing(Record, kw_only=True):
    """Recomputation without which a run does not fit into memory."""

    layout: str
    """Difference from the case's layout, such as `checkpointing full of 25 % of the layers`."""
    total_gib: float
    """Device memory of the fullest GPU with this recomputation."""


class CasePrediction(Record, kw_only=True):
    """Answer of `rigtune predict` to one case. Unknown figures are None."""

    case_id: str
    status: str
    """`predicted` or `refused`."""
    reason: str = ""
    """Reason for a refusal."""
    fits: bool | None = None
    """True if the run fits, perhaps only with `fits_by_recomputing`; None if the GPU's memory is unknown."""
    fits_by_recomputing: Recomputing | None = None
    """Recomputation, if the run fits only with it; all other fields describe the run without it."""
    step_time_s: float | None = None
    """Duration of one optimizer step; None if the number of sequences per step is unknown."""
    tokens_per_s_per_gpu: float | None = None
    samples_per_s: float | None = None
    """Sequences or images per second of the whole job."""
    peak_mem_gib: float | None = None
    """Peak memory, as the figure that the case requests, or else as the figure that the stack's logs show."""
    mfu: float | None = None
    """Model FLOPs utilization: model FLOPs per second divided by the datasheet peak of the precision.

    Model FLOPs are 6 per matmul parameter and token (4 if the weights are frozen), plus causal attention. For
    an image model they are three times the FLOPs of the forward pass.
    """
    step_time_low_s: float | None = None
    """Low end of the step time; 8 of 10 published runs are between low and high
    (`recipes/predict/parameters.py`).
    """
    step_time_high_s: float | None = None
    samples_per_s_low: float | None = None
    samples_per_s_high: float | None = None
    peak_mem_low_gib: float | None = None
    peak_mem_high_gib: float | None = None
    memory_figure: str = ""
    """Figure that `peak_mem_gib` gives: `allocated`, `reserved` or `device`."""
    logged_stage: bool = False
    """True if `peak_mem_gib` is for the pipeline stage that the framework logs, although another stage uses
    more memory.
    """
    memory_limit_gib: float | None = None
    """Memory of one GPU that is available to the run."""
    global_batch: int | None = None
    """Sequences or images of one step, as the prediction assumes them."""
    title: str = ""
    """Description of the run."""
    layout: str = ""
    """Description of the model's layout on the GPUs."""
    memory: MemoryBreakdown | None = None
    time: TimeBreakdown | None = None
    rests_on: tuple[str, ...] = ()
    """Rates of the machine from which the figures were computed, each with its source."""
    assumed: tuple[str, ...] = ()
    """Assumptions of the prediction, such as defaults for values that the case does not state."""


class PredictReport(Record, kw_only=True):
    """Output of `rigtune predict --format json`."""

    schema_version: int = SCHEMA_VERSION
    cases: tuple[CasePrediction, ...] = ()


def predict_row(
    row: Mapping[str, str | None], here: Here | None = None, own_models: OwnModels | None = None
) -> CasePrediction:
    """Return the prediction for a row of column names and cells.

    A row that cannot be read or predicted is refused, with the reason. `here` returns this machine, for cases
    that name no GPU or the GPU of this machine; `own_models` maps names in the column `model` to the user's
    own models.
    """
    try:
        return predict_resolved(resolve(case_of_row(row), here=here, own_models=own_models))
    except CaseError as error:
        reason = str(error)
    except ArithmeticError as error:  # each size alone is possible, but not all sizes together
        reason = f"the sizes of the row together give impossible figures: {error}"
    return CasePrediction(case_id=(row.get("case_id") or "").strip(), status="refused", reason=reason)


def predict_resolved(resolved: ResolvedCase) -> CasePrediction:
    """Return the prediction for a case whose model, machine and layout are known."""
    memory = resolved.memory_of_case()
    time = time_for(resolved.job)
    unknown = time.total if isinstance(time, TimeBreakdown) else time
    assumed = resolved.assumed
    if isinstance(unknown, Unknown):
        assumed = (*assumed, f"no speed is predicted: {unknown.words}")
    return CasePrediction(
        case_id=resolved.case.case_id,
        status="predicted",
        title=_title(resolved),
        layout=", ".join(_layout_parts(resolved.candidate, resolved)),
        global_batch=resolved.candidate.global_batch,
        rests_on=grounds_of(resolved.candidate, resolved.cluster),
        assumed=assumed,
        memory=memory,
        **_memory_figures(resolved, memory),
        **_speeds(resolved, time),
    )


def _memory_figures(resolved: ResolvedCase, memory: MemoryBreakdown) -> dict[str, Any]:
    limit = resolved.cluster.memory_bytes_per_rank
    asked = resolved.case.memory_figure.strip().lower()
    figure = asked if asked in FIGURES else memory.logged_figure
    peak = figure_bytes(memory, asked) / GIB
    ends = memory_interval(figure, resolved.seen("memory"))
    return {
        "fits": resolved.fits(memory),
        "fits_by_recomputing": _recomputing(resolved),
        "peak_mem_gib": peak,
        "peak_mem_low_gib": peak * ends.low,
        "peak_mem_high_gib": peak * ends.high,
        "memory_figure": figure,
        "logged_stage": memory.logged != 1.0 and asked not in ("", "device"),
        "memory_limit_gib": None if limit is None else limit.value / GIB,
    }


def _recomputing(resolved: ResolvedCase) -> Recomputing | None:
    candidate, memory = resolved.recomputed, resolved.recomputed_memory
    if candidate is None or memory is None:
        return None
    usual = _layout_parts(resolved.candidate, resolved)
    other = ", ".join(part for part in _layout_parts(candidate, resolved) if part not in usual)
    return Recomputing(layout=other, total_gib=memory.total / GIB)


def _speeds(resolved: ResolvedCase, time: TimeBreakdown | Unknown) -> dict[str, Any]:
    if isinstance(time, Unknown) or isinstance(time.total, Unknown):
        return {}
    seconds = time.total
    samples_per_s = resolved.candidate.global_batch / seconds
    ends = time_interval(kind_of(resolved.workload.model), *_basis(resolved))
    speeds: dict[str, Any] = {
        "time": time,
        "samples_per_s": samples_per_s,
        "samples_per_s_low": samples_per_s / ends.high,
        "samples_per_s_high": samples_per_s / ends.low,
    }
    if resolved.batch_stated:
        speeds |= {
            "step_time_s": seconds,
            "step_time_low_s": seconds * ends.low,
            "step_time_high_s": seconds * ends.high,
        }
    if isinstance(resolved.job, TransformerJob):
        job = resolved.job
        # Samples of varying length are counted with their mean length, all other samples with the case's
        # length.
        varies = job.workload.mean_length is not None or job.stack.samples_vary(job.workload)
        tokens = job.sequence if varies else job.workload.sequence_length
        speeds["tokens_per_s_per_gpu"] = samples_per_s * tokens / resolved.gpus
    peak = resolved.cluster.peak_flops_per_s.get(resolved.candidate.precision)
    if peak is not None:
        speeds["mfu"] = samples_per_s / resolved.gpus * _sample_flops(resolved.job) / peak.value
    return speeds


def _sample_flops(job: Job) -> float:
    """Return the forward and backward FLOPs of one image, or of one sequence of mean length.

    Frozen weights need no weight gradients.
    """
    if isinstance(job, ImageJob):
        return 3.0 * job.workload.model.forward_flops
    passes = 1.0 if job.trains_weights else 2 / 3
    return passes * job.sequence * flops_per_token(job.workload.model, round(job.sequence))


def _basis(resolved: ResolvedCase) -> tuple[Rates, Familiarity]:
    """Return the origin of the rates, and how familiar the case is; a measured GPU counts as seen."""
    rate = resolved.cluster.flops_per_s.get(resolved.candidate.precision)
    seen = resolved.seen("time")
    if rate is None or rate.basis != "measured":
        return "catalogue", seen
    return "measured", "seen-seen" if seen.startswith("seen") else "unseen-seen"


def _layout_parts(candidate: Candidate, resolved: ResolvedCase) -> tuple[str, ...]:
    sharing = candidate.sharding_stage if candidate.sharding_stage != "none" else ""
    recompute = (
        f"checkpointing {recompute_words(candidate)}" if candidate.activation_checkpointing != "none" else ""
    )
    if candidate.activation_checkpointing == "selective":
        recompute += f" ({_selected(candidate, resolved)})"
    batch = (
        f"micro-batch {candidate.micro_batch} x {candidate.grad_accum}",
        f"global batch {candidate.global_batch}",
    )
    schedule = (
        candidate.schedule
        if candidate.degrees.pp > 1 and candidate.schedule in ("gpipe", "zero-bubble")
        else ""
    )
    return tuple(
        words for words in (degree_words(candidate.degrees), schedule, sharing, *batch, recompute) if words
    )


def _selected(candidate: Candidate, resolved: ResolvedCase) -> str:
    """Return a description of what a stack's selective mode recomputes."""
    if resolved.stack.memory.selective == "products":
        return "the output of every second matrix product is kept, all other outputs are recomputed"
    scores = "recomputes only attention scores"
    job = resolved.job
    fused = isinstance(job, TransformerJob) and fuses_attention(job._replace(candidate=candidate))
    return f"{scores}, which fused attention never keeps: no memory is saved" if fused else scores


def _title(resolved: ResolvedCase) -> str:
    work = resolved.workload
    if isinstance(work, VisionWorkload):
        size = f"{work.image_size} pixels, " if work.image_size else ""
    else:
        size = f"sequence {work.sequence_length}, "
    name = work.model.title or work.model.id
    where = f"{resolved.gpus} x {resolved.cluster.device_name}"
    return f"{name}, {size}{resolved.candidate.precision}, on {where}, {resolved.stack.title}"
