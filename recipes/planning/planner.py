"""Plan of a job on a cluster: the best layout of a program, with its reasons, alternatives and rejections."""

import math

import msgspec

from probes.base.errors import NoFeasiblePlanError, UsageError
from probes.base.record import Unknown
from probes.facts import MachineFacts
from recipes.constants import constant
from recipes.environment.choosing_variables import environment_of
from recipes.environment.job_situation import Situation
from recipes.job.candidate import Candidate, Degrees, Offload
from recipes.job.models.counts import preset
from recipes.job.pins import Pins
from recipes.job.workload import (
    DEFAULT_ADAPTER_RANK,
    AnyWorkload,
    Optimizer,
    Precision,
    TransformerModel,
    Tuning,
    VisionWorkload,
    Workload,
    stored_bits,
)
from recipes.machine.cluster_records import Cluster
from recipes.planning.examined import Examined
from recipes.planning.layout_reasons import Comparison, is_tie, lost_because, not_searched
from recipes.planning.plan import Choice, Plan, Rejected
from recipes.planning.program_jobs import with_all_logits
from recipes.planning.programs import OWN, Program, program_named
from recipes.planning.reasons import decisions_of, memory_warning, rejection, tightest
from recipes.planning.refusals import nothing_legal, require_sound
from recipes.planning.search import neighbours, refusing, search_with_headroom
from recipes.planning.space import Request, divisors, strategy_of
from recipes.predict.job_prediction import memory_for, predicted_for
from recipes.predict.stacks import load_stacks
from recipes.predict.training_job import job_of
from recipes.settings.checkpointing import checkpoints_of, loading_warning
from recipes.settings.convergence import convergence_settings
from recipes.settings.recipe_choice import known_for, usual_samples
from recipes.settings.setting import NOTHING_STATED, Stated

_LONGEST_RUN = 10**9


def default_workload(
    model: TransformerModel,
    cluster: Cluster,
    *,
    global_batch: int | None = None,
    sequence_length: int | None = None,
    precision: Precision | None = None,
    steps: int | None = None,
    tokens: int | None = None,
    samples: int | None = None,
    tuning: Tuning = "full",
    adapter_rank: int | None = None,
    optimizer: Optimizer = "adamw",
    program: Program | None = None,
    fine_tuning: bool | None = None,
    stated: Stated = NOTHING_STATED,
    pins: Pins | None = None,
) -> Workload:
    """Return the job that the model's published recipe suggests, changed by the settings of the user.

    The default precision is that of `native_precision`. The recipe's batch in tokens becomes whole sequences,
    rounded to a number that the ranks can share with the pinned micro-batch. A batch that the user gives is
    never changed. Raises UsageError for impossible sizes, and if two of `steps`, `tokens` and `samples` are
    given.
    """
    fine_tunes = bool(fine_tuning) or tuning != "full"
    usual = (
        model.sequence_length
        if not fine_tunes
        else min(model.sequence_length, int(constant("tuning_length")))
    )
    length = usual if sequence_length is None else sequence_length
    lengths = {"tokens": tokens, "samples": samples, "steps": steps}
    given = [name for name, value in lengths.items() if value is not None]
    if len(given) > 1:
        raise UsageError(
            f"{given[0]} and {given[1]} both state the length of the run", f"give --{' or --'.join(given)}"
        )
    for name, value in (
        ("sequence length", length),
        ("global batch", global_batch),
        ("steps", steps),
    ):
        if value is not None and not 1 <= value <= _LONGEST_RUN:
            raise UsageError(f"{name} is {value}", f"give a whole number from 1 to {_LONGEST_RUN}")
    if model.learned_positions and length > model.learned_positions:
        # A model that is trained from scratch can have a longer table of positions.
        model = msgspec.structs.replace(model, learned_positions=length)
    program = program or program_named(OWN)
    memory = load_stacks()[program.stack_for(tuning)].memory
    precision = precision or native_precision(cluster, program)
    workload = Workload(
        model=model,
        sequence_length=length,
        global_batch=global_batch or 1,
        precision=precision,
        pure_weights=tuning != "full" and memory.pure_adapters and precision in ("bf16", "fp16"),
        tuning=tuning,
        base_bits=stored_bits(tuning),
        fine_tuning=fine_tunes,
        optimizer=optimizer,
        adapter_rank=adapter_rank or memory.adapter_rank or DEFAULT_ADAPTER_RANK,
    )
    if global_batch is None:
        global_batch = open_batch(workload, cluster, program, stated, pins)
    if steps is None:
        wanted = samples if tokens is None else tokens / length
        default = int(constant(f"default_steps_{cluster.device}"))
        steps = default if wanted is None else max(1, math.ceil(wanted / global_batch))
    return msgspec.structs.replace(workload, global_batch=global_batch, steps=steps)


def open_batch(
    workload: Workload, cluster: Cluster, program: Program, stated: Stated, pins: Pins | None = None
) -> int:
    """Return the sequences per step of a job whose batch the user does not give.

    A pinned micro-batch and accumulation together imply the batch.
    """
    usual, world = usual_batch(workload, program, stated), cluster.world_size
    if pins is not None and (multiple := pins.batch_multiple(world)) > world:
        is_implied = pins.micro_batch is not None and pins.grad_accum is not None
        return multiple if is_implied else shared_batch(usual, multiple)
    return shared_batch(usual, world, most_ranks_per_sequence(workload.model, cluster, program))


def usual_batch(workload: Workload, program: Program, stated: Stated) -> int:
    """Return the sequences per step of the recipe on which the job is based, whatever the number of ranks."""
    known = known_for(workload, stated, (program.id, *program.stacks))
    return max(1, round(usual_samples(known, workload.sequence_length, stated)))


def most_ranks_per_sequence(model: TransformerModel, cluster: Cluster, program: Program) -> int:
    """Return the largest number of ranks that can compute one sequence together.

    They divide its matrices (tensor parallelism) and its layers (pipeline), if the program can.
    """
    domain = cluster.domain_ranks or cluster.ranks_per_node
    tensor = math.gcd(min(domain, cluster.world_size), model.heads) if program.tensor else 1
    return tensor * (model.layers if program.schedules else 1)


def shared_batch(sequences: int, ranks: int, ranks_per_sequence: int = 1) -> int:
    """Return the number of sequences nearest to `sequences` that the ranks can share.

    If there are more ranks than sequences, groups of at most `ranks_per_sequence` ranks share one sequence.
    The number is then a multiple of a divisor of the ranks.
    """
    replicas = [size for size in divisors(ranks) if size * ranks_per_sequence >= ranks]
    multiple = max((size for size in replicas if size <= sequences), default=min(replicas))
    below = max(multiple, sequences // multiple * multiple)
    return min((below, below + multiple), key=lambda valid: (abs(valid - sequences), -valid))


def model_positions(model: TransformerModel) -> int:
    """Return the learned positions of the published model with this id, or else those of `model`."""
    return (preset(model.id) or model).learned_positions


def native_precision(cluster: Cluster, program: Program) -> Precision:
    """Return bf16 or fp16, the first that the program has and the device multiplies natively; else fp32."""
    if cluster.has_bf16 and "bf16" in program.precisions:
        return "bf16"
    has_half = (
        cluster.device == "cuda" and "fp16" in cluster.peak_flops_per_s and "fp16" in program.precisions
    )
    return "fp16" if has_half else "fp32"


def make_plan(
    workload: AnyWorkload,
    cluster: Cluster,
    facts: MachineFacts,
    pins: Pins,
    *,
    program: Program | None = None,
    headroom: float | None = None,
    offload: Offload | None = None,
    stated: Stated = NOTHING_STATED,
    chosen_only: bool = False,
    limit_s: float | None = None,
) -> Plan:
    """Return the best plan with its reasons, alternatives and rejected candidates.

    With `chosen_only`, the plan has the same layout with the same predictions, but no reasons, and not all
    alternatives and rejected candidates; this is faster.

    `headroom` is the part of a GPU's memory that stays free; None: the default, which a plan gives up, with a
    warning, if nothing fits otherwise. With `limit_s`, layouts whose step takes this time or longer are left
    out, and the error does not name what is missing. Raises UsageError if the program cannot train the job,
    or if pins contradict the machine, the program or each other. Raises NoFeasiblePlanError if nothing fits,
    or if the memory of the GPUs is unknown.
    """
    program = program or program_named(OWN)
    require_sound(workload, cluster, pins, program)
    limit = cluster.memory_bytes_per_rank
    if limit is None:
        raise NoFeasiblePlanError(
            f"the memory of {cluster.device_name} is unknown, so rigtune cannot decide what fits",
            "read it on the machine with `rigtune probe`, or name a catalogue machine with --machine",
        )
    request = request_of(workload, cluster, program, pins, offload)
    slowest = math.inf if limit_s is None else limit_s
    result, free = search_with_headroom(request, headroom, chosen_only=chosen_only, limit_s=slowest)
    if not result.ranked and limit_s is not None:
        raise NoFeasiblePlanError(f"no layout of {program.title} fits and is fast enough", "")
    if not result.ranked and chosen_only:  # the error names rejected layouts
        result, free = search_with_headroom(request, headroom)
    rejected = tuple(
        Rejected(candidate=_named(member.candidate), reason=rejection(member.memory, limit.value, free))
        for member in result.rejected
    )
    if not result.ranked:
        if not rejected:
            raise nothing_legal(request)
        message, hint = tightest(workload, cluster, result.rejected[0], pins, free)
        raise NoFeasiblePlanError(message, hint)
    settings = convergence_settings(workload, cluster, stated, pins, (program.id, *program.stacks))
    rate, warmup = settings.rate.value, int(settings.warmup.value)
    warm = pins.warmup_steps if pins.warmup_steps is not None else warmup
    usable = limit.value * (1 - free)
    first = result.ranked[0]
    compared = Comparison(
        request=request,
        chosen=first,
        others=(*result.ranked[1:], *result.rejected),
        inside=() if chosen_only else neighbours(request, first, refusing(usable)),
        limit_bytes=usable,
    )
    shown = result.ranked[:1] if chosen_only else result.ranked
    choices = [_choice(member, compared, rate, warm) for member in shown]
    variables, environment = environment_of(
        Situation(
            facts=facts,
            cluster=cluster,
            memory=choices[0].predicted.memory_bytes_per_gpu,
            program=program.id,
            degrees=choices[0].degrees,
            sharding=choices[0].sharding,
            is_image_job=isinstance(workload, VisionWorkload),
        )
    )
    warnings = [*cluster.warnings, *settings.warnings]
    if memory := memory_warning(choices[0].predicted.memory_bytes_per_gpu, cluster):
        warnings.append(memory)
    warnings += _position_warning(workload)
    if not program.runs_on(cluster):
        warnings.append(f"{program.title} does not support {cluster.device_name}, as far as rigtune knows")
    step = choices[0].predicted.step_time_s
    time = step.total
    if waiting := loading_warning(cluster, step.data, time):
        warnings.append(waiting)
    checkpoints, safety = checkpoints_of(workload, cluster, stated, time)
    warnings += [each.warning for each in safety if each.warning]
    if isinstance(time, Unknown):
        warnings.append(
            f"no step time: {time.detail or time} is unknown; ranked by memory and simplicity alone"
        )
    return Plan(
        workload=workload,
        cluster=cluster,
        chosen=choices[0],
        decisions=()
        if chosen_only
        else decisions_of(
            workload,
            cluster,
            pins,
            choices[0],
            compared,
            settings=settings,
            safety=safety,
            variables=variables,
            host=environment.host,
            free=free,
            asked=headroom,
        ),
        env=variables,
        optimization=settings.optimization,
        checkpoints=checkpoints,
        environment=environment,
        alternatives=tuple(choices[1:]),
        rejected=rejected,
        warnings=tuple(warnings),
        examined=result.examined,
        not_searched=not_searched(request),
    )


def missing_rate(
    workload: AnyWorkload, cluster: Cluster, pins: Pins, program: Program, stated: Stated
) -> UsageError | None:
    """Return the error about a learning rate that nobody knows for the job; None if a rate is known."""
    try:
        convergence_settings(workload, cluster, stated, pins, (program.id, *program.stacks))
    except UsageError as error:
        return error
    return None


def with_reasons(
    plan: Plan, facts: MachineFacts, pins: Pins, *, headroom: float | None, stated: Stated
) -> Plan:
    """Return a plan that `make_plan` made with `chosen_only`, with reasons, alternatives and rejections."""
    chosen = plan.chosen
    offload: Offload | None = "weights" if chosen.offload_weights else "states" if chosen.offload else None
    whole = make_plan(
        plan.workload,
        plan.cluster,
        facts,
        pins,
        program=program_named(chosen.program),
        headroom=headroom,
        offload=offload,
        stated=stated,
    )
    return msgspec.structs.replace(whole, warnings=plan.warnings)


def _position_warning(workload: AnyWorkload) -> tuple[str, ...]:
    """Return a warning about sequences that are longer than the positions that the model has learned."""
    if isinstance(workload, VisionWorkload):
        return ()
    known_positions = model_positions(workload.model)
    if known_positions >= workload.model.learned_positions:
        return ()
    return (
        f"{workload.model.id} learned {known_positions} positions: sequences of "
        f"{workload.sequence_length} need a larger table of positions, which must be trained",
    )


def request_of(
    workload: AnyWorkload, cluster: Cluster, program: Program, pins: Pins, offload: Offload | None = None
) -> Request:
    """Return the search request of a job: the program's stack, and a candidate with the other settings."""
    tuning = workload.tuning if isinstance(workload, Workload) else "full"
    stack = load_stacks()[program.stack_for(tuning)]
    base = Candidate(
        strategy="ddp",
        degrees=Degrees(),
        micro_batch=1,
        grad_accum=1,
        global_batch=workload.global_batch,
        activation_checkpointing="none",
        precision=workload.precision,
        offload=offload is not None,
        offload_weights=offload == "weights",
    )
    return Request(with_all_logits(workload, stack), cluster, stack, program, pins, base)


def _named(candidate: Candidate) -> Candidate:
    """Return the candidate, with its strategy under the name that people use."""
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
        offload=candidate.offload,
        offload_weights=candidate.offload_weights,
        host_bytes_per_node=_host_bytes(member),
        precision=candidate.precision,
        learning_rate=rate,
        warmup_steps=warmup,
        predicted=predicted_for(member.job, member.memory),
        lost_because="" if is_chosen else lost_because(member, compared),
        is_tie=not is_chosen and is_tie(member, chosen),
    )


def _host_bytes(member: Examined) -> float:
    """Return the memory of a node's host that holds offloaded states."""
    if not member.candidate.offload:
        return 0.0
    inside = msgspec.structs.replace(member.candidate, offload=False, offload_weights=False)
    job = member.job
    memory = memory_for(job_of(job.workload, inside, job.cluster, job.stack))
    moved = sum(
        getattr(memory, term) - getattr(member.memory, term)
        for term in ("parameters", "gradients", "optimizer")
    )
    return max(0.0, float(moved)) * job.cluster.ranks_per_node
