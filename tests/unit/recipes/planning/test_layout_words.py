"""Layouts in words, with each degree at 1 and above."""

from __future__ import annotations

from typing import Any

import pytest

from recipes.job.candidate import Candidate, Degrees
from recipes.planning.layout_words import (
    degree_words,
    describe,
    layout_title,
    recomputation_words,
    short_words,
)


def row(degrees: Degrees = Degrees(), **changes: Any) -> Candidate:  # noqa: B008 - frozen
    values = {
        "strategy": "ddp",
        "micro_batch": 2,
        "grad_accum": 4,
        "global_batch": 64,
        "activation_checkpointing": "none",
        "precision": "bf16",
        **changes,
    }
    return Candidate(degrees=degrees, **values)


@pytest.mark.parametrize(
    ("degrees", "words"),
    [
        (Degrees(), ""),
        (Degrees(dp=2), "dp 2"),
        (Degrees(fsdp=8, ep=4), "fsdp 8 ep 4"),
        (Degrees(dp=8, tp=8, pp=16, cp=2, vp=4), "dp 8 tp 8 pp 16 cp 2 vp 4"),
    ],
)
def test_degrees_above_1_are_named(degrees: Degrees, words: str):
    assert degree_words(degrees) == words


@pytest.mark.parametrize(
    ("candidate", "words"),
    [
        (row(), "one rank"),
        (row(Degrees(dp=8)), "dp 8"),
        (row(Degrees(dp=8), sharding="zero1"), "dp 8, zero1"),
        (row(Degrees(fsdp=8), strategy="fsdp"), "fsdp 8, zero3"),
        (row(sharding="zero2"), "one rank, zero2"),
    ],
)
def test_settings_name_the_sharding_if_there_is_one(candidate: Candidate, words: str):
    assert short_words(candidate) == words


@pytest.mark.parametrize(
    ("candidate", "title"),
    [
        (row(Degrees(tp=2, cp=2)), "tp 2 × cp 2"),
        (row(Degrees(tp=2, cp=2), strategy="fsdp"), "tp 2 × cp 2, FSDP over cp"),
        (row(Degrees(cp=2, ep=2), sharding="zero1"), "cp 2, ep 2, ZeRO-1 over cp"),
        (row(Degrees(fsdp=4, cp=2), strategy="fsdp"), "FSDP 4 × cp 2"),
        (row(Degrees(tp=2), strategy="fsdp"), "tp 2"),
    ],
)
def test_shards_over_context_parallel_ranks_are_named_if_there_is_no_data_parallelism(
    candidate: Candidate, title: str
):
    assert layout_title(candidate) == title


def test_ranks_of_a_cpu_are_not_called_gpus():
    assert layout_title(row(), "ranks") == "one rank"
    assert layout_title(row(Degrees(dp=4)), "ranks") == "DDP over 4 ranks"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"recomputed_share": 0.5}, ""),
        ({"activation_checkpointing": "full"}, "full recomputation"),
        (
            {"activation_checkpointing": "full", "recomputed_share": 0.25},
            "full recomputation of 25 % of the layers",
        ),
        ({"activation_checkpointing": "selective"}, "selective recomputation"),
    ],
)
def test_recomputation_states_its_part_of_the_layers(changes: dict[str, Any], words: str):
    assert recomputation_words(row(**changes)) == words


@pytest.mark.parametrize(
    ("pipeline", "schedule", "words"),
    [
        (4, "1f1b", "pp 4, micro-batch 2 × 4"),
        (4, "interleaved", "pp 4, micro-batch 2 × 4"),
        (4, "zero-bubble", "pp 4, micro-batch 2 × 4, zero-bubble"),
        (2, "gpipe", "pp 2, micro-batch 2 × 4, gpipe"),
        (1, "gpipe", "one GPU, micro-batch 2 × 4"),
    ],
)
def test_an_unusual_schedule_of_a_pipeline_is_named(pipeline: int, schedule: str, words: str):
    assert describe(row(Degrees(pp=pipeline), schedule=schedule)) == words
