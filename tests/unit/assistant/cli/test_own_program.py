"""Test that mistakes in the user's own program are reported when planning, before anything is measured."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from assistant.cli import command_line
from recipes.launch.recipe_file import load_recipe

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
        (["gpt2"], ["torchrun", "train.py"], "without a launcher"),
        (["gpt2"], ["python3", "-u", "train.py"], "without an interpreter's options"),
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


@pytest.mark.parametrize("program", [["train.py"], ["python3.12", "train.py"], ["-m", "my.train"]])
def test_a_sound_program_is_planned_with_its_placeholders(tmp_path, capsys, program):
    (tmp_path / "train.py").write_text("pass\n")
    more = ["--batch", "{micro_batch}", "--json", "{{}}"]
    plan = ["plan", "gpt2", "-q", "-o", "recipe.toml", "--machine", "dgx-h100", "--", *program, *more]
    assert command_line(plan) == 0
    assert not capsys.readouterr().err
    recipe = load_recipe((tmp_path / "recipe.toml").read_text(), "recipe.toml")
    assert recipe.command.arguments == tuple(more)


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
    pins = ["--pin", "tp=2", "--pin", "pp=4", "--pin", "vp=4"]
    assert command_line([*plan, *pins, "--program", "megatron", "-o", str(recipe)]) == 0
    assert "32 x H100" in load_recipe(recipe.read_text(), "recipe.toml").made_for.machine
    shown = capsys.readouterr()
    assert "Settings for Megatron-LM" in shown.out
    assert "--num-layers-per-virtual-pipeline-stage  2" in shown.out
    assert "rigtune export" not in shown.err
    assert command_line(["export", str(recipe), "--out", str(folder)]) == 2
    refusal = capsys.readouterr().err
    assert "launch files for Megatron-LM" in refusal
    assert "--num-layers-per-virtual-pipeline-stage 2" in refusal
    assert "--program own" in refusal
    assert not folder.exists()
    auto = ["auto", "gpt2", "--machine", "dgx-h100", "--program", "megatron", "--out", str(folder)]
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
