"""Test the option `--python`, which means the same to every command."""

from __future__ import annotations

import pytest

from assistant.cli import command_line
from probes.base.errors import ExitCode
from recipes.launch.recipe_file import load_recipe


@pytest.mark.parametrize(
    ("given", "kept"), [("venv/bin/python", "{}/venv/bin/python"), ("python3.12", "python3.12")]
)
def test_an_interpreter_keeps_its_meaning_in_other_folders(tmp_path, monkeypatch, given, kept):
    monkeypatch.chdir(tmp_path)
    assert (
        command_line(["plan", "gpt2", "--machine", "dgx-h100", "--python", given, "-q", "-o", "recipe.toml"])
        == 0
    )
    recipe = load_recipe((tmp_path / "recipe.toml").read_text(), "recipe.toml")
    assert recipe.resources.python == kept.format(tmp_path)


@pytest.mark.parametrize("command", [("plan", "gpt2"), ("check",), ("probe",), ("bench",), ("auto",)])
def test_an_interpreter_that_does_not_exist_is_one_error(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert command_line([*command, "--python", "/no/such/python"]) == ExitCode.WORKER
    printed = capsys.readouterr()
    assert "there is no Python interpreter '/no/such/python'" in printed.err
    assert not printed.out
    assert not list(tmp_path.iterdir())


def test_an_interpreter_of_another_machine_is_not_looked_for_here(capsys):
    assert command_line(["check", "--machine", "dgx-h100", "--python", "/no/such/python"]) != ExitCode.WORKER
    assert "no Python interpreter" not in capsys.readouterr().err
