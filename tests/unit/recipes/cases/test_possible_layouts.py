"""Layouts and micro-batches that are tried for a case, as lists."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from recipes.cases.case import Case
from recipes.cases.choices import Choice, choices_of, is_open, micro_batches_of, with_choice
from recipes.job.models.names import find_model
from recipes.predict.stacks import Stack, load_stacks

IN_TURN = "each of the 8 GPUs is assumed to have consecutive layers of one model"
LONG = {"sharding": "zero1", "seq_len": 8192}


def stack(**changes: Any) -> Stack:
    """Return a stack without habits of its own."""
    plain = {
        "micro_batch": None,
        "checkpointing": "none",
        "recomputes_part": False,
        "shards_optimizer": False,
        "shards_parameters": False,
        "spare_ranks": "tensor",
    }
    return msgspec.structs.replace(load_stacks()["torch"], **{**plain, **changes})


def case(**cells: Any) -> Case:
    return Case(case_id="a", **cells)


@pytest.mark.parametrize(
    ("cells", "habits", "gpus", "enough", "sizes"),
    [
        ({}, {}, 8, 8, (8, 4, 2, 1)),
        ({}, {}, 8, 7, (4, 2, 1)),
        ({}, {}, 8, 0, (1,)),
        ({}, {"micro_batch": 3}, 8, 8, (3,)),
        ({"global_batch": 24}, {"micro_batch": 3}, 8, 8, (3,)),
        ({"global_batch": 16}, {"micro_batch": 3}, 8, 8, (2, 1)),  # the share is below the default
        ({"global_batch": 64}, {}, 8, 64, (8, 4, 2, 1)),
        ({"global_batch": 64}, {}, 8, 4, (4, 2, 1)),
        ({"global_batch": 64, "tp": 2}, {}, 8, 64, (16, 8, 4, 2, 1)),
        ({"global_batch": 64, "cp": 4}, {}, 8, 64, (32, 16, 8, 4, 2, 1)),
        ({"global_batch": 4}, {}, 8, 64, (1,)),
        ({"global_batch": 64, "grad_accum": 4}, {}, 8, 64, (2,)),
        ({"global_batch": 64, "grad_accum": 16}, {}, 8, 64, (1,)),
        ({"global_batch": 64, "grad_accum": 4, "pp": 2}, {}, 8, 64, (4,)),
        ({"pp": 2}, {}, 8, 8, (1,)),
        ({"pp": 1}, {}, 8, 2, (2, 1)),
        ({"global_batch": 96}, {}, 8, 64, (4, 2, 1)),  # a share of 12
        ({"global_batch": 120}, {}, 8, 64, (15, 5, 3, 1)),  # only 1 divides 15
        ({"global_batch": 48}, {}, 8, 64, (2, 1)),  # a share of 6
        ({"global_batch": 24}, {}, 8, 64, (1,)),  # a share of 3
        ({"global_batch": 32}, {}, 8, 64, (4, 2, 1)),
        ({"global_batch": 4}, {}, 1, 8, (4, 2, 1)),
        ({"global_batch": 160}, {}, 8, 16, (10, 5, 4, 2, 1)),  # a share of 20: 4 is a quarter of 16
        ({"global_batch": 96}, {}, 8, 8, (4, 2, 1)),
        ({"global_batch": 40}, {}, 8, 4, (1,)),  # a share of 5
    ],
)
def test_micro_batches_divide_the_share_of_a_gpu(
    cells: dict[str, int], habits: dict[str, int], gpus: int, enough: int, sizes: tuple[int, ...]
):
    assert micro_batches_of(case(**cells), stack(**habits), gpus, enough) == sizes


def tried(gpus: int, habits: dict[str, Any] | None = None, **cells: Any) -> list[str]:
    """Return the layouts that are tried, in words, for a row that states its recomputation."""
    row = case(activation_checkpointing="none", **cells)
    return [choice.words for choice in choices_of(row, stack(**habits or {}), gpus, model=None)]


@pytest.mark.parametrize(
    ("gpus", "cells", "words"),
    [
        (1, {}, [""]),
        (8, {}, ["", "sharding zero2", "sharding zero3"]),
        (8, {"tp": 2}, ["", "sharding zero2", "sharding zero3"]),
        (8, {"sharding": "zero1"}, [""]),
        (8, {"zero_stage": 0}, [""]),
        (8, {"dp": 8}, [""]),
        (8, {"fsdp": 8}, [""]),
        (8, {"sharding": "device_map"}, [IN_TURN]),
        # 8 GPUs for 8 sequences: none is spare
        (8, {"global_batch": 8}, ["", "sharding zero2", "sharding zero3"]),
        # 8 GPUs for 4 sequences: 2 share one
        (8, {"global_batch": 4, "sharding": "zero1"}, ["tp 2"]),
        (8, {"global_batch": 4}, ["tp 2", "tp 2 sharding zero3"]),
        (8, {"global_batch": 8, "micro_batch": 2}, ["tp 2", "tp 2 sharding zero3"]),
        (8, {"global_batch": 8, "micro_batch": 2, "grad_accum": 2}, ["tp 4", "tp 4 sharding zero3"]),
        (8, {"global_batch": 8, "micro_batch": 2, "sharding": "zero1"}, [""]),
        (8, {"global_batch": 3}, ["", "sharding zero2", "sharding zero3"]),
        (8, {"global_batch": 4, "dp": 8}, [""]),
        (8, {"global_batch": 2, "tp": 2, "sharding": "zero1", "seq_len": 2048}, ["cp 2"]),
        (8, {"global_batch": 1, "sharding": "zero1", "seq_len": 8191}, ["tp 8"]),
        (8, {"global_batch": 1, "sharding": "zero1", "seq_len": 2048}, ["tp 8"]),
        (8, {"global_batch": 2, "tp": 2, **LONG}, ["cp 2"]),
        (8, {"global_batch": 2, "tp": 2, "sharding": "zero1"}, ["cp 2"]),  # a sequence of unknown length
        (8, {"global_batch": 1, **LONG}, ["cp 8", "tp 2 cp 4", "tp 4 cp 2", "tp 8"]),
        (8, {"global_batch": 1, "sharding": "zero1", "seq_len": 8200}, ["tp 2 cp 4", "tp 4 cp 2", "tp 8"]),
        (16, {"global_batch": 1, "sharding": "zero1", "seq_len": 2048}, ["tp 8 pp 2", "cp 16"]),
        (16, {"global_batch": 1, "sharding": "zero1", "seq_len": 2047}, ["tp 8 pp 2"]),
        (16, {"global_batch": 1, "sharding": "zero1", "seq_len": 2048, "cp": 1}, ["tp 8 pp 2"]),
    ],
)  # fmt: skip
def test_gpus_without_a_sequence_of_their_own_share_one(gpus: int, cells: dict[str, Any], words: list[str]):
    assert tried(gpus, **cells) == words


@pytest.mark.parametrize(
    ("habits", "cells", "words"),
    [
        ({"shards_optimizer": True}, {}, ["", "sharding zero3"]),
        ({"shards_parameters": True}, {}, ["", "sharding zero3"]),
        ({"shards_optimizer": True}, {"tp": 2}, [""]),
        ({"shards_optimizer": True}, {"pp": 2}, [""]),
        ({"shards_optimizer": True}, {"sharding": "zero1"}, [""]),
        ({"shards_optimizer": True}, {"global_batch": 4}, ["tp 2"]),
        ({"shards_parameters": True}, {"global_batch": 4}, ["tp 2"]),
        ({"spare_ranks": "sequence"}, {"global_batch": 1, "sharding": "zero3", "seq_len": 2056}, ["cp 8"]),
        ({"spare_ranks": "sequence"}, {"global_batch": 1, "sharding": "zero3", "seq_len": 2057}, [""]),
        (
            {"spare_ranks": "layers"},
            {"global_batch": 1},
            [IN_TURN],
        ),
        ({"spare_ranks": "layers"}, {"global_batch": 4, "sharding": "zero1"}, ["tp 2"]),
    ],
)
def test_habits_of_a_stack_decide_what_is_tried(
    habits: dict[str, Any], cells: dict[str, Any], words: list[str]
):
    assert tried(8, habits, **cells) == words


@pytest.mark.parametrize(
    ("cells", "habits", "shares"),
    [
        ({}, {}, [None, 1.0]),
        ({}, {"recomputes_part": True}, [None, 0.25, 0.5, 0.75, 1.0]),
        ({}, {"checkpointing": "full"}, [None]),
        ({"activation_checkpointing": "none"}, {}, [None]),
    ],
)
def test_layers_are_recomputed_if_the_row_does_not_say(
    cells: dict[str, str], habits: dict[str, Any], shares: list[float | None]
):
    choices = choices_of(case(**cells), stack(**habits), 1, model=find_model("gpt2"))
    assert [choice.recomputed if choice.checkpointing else None for choice in choices] == shares
    assert choices_of(case(**cells), stack(**habits), 1, model=None) == (Choice(),)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [({}, True), ({"ep": 2}, True), ({"ep": 1}, False), ({"sharding": "zero1"}, False), ({"tp": 1}, False)]
    + [({name: 2}, False) for name in ("pp", "cp", "dp", "fsdp", "vp", "zero_stage")],
)
def test_a_row_is_open_if_it_states_no_layout(cells: dict[str, Any], expected: bool):
    assert is_open(case(**cells)) == expected


def test_a_choice_fills_the_degrees_that_it_names():
    row = with_choice(case(tp=2, pp=3), Choice(tp=4, cp=5))
    assert (row.tp, row.pp, row.cp) == (4, 3, 5)
