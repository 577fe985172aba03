"""The candidates of a recipe: other layouts of the same training, settings, and environment variables."""

from __future__ import annotations

import msgspec
import pytest

from assistant.usecases.plan import PlanRequest, plan_workload
from assistant.usecases.probe import probe_machine
from probes.base.errors import UsageError
from probes.base.units import GIB
from probes.collect.collecting import CollectOptions
from probes.sources.choose import open_source
from recipes.launch.recipe import Command, Environment
from recipes.launch.recipe_file import dump_recipe, faults, load_recipe
from recipes.launch.resolve import recipe_of
from recipes.tuning.variants import (
    BASELINE,
    load_settings,
    variable_variants,
    variables_to_try,
    variants,
)
from tests.support.clusters import cpu_cluster, figure

OWN = Command(kind="script", target="train.py", arguments=("--mb", "{micro_batch}", "--ga", "{grad_accum}"))


def planned(model="llama-3.2-1b", machine="dgx-h100", command=None, **request):
    """Return the recipe of a plan for a catalogue machine."""
    program = "" if command else "reference"
    *_, probed = probe_machine(open_source((), machine), CollectOptions())
    *_, made = plan_workload(probed.result, (), PlanRequest(model=model, program=program, **request))
    return recipe_of(made.result, name="job", command=command or Command(kind="reference"), python="")


def settings_of(variant):
    return {setting.name: setting.value for setting in variant.settings}


@pytest.fixture
def here(make_recipe):
    """Return a recipe for two CPU ranks."""
    return make_recipe(machine=cpu_cluster())


def test_the_recipe_is_first_and_the_fastest_predicted_follow():
    recipe = planned()
    first, *others = variants(recipe, 6)
    assert (first.name, first.recipe, first.settings) == (BASELINE, recipe, ())
    assert [each.predicted_s for each in others] == sorted(each.predicted_s for each in others)
    assert len({each.name for each in others}) == len(others) > 3


def test_no_more_candidates_than_asked_for_and_the_best_are_kept():
    recipe = planned()
    assert [each.name for each in variants(recipe, 2)] == [each.name for each in variants(recipe, 9)][:3]


@pytest.mark.parametrize(
    ("model", "request_"), [("llama-3.2-1b", {}), ("llama-3-8b", {}), ("gpt2", {"nodes": 2})]
)
def test_every_candidate_is_a_valid_recipe_that_trains_the_same(model, request_):
    recipe = planned(model, **request_)
    for each in variants(recipe, 50):
        assert list(faults(each.recipe)) == []
        assert each.recipe.parallelism.global_batch == recipe.parallelism.global_batch
        assert each.recipe.parallelism.precision == recipe.parallelism.precision
        assert (each.recipe.convergence, each.recipe.model) == (recipe.convergence, recipe.model)
        assert load_recipe(dump_recipe(each.recipe), "candidate").parallelism == each.recipe.parallelism


def test_micro_batch_recomputation_sharding_and_bucket_size_vary(here):
    changed = {name for each in variants(here, 50) for name in settings_of(each)}
    assert {"micro_batch", "activation_checkpointing", "strategy", "bucket_mb"} <= changed


def test_settings_belong_to_their_strategy(here):
    by_setting = {row.setting: row for row in load_settings()}
    assert all(row.why and row.source and row.date for row in by_setting.values())
    for each in variants(here, 50):
        own = each.recipe.parallelism
        for name, row in by_setting.items():
            assert getattr(own, name) is None or own.strategy in row.strategies
    sharded = msgspec.structs.replace(here.parallelism, strategy="fsdp", prefetch=2)
    others = variants(msgspec.structs.replace(here, parallelism=sharded), 50)[1:]
    assert all(each.recipe.parallelism.prefetch is None for each in others if "strategy" in settings_of(each))
    assert all("prefetch" not in settings_of(each) for each in others if "strategy" not in settings_of(each))


def test_a_layout_that_only_the_margin_of_a_plan_refuses_is_tried():
    """A trial may run out of memory, which is a result; a plan keeps a margin, as predictions err."""
    recipe = planned("llama-3-8b")
    largest = max(each.recipe.predicted.peak_memory_bytes for each in variants(recipe, 50))
    limit = recipe.machine.memory_bytes_per_rank.value
    assert recipe.predicted.peak_memory_bytes < 0.7 * limit < largest < limit


def test_a_layout_without_room_is_not_a_candidate(here):
    machine = cpu_cluster(memory_bytes_per_rank=figure(0.02 * GIB))
    small = msgspec.structs.replace(here, machine=machine)
    assert not [each for each in variants(small, 50) if "micro_batch" in settings_of(each)]


def test_an_own_program_varies_in_what_its_arguments_name():
    recipe = planned("llama-3-8b", command=OWN)
    names = {name for each in variants(recipe, 50) for name in settings_of(each)}
    assert names == {"micro_batch", "grad_accum"}
    silent = msgspec.structs.replace(OWN, arguments=("--lr", "{learning_rate}"))
    assert len(variants(planned("llama-3-8b", command=silent), 50)) == 1


@pytest.mark.parametrize(
    ("words", "varies"),
    [("{grad_accum}", True), ("{global_batch}", True), ("{learning_rate}", False)],
)
def test_accumulation_varies_only_if_the_program_can_follow(words, varies):
    command = msgspec.structs.replace(OWN, arguments=("{micro_batch}", words))
    names = {
        name for each in variants(planned("llama-3-8b", command=command), 50) for name in settings_of(each)
    }
    assert ("grad_accum" in names) is varies


def test_an_own_program_keeps_its_share_of_recomputed_layers():
    recipe = planned("llama-3-8b", command=OWN)
    own = msgspec.structs.replace(
        recipe.parallelism, activation_checkpointing="full", recomputed_share=0.5, micro_batch=1
    )
    others = variants(msgspec.structs.replace(recipe, parallelism=own), 50)
    assert len(others) > 1
    assert {each.recipe.parallelism.recomputed_share for each in others} == {0.5}
    assert {each.recipe.parallelism.activation_checkpointing for each in others} == {"full"}


def test_without_a_machine_only_settings_vary(make_recipe):
    assert {name for each in variants(make_recipe(), 50) for name in settings_of(each)} == {"bucket_mb"}
    alone = make_recipe(ranks_per_node=1)
    assert len(variants(alone, 50)) == 1


def test_each_value_of_a_variable_is_a_candidate(here):
    here = msgspec.structs.replace(
        here, environment=(Environment(name="OMP_NUM_THREADS", value="1", why="cores", source="x"),)
    )
    words = ("OMP_NUM_THREADS=1", "OMP_NUM_THREADS=2", "MALLOC_ARENA_MAX=4", "MALLOC_ARENA_MAX=4")
    first, *others = variable_variants(here, variables_to_try(words))
    assert first.recipe == here
    assert [each.name for each in others] == ["OMP_NUM_THREADS=2", "MALLOC_ARENA_MAX=4"]
    assert {each.name: each.value for each in others[0].recipe.environment} == {"OMP_NUM_THREADS": "2"}
    assert others[0].settings[0].before == "1"
    assert {each.name: each.value for each in others[1].recipe.environment} == {
        "OMP_NUM_THREADS": "1",
        "MALLOC_ARENA_MAX": "4",
    }


@pytest.mark.parametrize("word", ["", "A", "=1"])
def test_a_variable_without_a_value_is_refused(word):
    with pytest.raises(UsageError, match="no variable with a value"):
        variables_to_try((word,))
