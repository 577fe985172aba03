"""Recipes at the limits of what is valid, time limits, and arguments of the user beside those of the plan."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from probes.base.errors import UsageError
from recipes.launch.plan_json import plan_file
from recipes.launch.program_limits import command_without_script, refuse, require_runnable
from recipes.launch.rank_logs import load_log_variables, log_variables
from recipes.launch.recipe import Command, Environment, Prediction
from recipes.launch.recipe_file import faults
from recipes.launch.slots import fits_slot, slot_value, time_limit_s, with_slots
from recipes.launch.untold import UNTOLD, untold_warning
from recipes.launch.user_arguments import merge, options_of, without_decisions, words_of
from recipes.launch.user_command import user_command
from recipes.launch.verification import (
    compare_peak_memory,
    compare_step_time,
    compare_worst_memory,
)

NCCL = {"device": "cuda", "backend": "nccl"}


@pytest.mark.parametrize(
    ("limit", "seconds"),
    [
        ("30", 30 * 60),
        ("30:15", 30 * 60 + 15),
        ("2:30:15", 2 * 3600 + 30 * 60 + 15),
        ("1-2", 26 * 3600),
        ("1-2:30", 26 * 3600 + 30 * 60),
        ("1-2:30:15", 26 * 3600 + 30 * 60 + 15),
        ("0-0:0:1", 1),
        ("", None),
        ("soon", None),
    ],
)
def test_a_time_limit_is_read_as_slurm_reads_it(make_recipe, limit: str, seconds: int | None) -> None:
    assert time_limit_s(make_recipe(resources={"time_limit": limit})) == seconds


def test_a_slot_comes_before_the_field_of_older_recipes(make_recipe) -> None:
    recipe = make_recipe(resources={"account": "old", "partition": "gpu"})
    assert slot_value(recipe, "account") == "old"
    filled = with_slots(recipe, {"account": "lab"}, "--slot")
    assert [slot_value(filled, name) for name in ("account", "partition", "qos")] == ["lab", "gpu", ""]
    with pytest.raises(UsageError, match="--slot: there is no slot 'acount'"):
        with_slots(recipe, {"acount": "lab"}, "--slot")


@pytest.mark.parametrize(
    ("name", "value", "fits"),
    [
        ("account", "lab.1", True),
        ("account", "two words", False),
        ("account", "-lab", False),
        ("account", " ", False),
        ("account", "", False),
        ("account", "a\nb", False),
        ("account", "a\u200bb", False),
        ("time", "1-02:03:04", True),
        ("time", "1:2:3:4", False),
        ("time", "one hour", False),
        ("none", "x", False),
    ],
)
def test_a_slot_takes_values_of_its_form(name: str, value: str, fits: bool) -> None:
    assert fits_slot(name, value) is fits


def places(recipe: Any) -> list[str]:
    return [fault.place for fault in faults(recipe)]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"fsdp": 2, "strategy": "fsdp"}, []),
        ({"fsdp": 2, "strategy": "ddp"}, ["parallelism.fsdp"]),
        ({"dp": 2, "strategy": "ddp"}, []),
        ({"dp": 2, "strategy": "fsdp"}, ["parallelism.dp"]),
        ({"dp": 1, "strategy": "ddp"}, ["parallelism.dp", "parallelism.global_batch"]),
        ({"dp": 2, "strategy": "hsdp"}, ["parallelism.fsdp"]),
        ({"fsdp": 2, "strategy": "hsdp"}, ["parallelism.fsdp"]),
        ({"dp": 2, "vp": 2}, ["parallelism.vp"]),
        ({"pp": 2, "vp": 2, "grad_accum": 4}, []),
        ({"dp": 2, "recomputed_share": 1.0}, []),
        ({"dp": 2, "recomputed_share": 1.01}, ["parallelism.recomputed_share"]),
        ({"dp": 2, "micro_batch": 1}, ["parallelism.global_batch"]),
        ({"strategy": "magic"}, ["parallelism.strategy"]),
    ],
)
def test_degrees_and_batch_must_agree(make_recipe, changes: dict[str, Any], expected: list[str]) -> None:
    sizes = {"dp": 1, "fsdp": 1, **changes}
    assert places(make_recipe(parallelism=sizes)) == expected


def test_hsdp_has_groups_of_at_least_two_ranks(make_recipe) -> None:
    def hsdp(**sizes: int) -> list[str]:
        return places(make_recipe(ranks_per_node=4, parallelism={"strategy": "hsdp", **sizes}))

    assert hsdp(dp=2, fsdp=2) == []
    assert hsdp(dp=4, fsdp=1) == ["parallelism.fsdp"]
    assert hsdp(dp=1, fsdp=4) == ["parallelism.fsdp"]


@pytest.mark.parametrize(
    ("name", "value", "is_valid"),
    [
        ("beta1", 0.0, True),
        ("beta1", 0.999, True),
        ("beta1", 1.0, False),
        ("final_share", 1.0, True),
        ("final_share", 1.01, False),
        ("learning_rate", 0.0, False),
        ("learning_rate", 1e-30, True),
        ("learning_rate", 1e-31, False),
        ("learning_rate", 1e30, True),
        ("learning_rate", 1.1e30, False),
        ("learning_rate", float("inf"), False),
        ("learning_rate", float("nan"), False),
        ("warmup_steps", 0, True),
        ("warmup_steps", -1, False),
        ("weight_decay", 0.0, True),
    ],
)
def test_numbers_have_bounds(make_recipe, name: str, value: float, is_valid: bool) -> None:
    recipe = make_recipe()
    convergence = msgspec.structs.replace(recipe.convergence, **{name: value})
    used_places = places(msgspec.structs.replace(recipe, convergence=convergence))
    assert (f"convergence.{name}" in used_places) is not is_valid


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"kv_heads": 3}, "model.kv_heads"),
        ({"kv_heads": 4}, ""),
        ({"learned_positions": 31}, "model.sequence_length"),
        ({"learned_positions": 32}, ""),
        ({"learned_positions": 0}, ""),
    ],
)
def test_a_model_must_be_one_that_can_be_built(make_recipe, changes: dict[str, int], place: str) -> None:
    recipe = make_recipe()
    used_places = places(
        msgspec.structs.replace(recipe, model=msgspec.structs.replace(recipe.model, **changes))
    )
    assert used_places == [place] * bool(place)


@pytest.mark.parametrize(
    ("resources", "nodes", "place"),
    [
        ({"hosts": ("a", "b")}, 2, ""),
        ({"hosts": ("a",)}, 2, "resources.hosts"),
        ({"hosts": ("a", "a")}, 2, "resources.hosts"),
        ({"hosts": ()}, 2, ""),
        ({"hosts": ("a b", "c")}, 2, "resources.hosts[0]"),
        ({"python": "-c"}, 1, "resources.python"),
        ({"backend": "nccl"}, 1, "resources.backend"),
        ({"time_limit": "x"}, 1, "resources.time_limit"),
        (NCCL, 1, ""),
    ],
)
def test_resources_must_be_usable(make_recipe, resources: dict[str, Any], nodes: int, place: str) -> None:
    assert places(make_recipe(nodes=nodes, resources=resources)) == [place] * bool(place)


@pytest.mark.parametrize(
    ("name", "is_valid"), [("a" * 100, True), ("a" * 101, False), ("", False), ("a b", False)]
)
def test_a_job_name_has_at_most_100_characters(make_recipe, name: str, is_valid: bool) -> None:
    assert ("name" in places(make_recipe(name=name))) is not is_valid


@pytest.mark.parametrize(
    ("command", "place"),
    [
        (Command(kind="reference", target="x.py"), "command.target"),
        (Command(kind="script"), "command.target"),
        (Command(kind="script", target="x.py"), ""),
        (Command(kind="nccl-tests"), "command.target"),
        (Command(kind="module", target="a.b"), ""),
        (Command(kind="module", target="a/b"), "command.target"),
        (Command(kind="script", target="x.py", arguments=("{no_such}",)), "command.arguments[0]"),
    ],
)
def test_a_command_names_what_it_starts(make_recipe, command: Command, place: str) -> None:
    assert places(make_recipe(command=command)) == [place] * bool(place)


@pytest.mark.parametrize(
    ("words", "kept", "replaced"),
    [
        (("--lr", "1", "--x", "2"), ("--x", "2"), ("--lr 1",)),
        (("--lr=1", "x"), ("x",), ("--lr=1",)),
        (("--l-r", "1"), ("--l-r", "1"), ()),
        (("--learning-rate", "-1e-3", "y"), ("y",), ("--learning-rate -1e-3",)),
        (("--lr", "--x"), ("--x",), ("--lr",)),
        (("--target_modules", "a", "b", "--x"), ("--x",), ("--target_modules a b",)),
        (("lr", "1"), ("lr", "1"), ()),
    ],
)
def test_options_that_the_plan_decides_are_taken_out(
    words: tuple[str, ...], kept: tuple[str, ...], replaced: tuple[str, ...]
) -> None:
    kept_words = without_decisions(words, {"lr", "learning_rate", "target_modules"})
    assert (kept_words.kept, kept_words.replaced) == (kept, replaced)
    assert kept_words.notes == tuple(f"The plan replaces your argument {each}" for each in replaced)
    assert all("-" not in name for name in kept_words.names)


def test_words_become_options_and_words_again() -> None:
    options = options_of(("train", "--a=b=c", "--b", "1", "2", "-x", "-0.5", "--c", "--d"))
    assert options == (("train",), ("--a", "b=c"), ("--b", "1", "2"), ("-x", "-0.5"), ("--c",), ("--d",))
    assert words_of((("--a", "-b"), ("--c", "-1"), ("--d", "1", "--x"))) == (
        "--a=-b", "--c", "-1", "--d", "1", "--x",
    )  # fmt: skip


def test_the_plan_replaces_what_it_decides_and_defaults_give_way() -> None:
    merged = merge(
        [("--lr", "1"), ("--same", "2"), ("--own", "3"), ("--gone", "4")],
        [("--lr", "9"), ("--same", "2")],
        [("--own", "7"), ("--new", "8"), ("--lr", "0")],
        decided={"--gone"},
    )
    assert merged.words == ("--own", "3", "--new", "8", "--lr", "9", "--same", "2")
    assert len(merged.notes) == 2
    assert merged.notes[0] == "Your `--lr 1` is replaced by the plan's `--lr 9`"
    assert merged.notes[1].startswith("Your `--gone 4` is left out")


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ((), Command(kind="reference")),
        (("python3.11",), Command(kind="reference")),
        (("train.py", "-x"), Command(kind="script", target="train.py", arguments=("-x",))),
        (("python", "train.py"), Command(kind="script", target="train.py")),
        (("-m", "a.b", "x"), Command(kind="module", target="a.b", arguments=("x",))),
        (("torchrun", "--nproc-per-node", "8", "t.py"), Command(kind="script", target="t.py")),
    ],
)
def test_a_training_command_is_recognised_behind_its_launcher(
    words: tuple[str, ...], command: Command
) -> None:
    assert user_command(words) == command


@pytest.mark.parametrize(("words", "problem"), [(("-x", "t.py"), "is an option"), (("-m",), "not a module")])
def test_a_command_without_a_program_is_refused(words: tuple[str, ...], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        user_command(words)


PREDICTED = Prediction(
    step_time_s=1.1,
    step_time_low_s=0.9,
    step_time_high_s=1.3,
    peak_memory_bytes=9.0,
    worst_memory_bytes=12.0,
)


@pytest.mark.parametrize(("measured", "within"), [(0.9, True), (0.89, False), (1.3, True), (1.31, False)])
def test_a_measured_step_is_compared_with_both_bounds(measured: float, within: bool) -> None:
    compared = compare_step_time(PREDICTED, measured)
    assert (compared.within_range, compared.predicted) == (within, 1.1)
    assert compared.relative_error == pytest.approx(1.1 / measured - 1)
    unbounded = msgspec.structs.replace(PREDICTED, step_time_low_s=None)
    assert compare_step_time(unbounded, measured).within_range is None
    assert compare_step_time(Prediction(), measured).relative_error is None


def test_memory_is_compared_with_the_worst_case_without_an_error() -> None:
    assert [compare_worst_memory(PREDICTED, size).within_range for size in (12.0, 12.1)] == [True, False]
    assert compare_worst_memory(PREDICTED, 6.0).relative_error is None
    assert compare_worst_memory(Prediction(), 6.0).within_range is None
    assert compare_peak_memory(PREDICTED, 10.0).relative_error == pytest.approx(-0.1)
    assert compare_peak_memory(PREDICTED, 0.0).relative_error is None


def test_only_jobs_with_nccl_write_its_logs(make_recipe) -> None:
    assert log_variables(make_recipe()) == ()
    every = log_variables(make_recipe(resources=NCCL))
    assert {row.name for row in every} == {row.name for row in load_log_variables()}
    tests = log_variables(
        make_recipe(resources=NCCL, command=Command(kind="nccl-tests", target="all_reduce_perf"))
    )
    assert tests
    assert all(row.name.startswith("NCCL_") for row in tests)
    stated = Environment(name=every[0].name, value="x", why="", source="")
    fewer = log_variables(make_recipe(resources=NCCL, environment=(stated,)))
    assert {row.name for row in every} - {row.name for row in fewer} == {every[0].name}


def test_only_a_fault_that_applies_refuses_a_recipe(make_recipe) -> None:
    refuse("X", [(False, "a", "b"), ([], "c", "d")])
    with pytest.raises(UsageError, match="X cannot run this recipe: e") as caught:
        refuse("X", [(0, "a", "b"), (1, "e", "f"), (1, "g", "h")])
    assert caught.value.hint == "f"
    require_runnable(make_recipe())
    divided = {"tp": 2, "dp": 1, "grad_accum": 4}
    with pytest.raises(UsageError, match="it has tp 2"):
        require_runnable(make_recipe(parallelism=divided))
    assert [command_without_script(name).kind for name in ("own", "reference", "megatron")] == [
        "reference", "reference", "program",
    ]  # fmt: skip


VALUES = {
    "strategy": "fsdp",
    "precision": "bf16",
    "activation_checkpointing": "full",
    "micro_batch": 2,
    "grad_accum": 1,
    "learning_rate": 1e-4,
}
LOOP = "loss.backward()"


@pytest.mark.parametrize(
    ("arguments", "text", "words"),
    [
        ((), "", "micro-batch 2 x 1 accumulation step,"),
        ((), "import rigtune_helper", ""),
        (("{micro_batch}",), "", ""),
        (("{micro_batch}",), LOOP, "strategy fsdp, precision bf16, activation checkpointing full"),
        (
            ("{micro_batch}",),
            f"{LOOP} fully_shard bfloat16",
            "activation checkpointing full: no argument has",
        ),
        (("{micro_batch}",), f"{LOOP} FSDP bf16 checkpoint_wrapper", ""),
        (("{precision}", "{fsdp}"), f"{LOOP} utils.checkpoint", ""),
    ],
)
def test_decisions_that_a_program_does_not_take_are_named(
    arguments: tuple[str, ...], text: str, words: str
) -> None:
    command = Command(kind="script", target="train.py", arguments=arguments)
    warning = untold_warning(command, "own", VALUES, text)
    assert words in warning
    assert (UNTOLD in warning) is bool(words)
    assert untold_warning(command, "megatron", VALUES, text) == ""
    assert untold_warning(Command(kind="reference"), "own", VALUES, text) == ""


def test_the_plan_as_json_has_the_resolved_recipe(make_recipe) -> None:
    text = plan_file(make_recipe()).text
    assert '\n  "' in text
    assert text.endswith("}\n")
