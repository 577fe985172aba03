"""Test the option `--python`, which means the same to every command."""

from __future__ import annotations

import pytest

from assistant.cli import command_line
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
