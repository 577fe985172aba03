"""The texts of a plan: why a choice was made, why a candidate was rejected, and how memory can be saved."""

import math

import msgspec

from probes.base.record import EvidenceRef
from probes.base.units import count, gib, gib_of_terms, plural
from recipes.environment.environment_plan import EnvVar, HostSetting
from recipes.job.pins import Pins
from recipes.job.workload import AnyWorkload, VisionWorkload, Workload
from recipes.machine.cluster_records import Basis, Cluster
from recipes.planning.examined import Examined, is_within
from recipes.planning.image_jobs import why_image_micro_batch
from recipes.planning.layout_reasons import (
    Comparison,
    decision,
    layout_decisions,
    micro_batch_reason,
    recomputation_reason,
    share_decision,
    strategy_reason,
)
from recipes.planning.layout_words import describe
from recipes.planning.plan import Choice, Decision
from recipes.planning.programs import Program
from recipes.predict.breakdowns import MEMORY_TERMS, MemoryBreakdown
from recipes.predict.candidate_prediction import nearness
from recipes.predict.parameters import memory_interval
from recipes.settings.convergence import ConvergenceSettings
from recipes.settings.setting import Setting


def rejection(memory: MemoryBreakdown, limit_bytes: float, free: float = 0.0) -> str:
    """Return why a candidate does not fit, with the two largest terms of its memory.

    An example is `needs 91.2 GiB of 79.1 GiB: activations 48.0 GiB, logits 9.1 GiB`. `free` is the part of
    the memory that stays free.
    """
    largest = sorted(MEMORY_TERMS, key=lambda term: -getattr(memory, term))[:2]
    terms = ", ".join(f"{term} {gib(getattr(memory, term))}" for term in largest)
    kept = ""
    if memory.needed <= limit_bytes and free:
        kept = f", of which {_percent(free)} ({gib(free * limit_bytes)}) stay free"
    return f"needs {gib(memory.needed)} of {gib(limit_bytes)}{kept}: {terms}"


def _percent(part: float) -> str:
    return f"{100 * part:.3g} %"


def bound_words(memory: MemoryBreakdown) -> str:
    """Return the worst case of a plan with its parts: `48.9 GiB (40.0 GiB needed ... + 8.9 GiB ...)`.

    The needed part is the total without the memory that the allocator returns when memory is short. A CPU has
    no such allocator: its parts are the total and the rest.
    """
    start, error, upper = _bound_sizes(memory)
    what = "needed when memory is short" if memory.margin else "in all"
    summed = f"{start} {what} + {error} for the models' error"
    if memory.margin and memory.total > memory.needed + memory.margin:
        return f"{gib(memory.upper)} (all that the allocator keeps, which is more than {summed})"
    return f"{upper} ({summed})"


def _bound_sizes(memory: MemoryBreakdown) -> tuple[str, ...]:
    """Return the two parts of the worst case and their sum."""
    if memory.margin:
        return gib_of_terms((memory.needed, memory.margin))
    return gib_of_terms((memory.total, memory.upper - memory.total))


def tightest(
    workload: AnyWorkload, cluster: Cluster, nearest: Examined, pins: Pins, free: float = 0.0
) -> tuple[str, str]:
    """Return the message and the hint for the case that nothing fits with `free` of the memory left free.

    The message names the candidate that needs the least memory and its two largest terms, and the hint names
    ways to reduce them.
    """
    limit = cluster.memory_bytes_per_rank
    memory, candidate = nearest.memory, nearest.candidate
    largest = max(MEMORY_TERMS, key=lambda term: float(getattr(memory, term)))
    reason = rejection(memory, limit.value, free) if limit is not None else ""
    message = f"{workload.model.id} does not fit: even {describe(candidate)} {reason}"
    states = largest in ("parameters", "gradients", "optimizer", "buffers")
    tuning = workload.tuning if isinstance(workload, Workload) else ""
    ways = (
        (
            limit is not None and memory.needed <= limit.value,
            f"leave less memory free than {_percent(free)} (--headroom)",
        ),
        (largest in ("activations", "logits"), _smaller_samples(workload)),
        (states, _more_nodes(cluster, memory)),
        (
            states and tuning == "full",
            "train adapters instead of all weights (--tuning lora or qlora)",
        ),
        (tuning == "lora", "keep the frozen weights in 4 bits (--tuning qlora)"),
        (
            pins.strategy == "ddp" and cluster.world_size > 1,
            "let FSDP share the states (drop the pinned ddp)",
        ),
        (pins.activation_checkpointing == "none", "allow activation checkpointing"),
        (
            pins.micro_batch is not None and pins.micro_batch > 1,
            f"a micro-batch below the pinned {pins.micro_batch}",
        ),
        (
            cluster.device == "cpu" and limit is not None,
            "fewer ranks per node, so that each has more memory",
        ),
    )
    hint = "; ".join(words for is_open, words in ways if is_open and words)
    return message, hint or "take a smaller model, a shorter sequence or a GPU with more memory"


def _smaller_samples(workload: AnyWorkload) -> str:
    """Return the advice to shorten sequences or to shrink images; empty if a sample has a fixed size."""
    if isinstance(workload, Workload):
        return f"shorten the sequence of {workload.sequence_length}"
    return f"smaller images than {workload.image_size} pixels (--image-size)" if workload.image_size else ""


def _more_nodes(cluster: Cluster, memory: MemoryBreakdown) -> str:
    """Return advice: the number of nodes over which the model's states would fit, or more memory."""
    limit = cluster.memory_bytes_per_rank
    if limit is None or cluster.device == "cpu":
        return "more memory per rank"
    states = memory.parameters + memory.gradients + memory.optimizer
    rest = memory.needed - states
    if rest >= limit.value:
        return "a GPU with more memory"
    nodes = cluster.nodes * math.ceil(states / (limit.value - rest))
    return f"{max(cluster.nodes + 1, nodes)} nodes, which share the states"


def decisions_of(
    workload: AnyWorkload,
    cluster: Cluster,
    pins: Pins,
    chosen: Choice,
    compared: Comparison,
    *,
    settings: ConvergenceSettings,
    safety: tuple[Setting, ...],
    variables: tuple[EnvVar, ...],
    host: tuple[HostSetting, ...],
    free: float = 0.0,
    asked: float | None = None,
) -> tuple[Decision, ...]:
    """Return one decision per setting of the chosen plan, then one per environment variable.

    `settings` affect the trained model, `safety` are checkpoints and time-outs. `free` is the part of the
    memory that the plan leaves free, and `asked` is the part that the user requested.
    """
    basis = _basis(workload, compared.chosen)
    recomputation, recomputations = recomputation_reason(compared)
    micro_batch, micro_batches = micro_batch_reason(compared)
    against, strategies = strategy_reason(compared)
    return (
        decision(
            "strategy",
            chosen.strategy,
            pins.strategy,
            basis=basis,
            because="; ".join(filter(None, [_state_words(cluster, chosen), against])),
            alternatives=strategies,
        ),
        *layout_decisions(compared),
        decision(
            "activation_checkpointing",
            chosen.activation_checkpointing,
            pins.activation_checkpointing,
            basis=basis,
            because=recomputation or _without_alternatives(pins),
            alternatives=recomputations,
        ),
        *share_decision(chosen, pins, basis),
        decision(
            "micro_batch",
            str(chosen.micro_batch),
            pins.micro_batch,
            basis=basis,
            because="; ".join(filter(None, [_micro_batch_words(workload, chosen), micro_batch])),
            alternatives=micro_batches,
        ),
        *_headroom_decision(cluster, free, asked),
        *margin_decision(chosen.predicted.memory_bytes_per_gpu, cluster),
        decision(
            "grad_accum",
            str(chosen.grad_accum),
            pins.grad_accum,
            basis="rule",
            because=f"global batch {workload.global_batch} = micro-batch {chosen.micro_batch} x "
            f"{chosen.grad_accum} x {plural(chosen.degrees.dp * chosen.degrees.fsdp, 'data-parallel rank')}",
        ),
        _of_setting(settings.batch, None),
        Decision(
            name="precision",
            value=workload.precision,
            basis="rule",
            because=_why_precision(workload, cluster, compared.request.program),
        ),
        _of_setting(settings.rate, pins.learning_rate),
        _of_setting(settings.warmup, pins.warmup_steps),
        *(_of_setting(each, None) for each in (*settings.others, *safety)),
        *(
            Decision(name=setting.name, value=setting.value, basis=setting.basis, because=setting.because)
            for setting in host
        ),
        *(
            Decision(
                name=variable.name,
                value=variable.value,
                basis="rule",
                because=variable.why,
                evidence=(EvidenceRef(source="rule", key=variable.source),),
            )
            for variable in variables
        ),
    )


def _without_alternatives(pins: Pins) -> str:
    """Return the reason for a recomputation with which no other was compared; empty if the user fixed it."""
    if pins.activation_checkpointing is None and pins.recomputed_share is None:
        return "the program has no other way to save activations"
    return ""


def _of_setting(setting: Setting, pin: float | None) -> Decision:
    """Return the decision about a setting; `pin` is the value that the user fixed."""
    row = decision(
        setting.name,
        setting.text if pin is None else f"{pin:g}",
        pin,
        basis=setting.basis,
        because=setting.because,
        alternatives=setting.alternatives,
    )
    evidence = (EvidenceRef(source="rule", key=setting.source),) if setting.source else ()
    return msgspec.structs.replace(row, evidence=evidence)


def _headroom_decision(cluster: Cluster, free: float, asked: float | None) -> tuple[Decision, ...]:
    """Return the decision about the memory that stays free; none on a CPU unless the user fixed it."""
    if cluster.device != "cuda" and asked is None:
        return ()
    if free:
        because = "part of each GPU's memory that stays free for fragmentation and the models' error"
    elif asked is None:
        because = "nothing fits if memory stays free, so the plan leaves none free on purpose"
    else:
        because = "the plan leaves no memory free on purpose"
    return (decision("memory_headroom", _percent(free), asked, basis="rule", because=because),)


def margin_decision(memory: MemoryBreakdown, cluster: Cluster) -> tuple[Decision, ...]:
    """Return the decision about the memory margin; none if there is no margin, as on a CPU."""
    if not memory.margin:
        return ()
    times = memory_interval("allocated").high
    because = (
        f"9 of 10 published runs needed less than {times:.2f} x what was predicted; "
        f"the worst case is {bound_words(memory)}"
    )
    if not is_within(memory, cluster):
        because += "; it does not fit in the worst case"
    return (
        Decision(
            name="memory_margin",
            value=_bound_sizes(memory)[1],
            basis="rule",
            because=because,
            evidence=(EvidenceRef(source="rule", key="interval.peak_memory_high.allocated"),),
        ),
    )


MEMORY_WARNING = "may run out of memory"


def memory_warning(memory: MemoryBreakdown, cluster: Cluster) -> str:
    """Return a warning if the memory may be too small; empty if it is not, or if it is unknown."""
    limit = cluster.memory_bytes_per_rank
    if limit is None or is_within(memory, cluster):
        return ""
    needed = _bound_sizes(memory)[0] if memory.margin else gib(memory.needed)
    words = f"{MEMORY_WARNING}: {memory_risk(memory.needed, memory.upper, limit.value, needed)}"
    share = math.ceil(100 * (1 - memory.needed / memory.upper)) / 100
    if memory.needed > limit.value or not 0 < share <= _LARGEST_HEADROOM:
        return words
    return f"{words}; --headroom {share:g} prevents that"


def memory_risk(needed: float, upper: float, room: float, needed_words: str = "") -> str:
    """Return in words that a run needs more bytes than the device has, at least in the worst case.

    `needed_words` is the needed memory as other lines of the plan write it.
    """
    if needed > room:
        return f"{gib(needed)} are needed, and only {gib(room)} are available"
    rare = f"1 run in 10 needs more than {gib(upper)}"
    return f"{needed_words or gib(needed)} are needed, and {gib(room)} are available, but {rare}"


_LARGEST_HEADROOM = 0.9
"""Largest value of `--headroom`."""


def _basis(workload: AnyWorkload, chosen: Examined) -> Basis:
    """Return `rule` if no time is known, `measured` if exactly this step was measured, else `modelled`.

    Steps of image models are never `measured`.
    """
    if chosen.seconds == math.inf:
        return "rule"
    if isinstance(workload, VisionWorkload):
        return "modelled"
    is_measured = nearness(workload, chosen.candidate, chosen.job.cluster) == "same"
    return "measured" if is_measured else "modelled"


def _state_words(cluster: Cluster, chosen: Choice) -> str:
    """Return the memory of a rank in the worst case, with the part of the training state."""
    memory = chosen.predicted.memory_bytes_per_gpu
    limit = cluster.memory_bytes_per_rank
    of_limit = f" of {gib(limit.value)}" if limit else ""
    states = memory.parameters + memory.gradients + memory.optimizer
    return f"worst case {gib(memory.upper)} per rank{of_limit}, {gib(states)} of it model states"


def _micro_batch_words(workload: AnyWorkload, chosen: Choice) -> str:
    """Return the tokens of a micro-batch, and whether the micro-batch is the whole share of a rank."""
    if isinstance(workload, VisionWorkload):
        return why_image_micro_batch(chosen)
    tokens = count(chosen.micro_batch * workload.sequence_length)
    if chosen.grad_accum == 1:
        return f"a rank's whole share of the global batch, {tokens} tokens, fits at once"
    return f"{tokens} tokens per forward pass"


def _why_precision(workload: AnyWorkload, cluster: Cluster, program: Program) -> str:
    if workload.precision == "bf16":
        is_tuned = isinstance(workload, Workload) and workload.tuning != "full"
        over = "frozen weights" if is_tuned else "fp32 parameters"
        words = f"mixed precision: bf16 computation over {over}"
        if cluster.has_bf16:
            return words
        return f"{words}, as asked for, although {cluster.device_name} {_without_bf16(cluster)}"
    if "bf16" not in program.precisions:
        return f"{program.title} does not train in bf16"
    if cluster.has_bf16:
        return f"{workload.precision}, as asked for"
    return f"{cluster.device_name} {_without_bf16(cluster)}"


def _without_bf16(cluster: Cluster) -> str:
    if cluster.device == "cpu":
        return "is not measured to be faster in bf16"
    return "is not known to multiply bf16 natively"
