"""Test that mistakes in the user's own program are reported when planning, before anything is measured."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from assistant.cli import command_line
from recipes.launch.recipe_file import load_recipe
from recipes.launch.reference_files import helper_file

README = Path(__file__).resolve().parents[4] / "README.md"


@pytest.fixture(autouse=True)
def _nothing_is_measured(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("assistant.usecases.auto.measure_machine", lambda *_: pytest.fail("measured"))


@pytest.mark.parametrize("command", ["plan", "auto"])
@pytest.mark.parametrize(
    ("model", "program", "words"),
    [
        ([], ["train.py"], "no model is named for 'train.py'"),
        ([], ["-m", "my.train"], "no model is named"),
        (["gpt2"], ["train.py", "--lr", "{learning}"], "there is no placeholder {learning}"),
        (["gpt2"], ["train.py", "--json", '{"a": 1}'], "write {{ and }} for plain braces"),
        (["gpt2"], ["train.py", "--lr", "{"], "there is no partner for a brace"),
        (["gpt2"], ["-m", "my/train.py"], "is not a module"),
        (["gpt2"], ["train\n.py"], "line break or control character"),
        (["gpt2"], ["gone.py"], "there is no script gone.py in"),
        (["gpt2"], ["torchrun", "--nproc-per-node", "8", "gone.py"], "there is no script gone.py in"),
        (["gpt2"], ["torchrun"], "there is no script torchrun in"),
    ],
)
def test_a_mistake_is_reported_at_once(tmp_path, capsys, *, command, model, program, words):
    (tmp_path / "train.py").write_text("pass\n")
    out = ["--out" if command == "auto" else "-o", str(tmp_path / "out")]
    assert command_line([command, *model, *out, "--", *program]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_model_that_the_reference_workload_cannot_build_is_reported_before_measuring(tmp_path, capsys):
    assert command_line(["auto", "mixtral-8x7b", "--out", str(tmp_path / "out")]) == 2
    assert "the reference workload cannot train mixtral-8x7b" in capsys.readouterr().err


@pytest.mark.parametrize(
    "program",
    [["train.py"], ["python3.12", "train.py"], ["python3", "-u", "train.py"], ["-m", "my.train"]],
)
def test_a_sound_program_is_planned_with_its_placeholders(tmp_path, capsys, program):
    (tmp_path / "train.py").write_text("pass\n")
    more = ["--batch", "{micro_batch}", "--json", "{{}}"]
    plan = ["plan", "gpt2", "-q", "-o", "recipe.toml", "--machine", "dgx-h100", "--", *program, *more]
    assert command_line(plan) == 0
    assert not capsys.readouterr().err
    recipe = load_recipe((tmp_path / "recipe.toml").read_text(), "recipe.toml")
    assert recipe.command.arguments == tuple(more)


@pytest.mark.parametrize(
    ("program", "target", "dropped"),
    [
        (["torchrun", "--nproc_per_node", "8", "train.py"], "train.py", "--nproc_per_node 8 is set by"),
        (["accelerate", "launch", "--debug", "-m", "my.train"], "my.train", "--debug is left out"),
        (["mpirun", "-np", "4", "-x", "A=1", "python", "train.py"], "train.py", "A=1 is left out"),
        (["llamafactory-cli", "train"], "llamafactory.launcher", "is started as llamafactory.launcher"),
    ],
)
def test_a_launcher_before_the_program_is_replaced_and_its_options_are_named(
    tmp_path, capsys, program, target, dropped
):
    (tmp_path / "train.py").write_text("pass\n")
    plan = ["plan", "gpt2", "-q", "-o", "recipe.toml", "--machine", "dgx-h100", "--", *program, "--lr", "1"]
    assert command_line(plan) == 0
    assert dropped in capsys.readouterr().err
    command = load_recipe((tmp_path / "recipe.toml").read_text(), "recipe.toml").command
    assert command.target == target
    assert command.arguments == ("--lr", "1")


def test_a_script_that_another_machine_may_have_is_only_mentioned(capsys):
    assert command_line(["plan", "gpt2", "--machine", "dgx-h100", "--", "gone.py"]) == 0
    assert "there is no script gone.py" in capsys.readouterr().err


def test_examples_of_the_readme_name_a_model():
    lines = re.findall(r"^    (rigtune (?:auto|plan) .* -- .*)$", README.read_text(), re.MULTILINE)
    assert lines
    assert all(re.match(r"rigtune \w+ [a-z]", line) for line in lines)


def test_other_programs_get_settings_instead_of_files(tmp_path, capsys):
    recipe, folder = tmp_path / "recipe.toml", tmp_path / "launch"
    plan = ["plan", "llama-3-8b", "--gpu", "H100-SXM-80GB", "--gpus", "8", "--nodes", "4"]
    pins = ["--pin", "tp=2", "--pin", "pp=4"]
    assert command_line([*plan, *pins, "--program", "megatron-deepspeed", "-o", str(recipe)]) == 0
    assert "32 x H100" in load_recipe(recipe.read_text(), "recipe.toml").made_for.machine
    shown = capsys.readouterr()
    assert "Settings for Megatron-DeepSpeed" in shown.out
    assert "--pipeline-model-parallel-size  4" in shown.out
    assert "rigtune export" not in shown.err
    assert command_line(["export", str(recipe), "--out", str(folder)]) == 2
    refusal = capsys.readouterr().err
    assert "launch files for Megatron-DeepSpeed" in refusal
    assert "--pipeline-model-parallel-size 4" in refusal
    assert "--program own" in refusal
    assert not folder.exists()
    auto = ["auto", "gpt2", "--machine", "dgx-h100", "--program", "megatron-deepspeed", "--out", str(folder)]
    assert command_line(auto) == 2
    assert "not written yet" in capsys.readouterr().err
    assert not folder.exists()


def test_the_own_program_is_never_replaced_by_another_program(tmp_path, capsys):
    (tmp_path / "train.py").write_text("pass\n")
    plan = ["plan", "llama-3.2-1b", "--gpu", "T4", "--gpus", "2", "--format", "json"]
    programs = []
    for words in ([], ["-o", "recipe.toml", "--", "train.py"]):
        assert command_line([*plan, *words]) == 0
        programs.append(json.loads(capsys.readouterr().out)["chosen"]["program"])
    assert programs == ["deepspeed", "own"]
    assert load_recipe((tmp_path / "recipe.toml").read_text(), "recipe.toml").program == "own"


PLAN = ("plan", "gpt2", "--machine", "dgx-h100", "-o", "recipe.toml", "--overwrite", "--")
UNTOLD = "train.py is told nothing of the plan: it must itself use ddp, bf16, micro-batch"


@pytest.mark.parametrize(
    ("source", "arguments", "is_warned"),
    [
        ("pass", [], True),
        ("pass", ["--steps", "5", "--json", "{{steps}}"], True),
        ("pass", ["--batch", "{micro_batch}"], False),
        ("import rigtune_helper", [], False),
        ("open(os.environ['RIGTUNE_RECIPE'])", ["--x"], False),
    ],
)
def test_a_program_that_takes_no_decision_is_warned_of(capsys, *, source, arguments, is_warned):
    Path("train.py").write_text(source)
    assert command_line([*PLAN, "train.py", *arguments]) == 0
    assert ("is told nothing of the plan" in " ".join(capsys.readouterr().out.split())) is is_warned
    notes = load_recipe(Path("recipe.toml").read_text(), "recipe.toml").notes
    assert any(UNTOLD in note for note in notes) is is_warned
    assert command_line(["export", "recipe.toml"]) == 0
    assert (UNTOLD in capsys.readouterr().err) is is_warned
    assert ("told nothing" in Path("launch/launch.sh").read_text()) is is_warned


@pytest.mark.parametrize(
    ("source", "arguments", "lost"),
    [
        ("loss.backward()", [], "strategy fsdp, precision bf16: no argument has {strategy}, {precision}"),
        ("fully_shard(model); loss.backward()", [], "precision bf16: no argument has {precision}"),
        ("fully_shard(model.bfloat16()); loss.backward()", [], ""),
        ("fully_shard(model); loss.backward()", ["--dtype", "{precision}"], ""),
        ("import mine; mine.train()", [], ""),
    ],
)
def test_a_decision_that_the_program_does_not_apply_is_warned_of(capsys, *, source, arguments, lost):
    Path("train.py").write_text(source)
    command = ["plan", "gpt2", "--machine", "dgx-h100", "--strategy", "fsdp", "-o", "recipe.toml"]
    assert command_line([*command, "--", "train.py", "--batch", "{micro_batch}", *arguments]) == 0
    capsys.readouterr()
    assert command_line(["export", "recipe.toml"]) == 0
    warning = capsys.readouterr().err
    assert (f"is told nothing of the plan's {lost}" in warning) if lost else ("told nothing" not in warning)


def test_a_module_is_read_too(capsys):
    Path("my").mkdir()
    Path("my/train.py").write_text("import rigtune_helper")
    assert command_line([*PLAN, "-m", "my.train"]) == 0
    assert "told nothing" not in capsys.readouterr().out
    Path("my/train.py").write_text("pass")
    assert command_line([*PLAN, "-m", "my.train"]) == 0
    assert "my.train is told nothing" in capsys.readouterr().out


def test_the_warning_ends_when_the_program_uses_the_helper(capsys):
    Path("train.py").write_text("pass")
    assert command_line([*PLAN, "train.py"]) == 0
    assert command_line(["export", "recipe.toml", "--helper"]) == 0
    assert UNTOLD in capsys.readouterr().err
    assert Path("launch/rigtune_helper.py").read_text() == helper_file().text
    Path("train.py").write_text("import rigtune_helper")
    assert command_line(["export", "recipe.toml", "--helper"]) == 0
    assert UNTOLD not in capsys.readouterr().err
    assert "told nothing" not in Path("launch/launch.sh").read_text()


def test_the_helper_is_written_only_on_request(capsys):
    Path("train.py").write_text("import rigtune_helper")
    assert command_line([*PLAN, "train.py"]) == 0
    assert command_line(["export", "recipe.toml"]) == 0
    assert "plan for the program, which RIGTUNE_RECIPE names" in capsys.readouterr().err
    assert not Path("launch/rigtune_helper.py").exists()
    assert json.loads(Path("launch/plan.json").read_text())["degrees"]["dp"] == 8


def test_placeholders_are_listed_with_their_meaning(capsys):
    assert command_line(["list", "placeholders", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["placeholders"]
    assert {row["id"]: row["title"] for row in rows}["fsdp"] == "ranks that share one copy of the parameters"
    assert all(row["title"] for row in rows)
    assert {"strategy", "precision", "activation_checkpointing", "tp", "world_size"} <= {
        row["id"] for row in rows
    }
