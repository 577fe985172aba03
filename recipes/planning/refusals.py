"""Requests without a plan: settings that contradict each other, and jobs for which no layout exists."""

import math

from probes.base.errors import UsageError
from probes.base.record import quoted
from probes.base.units import plural
from recipes.job.pins import Pins
from recipes.job.workload import AnyWorkload, VisionWorkload, Workload
from recipes.machine.cluster_records import Cluster
from recipes.planning.pin_conflicts import pin_conflict
from recipes.planning.programs import Program
from recipes.planning.space import STRATEGIES, Request, shapes
from recipes.predict.stacks import load_stacks


def require_sound(workload: AnyWorkload, cluster: Cluster, pins: Pins, program: Program) -> None:
    """Raise UsageError if the program cannot train the job, or if pins are impossible here."""
    rate, warmup, ranks = pins.learning_rate, pins.warmup_steps, pins.ranks_per_node
    tuning = workload.tuning if isinstance(workload, Workload) else "full"
    mode, share = pins.activation_checkpointing, pins.recomputed_share
    mistakes = (
        (
            isinstance(workload, VisionWorkload) and not program.trains_images,
            f"{program.title} does not train image models such as {workload.model.id}",
            "leave --program out, or name a program that does",
        ),
        (
            isinstance(workload, Workload) and workload.model.kind not in program.kinds,
            f"{program.title} does not train models such as {workload.model.id}",
            f"it trains {', '.join(program.kinds)} models; leave --program out, or name another program",
        ),
        (
            workload.precision not in program.precisions,
            f"{program.title} does not train in {workload.precision}",
            f"precisions: {', '.join(program.precisions)}",
        ),
        (
            tuning not in program.tunings,
            f"{program.title} has no {tuning} training",
            f"it can train: {', '.join(program.tunings)}; --program names another program",
        ),
        (
            pins.strategy not in (None, *STRATEGIES),
            f"there is no strategy {quoted(pins.strategy or '')}",
            f"strategies: {', '.join(STRATEGIES)}",
        ),
        (
            pins.micro_batch is not None and pins.micro_batch < 1,
            f"micro-batch {pins.micro_batch} is too small",
            "give at least 1",
        ),
        (
            share is not None and not 0 < share <= 1,
            f"recomputed share {share} is not a valid part of the layers",
            "give a number above 0 and at most 1",
        ),
        (
            mode is not None and mode not in program.checkpointing,
            f"{program.title} has no layout with activation-checkpointing {mode}",
            f"it has: {', '.join(program.checkpointing)}",
        ),
        (
            share is not None and mode not in (None, "full"),
            f"recomputed-share {share} is pinned with activation-checkpointing {mode}",
            "recomputed-share needs activation-checkpointing full",
        ),
        (
            share not in (None, 1.0) and not load_stacks()[program.stack_for(tuning)].recomputes_part,
            f"{program.title} has no layout with recomputed-share {share}",
            "it recomputes every layer or none",
        ),
        (
            rate is not None and not 0 < rate < math.inf,
            f"learning rate {rate} is not positive",
            "give a number above 0",
        ),
        (
            warmup is not None and not 0 <= warmup <= workload.steps,
            f"{plural(warmup or 0, 'warm-up step')}: too many for a run of {plural(workload.steps, 'step')}",
            "give fewer",
        ),
        (
            ranks not in (None, cluster.ranks_per_node),
            f"the pins state {plural(ranks or 0, 'rank')} per node, but the cluster was described "
            f"with {cluster.ranks_per_node}",
            "describe the cluster with the pinned number",
        ),
    )
    for is_wrong, message, hint in mistakes:
        if is_wrong:
            raise UsageError(message, hint)


class NoLayoutError(UsageError):
    """The program has no layout for the number of ranks, the batch and the pins."""


def nothing_legal(request: Request) -> NoLayoutError:
    """Return the error for a request without a single layout: the batch or a pin allows none."""
    workload, cluster, pins = request.workload, request.cluster, request.pins
    fixed = {
        name: value
        for name in (
            "strategy",
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
            "activation_checkpointing",
            "recomputed_share",
        )
        if (value := getattr(pins, name)) is not None
    }
    unpinned = request._replace(pins=Pins())
    if fixed and any(True for _ in shapes(unpinned)):
        words = ", ".join(f"{name.replace('_', '-')} {value}" for name, value in fixed.items())
        return NoLayoutError(
            f"{request.program.title} has no layout with {words} for {workload.model.id} on "
            f"{plural(cluster.world_size, 'rank')} and a global batch of {workload.global_batch}",
            pin_conflict(request)
            or f"change a pin, the batch or the program: degrees must divide {_sizes(request)}",
        )
    multiple = cluster.world_size * (pins.micro_batch or 1)
    nearest = " or ".join(str(valid) for valid in nearest_global_batches(workload.global_batch, multiple))
    pinned = f" x micro-batch {pins.micro_batch}" if pins.micro_batch else ""
    return NoLayoutError(
        f"global batch {workload.global_batch} cannot be shared by {cluster.world_size} ranks{pinned}",
        f"choose a global batch of {nearest}, or another number of ranks",
    )


def _sizes(request: Request) -> str:
    model = request.model
    if model is None:
        return "the ranks and the batch; an image model can be divided only by dp and fsdp"
    return f"the ranks, the batch, {model.layers} layers and {model.heads} heads"


def nearest_global_batches(global_batch: int, multiple: int) -> tuple[int, ...]:
    """Return the nearest valid global batches below and above, at least one of them.

    Valid batches are multiples of the number of ranks (times a pinned micro-batch).
    """
    below = global_batch // multiple * multiple
    return (below, below + multiple) if below else (multiple,)
