"""Choice of how a workload runs on a cluster.

The planner lists candidates, drops candidates that do not fit, and predicts, ranks and explains the other
candidates.
"""

import math
from collections.abc import Iterator

from probes.base.errors import NoFeasiblePlanError, UsageError
from probes.base.record import Record, Unknown, value_or
from probes.facts import MachineFacts
from recipes.constants import constant
from recipes.job.candidate import Candidate
from recipes.job.workload import PLANNED_PRECISIONS, Pins, Precision, TransformerModel, Workload
from recipes.machine.cluster_records import Cluster
from recipes.planning.environment_rules import environment
from recipes.planning.learning_rate import learning_rate, warmup_steps
from recipes.planning.plan import Choice, Plan, Rejected
from recipes.planning.reasons import decisions_of, memory_warning, rejection, tightest
from recipes.planning.strategy_table import STRATEGIES, require_divisible, round_global_batch
from recipes.predict.breakdowns import Predicted
from recipes.predict.candidate_prediction import predict, predict_memory

_LONGEST_RUN = 10**9


def default_workload(
    model: TransformerModel,
    cluster: Cluster,
    *,
    global_batch: int | None = None,
    sequence_length: int | None = None,
    precision: Precision | None = None,
    steps: int | None = None,
) -> Workload:
    """Return the job that the model's published recipe suggests, changed by the settings of the user.

    The default precision is bf16 if the device multiplies it natively, otherwise fp32. The recipe's batch in
    tokens becomes whole sequences, rounded to a number that the ranks can share. A batch that the user gives
    is never changed. Raises UsageError for impossible sizes.
    """
    length = model.sequence_length if sequence_length is None else sequence_length
    steps = int(constant(f"default_steps_{cluster.device}")) if steps is None else steps
    for name, value in (("sequence length", length), ("global batch", global_batch or 1), ("steps", steps)):
        if not 1 <= value <= _LONGEST_RUN:
            raise UsageError(f"{name} is {value}", f"give a whole number from 1 to {_LONGEST_RUN}")
    if model.learned_positions and length > model.learned_positions:
        raise UsageError(
            f"sequence length {length} exceeds the {model.learned_positions} learned positions of {model.id}",
            f"give at most {model.learned_positions}, or choose a model with rotary positions",
        )
    if global_batch is None:
        published = max(1, round(model.learning_rate_batch_tokens / length))
        global_batch = round_global_batch(published, cluster.world_size)
    chosen: Precision = precision or ("bf16" if cluster.has_bf16 else "fp32")
    return Workload(
        model=model, sequence_length=length, global_batch=global_batch, precision=chosen, steps=steps
    )


class Fitting(Record, kw_only=True):
    """A candidate that fits, with its prediction."""

    candidate: Candidate
    predicted: Predicted

    @property
    def step_time_s(self) -> float | Unknown:
        return self.predicted.step_time_s.total


def make_plan(workload: Workload, cluster: Cluster, facts: MachineFacts, pins: Pins) -> Plan:
    """Return the best plan with its reasons, alternatives and rejected candidates.

    Raises UsageError if pins contradict the machine or each other, NoFeasiblePlanError if nothing fits.
    """
    _require_sound(workload, cluster, pins)
    limit = cluster.memory_bytes_per_rank
    if limit is None:
        raise NoFeasiblePlanError(
            f"the memory of {cluster.device_name} is unknown, so rigtune cannot decide what fits",
            "read it on the machine with `rigtune probe`, or name a catalogue machine with --machine",
        )
    fitting: list[Fitting] = []
    rejected: list[Rejected] = []
    for strategy in STRATEGIES:
        if pins.strategy in (None, strategy.id):
            candidates = strategy.candidates(workload, cluster, pins)
            _sift(candidates, workload, cluster, fitting, rejected, is_pinned=pins.micro_batch is not None)
    if not fitting:
        message, hint = tightest(workload, cluster, tuple(rejected), pins)
        raise NoFeasiblePlanError(message, hint)
    ranked = rank(fitting, workload, cluster)
    rate, warmup = learning_rate(workload), warmup_steps(workload)
    warm = pins.warmup_steps if pins.warmup_steps is not None else int(warmup.value)
    choices = [_choice(candidate, pins.learning_rate or rate.value, warm) for candidate in ranked]
    variables = environment(facts, cluster, ranked[0].predicted.memory_bytes_per_gpu)
    warnings = [*cluster.warnings, *([rate.warning] if rate.warning else [])]
    if memory := memory_warning(choices[0].predicted.memory_bytes_per_gpu, cluster):
        warnings.append(memory)
    time = ranked[0].step_time_s
    if isinstance(time, Unknown):
        warnings.append(
            f"no step time: {time.detail or time} is unknown; ranked by memory and simplicity alone"
        )
    return Plan(
        workload=workload,
        cluster=cluster,
        chosen=choices[0],
        decisions=decisions_of(
            workload, cluster, pins, choices, rate=rate, warmup=warmup, variables=variables
        ),
        env=variables,
        alternatives=tuple(choices[1:]),
        rejected=tuple(rejected),
        warnings=tuple(warnings),
    )


def _require_sound(workload: Workload, cluster: Cluster, pins: Pins) -> None:
    strategies = [row.id for row in STRATEGIES]
    rate, warmup, ranks = pins.learning_rate, pins.warmup_steps, pins.ranks_per_node
    mistakes = (
        (
            workload.precision not in PLANNED_PRECISIONS,
            f"{workload.precision} cannot be planned for",
            f"precisions: {', '.join(PLANNED_PRECISIONS)}",
        ),
        (
            pins.strategy not in (None, *strategies),
            f"there is no strategy {(pins.strategy or '')[:60]!r}",
            f"strategies: {', '.join(strategies)}",
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
    require_divisible(workload, cluster, pins)


def _sift(
    candidates: Iterator[Candidate],
    workload: Workload,
    cluster: Cluster,
    fitting: list[Fitting],
    rejected: list[Rejected],
    *,
    is_pinned: bool,
) -> None:
    """Divide candidates into `fitting` and `rejected` by the upper bound of their memory.

    A micro-batch that the user fixed needs no margin. Micro-batches come in ascending order: after the first
    candidate that does not fit, larger micro-batches of the same kind are skipped.
    """
    limit = cluster.memory_bytes_per_rank
    full: set[tuple[str, str]] = set()
    for candidate in candidates:
        kind = (candidate.strategy, candidate.activation_checkpointing)
        if kind in full:
            continue
        memory = predict_memory(workload, candidate, cluster)
        if limit is not None and (memory.needed if is_pinned else memory.upper) > limit.value:
            full.add(kind)
            rejected.append(Rejected(candidate=candidate, reason=rejection(memory, limit.value)))
        else:
            fitting.append(Fitting(candidate=candidate, predicted=predict(workload, candidate, cluster)))


def rank(fitting: list[Fitting], workload: Workload, cluster: Cluster) -> list[Fitting]:
    """Return the candidates with the best first, one per strategy and checkpointing mode.

    Candidates are ordered by step time; if two times are nearly equal, the simpler candidate comes first.
    Times of different kinds are nearly equal if they differ by less than the models' error; times of one
    kind, if they differ by less than the repeatability of a measurement. A strategy that is listed earlier is
    simpler, and so is less recomputation. Within a kind the largest micro-batch that does not exceed
    saturation comes first. If no time is known, all times are treated as equal.
    """
    kinds: dict[tuple[str, str], list[Fitting]] = {}
    for member in fitting:
        kinds.setdefault((member.candidate.strategy, member.candidate.activation_checkpointing), []).append(
            member
        )
    best = [_best_micro_batch(members, workload, cluster) for members in kinds.values()]
    best.sort(key=lambda member: (_seconds(member), _simplicity(member)))
    ranked: list[Fitting] = []
    while best:
        fastest = _seconds(best[0])
        ties = [member for member in best if _is_tie(_seconds(member), fastest, constant("modelled_tie"))]
        simplest = min(ties, key=_simplicity)
        ranked.append(simplest)
        best.remove(simplest)
    return ranked


def _seconds(member: Fitting) -> float:
    return value_or(member.step_time_s, math.inf)


def _is_tie(seconds: float, fastest: float, tolerance: float) -> bool:
    return seconds == fastest or seconds <= fastest * (1 + tolerance)


def _simplicity(member: Fitting) -> tuple[int, int]:
    order = [row.id for row in STRATEGIES]
    return order.index(member.candidate.strategy), int(member.candidate.activation_checkpointing == "full")


def _best_micro_batch(members: list[Fitting], workload: Workload, cluster: Cluster) -> Fitting:
    saturation = constant(f"saturation_tokens_{cluster.device}")
    fastest = min(_seconds(member) for member in members)
    ties = [member for member in members if _is_tie(_seconds(member), fastest, constant("near_tie"))]
    modest = [
        member for member in ties if member.candidate.micro_batch * workload.sequence_length <= saturation
    ]
    if modest:
        return max(modest, key=lambda member: member.candidate.micro_batch)
    return min(ties, key=lambda member: member.candidate.micro_batch)


def _choice(fitting: Fitting, rate: float, warmup: int) -> Choice:
    shared = {
        name: getattr(fitting.candidate, name)
        for name in Choice.__struct_fields__
        if hasattr(fitting.candidate, name)
    }
    return Choice(**shared, learning_rate=rate, warmup_steps=warmup, predicted=fitting.predicted)
