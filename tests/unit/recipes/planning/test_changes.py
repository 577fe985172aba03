"""The changes that are named if a job does not fit: which kinds there are, and the smallest of each.

The question whether a changed request fits is answered by the test, so that its limit is known.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from recipes.job.models.names import find_model
from recipes.job.pins import Pins
from recipes.planning.changes import Asked, helpful_changes
from recipes.planning.planner import default_workload
from recipes.planning.programs import program_named
from tests.support.clusters import cpu_cluster, h100_cluster

Fits = Callable[[Asked], bool]
NO_PINS = Pins()


def asked_of(
    *,
    nodes: int = 1,
    program: str = "own",
    headroom: float | None = None,
    pins: Pins = NO_PINS,
    **job: object,
) -> Asked:
    cluster = h100_cluster(nodes=nodes)
    workload = default_workload(find_model("llama-3-8b"), cluster)
    return Asked(msgspec.structs.replace(workload, **job), cluster, pins, program_named(program), headroom)


def named(asked: Asked, fits: Fits) -> list[str]:
    """Return the changes that are named if `fits` decides what fits."""

    class Decided(Asked):
        @property
        def fits(self) -> bool:
            return fits(self)

    return helpful_changes(Decided(*asked))


@pytest.mark.parametrize(
    ("nodes", "needed", "words"),
    [
        (1, 2, ["2 nodes"]),
        (1, 3, ["3 nodes"]),
        (1, 5, ["5 nodes"]),
        (1, 7, ["7 nodes"]),
        (1, 8, ["8 nodes"]),
        (3, 4, ["4 nodes"]),
        (3, 6, ["6 nodes"]),
        (3, 11, ["11 nodes"]),
        (1, 1024, ["1024 nodes"]),
        (1, 1025, []),
        (3, 3 * 1024, ["3072 nodes"]),
    ],
)
def test_the_fewest_nodes_are_named_up_to_1024_times_those_of_the_machine(
    nodes: int, needed: int, words: list[str]
):
    assert named(asked_of(nodes=nodes), lambda asked: asked.cluster.nodes >= needed) == words


@pytest.mark.parametrize(
    ("batch", "nodes", "shared"), [(1, 1, 8), (8, 1, 8), (9, 1, 16), (16, 2, 16), (17, 2, 32), (64, 3, 72)]
)
def test_more_nodes_get_the_next_batch_that_all_ranks_can_share(batch: int, nodes: int, shared: int):
    assert asked_of(global_batch=batch).with_nodes(nodes).workload.global_batch == shared


def test_a_cpu_gets_no_further_nodes():
    cluster = cpu_cluster()
    workload = default_workload(find_model("rigtune-mini"), cluster)
    asked = Asked(workload, cluster, Pins(), program_named("own"), None)
    assert named(asked, lambda asked: asked.cluster.nodes > 1) == []


@pytest.mark.parametrize(
    ("length", "longest", "named_length"),
    [
        (4096, 4095, 2048),
        (4096, 2048, 2048),
        (4096, 2047, 1024),
        (4096, 512, 512),
        (4096, 511, None),
        (1024, 1023, 512),
        (1023, 1022, None),
        (1501, 1500, 750),
    ],
)
def test_sequences_are_halved_down_to_512_tokens(length: int, longest: int, named_length: int | None):
    words = named(asked_of(sequence_length=length), lambda asked: asked.workload.sequence_length <= longest)
    expected = f"sequences of {named_length} tokens (--sequence-length {named_length})"
    assert words == ([expected] if named_length else [])


@pytest.mark.parametrize(
    ("headroom", "words"), [(0.25, ["less free memory than --headroom 0.25"]), (0.0, []), (None, [])]
)
def test_stated_free_memory_is_named_if_the_job_fits_without_it(headroom: float | None, words: list[str]):
    changed = named(asked_of(headroom=headroom), lambda asked: asked.headroom == 0.0 != headroom)
    assert changed == words


@pytest.mark.parametrize(
    ("pins", "words"),
    [
        (Pins(tp=3), ["drop the pinned tp 3"]),
        (Pins(micro_batch=4), ["drop the pinned micro-batch 4"]),
        (Pins(strategy="fsdp"), ["drop the pinned strategy fsdp"]),
        (Pins(strategy="ddp"), ["let FSDP share the states (drop the pinned ddp)"]),
        (
            Pins(activation_checkpointing="none"),
            ["allow activation checkpointing (drop the pinned none)"],
        ),
        (Pins(learning_rate=1e-4), []),
        (Pins(warmup_steps=5), []),
        (Pins(ranks_per_node=2), []),
    ],
)
def test_a_pin_is_named_if_it_has_influence_on_what_fits(pins: Pins, words: list[str]):
    assert named(asked_of(pins=pins), lambda asked: asked.pins == Pins()) == words


def test_only_the_pin_that_prevents_the_job_is_named():
    pins = Pins(strategy="fsdp", tp=2)
    assert named(asked_of(pins=pins), lambda asked: asked.pins.tp is None) == ["drop the pinned tp 2"]


LORA = "adapters instead of all weights (--tuning lora)"
QLORA = "adapters over 4-bit weights (--tuning qlora)"


@pytest.mark.parametrize(
    ("program", "tuning", "fitting", "words"),
    [
        ("own", "full", ("lora", "qlora"), [LORA]),
        ("own", "full", ("qlora",), [QLORA]),
        ("own", "lora", ("qlora",), [QLORA]),
        ("own", "qlora", ("full", "lora"), []),
        ("megatron", "full", ("lora",), [LORA]),
        ("nanotron", "full", ("lora", "qlora"), []),
    ],
)
def test_adapters_that_the_program_trains_are_named(
    program: str, tuning: str, fitting: tuple[str, ...], words: list[str]
):
    asked = asked_of(program=program, tuning=tuning)
    same = asked.program.id
    assert named(asked, lambda now: now.workload.tuning in fitting and now.program.id == same) == words


def test_4_bit_adapters_are_tried_with_stored_weights_of_4_bits():
    words = named(asked_of(), lambda asked: asked.workload.base_bits == 4 and asked.workload.fine_tuning)
    assert words == [QLORA]


@pytest.mark.parametrize(
    ("program", "precision", "tuning", "tried"),
    [
        ("own", "bf16", "full", {"torchtitan", "megatron", "deepspeed", "hf-trainer", "torchtune"}),
        ("megatron", "bf16", "full", {"torchtitan", "deepspeed", "hf-trainer", "torchtune"}),
        ("own", "fp8", "full", {"torchtitan", "megatron"}),
        ("own", "fp32", "lora", {"megatron", "deepspeed", "hf-trainer", "torchtune"}),
        ("own", "bf16", "qlora", {"hf-trainer", "torchtune"}),
        ("own", "fp16", "qlora", {"hf-trainer"}),
        ("own", "fp8", "qlora", set()),
    ],
)
def test_other_programs_are_tried_if_they_train_such_a_job(
    program: str, precision: str, tuning: str, tried: set[str]
):
    """Programs of researchers and wrappers, such as nanotron and axolotl, are never suggested."""
    asked = asked_of(program=program, precision=precision, tuning=tuning)
    job = (precision, tuning)
    seen = set()

    def never(now: Asked) -> bool:
        if (now.workload.precision, now.workload.tuning) == job:
            seen.add(now.program.id)
        return False

    assert named(asked, never) == []
    assert seen - {program} == tried


def test_another_program_is_named_with_its_option():
    words = named(asked_of(), lambda asked: asked.program.id == "deepspeed")
    assert words == ["another program (--program deepspeed)"]


@pytest.mark.parametrize(
    ("fits", "words"),
    [
        (
            lambda asked: asked.workload.sequence_length <= 1024 and asked.cluster.nodes >= 3,
            ["sequences of 1024 tokens (--sequence-length 1024) and 3 nodes"],
        ),
        (
            lambda asked: asked.workload.tuning != "full" and asked.workload.sequence_length <= 1024,
            [f"{LORA} and sequences of 1024 tokens (--sequence-length 1024)"],
        ),
        (
            lambda asked: asked.program.id == "megatron" and asked.cluster.nodes >= 6,
            ["another program (--program megatron) and 6 nodes"],
        ),
        (lambda asked: asked.program.id == "megatron" and asked.workload.tuning == "lora", []),
    ],
)
def test_two_changes_are_combined_with_the_smallest_second_one(fits: Fits, words: list[str]):
    assert named(asked_of(sequence_length=4096), fits) == words


def test_changes_that_help_alone_are_not_combined():
    def fits(asked: Asked) -> bool:
        return asked.cluster.nodes >= 2 or asked.workload.sequence_length <= 512

    expected = ["2 nodes", "sequences of 512 tokens (--sequence-length 512)"]
    assert named(asked_of(sequence_length=1024), fits) == expected
