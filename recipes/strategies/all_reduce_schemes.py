"""Other ways to reduce the same gradients: in two levels, or in buffers of another size."""

import math

from probes.base.record import Unknown, value_or
from probes.base.units import duration, plural
from recipes.job.models.blocks import blocks_of
from recipes.machine.cluster_records import Cluster
from recipes.predict.speed.collectives import Collective, Group, collective_time_s, world_group
from recipes.predict.speed.communication import beside, exposed_share
from recipes.predict.training_job import ImageJob
from recipes.strategies.compression import gradient_bytes, sent_bytes
from recipes.strategies.strategy_table import Strategy
from recipes.strategies.verdicts import (
    Situation,
    Verdict,
    inapplicable,
    judged,
    missing_setting,
    saving,
    undecided,
)

_BACKWARD = 2 / 3
"""Share of the backward pass in the computation: two of three matrix products of equal size."""
_TIMES = (1, 2, 5, 10, 25, 50)
"""Multiples of the default that are tried."""
_WEIGHT_BYTES = 2.0


def in_two_levels(strategy: Strategy, here: Situation) -> Verdict:
    """Judge an all-reduce in two levels: reduce inside each node, then between nodes, then gather inside.

    NCCL's own rings and trees cross the network once per node too. Two levels win where a single ring has
    many hops, because reduce-scatter and all-gather have no tree.
    """
    cluster, chosen = here.cluster, here.plan.chosen
    if cluster.nodes == 1 or cluster.ranks_per_node == 1:
        return inapplicable(strategy, here, "it needs several nodes with several ranks each")
    degrees = chosen.degrees
    if chosen.sharding == "zero3" or degrees.tp * degrees.pp * degrees.cp > 1:
        return inapplicable(
            strategy, here, f"not every rank reduces the same gradients: the plan is {chosen.strategy}"
        )
    if missing := missing_setting(strategy, here):
        return inapplicable(strategy, here, missing)
    size = gradient_bytes(here.job)
    flat, nested = _flat_s(size, here), _nested_s(size, cluster)
    because = (
        f"one all-reduce of the gradients over {cluster.world_size} ranks takes {duration(flat)}, "
        f"in two levels {duration(nested)}"
    )
    return saving(strategy, here, _visible_s(flat, here) - _visible_s(nested, here), because)


def _flat_s(size: float, here: Situation) -> float:
    group, cluster = world_group(here.cluster), here.cluster
    if here.plan.chosen.sharding == "none":
        return collective_time_s("all_reduce", size, group, cluster)
    sent = sent_bytes(here.job)
    gathered = collective_time_s("all_gather", size * _WEIGHT_BYTES / sent, group, cluster)
    return collective_time_s("reduce_scatter", size, group, cluster) + gathered


def _nested_s(size: float, cluster: Cluster) -> float:
    inside = Group(ranks=cluster.ranks_per_node, nodes=1)
    between = Group(ranks=cluster.nodes, nodes=cluster.nodes)
    collectives: tuple[Collective, ...] = ("reduce_scatter", "all_gather")
    ends = sum(collective_time_s(collective, size, inside, cluster) for collective in collectives)
    return ends + collective_time_s("all_reduce", size / cluster.ranks_per_node, between, cluster)


def other_buffers(strategy: Strategy, here: Situation) -> Verdict:
    """Judge another size of Horovod's fusion buffer, or another cycle time.

    In each cycle Horovod reduces the gradients that are ready, in one message for each full buffer. More
    messages cost more latency; the last message waits for half a cycle on average. The gain is relative to
    the defaults.
    """
    if here.cluster.world_size == 1:
        return inapplicable(strategy, here, "there is one rank, so no gradient travels")
    if missing := missing_setting(strategy, here):
        return inapplicable(strategy, here, missing)
    job = here.job
    if isinstance(job, ImageJob):
        return undecided(strategy, here, "the number of weight tensors is not in the table of image models")
    if isinstance(here.total_s, Unknown):
        return undecided(strategy, here, here.total_s)
    blocks = blocks_of(job.workload.model)
    tensors = sum(block.count * (len(block.products) + block.norms) for block in blocks)
    threshold, cycle = strategy.figure("threshold_bytes"), strategy.figure("cycle_s")
    is_cycle = strategy.id.endswith("cycle-time")
    options = [
        (times, *((threshold, times * cycle) if is_cycle else (times * threshold, cycle))) for times in _TIMES
    ]
    numbers = {times: _messages(here, tensors, limit, length) for times, limit, length in options}
    costs = {times: _messages_s(here, numbers[times], length) for times, _, length in options}
    best = min(costs, key=lambda times: costs[times])
    # The plan's step time assumes few large messages. The gain is therefore relative to a step with Horovod's
    # default settings, not to the plan.
    rest = here.total_s - here.exposed_s
    before = rest + costs[1]
    gain = min((costs[1] - costs[best]) / before, here.exposed_s / here.total_s)
    because = (
        f"with the defaults: {plural(round(numbers[1]), 'message')} per step, {duration(costs[1])} visible, "
        f"{duration(before)} per step"
    )
    if best == 1:
        return judged(strategy, here, 0.0, before, (because, f"no multiple up to {_TIMES[-1]} is faster"))
    value = f"{best * cycle * 1000:g} ms" if is_cycle else f"{best * threshold / 2**20:g} MiB"
    fastest = (
        f"fastest of the values tried: {value}, {plural(round(numbers[best]), 'message')}, "
        f"{duration(costs[best])} visible"
    )
    return judged(strategy, here, gain, before * (1 - gain), (because, fastest))


def _messages(here: Situation, tensors: float, threshold: float, cycle_s: float) -> float:
    """Return the messages of a step: one per cycle with ready gradients, or one per full buffer."""
    size = gradient_bytes(here.job)
    return max(math.ceil(size / threshold), min(tensors, math.ceil(_backward_s(here) / cycle_s)))


def _messages_s(here: Situation, messages: float, cycle_s: float) -> float:
    """Return the visible time of the messages, with the wait for the last cycle."""
    cluster, size = here.cluster, gradient_bytes(here.job)
    whole = messages * collective_time_s("all_reduce", size / messages, world_group(cluster), cluster)
    return _visible_s(whole, here) + cycle_s / 2


def _backward_s(here: Situation) -> float:
    """Return the seconds of one backward pass, during which gradients are sent."""
    return _BACKWARD * value_or(here.time.compute, 0.0) / here.plan.chosen.grad_accum


def _visible_s(communication_s: float, here: Situation) -> float:
    """Return the part of the gradients' communication that the backward pass does not hide."""
    return beside(communication_s, _backward_s(here), exposed_share(here.cluster, "time.gradient_exposed"))
