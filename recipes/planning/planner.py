"""Plan of a job on a cluster: the best layout of a program, with its reasons, alternatives and rejections."""

import math

import msgspec

from probes.base.errors import NoFeasiblePlanError, UsageError
from probes.base.record import Unknown
from probes.facts import MachineFacts
from recipes.constants import constant
from recipes.job.candidate import Candidate, Degrees
from recipes.job.models.counts import load_models
from recipes.job.workload import (
    DEFAULT_ADAPTER_RANK,
    Optimizer,
    Pins,
    Precision,
    TransformerModel,
    Tuning,
    Workload,
)
from recipes.machine.cluster_records import Cluster
from recipes.planning.environment_rules import environment
from recipes.planning.layout_reasons import Comparison, is_tie, lost_because, not_searched
from recipes.planning.learning_rate import learning_rate, warmup_steps
from recipes.planning.plan import Choice, Plan, Rejected
from recipes.planning.programs import OWN, Program, program_named
from recipes.planning.reasons import decisions_of, memory_warning, rejection, tightest
from recipes.planning.search import Examined, Searched, neighbours, refusing, search_with_headroom
from recipes.planning.space import STRATEGIES, Request, divisors, shapes, strategy_of
from recipes.predict.candidate_prediction import predicted_of, time_with_interval
from recipes.predict.stacks import load_stacks

_LONGEST_RUN = 10**9
_PRECISIONS: tuple[Precision, ...] = ("bf16", "fp16", "fp32")
"""Precisions that a plan may choose by itself, in this order; narrower ones change the training."""


def default_workload(
    model: TransformerModel,
    cluster: Cluster,
    *,
    global_batch: int | None = None,
    sequence_length: int | None = None,
    precision: Precision | None = None,
    steps: int | None = None,
    tokens: int | None = None,
    tuning: Tuning = "full",
    adapter_rank: int | None = None,
    optimizer: Optimizer = "adamw",
    program: Program | None = None,
) -> Workload:
    """Return the job that the model's published recipe suggests, changed by the settings of the user.

    The default precision is the first of bf16, fp16 and fp32 that the program has and the device multiplies
    natively. The recipe's batch in tokens becomes whole sequences, rounded to a number that the ranks can
    share. A batch that the user gives is never changed. Raises UsageError for impossible sizes.
    """
    usual = (
        model.sequence_length
        if tuning == "full"
        else min(model.sequence_length, int(constant("tuning_length")))
    )
    length = usual if sequence_length is None else sequence_length
    if tokens is not None and steps is not None:
        raise UsageError("both tokens and steps of the run are given", "give --tokens or --steps")
    for name, value in (
        ("sequence length", length),
        ("global batch", global_batch or 1),
        ("steps", steps or 1),
    ):
        if not 1 <= value <= _LONGEST_RUN:
            raise UsageError(f"{name} is {value}", f"give a whole number from 1 to {_LONGEST_RUN}")
    if model.learned_positions and length > model.learned_positions:
        # A model that is trained from the start can have a longer table of positions.
        model = msgspec.structs.replace(model, learned_positions=length)
    if global_batch is None:
        published = max(1, round(model.learning_rate_batch_tokens / length))
        usual_batch = published if tuning == "full" else int(constant("tuning_batch"))
        global_batch = shared_batch(usual_batch, cluster.world_size)
    if steps is None:
        default = int(constant(f"default_steps_{cluster.device}"))
        steps = default if tokens is None else max(1, math.ceil(tokens / (global_batch * length)))
    return Workload(
        model=model,
        sequence_length=length,
        global_batch=global_batch,
        precision=precision or _native_precision(cluster, program or program_named(OWN)),
        steps=steps,
        tuning=tuning,
        base_bits=4 if tuning == "qlora" else 16,
        fine_tuning=tuning != "full",
        optimizer=optimizer,
        adapter_rank=adapter_rank or DEFAULT_ADAPTER_RANK,
    )


def shared_batch(sequences: int, ranks: int) -> int:
    """Return the number of sequences nearest to `sequences` that the ranks can share.

    If there are more ranks than sequences, groups of ranks share one sequence. The number is then a
    multiple of a divisor of the ranks.
    """
    multiple = max(size for size in divisors(ranks) if size <= sequences)
    below = sequences // multiple * multiple
    return min((below, below + multiple), key=lambda valid: (abs(valid - sequences), -valid))


def model_positions(model: TransformerModel) -> int:
    """Return the learned positions of the published model with this id; those of `model` if there is none."""
    published = next((row for row in load_models() if row.id == model.id), model)
    return published.learned_positions


def _native_precision(cluster: Cluster, program: Program) -> Precision:
    if cluster.has_bf16 and "bf16" in program.precisions:
        return "bf16"
    has_half = (
        cluster.device == "cuda" and "fp16" in cluster.peak_flops_per_s and "fp16" in program.precisions
    )
    return "fp16" if has_half else "fp32"


def make_plan(
    workload: Workload,
    cluster: Cluster,
    facts: MachineFacts,
    pins: Pins,
    *,
    program: Program | None = None,
    headroom: float | None = None,
) -> Plan:
    """Return the best plan with its reasons, alternatives and rejected candidates.

    `headroom` is the part of a GPU's memory that stays free; None: the default, which a plan gives up, with a
    warning, if nothing fits otherwise. Raises UsageError if pins contradict the machine or each other,
    NoFeasiblePlanError if nothing fits.
    """
    program = program or program_named(OWN)
    _require_sound(workload, cluster, pins, program)
    limit = cluster.memory_bytes_per_rank
    if limit is None:
        raise NoFeasiblePlanError(
            f"the memory of {cluster.device_name} is unknown, so rigtune cannot decide what fits",
            "read it on the machine with `rigtune probe`, or name a catalogue machine with --machine",
        )
    request = request_of(workload, cluster, program, pins)
    result, free = search_with_headroom(request, headroom)
    if not result.ranked:
        rejected = _rejections(result, limit.value)
        if not rejected:
            raise _nothing_legal(request)
        message, hint = tightest(workload, cluster, result.rejected[0], pins)
        raise NoFeasiblePlanError(message, hint)
    rate, warmup = learning_rate(workload), warmup_steps(workload)
    warm = pins.warmup_steps if pins.warmup_steps is not None else int(warmup.value)
    usable = limit.value * (1 - free)
    first = result.ranked[0]
    compared = Comparison(
        request=request,
        chosen=first,
        others=(*result.ranked[1:], *result.rejected),
        inside=neighbours(request, first, refusing(usable)),
        limit_bytes=usable,
    )
    choices = [_choice(member, compared, pins.learning_rate or rate.value, warm) for member in result.ranked]
    variables = environment(facts, cluster, choices[0].predicted.memory_bytes_per_gpu)
    warnings = [*cluster.warnings, *([rate.warning] if rate.warning else [])]
    if memory := memory_warning(choices[0].predicted.memory_bytes_per_gpu, cluster):
        warnings.append(memory)
    known_positions = model_positions(workload.model)
    if known_positions < workload.model.learned_positions:
        warnings.append(
            f"{workload.model.id} learned {known_positions} positions: sequences of "
            f"{workload.sequence_length} need a larger table of positions, which must be trained"
        )
    time = choices[0].predicted.step_time_s.total
    if isinstance(time, Unknown):
        warnings.append(
            f"no step time: {time.detail or time} is unknown; ranked by memory and simplicity alone"
        )
    return Plan(
        workload=workload,
        cluster=cluster,
        chosen=choices[0],
        decisions=decisions_of(
            workload, cluster, pins, choices[0], compared, rate=rate, warmup=warmup, variables=variables
        ),
        env=variables,
        alternatives=tuple(choices[1:]),
        rejected=_rejections(result, limit.value),
        warnings=tuple(warnings),
        examined=result.examined,
        not_searched=not_searched(request),
    )


def request_of(workload: Workload, cluster: Cluster, program: Program, pins: Pins) -> Request:
    """Return the search request of a job: the program's stack, and a candidate with the other settings."""
    stack = load_stacks()[program.stack_for(workload.tuning)]
    base = Candidate(
        strategy="ddp",
        degrees=Degrees(),
        micro_batch=1,
        grad_accum=1,
        global_batch=workload.global_batch,
        activation_checkpointing="none",
        precision=workload.precision,
    )
    return Request(workload, cluster, stack, program, pins, base)


def _nothing_legal(request: Request) -> UsageError:
    """Return the error for a request without a single layout: the batch or a pin allows none."""
    workload, cluster, pins = request.workload, request.cluster, request.pins
    fixed = {
        name: value
        for name in (
            "tp",
            "pp",
            "cp",
            "ep",
            "vp",
            "fsdp",
            "sharding",
            "schedule",
            "micro_batch",
            "grad_accum",
        )
        if (value := getattr(pins, name)) is not None
    }
    unpinned = request._replace(pins=Pins())
    if fixed and any(True for _ in shapes(unpinned)):
        words = ", ".join(f"{name} {value}" for name, value in fixed.items())
        return UsageError(
            f"{request.program.title} has no layout with {words} for {workload.model.id} on "
            f"{cluster.world_size} ranks and a global batch of {workload.global_batch}",
            f"change a pin or the batch: degrees must divide the ranks, the batch and {_sizes(request)}",
        )
    multiple = cluster.world_size * (pins.micro_batch or 1)
    nearest = " or ".join(str(valid) for valid in nearest_global_batches(workload.global_batch, multiple))
    pinned = f" x micro-batch {pins.micro_batch}" if pins.micro_batch else ""
    return UsageError(
        f"global batch {workload.global_batch} cannot be shared by {cluster.world_size} ranks{pinned}",
        f"choose a global batch of {nearest}, or another number of ranks",
    )


def _sizes(request: Request) -> str:
    model = request.model
    return "" if model is None else f"{model.layers} layers and {model.heads} heads"


def nearest_global_batches(global_batch: int, multiple: int) -> tuple[int, ...]:
    """Return the nearest valid global batches below and above, at least one of them.

    Valid batches are multiples of the number of ranks (times a pinned micro-batch).
    """
    below = global_batch // multiple * multiple
    return (below, below + multiple) if below else (multiple,)


def _rejections(result: Searched, limit_bytes: float) -> tuple[Rejected, ...]:
    return tuple(
        Rejected(candidate=_named(member.candidate), reason=rejection(member.memory, limit_bytes))
        for member in result.rejected
    )


def _named(candidate: Candidate) -> Candidate:
    """Return the candidate with the strategy's name that people use."""
    return msgspec.structs.replace(candidate, strategy=strategy_of(candidate))


def _choice(member: Examined, compared: Comparison, rate: float, warmup: int) -> Choice:
    candidate, chosen = member.candidate, compared.chosen
    is_chosen = member is chosen
    return Choice(
        strategy=strategy_of(candidate),
        program=compared.request.program.id,
        degrees=candidate.degrees,
        sharding=candidate.sharding_stage,
        schedule=candidate.schedule,
        micro_batch=candidate.micro_batch,
        grad_accum=candidate.grad_accum,
        global_batch=candidate.global_batch,
        activation_checkpointing=candidate.activation_checkpointing,
        recomputed_share=candidate.recomputed_share,
        precision=candidate.precision,
        learning_rate=rate,
        warmup_steps=warmup,
        predicted=predicted_of(member.job, member.memory, time_with_interval(member.job)),
        lost_because="" if is_chosen else lost_because(member, chosen, compared.limit_bytes),
        is_tie=not is_chosen and is_tie(member, chosen),
    )


def _require_sound(workload: Workload, cluster: Cluster, pins: Pins, program: Program) -> None:
    rate, warmup, ranks = pins.learning_rate, pins.warmup_steps, pins.ranks_per_node
    mistakes = (
        (
            workload.precision not in program.precisions,
            f"{program.title} does not train in {workload.precision}",
            f"precisions: {', '.join(program.precisions)}",
        ),
        (
            workload.tuning not in program.tunings,
            f"{program.title} has no {workload.tuning} training",
            f"it can train: {', '.join(program.tunings)}; --program names another program",
        ),
        (
            pins.strategy not in (None, *STRATEGIES),
            f"there is no strategy {(pins.strategy or '')[:60]!r}",
            f"strategies: {', '.join(STRATEGIES)}",
        ),
        (
            pins.micro_batch is not None and pins.micro_batch < 1,
            f"micro-batch {pins.micro_batch} is too small",
            "give at least 1",
        ),
        (
            rate is not None and not 0 < rate < math.inf,
            f"learning rate {rate} is not positive",
            "give a number above 0",
        ),
        (
            warmup is not None and not 0 <= warmup <= workload.steps,
            f"{warmup} warm-up steps do not fit in {workload.steps} steps",
            "give fewer",
        ),
        (
            ranks not in (None, cluster.ranks_per_node),
            f"{ranks} ranks per node are pinned, but the cluster was described with {cluster.ranks_per_node}",
            "describe the cluster with the pinned number",
        ),
    )
    for is_wrong, message, hint in mistakes:
        if is_wrong:
            raise UsageError(message, hint)
