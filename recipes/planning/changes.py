"""Changes of a request without a plan: each is tried by searching again, and the smallest that helps is named."""

from collections.abc import Iterator

import msgspec

from recipes.job.workload import Pins, Tuning, Workload
from recipes.machine.cluster_records import Cluster
from recipes.planning.planner import request_of
from recipes.planning.programs import Program, load_programs
from recipes.planning.search import search_with_headroom

_MOST_TIMES = 1024
"""Largest number of times as many nodes that is tried."""
_SHORTEST = 512
"""Shortest sequence that is suggested, in tokens."""


def helpful_changes(
    workload: Workload, cluster: Cluster, pins: Pins, program: Program, headroom: float | None
) -> list[str]:
    """Return the changes that make the job fit, each with its number, such as `8 nodes`.

    Each change is made alone.
    """
    request = _Asked(workload, cluster, pins, program, headroom)
    return [
        *request.without_headroom(),
        *request.without_a_pin(),
        *request.with_more_nodes(),
        *request.with_a_shorter_sequence(),
        *request.with_adapters(),
        *request.with_another_program(),
    ]


class _Asked:
    """A request of which nothing fits."""

    def __init__(
        self, workload: Workload, cluster: Cluster, pins: Pins, program: Program, headroom: float | None
    ) -> None:
        self._workload, self._cluster, self._pins = workload, cluster, pins
        self._program, self._headroom = program, headroom

    def without_headroom(self) -> Iterator[str]:
        if self._headroom and self._fits(headroom=0.0):
            yield f"leave less memory free than --headroom {self._headroom:g}"

    def without_a_pin(self) -> Iterator[str]:
        for name in Pins.__struct_fields__:
            value = getattr(self._pins, name)
            if value is None or name in _NOT_LAYOUT:
                continue
            if self._fits(pins=msgspec.structs.replace(self._pins, **{name: None})):
                words = _DROPPED.get(f"{name} {value}", "drop the pinned {name} {value}")
                yield words.format(name=name.replace("_", "-"), value=value)

    def with_more_nodes(self) -> Iterator[str]:
        """Yield the smallest number of nodes that suffices.

        The batch grows to the next number that all ranks can share.
        """
        if self._cluster.device == "cpu":
            return
        few, many = self._cluster.nodes, 2 * self._cluster.nodes
        while not self._fits_on(many):
            few, many = many, 2 * many
            if many > _MOST_TIMES * self._cluster.nodes:
                return
        while many - few > 1:
            middle = (few + many) // 2
            few, many = (few, middle) if self._fits_on(middle) else (middle, many)
        yield f"{many} nodes"

    def _fits_on(self, nodes: int) -> bool:
        cluster = msgspec.structs.replace(self._cluster, nodes=nodes)
        ranks = cluster.world_size
        batch = -(-self._workload.global_batch // ranks) * ranks
        return self._fits(
            cluster=cluster, workload=msgspec.structs.replace(self._workload, global_batch=batch)
        )

    def with_a_shorter_sequence(self) -> Iterator[str]:
        length = self._workload.sequence_length
        while length >= 2 * _SHORTEST:
            length //= 2
            if self._fits(workload=msgspec.structs.replace(self._workload, sequence_length=length)):
                yield f"sequences of {length} tokens (--sequence-length {length})"
                return

    def with_adapters(self) -> Iterator[str]:
        ways: dict[Tuning, tuple[Tuning, ...]] = {"full": ("lora", "qlora"), "lora": ("qlora",)}
        for tuning in ways.get(self._workload.tuning, ()):
            if tuning not in self._program.tunings:
                continue
            workload = msgspec.structs.replace(
                self._workload, tuning=tuning, base_bits=4 if tuning == "qlora" else 16, fine_tuning=True
            )
            if self._fits(workload=workload):
                yield f"train adapters instead of all weights (--tuning {tuning})"
                return

    def with_another_program(self) -> Iterator[str]:
        workload = self._workload
        for other in load_programs().values():
            can = workload.precision in other.precisions and workload.tuning in other.tunings
            if other.id != self._program.id and other.is_suggested and can and self._fits(program=other):
                yield f"another program (--program {other.id})"
                return

    def _fits(
        self,
        *,
        workload: Workload | None = None,
        cluster: Cluster | None = None,
        pins: Pins | None = None,
        program: Program | None = None,
        headroom: float | None = None,
    ) -> bool:
        """Return whether the request with a change has a layout that fits."""
        request = request_of(
            workload or self._workload,
            cluster or self._cluster,
            program or self._program,
            self._pins if pins is None else pins,
        )
        free = self._headroom if headroom is None else headroom
        return bool(search_with_headroom(request, free)[0].ranked)


_NOT_LAYOUT = ("learning_rate", "warmup_steps", "ranks_per_node")
"""Pins that have no influence on what fits, or that describe the machine."""
_DROPPED = {
    "strategy ddp": "let FSDP share the states (drop the pinned ddp)",
    "activation_checkpointing none": "allow activation checkpointing (drop the pinned none)",
}
"""Words for pins whose removal has a name of its own."""
