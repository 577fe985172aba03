"""Which published recipe is nearest to a model, and which sharding a strategy implies."""

from __future__ import annotations

import msgspec
import pytest

from recipes.job.candidate import Candidate, Degrees
from recipes.job.models.names import find_model
from recipes.job.training_recipes import load_training_recipes, matrix_parameters, nearest, pretraining_recipe
from recipes.job.workload import stored_bits, traffic_share

ROW = next(iter(load_training_recipes().values()))


def rows(*sizes: tuple[float, float, float]):
    """Return recipes with these parameters, batches and largest batches."""
    return [
        msgspec.structs.replace(ROW, id=str(number), parameters=size, batch=batch, largest_batch=largest)
        for number, (size, batch, largest) in enumerate(sizes)
    ]


def test_a_plain_transformer_has_twelve_squares_of_its_width_in_each_layer():
    assert matrix_parameters(find_model("gpt2")) == 12 * 12 * 768**2
    both = find_model("t5-small")
    assert matrix_parameters(both) == 12 * (both.layers + both.encoder_layers) * both.hidden**2
    assert both.encoder_layers > 0


@pytest.mark.parametrize(
    ("sizes", "parameters", "batch", "chosen"),
    [
        ([(1e9, 8, 0), (4e9, 8, 0)], 1.9e9, 0, "0"),
        ([(1e9, 8, 0), (4e9, 8, 0)], 2.1e9, 0, "1"),
        ([(1e9, 8, 0), (4e9, 8, 0)], 0.0, 0, "0"),
        ([(1e9, 8, 0), (1e9, 64, 0)], 1e9, 60, "1"),
        ([(1e9, 8, 0), (1e9, 64, 0)], 1e9, 10, "0"),
        ([(1e9, 8, 32), (1e9, 64, 0)], 1e9, 31, "0"),
        ([(1e9, 8, 32), (1e9, 64, 0)], 1e9, 33, "0"),
        ([(1e9, 8, 32), (1e9, 64, 0)], 1e9, 1000, "1"),
        ([(1e9, 64, 0), (1e9, 64, 128)], 1e9, 0, "0"),
        # Sizes that differ only by rounding are equal, and the batch decides.
        ([(1e9, 8, 0), (1e9 * (1 + 1e-8), 64, 0)], 1e9, 60, "1"),
        ([(1e9, 8, 0), (1e9 * (1 + 1e-4), 64, 0)], 1e9, 60, "0"),
    ],
)
def test_the_recipe_nearest_in_size_and_then_in_batch_is_chosen(sizes, parameters, batch, chosen):
    assert nearest(rows(*sizes), parameters, batch).id == chosen


@pytest.mark.parametrize(("unit", "tokens"), [("tokens", 1000), ("samples", 1000 * 2048)])
def test_a_batch_in_samples_has_the_tokens_of_the_published_length(unit, tokens):
    row = msgspec.structs.replace(
        ROW, batch=1000, batch_in=unit, sequence_length=2048, source="paper: table 2"
    )
    assert (row.batch_tokens, row.citation) == (tokens, "paper")


def test_a_model_with_a_recipe_of_its_own_borrows_none():
    own = [row for row in load_training_recipes().values() if row.models and not row.is_fine_tuning]
    row = next(row for row in own if row.optimizer == "adamw" and row.kind == "decoder")
    assert pretraining_recipe(find_model(row.models[0])) == row


def candidate(strategy="ddp", sharding=None, **degrees):
    return Candidate(
        strategy=strategy,
        degrees=Degrees(**degrees),
        micro_batch=1,
        grad_accum=1,
        global_batch=8,
        activation_checkpointing="none",
        precision="bf16",
        sharding=sharding,
    )


@pytest.mark.parametrize(
    ("made", "stage"),
    [
        (candidate("ddp", dp=8), "none"),
        (candidate("fsdp", fsdp=8), "zero3"),
        (candidate("fsdp"), "zero3"),
        (candidate("hsdp", dp=4, fsdp=2), "zero3"),
        (candidate("ddp", "zero1", dp=8), "zero1"),
        (candidate("fsdp", "zero2", fsdp=8), "zero2"),
    ],
)
def test_a_strategy_implies_a_sharding_unless_one_is_stated(made, stage):
    assert made.sharding_stage == stage


@pytest.mark.parametrize(
    ("tuning", "stated", "bits"),
    [("full", 16, 16), ("full", 4, 16), ("lora", 8, 16), ("qlora", 16, 4), ("qlora", 4, 4), ("qlora", 8, 8)],
)
def test_frozen_weights_have_four_bits_unless_eight_are_stated(tuning, stated, bits):
    assert stored_bits(tuning, stated) == bits


@pytest.mark.parametrize(
    ("optimizer", "pure", "share"),
    [
        ("adamw", False, 1.0),  # 12 bytes of weight and gradient, 8 of states read and written: 28
        ("adamw", True, 0.5),
        ("sgd", False, 20 / 28),
        ("sgd", True, 10 / 28),
        ("adamw-8bit", False, 16 / 28),
        ("adamw-8bit", True, 10 / 28),  # 8-bit states keep their size
        ("lomo", False, 12 / 28),
    ],
)
def test_the_traffic_of_an_optimizer_is_relative_to_adamw(optimizer, pure, share):
    assert traffic_share(optimizer, pure=pure) == pytest.approx(share)
