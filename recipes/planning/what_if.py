"""Answers to what-if questions: the same job with more nodes, on other hardware, or on another machine.

The function `answer` answers each question, with different inputs.
"""

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

import msgspec

from probes.base.errors import NoFeasiblePlanError, UsageError
from probes.base.record import Reason, Record, Unknown
from recipes.constants import constant
from recipes.job.workload import AnyWorkload, Workload
from recipes.machine.cluster_records import Cluster
from recipes.machine.scaled_rates import with_figures, with_node_links
from recipes.planning.layout_words import describe
from recipes.planning.plan import Plan

SCHEMA_VERSION = 1


class Answer(Record, kw_only=True):
    """The plan of one variant in numbers, or the reason why it has none."""

    label: str
    """Variant, such as `8 nodes`, `network x 1.1` or the name of a machine."""
    machine: str
    """Title of the machine; empty if there is no plan."""
    nodes: int
    gpus: int
    """GPUs (on a CPU: ranks) that the plan uses."""
    layout: str
    """Layout in words; empty if there is no plan."""
    reason: str
    """Reason why there is no plan; empty if there is one."""
    global_batch: int
    step_time_s: float | Unknown
    tokens_per_s: float | Unknown
    """Tokens per second of all GPUs; images per second if `items` is `images`."""
    hours: float | Unknown
    """Hours of the run, without failures."""
    gpu_hours: float | Unknown
    cost: float | Unknown | None
    """Price of the run; None without a price, without a plan, or if the length of the run is unknown."""
    items: Literal["tokens", "images"] = "tokens"
    """Items that `tokens_per_s` counts."""


Planning = Callable[[], Plan]


def answer(label: str, planning: Planning) -> Answer:
    """Return the numbers of a plan, or the reason why there is none."""
    try:
        plan = planning()
    except (NoFeasiblePlanError, UsageError) as error:
        missing = Unknown(Reason.NOT_SUPPORTED, "there is no plan")
        return Answer(
            label=label, machine="", nodes=0, gpus=0, layout="", reason=str(error), global_batch=0,
            step_time_s=missing, tokens_per_s=missing, hours=missing, gpu_hours=missing, cost=None,
        )  # fmt: skip
    time, run = plan.chosen.predicted.step_time_s.total, plan.run
    unknown = Unknown(Reason.NOT_RECORDED, "the run has no known length")
    return Answer(
        label=label,
        machine=plan.cluster.title,
        nodes=plan.cluster.nodes,
        gpus=plan.cluster.world_size,
        layout=describe(plan.chosen),
        reason="",
        global_batch=plan.workload.global_batch,
        step_time_s=time,
        tokens_per_s=time if isinstance(time, Unknown) else _units_per_step(plan.workload) / time,
        hours=unknown if run is None else run.hours,
        gpu_hours=unknown if run is None else run.gpu_hours,
        cost=None if run is None else run.cost,
        items="tokens" if isinstance(plan.workload, Workload) else "images",
    )


def _units_per_step(workload: AnyWorkload) -> int:
    """Return the tokens of a step, or the images of a step of an image model."""
    return workload.tokens_per_step if isinstance(workload, Workload) else workload.global_batch


def is_clear_gain(speed_up: float) -> bool:
    """Return whether predictions can distinguish a speed-up (0.25: a quarter faster) from none."""
    return speed_up > constant("layout_tie")


class ScalingPoint(Record, kw_only=True):
    """One size of a scaling curve."""

    nodes: int
    """Number of nodes of the machine; a plan may use fewer."""
    answer: Answer
    efficiency: float | Unknown
    """Tokens per second and GPU, relative to the smallest size that has a plan."""
    marginal_efficiency: float | Unknown
    """Tokens per second of each GPU added since the size before, relative to a GPU of the smallest size."""


class ScalingCurve(Record, kw_only=True):
    """The same job on more and more nodes."""

    schema_version: int = SCHEMA_VERSION
    points: tuple[ScalingPoint, ...]
    threshold: float
    """Marginal efficiency below which more nodes stop paying."""
    pays_until_nodes: int | None
    """Largest number of nodes, in the order of the curve, before an addition stops paying; None without a
    known speed.
    """
    stops_at_nodes: int | None
    """First number of nodes that does not pay; None if all sizes pay."""


def scaling_curve(answers: Iterable[tuple[int, Answer]]) -> ScalingCurve:
    """Return the curve of answers by ascending number of nodes, and the size at which more stop paying."""
    threshold = constant("paying_efficiency")
    points: list[ScalingPoint] = []
    first: tuple[int, float] | None = None
    before: tuple[int, float] = (0, 0.0)
    pays_until: int | None = None
    stops_at: int | None = None
    for nodes, row in answers:
        speed = row.tokens_per_s
        if isinstance(speed, Unknown):
            points.append(ScalingPoint(nodes=nodes, answer=row, efficiency=speed, marginal_efficiency=speed))
            continue
        first = first or (row.gpus, speed)
        per_gpu = first[1] / first[0]
        added = row.gpus - before[0]
        marginal = (speed - before[1]) / added / per_gpu if added else 0.0
        points.append(
            ScalingPoint(
                nodes=nodes,
                answer=row,
                efficiency=speed / row.gpus / per_gpu,
                marginal_efficiency=marginal,
            )
        )
        before = (row.gpus, speed) if added else before
        if stops_at is None and marginal < threshold:
            stops_at = nodes
        elif stops_at is None:
            pays_until = nodes
    return ScalingCurve(
        points=tuple(points), threshold=threshold, pays_until_nodes=pays_until, stops_at_nodes=stops_at
    )


class Change(Record, kw_only=True):
    """Effect of a changed hardware number on a plan that is made again."""

    name: str
    """Hardware number, such as `network bandwidth`."""
    more: Answer
    """Answer with 10 % more, or with one GPU fewer per node."""
    gain: float | Unknown
    """Relative gain of `more` in tokens per second."""
    twice: Answer | None
    """Answer with twice as much; None for a change that has no double."""
    twice_gain: float | Unknown | None


class Sensitivity(Record, kw_only=True):
    """The effect of each hardware number on a plan."""

    schema_version: int = SCHEMA_VERSION
    base: Answer
    """Answer without a change and without a measured step, which would hide the changes."""
    changes: tuple[Change, ...]
    best_change: str
    """Hardware number whose double gains most, or makes the job fit; empty if no double gains at least 0.5 %.
    """
    best_gain: float | Unknown
    """Gain of `best_change`, 0 if it is empty; Unknown if the job does not fit without this change."""
    best_other_change: str
    """Hardware number whose double gains most, without the rates of products and attention; empty if none."""
    best_other_gain: float | Unknown


class Comparison(Record, kw_only=True):
    """The same job on several machines."""

    schema_version: int = SCHEMA_VERSION
    answers: tuple[Answer, ...]
    """The machine of the plan first."""
    speed: tuple[float | Unknown, ...]
    """Tokens per second relative to the first machine."""


Variation = Callable[[Cluster], Cluster]
"""Change of a machine."""


class Knob(NamedTuple):
    """A hardware number that can be larger."""

    name: str
    scaled: Callable[[Cluster, float], Cluster]


def _figures(name: str) -> Callable[[Cluster, float], Cluster]:
    """Return a function that multiplies this figure of a machine."""
    return lambda cluster, factor: with_figures(cluster, factor, name)


def _matrix(cluster: Cluster, factor: float) -> Cluster:
    """Return the cluster with faster matrix products; attention keeps its rate."""
    rates = {
        name: {key: figure.times(factor) for key, figure in getattr(cluster, name).items()}
        for name in ("flops_per_s", "peak_flops_per_s")
    }
    kept = cluster.attention_factor if cluster.attention_rates else cluster.attention_factor / factor
    return msgspec.structs.replace(cluster, **rates, attention_factor=kept)


def _attention(cluster: Cluster, factor: float) -> Cluster:
    return msgspec.structs.replace(cluster, attention_factor=cluster.attention_factor * factor)


NODE_LINKS = "link bandwidth inside the node"
NETWORK = "network bandwidth"
KNOBS = (
    Knob("matrix rate", _matrix),
    Knob("attention rate", _attention),
    Knob("memory bandwidth", _figures("memory_bandwidth_bytes_per_s")),
    Knob("memory size", _figures("memory_bytes_per_rank")),
    Knob(NODE_LINKS, with_node_links),
    Knob(NETWORK, _figures("inter_bus_bandwidth_bytes_per_s")),
)
"""Hardware numbers whose effect `sensitivity` computes."""
_GPU_RATES = ("matrix rate", "attention rate")
FEWER = "one GPU fewer per node"
MORE = 1.1
TWICE = 2.0
LEAST_GAIN = 0.005
"""Smallest gain for which a change is named."""


PlanWith = Callable[[Variation], Plan]
"""Function that plans the job on the machine that a variation returns."""


def sensitivity(plan_with: PlanWith) -> Sensitivity:
    """Return the effect of 10 % more and of twice each hardware number, and of one GPU fewer per node.

    Links that the plan does not use are left out. Every change has a search of its own. Measured steps are
    ignored: they would scale every variant to the measured time.
    """

    def asked(label: str, change: Variation) -> Answer:
        return answer(label, lambda: plan_with(lambda cluster: change(_unanchored(cluster))))

    def scaled(knob: Knob, factor: float) -> Answer:
        return asked(f"{knob.name} x {factor:g}", lambda cluster: knob.scaled(cluster, factor))

    base = asked("as it is", lambda cluster: cluster)
    changes = []
    for knob in KNOBS:
        if base.gpus and not _has(knob, base):
            continue
        more, twice = scaled(knob, MORE), scaled(knob, TWICE)
        changes.append(
            Change(
                name=knob.name,
                more=more,
                gain=_gain(more, base),
                twice=twice,
                twice_gain=_gain(twice, base),
            )
        )
    if base.gpus > base.nodes:
        fewer = asked(FEWER, _one_fewer)
        gain = _gain(fewer, base)
        changes.append(Change(name=FEWER, more=fewer, gain=gain, twice=None, twice_gain=None))
    best = _best(changes, base)
    other = _best([change for change in changes if change.name not in _GPU_RATES], base)
    return Sensitivity(
        base=base,
        changes=tuple(changes),
        best_change=best[0],
        best_gain=best[1],
        best_other_change=other[0],
        best_other_gain=other[1],
    )


def _has(knob: Knob, base: Answer) -> bool:
    """Return whether the plan uses the part that the knob changes."""
    if knob.name == NETWORK:
        return base.nodes > 1
    return knob.name != NODE_LINKS or base.gpus > base.nodes


def _unanchored(cluster: Cluster) -> Cluster:
    return msgspec.structs.replace(cluster, anchors=(), image_anchors=())


def _one_fewer(cluster: Cluster) -> Cluster:
    """Return the cluster with one GPU fewer per node; what was measured over all ranks no longer applies."""
    ranks = max(1, cluster.ranks_per_node - 1)
    return msgspec.structs.replace(cluster, ranks_per_node=ranks, collective_fits={})


def _best(changes: list[Change], base: Answer) -> tuple[str, float | Unknown]:
    """Return the change whose double gains most, and its gain; without a plan, the first that fits."""
    doubled = [change for change in changes if change.twice is not None and change.twice.layout]
    if not base.layout and doubled:
        return doubled[0].name, Unknown(Reason.NOT_SUPPORTED, "there is no plan without it")
    best = max(doubled, key=lambda change: _number(change.twice_gain), default=None)
    gain = 0.0 if best is None else _number(best.twice_gain)
    return ("", 0.0) if best is None or gain < LEAST_GAIN else (best.name, gain)


def comparison(answers: tuple[Answer, ...]) -> Comparison:
    """Return the answers side by side; the first is the reference."""
    return Comparison(answers=answers, speed=tuple(_ratio(row, answers[0]) for row in answers))


def _ratio(row: Answer, base: Answer) -> float | Unknown:
    if isinstance(row.tokens_per_s, Unknown):
        return row.tokens_per_s
    return (
        base.tokens_per_s if isinstance(base.tokens_per_s, Unknown) else row.tokens_per_s / base.tokens_per_s
    )


def _gain(row: Answer, base: Answer) -> float | Unknown:
    ratio = _ratio(row, base)
    return ratio if isinstance(ratio, Unknown) else ratio - 1


def _number(gain: float | Unknown | None) -> float:
    return gain if isinstance(gain, float) else 0.0
