"""Changes that make a request feasible. Each is tried in a search of its own; the smallest that help are
named.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from probes.base.units import plural
from recipes.job.pins import Pins
from recipes.job.workload import Tuning, Workload, stored_bits
from recipes.machine.cluster_records import Cluster
from recipes.planning.planner import open_batch, request_of
from recipes.planning.programs import Program, load_programs, trains
from recipes.planning.search import refusing, search
from recipes.settings.setting import Stated

_MOST_TIMES = 1024
"""Largest factor on the number of nodes that is tried."""
_SHORTEST = 512
"""Shortest sequence that is suggested, in tokens."""
_NOT_LAYOUT = ("learning_rate", "warmup_steps", "ranks_per_node")
"""Pins that have no influence on what fits, or that describe the machine."""
_DROPPED = {
    "strategy ddp": "let FSDP share the states (drop the pinned ddp)",
    "activation_checkpointing none": "allow activation checkpointing (drop the pinned none)",
}
"""Descriptions of the removal of a pin that state its effect; other pins are named only."""


class Asked(NamedTuple):
    """The parts of a request that the user can change."""

    workload: Workload
    cluster: Cluster
    pins: Pins
    program: Program
    headroom: float | None
    stated: Stated | None = None
    """Knowledge from which the plan chose the batch; None if the user gave the batch."""

    @property
    def fits(self) -> bool:
        """Return whether a layout fits; the default headroom is given up if nothing fits otherwise."""
        request, limit = request_of(self.workload, self.cluster, self.program, self.pins), math.inf
        if self.cluster.memory_bytes_per_rank is not None:
            limit = self.cluster.memory_bytes_per_rank.value * (1 - (self.headroom or 0.0))
        return bool(search(request, refusing(limit), alternatives=0).ranked)

    def with_nodes(self, nodes: int) -> "Asked":
        """Return the request on this number of nodes, with the next batch that all ranks can share."""
        cluster = msgspec.structs.replace(self.cluster, nodes=nodes)
        if self.stated is not None:
            return self._replace(cluster=cluster).with_open_batch()
        ranks = cluster.world_size
        batch = -(-self.workload.global_batch // ranks) * ranks
        return self._replace(
            cluster=cluster, workload=msgspec.structs.replace(self.workload, global_batch=batch)
        )

    def with_open_batch(self) -> "Asked":
        """Return the request with the batch that a plan of it would choose; a batch of the user's stays."""
        if self.stated is None:
            return self
        batch = open_batch(self.workload, self.cluster, self.program, self.stated, self.pins)
        return self._replace(workload=msgspec.structs.replace(self.workload, global_batch=batch))


class _Change(NamedTuple):
    words: str
    asked: Asked


_Kind = Callable[[Asked], Iterator[_Change]]
"""Function that yields the changes of one kind, the smallest first."""


def helpful_changes(asked: Asked) -> list[str]:
    """Return the smallest change of each kind that makes the job fit, with its number, such as `8 nodes`.

    If no single change helps, the result has the first combinations of two changes that do.
    """
    single = [words for kind in _KINDS if (words := _smallest(kind, asked))]
    if single:
        return single
    pairs = []
    for first, second in _PAIRS:
        for change in first(asked):
            if words := _smallest(second, change.asked):
                pairs.append(f"{change.words} and {words}")
                break
    return pairs


def _smallest(kind: _Kind, asked: Asked) -> str:
    """Return the words of the smallest change of this kind that helps; empty if none does."""
    before = None
    for change in kind(asked):
        if change.asked.fits:
            return _refined(before, change) if kind is _more_nodes else change.words
        before = change
    return ""


def _refined(before: _Change | None, change: _Change) -> str:
    """Return the smallest number of nodes between a number that is too small and one that suffices."""
    many = change.asked.cluster.nodes
    few = many // 2 if before is None else before.asked.cluster.nodes
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if change.asked.with_nodes(middle).fits else (middle, many)
    return plural(many, "node")


def _less_headroom(asked: Asked) -> Iterator[_Change]:
    if asked.headroom:
        yield _Change(f"less free memory than --headroom {asked.headroom:g}", asked._replace(headroom=0.0))


def _fewer_pins(asked: Asked) -> Iterator[_Change]:
    for name in Pins.__struct_fields__:
        value = getattr(asked.pins, name)
        if value is None or name in _NOT_LAYOUT:
            continue
        words = _DROPPED.get(f"{name} {value}", f"drop the pinned {name.replace('_', '-')} {value}")
        yield _Change(words, asked._replace(pins=msgspec.structs.replace(asked.pins, **{name: None})))


def _more_nodes(asked: Asked) -> Iterator[_Change]:
    times = 2
    while asked.cluster.device != "cpu" and times <= _MOST_TIMES:
        nodes = times * asked.cluster.nodes
        yield _Change(f"{nodes} nodes", asked.with_nodes(nodes))
        times *= 2


def _shorter_sequence(asked: Asked) -> Iterator[_Change]:
    length = asked.workload.sequence_length
    while length >= 2 * _SHORTEST:
        length //= 2
        workload = msgspec.structs.replace(asked.workload, sequence_length=length)
        yield _Change(
            f"sequences of {length} tokens (--sequence-length {length})",
            asked._replace(workload=workload).with_open_batch(),
        )


def _no_accumulation(asked: Asked) -> Iterator[_Change]:
    """Yield the batch of one sequence per rank: some software keeps whole gradients to accumulate them."""
    ranks = asked.cluster.world_size
    if (
        asked.pins.micro_batch is None
        and asked.pins.grad_accum is None
        and asked.workload.global_batch > ranks
    ):
        workload = msgspec.structs.replace(asked.workload, global_batch=ranks)
        words = f"one sequence per rank and step, without accumulation (--global-batch {ranks})"
        yield _Change(words, asked._replace(workload=workload, stated=None))


def _adapters(asked: Asked) -> Iterator[_Change]:
    ways: dict[Tuning, tuple[Tuning, ...]] = {"full": ("lora", "qlora"), "lora": ("qlora",)}
    for tuning in ways.get(asked.workload.tuning, ()):
        if tuning not in asked.program.tunings:
            continue
        workload = msgspec.structs.replace(
            asked.workload, tuning=tuning, base_bits=stored_bits(tuning), fine_tuning=True
        )
        what = "adapters over 4-bit weights" if tuning == "qlora" else "adapters instead of all weights"
        yield _Change(f"{what} (--tuning {tuning})", asked._replace(workload=workload).with_open_batch())


def _other_program(asked: Asked) -> Iterator[_Change]:
    for other in load_programs().values():
        can_train = trains(other, asked.workload) and other.runs_on(asked.cluster)
        if other.is_suggested and can_train and other.id != asked.program.id:
            words = f"another program (--program {other.id})"
            yield _Change(words, asked._replace(program=other).with_open_batch())


_KINDS: tuple[_Kind, ...] = (
    _less_headroom,
    _fewer_pins,
    _more_nodes,
    _shorter_sequence,
    _no_accumulation,
    _adapters,
    _other_program,
)
_PAIRS: tuple[tuple[_Kind, _Kind], ...] = (
    *itertools.product((_fewer_pins, _adapters, _shorter_sequence), (_shorter_sequence, _more_nodes)),
    (_other_program, _more_nodes),
)
"""Kinds of changes that are combined. Of the second kind, the smallest change that suffices is taken."""
