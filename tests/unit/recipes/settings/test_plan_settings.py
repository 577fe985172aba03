"""Test that settings reach the plan's JSON, its page, the recipe and the arguments of a program."""

from __future__ import annotations

import json
from typing import Any

import pytest

from assistant.cli import command_line
from recipes.launch.edited import refreshed
from recipes.launch.launch_files import launch_files
from recipes.launch.recipe import resolved_plan
from recipes.launch.recipe_file import load_recipe

HERE = ("--machine", "dgx-h100")


def plan_of(capsys: Any, *arguments: str) -> dict[str, Any]:
    assert command_line(["plan", *arguments, *HERE, "--format", "json"]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def decisions(plan: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in plan["decisions"]}


def test_the_plan_has_the_optimizer_s_settings_and_checkpoints(capsys: Any) -> None:
    plan = plan_of(capsys, "gpt2", "--tokens", "300B", "--write-bandwidth", "4", "--node-mtbf", "2000")
    assert plan["chosen"]["learning_rate"] == 6e-4
    assert plan["chosen"]["warmup_steps"] == 716
    assert plan["optimization"]["schedule"] == "cosine"
    assert plan["optimization"]["ramp_from"] == 32
    assert plan["checkpoints"]["mtbf_s"] == 2000 * 3600
    assert plan["checkpoints"]["write_s"] == pytest.approx(plan["checkpoints"]["bytes"] / 4e9)
    rows = decisions(plan)
    assert rows["beta2"]["value"] == "0.95"
    assert rows["beta2"]["basis"] == "borrowed"
    assert "2005.14165" in rows["beta2"]["evidence"][0]["key"]
    assert rows["batch_ramp"]["value"].startswith("32 to 512")
    assert {"lr_schedule", "weight_decay", "gradient_clipping", "process_group_timeout"} <= set(rows)


def test_a_known_pair_and_an_optimizer_are_taken(capsys: Any) -> None:
    known = ("--known-batch", "128", "--known-lr", "0.001", "--global-batch", "256", "--optimizer", "lion")
    plan = plan_of(capsys, "gpt2", *known)
    assert plan["chosen"]["learning_rate"] == pytest.approx(1.41e-3)
    assert plan["workload"]["optimizer"] == "lion"
    assert decisions(plan)["global_batch"]["basis"] == "user"
    # Without a batch of its own, a plan has the batch of the pair.
    assert plan_of(capsys, "gpt2", *known[:4])["chosen"]["global_batch"] == 128
    assert plan_of(capsys, "resnet50", *known[:4])["chosen"]["global_batch"] == 128


def test_fine_tuning_is_a_task(capsys: Any) -> None:
    plan = plan_of(capsys, "llama-3-8b", "--task", "fine-tuning")
    assert (plan["chosen"]["learning_rate"], plan["chosen"]["global_batch"]) == (2e-5, 128)
    assert plan["workload"]["fine_tuning"]
    named = plan_of(capsys, "llama-3-8b", "--task", "fine-tuning", "--training-recipe", "llama-factory-full")
    assert named["chosen"]["learning_rate"] == pytest.approx(1e-5 * 2, rel=0.01)
    assert named["chosen"]["global_batch"] == 8  # 2 sequences cannot be shared by 8 ranks
    assert "come from pre-training" in " ".join(named["warnings"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("gpt2", "--optimizer", "lomo"), "nobody published a learning rate"),
        (("gpt2", "--known-lr", "0.1"), "only a part of a known learning rate"),
        (("gpt2", "--training-recipe", "gpt-3"), "there is no training recipe"),
        (("resnet50", "--task", "fine-tuning"), "which has no --task fine-tuning"),
    ],
)
def test_a_question_without_an_answer_is_refused(capsys: Any, arguments: tuple[str, ...], words: str) -> None:
    assert command_line(["plan", *arguments, *HERE]) == 2
    assert words in capsys.readouterr().err


def test_the_recipe_keeps_the_settings_and_marks_what_a_person_changed(capsys: Any, tmp_path: Any) -> None:
    path = tmp_path / "recipe.toml"
    arguments = ("gpt2", "--checkpoint-write", "30", "-o", str(path), "--", "train.py")
    assert command_line(["plan", *arguments[:5], *HERE, *arguments[5:]]) == 0
    text = path.read_text("utf-8")
    recipe = load_recipe(text, "recipe.toml")
    assert (recipe.convergence.beta2, recipe.convergence.schedule) == (0.95, "cosine")
    assert recipe.checkpoints is not None
    assert recipe.checkpoints.write_s == 30.0
    assert recipe.checkpoints.every_steps
    changed = refreshed(load_recipe(text.replace("beta2 = 0.95", "beta2 = 0.98"), "recipe.toml"))
    chosen = {row.name: row for row in changed.decisions}
    assert (chosen["beta2"].value, chosen["beta2"].basis) == ("0.98", "user")
    assert chosen["beta1"].basis != "user"


def test_an_assumed_checkpoint_interval_reaches_the_program_and_its_script(tmp_path: Any) -> None:
    path = tmp_path / "recipe.toml"
    machine = ("--machine", "dgx-h100", "--nodes", "2", "--program", "torchtitan", "--steps", "20000")
    assert command_line(["plan", "llama-3-8b", *machine, "-o", str(path)]) == 0
    recipe = load_recipe(path.read_text("utf-8"), "recipe.toml")
    assert resolved_plan(recipe).checkpoint_steps < 20000
    script = launch_files(recipe, "slurm")[0].text
    assert f"--checkpoint.interval {resolved_plan(recipe).checkpoint_steps}" in script
    assert "checkpoint interval of 13 h 00 min is assumed" in " ".join(script.replace("#", "").split())


def test_the_page_of_a_plan_shows_the_settings(capsys: Any) -> None:
    assert command_line(["plan", "gpt2", *HERE]) == 0
    page = capsys.readouterr().out
    for words in ("lr schedule", "gradient clipping", "checkpoint interval", "process group timeout"):
        assert words in page


def test_recipes_can_be_listed(capsys: Any) -> None:
    assert command_line(["list", "training-recipes"]) == 0
    assert "qlora-65b" in capsys.readouterr().out
